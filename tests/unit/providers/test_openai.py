"""The openai dialect: the bytes that go out, and how a body is read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.errors import InvariantBroken
from judgerun.model.experiment import Deployment
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.providers import openai
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1")

LAB = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1")
OPENAI = Deployment(name="openai", dialect="openai", base_url="https://api.openai.com/v1", builtin=True)
DEEPSEEK = Deployment(name="deepseek", dialect="openai", base_url="https://x/v1", cap_field="max_tokens", builtin=True)


def a_chat(**parameters: Any) -> Request:
    payload = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **parameters}
    return build("chat", payload, deployment="d", adapter="openai/1", draw=0)


def a_text(text: str = "t", **parameters: Any) -> Request:
    payload = {"model": "e", "text": text, "role": "query", **parameters}
    return build("embed", payload, deployment="d", adapter="openai/1", draw=0)


def sent(request: Request, deployment: Deployment = LAB) -> dict[str, Any]:
    """The body that a request becomes."""
    body = orjson.loads(openai.encode([request], deployment).body)
    assert isinstance(body, dict)
    return body


def read(body: Any, *requests: Request, status: int = 200) -> Reply | Failure:
    """What a body becomes: the first reply, or the failure."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    told = openai.decode(requests or (a_chat(),), WireReply(status=status, headers={}, body=raw, at=0.0), PLACE)
    return told if isinstance(told, Failure) else told[0]


def choice(content: Any = "yes", finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """A body with one choice."""
    return {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ]
    }


def test_only_what_stands_in_the_payload_is_sent() -> None:
    """No parameter of ours sneaks into a body."""
    assert sent(a_chat()) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_the_cap_goes_by_the_dialects_name_or_the_one_in_the_requests_key() -> None:
    """The adapter in the key determines the bytes."""
    request = a_chat(max_output_tokens=16)
    assert sent(request)["max_completion_tokens"] == 16
    other = build("chat", request.payload, deployment="d", adapter="openai/1 cap=max_tokens", draw=0)
    assert sent(other)["max_tokens"] == 16
    assert "max_completion_tokens" not in sent(other)


@pytest.mark.parametrize(
    ("thinking", "deployment", "fields"),
    [
        ("off", OPENAI, {"reasoning_effort": "none"}),
        ("low", OPENAI, {"reasoning_effort": "low"}),
        ("high", LAB, {"reasoning_effort": "high"}),
        ("off", DEEPSEEK, {"thinking": {"type": "disabled"}}),
        ("high", DEEPSEEK, {"reasoning_effort": "high"}),
    ],
)
def test_thinking_becomes_the_providers_own_switch(
    thinking: str, deployment: Deployment, fields: dict[str, Any]
) -> None:
    """`off` really turns it off where the provider has a switch of its own."""
    body = sent(a_chat(thinking=thinking), deployment)
    assert {name: body[name] for name in body.keys() - {"model", "messages"}} == fields


def test_extra_is_sent_as_it_is_and_can_lift_no_cap() -> None:
    """What a reservation counted on is written last."""
    body = sent(a_chat(max_output_tokens=16, extra={"top_p": 0.5, "max_completion_tokens": 9999, "model": "dear"}))
    assert (body["top_p"], body["max_completion_tokens"], body["model"]) == (0.5, 16, "m")


def test_a_parameter_that_the_dialect_cannot_send_is_our_bug() -> None:
    """It stands in the key: dropping it in silence would make the key lie."""
    with pytest.raises(InvariantBroken, match="wings"):
        sent(a_chat(wings=2))


def test_a_batch_of_texts_is_one_body_in_order() -> None:
    """Texts of a batch go in one list, with the parameters of all."""
    call = openai.encode(
        [a_text("a", dimensions=8, input_type="query"), a_text("b", dimensions=8, input_type="query")], LAB
    )
    assert call.path == "/embeddings"
    assert orjson.loads(call.body) == {
        "encoding_format": "float",
        "model": "e",
        "input": ["a", "b"],
        "dimensions": 8,
        "input_type": "query",
    }


@given(st.dictionaries(st.sampled_from(["temperature", "max_output_tokens"]), st.integers(0, 99)), st.text())
def test_the_same_request_always_has_the_same_bytes(parameters: dict[str, int], text: str) -> None:
    """Encoding is a function."""
    first, second = (
        openai.encode([a_chat(**parameters, extra={"user": "x"})], LAB),
        openai.encode([a_chat(**parameters, extra={"user": "x"})], LAB),
    )
    assert first == second
    assert sent(a_chat(messages=[{"role": "user", "content": text}]))["messages"][0]["content"] == text


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.LENGTH),
        ("model_length", Finish.LENGTH),
        ("content_filter", Finish.FILTER),
        ("sensitive", Finish.FILTER),
        ("tool_calls", Finish.TOOL),
        ("Stop", Finish.UNKNOWN),
        ("", Finish.UNKNOWN),
        (None, Finish.UNKNOWN),
        (7, Finish.UNKNOWN),
    ],
)
def test_finish_words(word: Any, finish: Finish) -> None:
    """A word is what it says; any other is unknown, and kept."""
    reply = read(choice(finish=word))
    assert isinstance(reply, Reply)
    assert reply.finish is finish
    assert reply.finish_raw == (word if isinstance(word, str) else None)


@pytest.mark.parametrize(
    ("content", "finish", "message", "thoughts"),
    [
        ("", "stop", {"reasoning_content": "It is 7"}, "It is 7"),
        (None, "stop", {"reasoning": "It is 7"}, "It is 7"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "It is 7"}]}], "stop", {}, "It is 7"),
        ("", "length", {"reasoning_content": "It is"}, ""),
        ("7", "stop", {"reasoning_content": "It is 7"}, ""),
        ("", "stop", {"reasoning_content": None}, ""),
    ],
)
def test_reasoning_is_no_answer(content: Any, finish: str, message: dict[str, Any], thoughts: str) -> None:
    """Nothing hidden is taken for an answer; it is kept of a reply that finished and said nothing, for a rule may ask for it."""
    reply = read(choice(content, finish, **message))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.thoughts) == (content if isinstance(content, str) else "", thoughts)


@pytest.mark.parametrize(
    ("told", "finish", "raw"),
    [
        ({"finish_reason": "stop", "native_finish_reason": "end_turn"}, Finish.STOP, "stop; native end_turn"),
        ({"finish_reason": "stop", "native_finish_reason": "stop"}, Finish.STOP, "stop"),
        ({"finish_reason": "stop", "native_finish_reason": "MAX_TOKENS"}, Finish.LENGTH, "stop; native MAX_TOKENS"),
        ({"finish_reason": "stop", "native_finish_reason": "refusal"}, Finish.REFUSAL, "stop; native refusal"),
        ({"finish_reason": "stop", "native_finish_reason": "SAFETY"}, Finish.FILTER, "stop; native SAFETY"),
        ({"finish_reason": "length", "native_finish_reason": "STOP"}, Finish.LENGTH, "length; native STOP"),
        ({"finish_reason": None, "native_finish_reason": "odd"}, Finish.UNKNOWN, "native odd"),
        ({"finish_reason": "stop", "matched_stop": "END"}, Finish.STOP, "stop; matched 'END'"),
        ({"finish_reason": "stop", "matched_stop": 151645}, Finish.STOP, "stop"),
        ({"finish_reason": "stop", "stop_reason": "END"}, Finish.STOP, "stop; matched 'END'"),
        (
            {"finish_reason": "content_filter", "content_filter_results": {"hate": {"filtered": True}, "sexual": {}}},
            Finish.FILTER,
            "content_filter; filtered hate",
        ),
    ],
)
def test_the_words_for_a_finish_are_kept(told: dict[str, Any], finish: Finish, raw: str) -> None:
    """A router's stop does not hide what the model behind it said, and a filter's categories are told."""
    reply = read({"choices": [{"message": {"content": "a"}, **told}]})
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw) == (finish, raw)


def test_an_error_inside_a_choice_is_a_failure() -> None:
    """OpenRouter puts the upstream's error there, beside what had been said so far."""
    told = read({"choices": [{"message": {"content": "half"}, "error": {"code": 502, "message": "upstream died"}}]})
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.OVERLOADED, Billable.UNKNOWN)
    assert "upstream died" in told.detail


def test_who_served_a_reply_is_kept() -> None:
    """The model, the upstream that a router chose and the server's own mark: what an audit of drift compares."""
    reply = read({**choice(), "model": "a/b", "provider": "Bedrock", "system_fingerprint": "fp_1"})
    assert isinstance(reply, Reply)
    assert (reply.served_model, reply.fingerprint) == ("a/b", "Bedrock fp_1")


def test_a_legacy_completion_is_its_text() -> None:
    """The older shape has no message."""
    reply = read({"choices": [{"text": " Paris", "finish_reason": "length"}]})
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish) == (" Paris", Finish.LENGTH)


def streamed(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + end


def piece(finish: Any = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}], "usage": None}


USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b"data: [DONE]", b""])
def test_a_stream_is_read_as_one_reply(end: bytes) -> None:
    """Its pieces joined, the finish and the usage wherever they come; the first choice alone."""
    reply = read(
        streamed(
            {**piece(role="assistant", content=None), "model": "m-1", "system_fingerprint": "fp"},
            piece(content="yes"),
            piece(index=1, content="no"),
            piece(content=[{"type": "text", "text": "!"}]),
            piece("stop"),
            {"choices": [], "usage": USAGE},
            end=end,
        )
    )
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish, reply.finish_raw) == ("yes!", Finish.STOP, "stop")
    assert (reply.served_model, reply.fingerprint, reply.reported_tokens) == ("m-1", "fp", 11)
    assert (reply.usage.input, reply.usage.output) == (9, 2)


def test_what_a_stream_counts_on_its_way_is_not_its_bill() -> None:
    """Some servers tell the tokens so far with every piece; only what comes with the finish, or after it, counts all."""
    on_the_way = {**piece(content="yes"), "usage": USAGE}
    reply = read(streamed(on_the_way, piece(content=" and no"), piece("stop")))
    assert isinstance(reply, Reply)
    assert (reply.usage, reply.reported_tokens) == (Usage(), None)
    for end in ([{**piece("stop"), "usage": USAGE}], [piece("stop"), {"choices": [], "usage": USAGE}]):
        reply = read(streamed(on_the_way, *end))
        assert isinstance(reply, Reply)
        assert (reply.usage.input, reply.usage.output) == (9, 2)


def test_half_a_surrogate_pair_loses_no_answer() -> None:
    """No text can hold one; servers that cut texts, or emojis between two events, write them all the same."""
    whole = orjson.dumps({"choices": [{"message": {"content": "yes HALF"}, "finish_reason": "stop"}]})
    for half, mended in (
        (rb"\ud83d", "\N{REPLACEMENT CHARACTER}"),
        (rb"\uDE00 \ud83d\ude00", "\N{REPLACEMENT CHARACTER} \N{GRINNING FACE}"),
        (rb"\\ud83d \ud83d", "\\ud83d \N{REPLACEMENT CHARACTER}"),
        (b"", ""),
    ):
        reply = read(b"\xef\xbb\xbf" + whole.replace(b"HALF", half))
        assert isinstance(reply, Reply)
        assert reply.text == "yes " + mended
    cut = streamed(piece(content="HIGH"), piece(content="LOW yes"), piece("stop"))
    reply = read(cut.replace(b"HIGH", rb"\ud83d").replace(b"LOW", rb"\ude00"))
    assert isinstance(reply, Reply)
    assert reply.text == "\N{REPLACEMENT CHARACTER}" * 2 + " yes"


def test_a_streamed_refusal_and_streamed_reasoning_are_what_they_are_in_one_piece() -> None:
    """The same rules hold for the joined message."""
    refused = read(streamed(piece(refusal="I will "), piece(refusal="not."), piece("stop")))
    assert isinstance(refused, Reply)
    assert (refused.finish, refused.text) == (Finish.REFUSAL, "I will not.")
    silent = read(streamed(piece(reasoning="It "), piece(reasoning="is 7"), piece("stop")))
    assert isinstance(silent, Reply)
    assert (silent.text, silent.thoughts) == ("", "It is 7")


def test_a_stream_that_ends_properly_without_a_finish_is_unknown() -> None:
    """`[DONE]` says that all was sent; why it ended nobody told."""
    reply = read(streamed(piece(content="yes")))
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw) == (Finish.UNKNOWN, None)


@pytest.mark.parametrize(
    ("body", "cause", "says"),
    [
        (streamed(piece(content="half"), end=b""), Cause.MALFORMED, "cut off"),
        (streamed(piece(content="half"), end=b'data: {"choices": [{"del'), Cause.MALFORMED, "cut off"),
        (b": keep alive\n\n", Cause.MALFORMED, "cut off"),
        (streamed(), Cause.MALFORMED, "no choices"),
        (streamed(7), Cause.MALFORMED, "no JSON object"),
        (streamed(piece(content=7), piece("stop")), Cause.MALFORMED, "neither text"),
        (streamed(piece(content="a"), piece("error")), Cause.MALFORMED, "error"),
        (streamed(piece("length"), {"error": {"code": 429, "message": "slow"}}), Cause.RATE_LIMITED, "slow"),
        (b'event: error\ndata: {"code": 503, "message": "busy"}\n\n', Cause.OVERLOADED, "busy"),
    ],
)
def test_a_stream_that_breaks_is_a_failure_that_may_have_been_charged(body: bytes, cause: Cause, says: str) -> None:
    """Cut off, or an error in the middle: what came before it is no answer."""
    told = read(body)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (cause, Billable.UNKNOWN)
    assert says in told.detail


@given(st.binary(max_size=80), st.booleans())
def test_no_bytes_make_the_decoder_raise(raw: bytes, event: bool) -> None:
    """Anything may come under the name of a stream."""
    told = read(streamed(piece(content="a"), end=b"data: " * event + raw))
    assert isinstance(told, (Reply, Failure))


def test_parts_of_text_are_joined_and_thinking_parts_left_out() -> None:
    """A list of parts is read by type."""
    reply = read(
        choice([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    )
    assert isinstance(reply, Reply)
    assert reply.text == "ab"


def test_a_refusal_is_a_finish_of_its_own() -> None:
    """The refusal field wins over `stop`."""
    reply = read(choice(None, "stop", refusal="I will not."))
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw, reply.text) == (Finish.REFUSAL, "stop", "I will not.")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}{"again": 1}',
        b"\xff\xfe",
        {},
        {"choices": []},
        {"choices": None},
        {"choices": ["x"]},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": [{"text": 7, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "insufficient_system_resource"}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "abort"}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]},
        {"choices": [{"message": {"content": [{"type": "text", "text": 7}]}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": ["a"]}, "finish_reason": "stop"}]},
        {"error": "something"},
    ],
)
def test_a_200_that_cannot_be_read_may_have_been_charged(body: Any) -> None:
    """Never a reply, never free, and no patience is asked for."""
    told = read(body)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable, told.retry_after) == (Cause.MALFORMED, Billable.UNKNOWN, None)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ({"code": 429, "message": "slow down"}, Cause.RATE_LIMITED),
        ({"code": 502, "message": "upstream"}, Cause.OVERLOADED),
        ({"code": "insufficient_quota", "message": "pay"}, Cause.QUOTA),
        ({"code": 402, "message": "Insufficient credits"}, Cause.QUOTA),
        ({"type": "overloaded_error", "message": "busy"}, Cause.OVERLOADED),
        ({"code": "context_length_exceeded", "message": "too long"}, Cause.TOO_LONG),
        ({"message": "?"}, Cause.MALFORMED),
    ],
)
def test_an_error_inside_a_200_is_classed_by_its_code_and_never_obeyed(error: dict[str, Any], cause: Cause) -> None:
    """It may have been charged whatever it says, and Retry-After counts for nothing on a 200."""
    wire = WireReply(
        status=200, headers={"retry-after": "9"}, body=orjson.dumps({"error": error, "choices": []}), at=0.0
    )
    told = openai.decode([a_chat()], wire, PLACE)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable, told.retry_after) == (cause, Billable.UNKNOWN, None)


_NAMES = st.sampled_from(
    ["choices", "message", "content", "finish_reason", "usage", "prompt_tokens", "completion_tokens", "data", "index",
     "embedding", "error", "code", "model", "refusal", "cost", "prompt_tokens_details", "cached_tokens"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=5), st.sampled_from(["chat", "embed"]))
def test_no_json_makes_the_decoder_raise(body: dict[str, Any], kind: str) -> None:
    """Any JSON object becomes replies or a failure."""
    requests = (a_chat(),) if kind == "chat" else (a_text("a"), a_text("b"))
    told = openai.decode(
        requests, WireReply(status=200, headers={}, body=orjson.dumps(body, default=str), at=0.0), PLACE
    )
    assert isinstance(told, Failure) or len(told) == len(requests)
