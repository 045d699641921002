"""The Provider port over real HTTP: what each thing that the world can do comes back as."""

from __future__ import annotations

import asyncio
import gc
import gzip
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from fakes.serving import request_of, serving, talking
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Finish
from judgerun.model.request import Request, build
from judgerun.ports import Answer, Provider
from judgerun.providers import open as opening
from judgerun.simulate import virtual
from judgerun.simulate.faults import FAULTS, parse
from judgerun.simulate.law import Law
from judgerun.simulate.server import Simulator

KEY = "canary-7f3a9c51d2e84b06"
BODY_MAX = 2**20
PROMPT = "Is it so?\nAnswer with one word: YES or NO"


def a_chat(text: str = PROMPT, **parameters: Any) -> Request:
    """A chat request."""
    payload = {"model": "judge-a", "messages": [{"role": "user", "content": text}], **parameters}
    return build("chat", payload, deployment="sim", adapter="openai/1", draw=0)


def a_text(text: str, **parameters: Any) -> Request:
    """An embedding request."""
    payload = {"model": "embedder", "text": text, "role": "document", **parameters}
    return build("embed", payload, deployment="sim", adapter="openai/1", draw=0)


@asynccontextmanager
async def provider_at(url: str) -> AsyncIterator[Provider]:
    """The provider under test, at a base URL, with the canary as its key."""
    deployment = Deployment(name="sim", dialect="openai", base_url=url, identity="sim", api_key_env="SIM_KEY")
    model = Model(name="judge-a", provider=deployment, model="judge-a")
    made = opening.connect([deployment], [model], {"SIM_KEY": KEY}, body_bytes_max=BODY_MAX)["sim"]
    try:
        yield made
    finally:
        await made.aclose()


def ask(fault: str | None, *requests: Request, timeout_s: float = 60.0) -> tuple[Answer, Simulator]:
    """One call in virtual time against a simulator on which this fault befalls every call."""

    async def main() -> tuple[Answer, Simulator]:
        loop = asyncio.get_running_loop()
        simulator = Simulator(
            seed=1,
            models={"judge-a": Law(cached=0.0), "embedder": Law(dimensions=64)},
            faults={} if fault is None else {fault: 1.0},
            wall=lambda: 1_800_000_000 + loop.time(),
            flood_bytes=4 * BODY_MAX,
        )
        async with serving(simulator) as url, provider_at(url) as provider:
            answer = await provider.send(requests or (a_chat(max_output_tokens=16),), timeout_s=timeout_s, attempt=41)
            await asyncio.sleep(700)  # a stalled answer must come to its end on the server too
            return answer, simulator

    return virtual.run(main())


def told(answer: Answer) -> tuple[Cause, Billable, int | None]:
    """Class, chargeability and status of a failure."""
    assert answer.failure is not None, answer
    assert answer.replies == ()
    return answer.failure.cause, answer.failure.billable, answer.failure.status


def test_a_reply_carries_its_text_finish_usage_model_and_raw_body() -> None:
    """A whole answer becomes one Reply with everything that the provider said."""
    answer, simulator = ask(None)
    (reply,) = answer.replies
    row = simulator.bill.rows[0]
    assert reply.text in ("YES", "NO")
    assert (reply.finish, reply.finish_raw, reply.served_model) == (Finish.STOP, "stop", "judge-a")
    assert reply.usage.input == row["input"]
    assert (reply.usage.output, reply.usage.reasoning) == (row["output"], 0)
    assert reply.fingerprint == "fp_simulated"
    assert orjson.loads(reply.raw)["choices"][0]["message"]["content"] == reply.text
    assert answer.status == 200
    assert answer.latency_ms > 0


def test_each_call_names_its_attempt() -> None:
    """The attempt stands in the provider's own books."""
    _, simulator = ask(None)
    assert [row["attempt"] for row in simulator.bill.rows] == ["41"]


@pytest.mark.parametrize(
    ("fault", "cause", "billable", "status", "retry_after"),
    [
        ("429", Cause.RATE_LIMITED, Billable.NO, 429, 2.0),
        ("429_date", Cause.RATE_LIMITED, Billable.NO, 429, 3.0),
        ("429_absent", Cause.RATE_LIMITED, Billable.NO, 429, None),
        ("429_absurd", Cause.RATE_LIMITED, Billable.NO, 429, 900.0),
        ("quota", Cause.QUOTA, Billable.NO, 429, None),
        ("401", Cause.UNAUTHORISED, Billable.NO, 401, None),
        ("500", Cause.OVERLOADED, Billable.NO, 500, None),
        ("502", Cause.OVERLOADED, Billable.NO, 502, None),
        ("503", Cause.OVERLOADED, Billable.NO, 503, None),
        ("529", Cause.OVERLOADED, Billable.NO, 529, None),
        ("504", Cause.OVERLOADED, Billable.UNKNOWN, 504, None),
        ("drop_before", Cause.DISCONNECTED, Billable.UNKNOWN, None, None),
        ("drop_after", Cause.DISCONNECTED, Billable.UNKNOWN, None, None),
        ("drop_mid", Cause.DISCONNECTED, Billable.UNKNOWN, 200, None),
        ("stall", Cause.TIMED_OUT, Billable.UNKNOWN, None, None),
        ("garbage", Cause.MALFORMED, Billable.UNKNOWN, 200, None),
        ("truncated", Cause.MALFORMED, Billable.UNKNOWN, 200, None),
        ("error_200", Cause.OVERLOADED, Billable.UNKNOWN, 200, None),
        ("no_choices", Cause.MALFORMED, Billable.UNKNOWN, 200, None),
        ("oversized", Cause.OVERSIZED, Billable.UNKNOWN, 200, None),
    ],
)
def test_each_fault_has_its_class(
    fault: str, cause: Cause, billable: Billable, status: int | None, retry_after: float | None
) -> None:
    """What may have been charged is never said to be free, and what was refused is."""
    answer, simulator = ask(fault)
    assert told(answer) == (cause, billable, status)
    assert answer.failure is not None
    assert answer.failure.retry_after == (None if retry_after is None else pytest.approx(retry_after, abs=0.01))
    charged = any(row["billed"] for row in simulator.bill.rows)
    assert not (charged and billable is Billable.NO)


@pytest.mark.parametrize("fault", ["drop_end", "slow", "trickle", "skew", "retry_after_200", None])
def test_a_slow_or_odd_transport_still_gives_the_reply(fault: str | None) -> None:
    """A late first byte, a body in pieces, a wrong clock, a Retry-After on a success or a close after the body lose nothing."""
    answer, _ = ask(fault)
    assert [reply.finish for reply in answer.replies] == [Finish.STOP]


def test_limits_that_a_success_states_are_handed_on() -> None:
    """What is used up is told with the time at which it comes back."""
    answer, _ = ask("stated_limits")
    told = {(limit.unit, limit.limit, limit.remaining, limit.reset_s) for limit in answer.limits}
    assert told == {("requests", 60, 0, 20.0), ("tokens", 100_000, 0, 20.0)}


@pytest.mark.parametrize(
    ("fault", "finish", "raw"),
    [
        ("finish_missing", Finish.UNKNOWN, None),
        ("finish_null", Finish.UNKNOWN, None),
        ("finish_new", Finish.UNKNOWN, "wandered_off"),
        ("filter", Finish.FILTER, "content_filter"),
        ("refusal", Finish.REFUSAL, "stop"),
        ("block", Finish.FILTER, "content_filter; filtered violence"),
        ("empty", Finish.STOP, "stop"),
        ("no_parts", Finish.LENGTH, "length"),
        ("reasoning_content", Finish.STOP, "stop"),
        ("think_tag", Finish.STOP, "stop"),
        ("duplicate", Finish.STOP, "stop"),
    ],
)
def test_finishes_are_normalised_and_the_raw_word_kept(fault: str, finish: Finish, raw: str | None) -> None:
    """A finish reason that nobody has seen is unknown, never stop."""
    answer, _ = ask(fault)
    assert [(reply.finish, reply.finish_raw) for reply in answer.replies] == [(finish, raw)]
    assert answer.replies[0].empty == (fault in ("filter", "block", "empty", "no_parts", "reasoning_content"))


def test_an_answer_out_of_its_place_is_kept_where_a_rule_can_find_it() -> None:
    """In the place of the reasoning it is kept as thoughts; behind a tag it stays in the text."""
    straight, moved, tagged = (ask(fault)[0].replies[0] for fault in (None, "reasoning_content", "think_tag"))
    assert (moved.text, moved.thoughts) == ("", straight.text)
    assert tagged.text == f"<think>Hm.</think>\n{straight.text}"


@pytest.mark.parametrize("fault", ["usage_missing", "usage_zero"])
def test_a_usage_that_is_not_told_is_unknown(fault: str) -> None:
    """No usage, and a usage of 0 tokens for a text, are both None."""
    answer, _ = ask(fault)
    usage = answer.replies[0].usage
    assert (usage.input, usage.output) == (None, None)


def test_an_overrun_is_reported_in_full() -> None:
    """Output above the cap is told as the provider tells it."""
    answer, simulator = ask("overrun", a_chat(max_output_tokens=16))
    assert answer.replies[0].usage.output == 48 == simulator.bill.rows[0]["output"]


def test_another_model_is_seen() -> None:
    """The served model is what the body says."""
    answer, _ = ask("other_model")
    assert answer.replies[0].served_model == "judge-a-other"


def test_every_fault_of_the_simulator_is_tried_here() -> None:
    """A fault without an expectation would be a hole in this contract; those of jobs are not for single calls."""
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name, fault in FAULTS.items() if fault.kind != "job" and f'"{name}"' not in here] == []


TEXTS = [a_text("heat some apple"), a_text("cool some apple and put it away"), a_text("a lamp")]


def test_vectors_come_in_the_order_of_the_texts_with_their_share_of_the_tokens() -> None:
    """A batch becomes one reply a text; the tokens sum to those of the call."""
    answer, simulator = ask(None, *TEXTS)
    vectors = [np.frombuffer(reply.vector or b"", dtype="<f4") for reply in answer.replies]
    assert [vector.size for vector in vectors] == [64, 64, 64]
    assert float(vectors[0] @ vectors[1]) > float(vectors[0] @ vectors[2])
    assert sum(reply.usage.input or 0 for reply in answer.replies) == simulator.bill.rows[0]["input"]
    assert {reply.usage.output for reply in answer.replies} == {0}
    envelope = orjson.loads(answer.replies[0].raw)
    assert envelope["data"] == [{"object": "embedding", "index": n} for n in range(3)]
    assert len(answer.replies[0].raw_digest) == 64


def test_permuted_vectors_are_put_in_order() -> None:
    """The index decides, not the place in the list."""
    straight, permuted = ask(None, *TEXTS)[0], ask("vector_permuted", *TEXTS)[0]
    assert [reply.vector for reply in permuted.replies] == [reply.vector for reply in straight.replies]


@pytest.mark.parametrize("fault", ["vector_size", "vector_nan", "duplicate", "garbage", "truncated"])
def test_a_body_with_one_wrong_vector_is_malformed(fault: str) -> None:
    """A wrong size, a NaN or a wrong count spoil the whole call, and it may have been charged."""
    assert told(ask(fault, *TEXTS)[0])[:2] == (Cause.MALFORMED, Billable.UNKNOWN)


def test_asked_dimensions_are_checked_and_base64_is_read() -> None:
    """`dimensions` is sent and verified; a server that answers in base64 is understood."""
    answer, _ = ask(None, a_text("lamp", dimensions=8, extra={"encoding_format": "base64"}))
    assert len(answer.replies[0].vector or b"") == 32


def test_nobody_listening_is_not_sent() -> None:
    """A refused connection cost nothing."""

    async def main() -> Answer:
        async with talking(_silent) as url:
            gone = url
        async with provider_at(gone) as provider:
            return await provider.send([a_chat()], timeout_s=5, attempt=1)

    assert told(asyncio.run(main())) == (Cause.NOT_SENT, Billable.NO, None)


def test_a_name_that_does_not_resolve_is_not_sent() -> None:
    """No address, no byte."""

    async def main() -> Answer:
        async with provider_at("http://nowhere.invalid/v1") as provider:
            return await provider.send([a_chat()], timeout_s=5, attempt=1)

    assert told(asyncio.run(main())) == (Cause.NOT_SENT, Billable.NO, None)


async def _silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def _reset_on_reuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers once, keeps the connection, and closes it at the second request."""
    await request_of(reader)
    body = orjson.dumps({"choices": [{"message": {"content": "YES"}, "finish_reason": "stop"}]})
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await request_of(reader)


def test_a_kept_connection_that_breaks_is_in_doubt_and_is_not_tried_again() -> None:
    """A request on a reused connection may have arrived: one try, billable unknown."""
    connections = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await _reset_on_reuse(reader, writer)

    async def main() -> list[Answer]:
        async with talking(counted) as url, provider_at(url) as provider:
            return [await provider.send([a_chat()], timeout_s=5, attempt=n) for n in (1, 2)]

    first, second = asyncio.run(main())
    assert first.replies[0].text == "YES"
    assert told(second) == (Cause.DISCONNECTED, Billable.UNKNOWN, None)
    assert connections == 1


def raw_answer(raw: bytes) -> Answer:
    """The answer of a provider whose server writes these bytes and closes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(raw)
        await writer.drain()

    async def main() -> Answer:
        async with talking(talk) as url, provider_at(url) as provider:
            return await provider.send([a_chat()], timeout_s=5, attempt=1)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"this is no HTTP\r\n\r\n", (Cause.MALFORMED, Billable.UNKNOWN, None)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", (Cause.MALFORMED, Billable.UNKNOWN, 200)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{", (Cause.DISCONNECTED, Billable.UNKNOWN, 200)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n{", (Cause.OVERSIZED, Billable.UNKNOWN, 200)),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nnogzi",
            (Cause.DISCONNECTED, Billable.UNKNOWN, 200),
        ),
        (
            b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"a":\r\n',
            (Cause.DISCONNECTED, Billable.UNKNOWN, 200),
        ),
        (
            b"HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            (Cause.REJECTED, Billable.NO, 307),
        ),
        (b"HTTP/1.1 429 Slow\r\ncontent-length: 90\r\n\r\n{", (Cause.RATE_LIMITED, Billable.NO, 429)),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 90\r\n\r\n{", (Cause.OVERLOADED, Billable.NO, 500)),
        (b"", (Cause.DISCONNECTED, Billable.UNKNOWN, None)),
    ],
)
def test_broken_http_is_a_failure_and_never_an_exception(
    raw: bytes, expected: tuple[Cause, Billable, int | None]
) -> None:
    """Whatever bytes a server sends, `send` returns."""
    assert told(raw_answer(raw)) == expected


def test_a_compressed_bomb_stops_at_the_limit() -> None:
    """The limit counts what comes out of the decompressor."""
    packed = gzip.compress(b" " * (64 * BODY_MAX))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    assert told(raw_answer(head + packed)) == (Cause.OVERSIZED, Billable.UNKNOWN, 200)


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad", b"429 Slow", b"500 Oh"])
def test_a_key_that_a_server_echoes_is_taken_out(status: bytes) -> None:
    """No body, detail or header of an answer holds the key, whatever the server writes."""
    body = orjson.dumps(
        {
            "choices": [{"message": {"content": f"you sent Bearer {KEY}"}, "finish_reason": "stop"}],
            "error": None if status.startswith(b"200") else {"message": "x" * 460 + f" Authorization: Bearer {KEY}"},
        }
    )
    head = b"HTTP/1.1 " + status + b"\r\nx-request-id: " + KEY.encode() + b"\r\ncontent-length: %d\r\n\r\n" % len(body)
    answer = raw_answer(head + body)
    assert KEY not in repr(answer)
    assert KEY[:12] not in repr(answer)
    assert "[secret]" in repr(answer)


def test_the_deadline_counts_from_the_connection_and_ends_the_call() -> None:
    """A server that never answers costs the timeout, no more."""
    answer, _ = ask("stall", timeout_s=7.0)
    assert told(answer) == (Cause.TIMED_OUT, Billable.UNKNOWN, None)
    assert 7000 <= answer.latency_ms <= 7200


def test_cancellation_passes_through() -> None:
    """A cancelled call is cancelled, not turned into a failure."""

    async def main() -> bool:
        async with talking(_silent) as url, provider_at(url) as provider:
            task = asyncio.create_task(provider.send([a_chat()], timeout_s=60, attempt=1))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

    assert asyncio.run(main())


def test_a_finished_call_leaves_nothing_to_the_collector_of_cycles() -> None:
    """Tasks of calls do not hold themselves: once timers and connections have forgotten them they are gone, and a run of
    millions makes no garbage that must be looked for.
    """

    async def main() -> list[weakref.ref[asyncio.Task[Answer]]]:
        left = []
        async with serving(Simulator(seed=2)) as url, provider_at(url) as provider:
            for attempt in range(3):
                task = asyncio.create_task(provider.send([a_chat()], timeout_s=60, attempt=attempt))
                await asyncio.wait([task])
                left.append(weakref.ref(task))
                del task
        return left

    gc.collect()
    gc.disable()
    try:
        assert [task for task in asyncio.run(main()) if task() is not None] == []
    finally:
        gc.enable()


def test_five_hundred_calls_at_once_arrive_once_each() -> None:
    """A burst is ramped, not lost, and each call is one request at the server."""

    async def main() -> tuple[set[str], Simulator, float]:
        simulator = Simulator(seed=2)
        async with serving(simulator) as url, provider_at(url) as provider:
            started = asyncio.get_running_loop().time()
            answers = await asyncio.gather(
                *(provider.send([a_chat(f"{n} {PROMPT}")], timeout_s=60, attempt=n) for n in range(500))
            )
            took = asyncio.get_running_loop().time() - started
        assert all(answer.failure is None for answer in answers), answers
        return {row["attempt"] for row in simulator.bill.rows}, simulator, took

    attempts, simulator, took = virtual.run(main())
    assert attempts == {str(n) for n in range(500)}
    assert simulator.gauge.requests == 500
    assert took >= 0.2  # 200 connections in each tenth of a second


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go where the file says, whatever the shell has set."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    answer, _ = ask(None)
    assert answer.failure is None


def test_a_seed_is_a_run() -> None:
    """Under faults, forty calls at once: two runs of one seed get the same answers and the same books; another seed others."""

    def run(seed: int) -> tuple[list[str], list[object]]:
        async def main() -> tuple[list[str], list[object]]:
            loop = asyncio.get_running_loop()
            simulator = Simulator(seed=seed, faults=parse("swarm=0.5", seed), wall=loop.time, flood_bytes=2 * BODY_MAX)
            async with serving(simulator) as url, provider_at(url) as provider:
                answers = await asyncio.gather(
                    *(provider.send([a_chat(f"{n} {PROMPT}")], timeout_s=15, attempt=n) for n in range(40))
                )
            told = [repr((answer.replies, answer.failure, answer.latency_ms)).replace(url, "") for answer in answers]
            return told, [{**row, "at": round(row["at"], 6)} for row in simulator.bill.rows]

        return virtual.run(main())

    assert run(4) == run(4)
    assert run(4)[0] != run(5)[0]
