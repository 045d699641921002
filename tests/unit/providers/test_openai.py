"""The openai dialect: the bytes that go out, and how a body is read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.errors import InvariantBroken
from judgerun.model.experiment import Deployment
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply
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
        ("insufficient_system_resource", Finish.ERROR),
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


def test_reasoning_is_no_answer() -> None:
    """An empty content with reasoning beside it is empty: nothing hidden is taken for an answer."""
    reply = read(choice("", "length", reasoning_content="I think it is 7"))
    assert isinstance(reply, Reply)
    assert reply.empty
    assert reply.text == ""


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
        {"choices": [{"text": "legacy", "finish_reason": "stop"}]},
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
