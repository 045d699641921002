"""Each dialect's adapter over real HTTP against the simulated provider: what it reads is what was made, and what was billed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pytest

from fakes.serving import serving
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.ports import Answer
from judgerun.providers import facts
from judgerun.providers import open as opening
from judgerun.simulate import virtual
from judgerun.simulate.ask import Call
from judgerun.simulate.dialects import BASES, DIALECTS
from judgerun.simulate.faults import FAULTS
from judgerun.simulate.law import Law
from judgerun.simulate.server import Simulator

BODY_MAX = 2**20
PROMPT = "Is it so?\nAnswer with one word: YES or NO"
ESSAY = "Solve the problem and write the steps.\n\nHow many apples?\n\nAnswer with the solution as plain text."
STEADY = Law(error=0.0, cached=0.0, dimensions=64)
THINKER = Law(error=0.0, cached=0.0, reasoning=300.0, spread=0.3)


@dataclass(frozen=True, slots=True)
class Way:
    """A dialect, whole or streamed, in chats or for vectors."""

    dialect: str
    stream: bool = False
    embed: bool = False

    def __str__(self) -> str:
        return self.dialect + " stream" * self.stream + " embed" * self.embed


STREAMS = [Way(dialect, stream=True) for dialect in ("openai", "openai-responses", "anthropic", "google")]
CHATS = [Way(way.dialect) for way in STREAMS] + [Way("cohere"), Way("bedrock"), *STREAMS]
EMBEDS = [Way(dialect, embed=True) for dialect in ("openai", "google", "voyage", "cohere")]
TELLS_REASONING = frozenset({"openai", "openai-responses", "anthropic", "google"})
NAMES_MODEL = frozenset({"openai", "openai-responses", "anthropic", "google"})
THINKING: Mapping[str, tuple[str, Any]] = {
    "openai": ("judge-a", "high"),
    "openai-responses": ("judge-a", "high"),
    "anthropic": ("claude-sonnet-4-5", 1024),
    "google": ("gemini-2.5-flash", 1024),
    "cohere": ("command-a", 1024),
    "bedrock": ("us.anthropic.claude-sonnet-4-5-v1:0", 1024),
}
"""A model of each dialect, and a way of thinking that it takes."""


def chat(way: Way, text: str = PROMPT, *, model: str = "judge-a", cap: int = 4000, **parameters: Any) -> Request:
    """A chat request."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    payload = {"model": model, "messages": messages, "max_output_tokens": cap, **parameters}
    return build("chat", payload, deployment="sim", adapter=f"{way.dialect}/1{' stream' * way.stream}", draw=0)


def text(way: Way, words: str, *, role: str = "document", **parameters: Any) -> Request:
    """An embedding request; of openai the role is no field."""
    kind = {} if way.dialect == "openai" else {"input_type": role}
    payload = {"model": "embedder", "text": words, "role": role, **kind, **parameters}
    return build("embed", payload, deployment="sim", adapter=f"{way.dialect}/1", draw=0)


def send(way: Way, *requests: Request, fault: str | None = None, law: Law = STEADY) -> tuple[Answer, dict[str, Any]]:
    """One call in virtual time against a simulator on which this fault befalls every call; what came, and its row in the books."""

    async def main() -> tuple[Answer, dict[str, Any]]:
        simulator = Simulator(
            seed=1,
            models={request.payload["model"]: law for request in requests},
            faults={} if fault is None else {fault: 1.0},
            wall=lambda: 1_800_000_000.0,
            flood_bytes=4 * BODY_MAX,
        )
        async with serving(simulator) as url:
            base = url.removesuffix("/v1") + BASES[way.dialect][0]
            deployment = Deployment(name="sim", dialect=way.dialect, base_url=base, identity="sim")
            model = Model(name="judge-a", provider=deployment, model="judge-a")
            provider = opening.connect([deployment], [model], {}, body_bytes_max=BODY_MAX)["sim"]
            answer = await provider.send(requests or (chat(way),), timeout_s=60.0, attempt=7)
            await provider.aclose()
        (row,) = simulator.bill.rows
        return answer, row

    return virtual.run(main())


def replied(answer: Answer) -> Reply:
    """The one reply."""
    (reply,) = answer.replies
    return reply


def failed(answer: Answer) -> Failure:
    """The failure."""
    assert answer.failure is not None, answer
    return answer.failure


def counted(usage: Usage) -> tuple[int | None, int | None]:
    """Input and output."""
    return usage.input, usage.output


ways = pytest.mark.parametrize("way", CHATS, ids=str)
streams = pytest.mark.parametrize("way", STREAMS, ids=str)
embeds = pytest.mark.parametrize("way", EMBEDS, ids=str)


def test_every_dialect_of_the_program_is_simulated_and_tried_here() -> None:
    """A dialect without an expectation would be a hole in this contract."""
    assert set(opening.DIALECTS) == set(BASES) == {way.dialect for way in CHATS + EMBEDS}


@ways
def test_an_answer_comes_with_its_text_finish_model_and_the_tokens_of_the_bill(way: Way) -> None:
    """Whole or in pieces, the reply is the same as what was made."""
    answer, row = send(way)
    reply = replied(answer)
    assert reply.text in ("YES", "NO")
    assert reply.finish is Finish.STOP
    assert counted(reply.usage) == (row["input"], row["output"])
    assert reply.reported_tokens in (None, row["input"] + row["output"])
    assert reply.served_model == ("judge-a" if way.dialect in NAMES_MODEL else None)
    assert row["attempt"] == "7"


@ways
def test_a_long_answer_ends_at_its_cap(way: Way) -> None:
    """Cut, said to be cut, and charged to the cap."""
    answer, row = send(way, chat(way, ESSAY, cap=16))
    reply = replied(answer)
    assert reply.finish is Finish.LENGTH
    assert reply.usage.output == row["output"] == 16
    assert reply.text


@ways
def test_thinking_is_counted_apart_where_the_dialect_tells_it(way: Way) -> None:
    """And is never in the text."""
    model, thinking = THINKING[way.dialect]
    answer, row = send(way, chat(way, model=model, thinking=thinking), law=THINKER)
    reply = replied(answer)
    assert row["reasoning"] > 0
    assert reply.text in ("YES", "NO")
    assert reply.usage.output == row["output"]
    assert reply.usage.reasoning == (row["reasoning"] if way.dialect in TELLS_REASONING else None)


@ways
def test_thinking_turned_off_is_off(way: Way) -> None:
    """A model that would think does not."""
    model, _ = THINKING[way.dialect]
    law = STEADY if way.dialect in ("anthropic", "bedrock") else THINKER  # whose models think when they are asked to
    _, row = send(way, chat(way, model=model, thinking="off"), law=law)
    assert row["reasoning"] == 0


@pytest.mark.parametrize(
    "way", [way for way in CHATS if way.dialect in ("openai", "openai-responses", "google")], ids=str
)
def test_what_a_cache_served_is_counted_apart(way: Way) -> None:
    """Inside the input in the provider's words, beside it in ours."""
    answer, row = send(way, chat(way, "filler " * 200 + PROMPT), law=Law(cached=1.0))
    usage = replied(answer).usage
    assert row["cached"] > 0
    assert (usage.cache_read, usage.input_fresh) == (row["cached"], row["input"] - row["cached"])


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("way", [Way("anthropic"), Way("anthropic", stream=True)], ids=str)
def test_what_is_written_to_a_cache_is_counted_by_its_time(way: Way, ttl: str) -> None:
    """Five minutes and an hour have prices of their own."""
    marked = chat(way, "filler " * 200 + PROMPT, extra={"cache_control": {"type": "ephemeral", "ttl": ttl}})
    answer, row = send(way, marked)
    usage = replied(answer).usage
    written = row["written"] + row["written_1h"]
    assert written > 0
    assert (usage.cache_write, usage.cache_write_1h) == ((written, 0) if ttl == "5m" else (0, written))
    assert usage.input == row["input"]


@ways
@pytest.mark.parametrize("fault", ["filter", "block"])
def test_what_a_policy_stopped_is_no_answer(way: Way, fault: str) -> None:
    """It is a filter, a refusal or a failure, and never stop; its tokens are counted where it is a reply."""
    answer, row = send(way, fault=fault)
    if answer.failure is None:
        reply = replied(answer)
        assert reply.finish in (Finish.FILTER, Finish.REFUSAL, Finish.ERROR)
        assert reply.empty
        assert reply.usage.input == row["input"]
    else:
        assert answer.failure.billable is not Billable.NO


@pytest.mark.parametrize("way", [way for way in CHATS if way.dialect not in ("cohere", "bedrock", "google")], ids=str)
def test_a_refusal_is_told_where_the_dialect_has_a_word_for_it(way: Way) -> None:
    """With its text."""
    reply = replied(send(way, fault="refusal")[0])
    assert (reply.finish, reply.text) == (Finish.REFUSAL, "I cannot help with that.")


def test_a_refusal_names_its_category() -> None:
    """In the raw word."""
    assert "cyber" in (replied(send(Way("anthropic"), fault="block")[0]).finish_raw or "")


@ways
def test_reasoning_that_ate_the_whole_cap_leaves_an_empty_reply_at_its_length(way: Way) -> None:
    """No part of an answer, all of the cap charged."""
    answer, row = send(way, chat(way, cap=64), fault="no_parts")
    reply = replied(answer)
    assert (reply.text, reply.finish) == ("", Finish.LENGTH)
    assert reply.usage.output == row["output"] == 64


@ways
def test_an_answer_in_the_place_of_the_reasoning_is_kept_as_thoughts(way: Way) -> None:
    """A rule may find it there; it is not the text."""
    reply = replied(send(way, fault="reasoning_content")[0])
    assert reply.text == ""
    assert reply.thoughts in ("YES", "NO")


@ways
def test_reasoning_in_tags_stays_in_the_text(way: Way) -> None:
    """A rule may cut it away."""
    assert replied(send(way, fault="think_tag")[0]).text.startswith("<think>")


@ways
@pytest.mark.parametrize("fault", ["finish_missing", "finish_null", "finish_new"])
def test_an_end_that_is_not_understood_is_never_stop(way: Way, fault: str) -> None:
    """Unknown, or a body that cannot be read as an answer."""
    answer, _ = send(way, fault=fault)
    if answer.failure is None:
        assert replied(answer).finish is Finish.UNKNOWN
    else:
        assert (answer.failure.cause, answer.failure.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


@ways
@pytest.mark.parametrize("fault", ["usage_missing", "usage_zero"])
def test_a_usage_that_is_not_told_is_unknown(way: Way, fault: str) -> None:
    """Never 0."""
    assert counted(replied(send(way, fault=fault)[0]).usage) == (None, None)


@ways
@pytest.mark.parametrize("fault", ["garbage", "truncated", "error_200", "no_choices", "drop_mid"])
def test_a_success_that_is_no_answer_may_have_been_charged(way: Way, fault: str) -> None:
    """Whole, an error inside it or an end too early; in a stream, an error between its events or a break."""
    answer, _ = send(way, fault=fault)
    if fault == "no_choices" and way == Way("anthropic", stream=True):  # a stream without blocks is an empty answer
        assert replied(answer).empty
    else:
        failure = failed(answer)
        assert (failure.status, failure.billable) == (200, Billable.UNKNOWN)


STATUSES: Mapping[str, Mapping[str, int]] = {
    "quota": {"anthropic": 400, "bedrock": 400, "cohere": 402},
    "401": {"google": 400, "bedrock": 403},
    "529": {"google": 503, "voyage": 503, "cohere": 503, "bedrock": 503},
}
"""Where a dialect's own status is not the fault's."""


@pytest.mark.parametrize("way", [*CHATS, Way("voyage", embed=True)], ids=str)
@pytest.mark.parametrize(
    ("fault", "status", "cause", "billable"),
    [
        ("429", 429, Cause.RATE_LIMITED, Billable.NO),
        ("quota", 429, Cause.QUOTA, Billable.NO),
        ("401", 401, Cause.UNAUTHORISED, Billable.NO),
        ("500", 500, Cause.OVERLOADED, Billable.NO),
        ("529", 529, Cause.OVERLOADED, Billable.NO),
        ("504", 504, Cause.OVERLOADED, Billable.UNKNOWN),
    ],
)
def test_an_error_has_its_class_in_each_dialects_words(
    way: Way, fault: str, status: int, cause: Cause, billable: Billable
) -> None:
    """Each provider tells it with a status and an envelope of its own."""
    asked = text(way, "lamp") if way.embed else chat(way)
    failure = failed(send(way, asked, fault=fault)[0])
    assert (failure.cause, failure.billable) == (cause, billable)
    assert failure.status == STATUSES.get(fault, {}).get(way.dialect, status)


@pytest.mark.parametrize("way", [*CHATS, Way("voyage", embed=True)], ids=str)
@pytest.mark.parametrize(
    ("fault", "wait"), [("429", 2.0), ("429_date", 3.0), ("429_absent", None), ("429_absurd", 900.0)]
)
def test_patience_is_read_where_each_provider_names_it(way: Way, fault: str, wait: float | None) -> None:
    """In a header, or in google's body; what is absurd is bounded."""
    asked = text(way, "lamp") if way.embed else chat(way)
    assert failed(send(way, asked, fault=fault)[0]).retry_after == wait


@ways
def test_an_input_that_does_not_fit_is_told_as_such(way: Way) -> None:
    """Whatever the words."""
    failure = failed(send(way, chat(way, ESSAY), law=Law(context=100))[0])
    assert (failure.cause, failure.billable) == (Cause.TOO_LONG, Billable.NO)


@ways
def test_a_retry_after_on_a_success_and_stated_limits_leave_the_reply_as_it_is(way: Way) -> None:
    """They are facts about later calls."""
    for fault in ("retry_after_200", "stated_limits"):
        answer, _ = send(way, fault=fault)
        assert replied(answer).finish is Finish.STOP
        told = {limit.unit for limit in answer.limits if limit.remaining == 0}
        states = fault == "stated_limits" and way.dialect in ("openai", "openai-responses", "anthropic")
        assert told == ({"requests", "tokens"} if states else set())


TEXTS = ("heat some apple", "cool some apple and put it away", "a lamp")


@embeds
def test_vectors_come_in_order_and_their_tokens_are_those_of_the_bill(way: Way) -> None:
    """Where the provider tells any: google's embeddings come without usage."""
    answer, row = send(way, *(text(way, words) for words in TEXTS))
    vectors = [np.frombuffer(reply.vector or b"", dtype="<f4") for reply in answer.replies]
    assert [vector.size for vector in vectors] == [64, 64, 64]
    assert float(vectors[0] @ vectors[1]) > float(vectors[0] @ vectors[2])
    told = [reply.usage.input for reply in answer.replies]
    if way.dialect == "google":
        assert told == [None, None, None]
    else:
        assert sum(count or 0 for count in told) == row["input"]


@embeds
@pytest.mark.parametrize("fault", ["usage_missing", "usage_zero"])
def test_tokens_of_vectors_that_are_not_told_are_unknown(way: Way, fault: str) -> None:
    """Never 0."""
    assert replied(send(way, text(way, "lamp"), fault=fault)[0]).usage.input is None


@embeds
def test_dimensions_are_asked_for(way: Way) -> None:
    """And come."""
    answer, _ = send(way, text(way, "lamp", dimensions=16))
    assert len(replied(answer).vector or b"") == 16 * 4


@pytest.mark.parametrize("way", EMBEDS[1:], ids=str)
def test_a_query_is_embedded_otherwise_than_a_document(way: Way) -> None:
    """The role reaches the provider, in its own word."""
    query, document = (replied(send(way, text(way, "lamp", role=role))[0]).vector for role in ("query", "document"))
    assert query != document


@pytest.mark.parametrize(
    ("way", "extra"),
    [
        (Way("voyage", embed=True), {"output_dtype": "int8"}),
        (Way("cohere"), {"embedding_types": ["int8"]}),
        (Way("openai"), {"encoding_format": "base64"}),
    ],
    ids=str,
)
def test_vectors_in_fewer_bytes_point_the_same_way(way: Way, extra: dict[str, Any]) -> None:
    """Whole numbers or base64, the vector is the one that floats would give, up to its length and rounding."""
    plain, packed = (
        np.frombuffer(replied(send(way, text(way, "heat some apple", extra=held))[0]).vector or b"", dtype="<f4")
        for held in ({}, extra)
    )
    cosine = plain @ packed / (np.linalg.norm(plain) * np.linalg.norm(packed))
    assert float(cosine) == pytest.approx(1, abs=1e-3)


@embeds
@pytest.mark.parametrize("fault", ["vector_size", "vector_nan", "duplicate", "garbage", "truncated", "error_200"])
def test_a_body_with_one_wrong_vector_is_no_answer(way: Way, fault: str) -> None:
    """It may have been charged."""
    failure = failed(send(way, *(text(way, words) for words in TEXTS), fault=fault)[0])
    assert failure.billable is Billable.UNKNOWN


@pytest.mark.parametrize("way", [Way("openai"), Way("voyage", embed=True), Way("cohere")], ids=str)
def test_a_text_that_is_too_long_is_refused_and_not_cut(way: Way) -> None:
    """Providers that would cut it are asked not to."""
    failure = failed(send(way, text(way, "apple " * 200), law=Law(context=100))[0])
    assert (failure.cause, failure.billable) == (Cause.TOO_LONG, Billable.NO)


@pytest.mark.parametrize("way", [*CHATS, *EMBEDS], ids=str)
def test_no_fault_makes_a_charge_that_is_said_to_be_none(way: Way) -> None:
    """Each fault in each dialect: nothing is raised, what was charged is never said to be free, what is answered was charged."""
    for fault in [name for name, fault in FAULTS.items() if fault.kind != "job"]:
        asked = [text(way, words) for words in TEXTS] if way.embed else [chat(way, cap=64)]
        answer, row = send(way, *asked, fault=fault)
        if row["billed"]:
            assert answer.failure is None or answer.failure.billable is not Billable.NO, fault
        else:
            assert answer.failure is not None, fault


SWITCHES = [
    (name, word)
    for name, server in facts.SERVERS.items()
    for word in (*server.thinking, *([700] if server.tokens else []))
]


@pytest.mark.parametrize(("server", "word"), SWITCHES)
def test_the_switch_of_every_known_server_is_understood(server: str, word: str | int) -> None:
    """A simulated server that went on thinking would predict another cost."""
    place = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1", like=server)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **(facts.thinking(word, place) or {})}
    ask = DIALECTS["openai"].read(Call(path="/chat/completions", raw=orjson.dumps(body)))
    assert ask.thinking is (word != "off")
    assert ask.budget == (word if isinstance(word, int) else None)


@pytest.mark.parametrize("server", facts.SERVERS)
def test_a_stream_of_every_known_server_tells_its_usage(server: str) -> None:
    """Also of those that are not asked for it."""
    place = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1", like=server)
    call = opening.DIALECTS["openai"].encode([chat(Way("openai", stream=True))], place)
    assert DIALECTS["openai"].read(Call(path=call.path, raw=call.body)).stream_usage
