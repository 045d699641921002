"""The anthropic dialect: the bytes that go out, what models take, and how bodies and streams are read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.readings import check, files, rows
from fakes.recorded import needed, recorded
from judgerun.errors import InvariantBroken, Refused
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.providers import anthropic, fault
from judgerun.providers import open as opening
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="anthropic", dialect="anthropic", base_url="http://127.0.0.1:1/v1", builtin=True)
HAIKU, SONNET, OPUS = "claude-haiku-4-5-20251001", "claude-sonnet-4-6", "claude-opus-4-8"


def a_chat(*, adapter: str = anthropic.VERSION, **parameters: Any) -> Request:
    """A chat request, capped at 2048 tokens."""
    payload = {
        "model": HAIKU,
        "messages": [{"role": "user", "content": "hi"}],
        "max_output_tokens": 2048,
        **parameters,
    }
    return build("chat", payload, deployment="d", adapter=adapter, draw=0)


def sent(request: Request, deployment: Deployment = PLACE) -> dict[str, Any]:
    """The body that a request becomes."""
    call = anthropic.encode([request], deployment)
    assert call.path == "/messages"
    body = orjson.loads(call.body)
    assert isinstance(body, dict)
    return body


def read(body: Any) -> Reply | Failure:
    """What a body becomes: the reply, or the failure."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    told = anthropic.decode([a_chat()], WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)
    return told if isinstance(told, Failure) else told[0]


def a_message(text: str = "yes", reason: Any = "end_turn", **more: Any) -> dict[str, Any]:
    """A message with one block of text."""
    return {"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": reason, **more}


def events(*held: dict[str, Any]) -> bytes:
    """A stream of these events."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in held)


START = {"type": "message_start", "message": {"model": HAIKU, "content": [], "usage": {"input_tokens": 9}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
PIECE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "yes"}}
LAST = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
STOP = {"type": "message_stop"}


def test_only_what_stands_in_the_payload_is_sent() -> None:
    """No parameter of ours sneaks into a body; the cap goes as max_tokens."""
    assert sent(a_chat(temperature=0)) == {
        "model": HAIKU,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2048,
        "temperature": 0,
    }


def test_system_messages_at_the_head_have_a_field_of_their_own() -> None:
    """One is a text, several are blocks, and one further down keeps its place."""
    user, system = {"role": "user", "content": "u"}, {"role": "system", "content": "s"}
    assert sent(a_chat(messages=[system, user]))["system"] == "s"
    assert sent(a_chat(messages=[system, system, user]))["system"] == [{"type": "text", "text": "s"}] * 2
    assert sent(a_chat(messages=[user, system, user]))["messages"] == [user, system, user]


@pytest.mark.parametrize(
    ("model", "thinking", "fields"),
    [
        (HAIKU, "off", {}),
        (HAIKU, 1024, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (SONNET, "off", {}),
        (SONNET, 1500, {"thinking": {"type": "enabled", "budget_tokens": 1500}}),
        (SONNET, "low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (OPUS, "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        (OPUS, "off", {}),
        ("claude-sonnet-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-opus-5-5", "medium", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}),
    ],
)
def test_thinking_becomes_what_the_model_takes(model: str, thinking: str | int, fields: dict[str, Any]) -> None:
    """An effort where there is one, a number of tokens where there is none, and nothing where it is off by itself."""
    body = sent(a_chat(model=model, thinking=thinking))
    assert {name: body[name] for name in body.keys() - {"model", "messages", "max_tokens"}} == fields


def test_a_provider_may_bring_its_own_words_for_thinking() -> None:
    """The fields of its table are sent as they are, and stand beside those of `extra`."""
    own = Deployment(name="x", dialect="anthropic", thinking={"off": {"thinking": {"type": "between_tools"}}})
    extra = {"output_config": {"format": {"type": "json_schema"}}}
    assert sent(a_chat(thinking="off"), own)["thinking"] == {"type": "between_tools"}
    assert sent(a_chat(model=OPUS, thinking="low", extra=extra))["output_config"] == {
        "format": {"type": "json_schema"},
        "effort": "low",
    }


def told(model: str = HAIKU, **keys: Any) -> list[str]:
    """What is refused of a model with these keys, by place and right spelling."""
    asked = Model(name="m", provider=PLACE, model=model, **{"max_output_tokens": 2048, **keys})
    return [str(problem) for problem in opening.unsent(asked, anthropic.profile(PLACE))]


@pytest.mark.parametrize(
    ("model", "keys", "says"),
    [
        (HAIKU, {"thinking": "low"}, "one of off, a number from 1024"),
        (HAIKU, {"thinking": 512}, '"off", or 1024 and more'),
        (HAIKU, {"thinking": 2048}, "a cap above 2048"),
        (HAIKU, {"thinking": 1024, "temperature": 0}, 'thinking = "off"'),
        (HAIKU, {"temperature": 1.5}, "from 0 to 1"),
        (HAIKU, {"thinking": "hard"}, "does not take 'hard'"),
        (HAIKU, {"max_output_tokens": None}, "max_output_tokens"),
        (HAIKU, {"dimensions": 8}, "cannot send dimensions"),
        (SONNET, {"thinking": "low", "temperature": 0.5}, "while thinking is on"),
        (OPUS, {"thinking": 1024}, "one of off, low, medium, high"),
        (OPUS, {"temperature": 0}, "takes no temperature"),
        ("claude-opus-5-5", {"thinking": "off"}, "one of low, medium, high"),
        ("claude-fable-5-1", {"thinking": "off"}, "always thinks"),
        ("claude-3-5-haiku-20241022", {"thinking": 1024}, "one of off"),
        ("kimi-k2", {"thinking": "low"}, "providers.anthropic.thinking"),
    ],
)
def test_what_the_api_would_refuse_is_said_before(model: str, keys: dict[str, Any], says: str) -> None:
    """One problem, with what would be right."""
    (problem,) = told(model, **keys)
    assert says in problem


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        (HAIKU, {"temperature": 0}),
        (HAIKU, {"temperature": 0, "thinking": "off"}),
        (HAIKU, {"temperature": 1, "thinking": 1024}),
        (SONNET, {"thinking": "high"}),
        (OPUS, {"temperature": 1}),
        ("claude-mythos-preview", {"thinking": 1024}),
        ("kimi-k2", {"temperature": 0}),
    ],
)
def test_what_the_api_takes_is_let_through(model: str, keys: dict[str, Any]) -> None:
    """Nothing is refused that would have worked."""
    assert told(model, **keys) == []


def test_the_cap_has_one_field() -> None:
    """Another name for it would stand in the key and change nothing."""
    other = Deployment(name="x", dialect="anthropic", cap_field="max_output_tokens")
    model = Model(name="m", provider=other, model=HAIKU, max_output_tokens=16)
    with pytest.raises(Refused, match="one field for its output cap"):
        opening.profile(other, model)


def test_own_words_are_the_persons_own_affair() -> None:
    """A provider's table may make a model take what it does not."""
    own = Deployment(name="x", dialect="anthropic", thinking={"low": {"thinking": {"type": "adaptive"}}})
    model = Model(name="m", provider=own, model=HAIKU, thinking="low", max_output_tokens=16)
    assert opening.unsent(model, anthropic.profile(own)) == []


def test_the_key_and_the_version_go_in_headers() -> None:
    """A server without a key is told the version all the same."""
    assert anthropic.authorise("k", PLACE) == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert anthropic.authorise(None, PLACE) == {"anthropic-version": "2023-06-01"}


def test_a_stream_is_asked_for_by_the_adapter_in_the_key() -> None:
    """What determines the bytes stands in the request's key."""
    assert sent(a_chat(adapter="anthropic/1 stream"))["stream"] is True


def test_a_parameter_that_the_dialect_cannot_send_is_our_bug() -> None:
    """It stands in the key: dropping it in silence would make the key lie."""
    with pytest.raises(InvariantBroken, match="wings"):
        sent(a_chat(wings=2))


@given(st.dictionaries(st.sampled_from(sorted({*anthropic.OWNED, "output_config", "top_k"})), st.integers(0, 99_999)))
def test_nothing_in_extra_touches_what_has_a_key_of_its_own(extra: dict[str, int]) -> None:
    """The cap that a reservation counted on is what is sent."""
    plain, body = sent(a_chat()), sent(a_chat(extra=extra))
    assert {name: body.get(name) for name in anthropic.OWNED} == {name: plain.get(name) for name in anthropic.OWNED}
    assert body.get("top_k") == extra.get("top_k")


def test_an_effort_in_extra_is_left_out_and_its_neighbours_kept() -> None:
    """A field inside an object is owned too."""
    extra = {"output_config": {"effort": "max", "format": 1}, "metadata": {"user_id": "u"}}
    body = sent(a_chat(extra=extra))
    assert (body["output_config"], body["metadata"]) == ({"format": 1}, {"user_id": "u"})
    assert {lack.key for lack in anthropic.profile(PLACE).lacks} >= {"extra.max_tokens", "extra.output_config.effort"}


_ROLES = st.sampled_from(["user", "assistant"])
_MESSAGES = st.lists(st.fixed_dictionaries({"role": _ROLES, "content": st.text()}), min_size=1, max_size=5)


@given(_MESSAGES, st.text(min_size=1))
def test_messages_arrive_as_they_were_written(messages: list[dict[str, str]], system: str) -> None:
    """No text is changed, merged or moved, but for the system's."""
    body = sent(a_chat(messages=[{"role": "system", "content": system}, *messages]))
    assert (body["system"], body["messages"]) == (system, messages)


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.LENGTH),
        ("tool_use", Finish.TOOL),
        ("pause_turn", Finish.TOOL),
        ("refusal", Finish.REFUSAL),
        ("compaction", Finish.UNKNOWN),
        (None, Finish.UNKNOWN),
        (7, Finish.UNKNOWN),
    ],
)
def test_finish_words(word: Any, finish: Finish) -> None:
    """A word is what it says; any other is unknown, and kept."""
    reply = read(a_message(reason=word))
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw) == (finish, word if isinstance(word, str) else None)


def test_a_refusal_tells_its_category() -> None:
    """It may come without a word, and is a reply all the same."""
    reply = read({"content": [], "stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "bio"}})
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw, reply.empty) == (Finish.REFUSAL, "refusal: bio", True)


def test_thinking_is_no_text_and_is_kept_only_where_there_is_none() -> None:
    """Thoughts stand beside an empty answer alone."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    both = read({"content": [thought, {"type": "text", "text": "yes"}], "stop_reason": "end_turn"})
    alone = read({"content": [thought, {"type": "redacted_thinking", "data": "x"}], "stop_reason": "end_turn"})
    cut = read({"content": [thought], "stop_reason": "max_tokens"})
    assert [(reply.text, reply.thoughts) for reply in (both, alone, cut) if isinstance(reply, Reply)] == [
        ("yes", ""),
        ("", "hm"),
        ("", ""),
    ]


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({}, Usage()),
        ({"input_tokens": 0, "output_tokens": 0}, Usage()),
        ({"input_tokens": -1, "output_tokens": True}, Usage()),
        ({"input_tokens": 5, "output_tokens": 7}, Usage(input_fresh=5, output_visible=7)),
        (
            {
                "input_tokens": 0,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
                "output_tokens": 7,
                "output_tokens_details": {"thinking_tokens": 7},
            },
            Usage(input_fresh=0, cache_read=3, cache_write=10, cache_write_1h=20, output_visible=0, reasoning=7),
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 3,
                "cache_creation": {"ephemeral_1h_input_tokens": 9},
                "output_tokens": 7,
                "output_tokens_details": {"thinking_tokens": 8},
            },
            Usage(input_fresh=1, cache_write=3, output_visible=7),
        ),
    ],
)
def test_usage_falls_into_disjoint_buckets(told: dict[str, Any], usage: Usage) -> None:
    """Cached input is outside the fresh, thinking inside the output; what cannot be is unknown, never 0."""
    reply = read(a_message(usage=told))
    assert isinstance(reply, Reply)
    assert reply.usage == usage


def test_a_stream_makes_the_message_that_its_events_tell() -> None:
    """Later counts stand over earlier ones, and a count that is null over none."""
    last = {**LAST, "usage": {"input_tokens": None, "output_tokens": 3}}
    reply = read(events(START, BLOCK, {"type": "ping"}, PIECE, PIECE, last, STOP))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish, reply.served_model) == ("yesyes", Finish.STOP, HAIKU)
    assert reply.usage == Usage(input_fresh=9, output_visible=3)


def test_the_output_that_a_stream_counts_at_its_start_is_not_its_bill() -> None:
    """A message starts with a count of the tokens so far; where its end tells none, nobody knows how many came after."""
    start = {**START, "message": {"model": HAIKU, "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    for last in ((), (end,)):
        reply = read(events(start, BLOCK, PIECE, *last, STOP))
        assert isinstance(reply, Reply)
        assert reply.usage == Usage(input_fresh=9)


@pytest.mark.parametrize("count", range(5))
def test_a_stream_that_breaks_off_is_no_reply(count: int) -> None:
    """Without its last event it may have been charged, and nothing of it is half read."""
    told = read(events(*(START, BLOCK, PIECE, LAST, STOP)[:count]) or b"event: message_start\n\n")
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        ("overloaded_error", "Overloaded", Cause.OVERLOADED),
        ("api_error", "Internal server error", Cause.OVERLOADED),
        ("rate_limit_error", "slow down", Cause.RATE_LIMITED),
        ("billing_error", "Your credit balance is too low to access the Anthropic API.", Cause.QUOTA),
        ("something_new", "?", Cause.MALFORMED),
    ],
)
def test_an_error_in_a_stream_is_a_failure(kind: str, message: str, cause: Cause) -> None:
    """What came before it is no reply, and may have been charged."""
    told = read(events(START, BLOCK, PIECE, {"type": "error", "error": {"type": kind, "message": message}}))
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (cause, Billable.UNKNOWN)


@pytest.mark.parametrize(
    ("status", "kind", "message", "cause"),
    [
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", Cause.QUOTA),
        (400, "invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum", Cause.TOO_LONG),
        (400, "invalid_request_error", "`temperature` is deprecated for this model.", Cause.REJECTED),
        (401, "authentication_error", "invalid x-api-key", Cause.UNAUTHORISED),
        (402, "billing_error", "There's an issue with your billing", Cause.QUOTA),
        (403, "permission_error", "Your API key does not have permission", Cause.UNAUTHORISED),
        (
            429,
            "rate_limit_error",
            "This request would exceed your rate limit of 50 requests per minute",
            Cause.RATE_LIMITED,
        ),
        (500, "api_error", "Internal server error", Cause.OVERLOADED),
        (529, "overloaded_error", "Overloaded", Cause.OVERLOADED),
    ],
)
def test_the_errors_of_the_api_are_classed(status: int, kind: str, message: str, cause: Cause) -> None:
    """Each of its kinds, by status and words."""
    body = orjson.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
    told = fault.classify(WireReply(status=status, headers={}, body=body, at=0.0))
    assert (told.cause, told.billable) == (cause, Billable.NO)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        {},
        {"content": None},
        {"content": ["x"]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 7}]},
        {"content": [{"type": "thinking", "thinking": None}]},
        {"type": "error", "error": {"message": "?"}},
        b"data: {\n\n",
        b"data: 7\n\n",
        events(START, BLOCK, {**PIECE, "delta": {"type": "text_delta"}}, LAST, STOP),
    ],
)
def test_a_200_that_cannot_be_read_may_have_been_charged(body: Any) -> None:
    """Never a reply, never free."""
    told = read(body)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


_NAMES = st.sampled_from(
    ["type", "content", "text", "thinking", "stop_reason", "stop_details", "category", "usage", "input_tokens", "error",
     "output_tokens", "cache_creation", "message", "delta", "index", "content_block", "model", "cache_read_input_tokens"]
)  # fmt: skip
_WORDS = st.sampled_from(
    ["text", "thinking", "text_delta", "message_start", "message_delta", "message_stop", "content_block_start", "error",
     "content_block_delta", "refusal"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(_NAMES, _JSON, max_size=5), max_size=4))
def test_no_json_makes_the_decoder_raise(held: list[dict[str, Any]]) -> None:
    """Any JSON object, and any stream of them, becomes a reply or a failure."""
    for body in (*map(orjson.dumps, held), b"".join(b"data: %s\n\n" % orjson.dumps(event) for event in held)):
        told = read(body)
        assert isinstance(told, (Reply, Failure))
        if isinstance(told, Reply):
            buckets = (told.usage.input_fresh, told.usage.cache_write, told.usage.output_visible, told.usage.reasoning)
            assert all(count is None or count >= 0 for count in buckets)


#: Read by hand from each body; the columns are told in `readings.check`.
REPLIES = r"""
anthropic/anthropic_chat_messages_end_turn_0
    stop end_turn | 757 0 0 0 6 - | claude-sonnet-4-5-20250929 | - | - | 'Capital: Tokyo'
anthropic/anthropic_chat_messages_end_turn_1
    stop end_turn | 14 0 0 0 5 - | claude-opus-4-6 | - | - | '4'
anthropic/anthropic_chat_messages_end_turn_cached_0
    stop end_turn | 2 1590 0 0 4 0 | claude-opus-4-8 | - | - | 'OK'
anthropic/anthropic_chat_messages_end_turn_cached_1
    stop end_turn | 2 0 1590 0 4 0 | claude-opus-4-8 | - | - | 'OK'
anthropic/anthropic_chat_messages_end_turn_reasoning_0
    stop end_turn | 114 0 0 0 7 24 | claude-sonnet-4-5-20250929 | - | - | 'OK'
anthropic/anthropic_chat_messages_end_turn_reasoning_1
    stop end_turn | 107 0 0 0 7 24 | claude-sonnet-4-5-20250929 | - | - | 'OK'
anthropic/anthropic_chat_messages_end_turn_reasoning_cached_0
    stop end_turn | 4 14714 379 0 271 19 | claude-sonnet-5 | - | - | '## Result\n\nUsing exact'
anthropic/anthropic_chat_messages_end_turn_reasoning_cached_1
    stop end_turn | 4 14210 426 0 275 15 | claude-sonnet-5 | - | - | '**Average of the'
anthropic/anthropic_chat_messages_stop_sequence
    stop stop_sequence | 32 0 0 - 5 - | claude-sonnet-4-5-20250929 | - | - | 'The beautiful city of '
anthropic/anthropic_chat_messages_tool_use_0
    tool tool_use | 558 0 0 0 36 - | claude-sonnet-4-5-20250929 | - | - | ''
anthropic/anthropic_chat_messages_tool_use_1
    tool tool_use | 459 0 0 0 38 - | claude-sonnet-4-5-20250929 | - | - | ''
anthropic/anthropic_chat_messages_tool_use_cached
    tool tool_use | 7 0 1069 0 60 - | claude-sonnet-4-5-20250929 | - | - | ''
anthropic/anthropic_stream_messages_end_turn
    stop end_turn | 20 0 0 0 5 - | claude-sonnet-4-5-20250929 | - | - | '2'
anthropic/anthropic_stream_messages_tool_use
    tool tool_use | 1591 0 0 0 175 - | claude-sonnet-4-6 | - | - | 'Let me search for a tool that can'
anthropic/x_openllmetry_200_end_turn_test_anthropic_structured_outputs_legacy_0
    stop end_turn | 222 0 0 0 39 - | claude-sonnet-4-5-20250929 | - | - | '{"joke": "Why did'
bedrock/bedrock_chat_invoke_end_turn
    stop end_turn | 68 0 0 0 508 0 | claude-opus-4-8 | - | - | "I'll set aside that instruction"
bedrock/x_openllmetry_200_max_tokens_test_prompt_cache_0
    length max_tokens | 4 0 18131 - 50 - | claude-3-5-haiku-20241022 | - | - | "I'll provide a comprehensive"
bedrock/x_openllmetry_200_max_tokens_test_prompt_cache_1
    length max_tokens | 4 18131 0 - 50 - | claude-3-5-haiku-20241022 | - | - | "I'll provide a comprehensive"
"""

ERRORS = """
anthropic/anthropic_error_400__error_message_This_model_does_not_support_effort_le
    400 | rejected | effort level 'xhigh'
anthropic/anthropic_error_404__error_message_model_claude_does_not_exist_type
    404 | rejected | not_found_error
anthropic/anthropic_error_404__error_message_model_claude_sonet_4_5_type_no
    404 | rejected | claude-sonet-4-5
"""


@needed
@pytest.mark.parametrize("row", rows(REPLIES), ids=lambda row: row[0])
def test_real_bodies(row: tuple[str, ...]) -> None:
    """Finish, buckets, served model and text of a real body; the invoke bodies of Bedrock have this shape."""
    told = anthropic.decode([a_chat()], recorded(row[0]), PLACE)
    assert not isinstance(told, Failure)
    check(told[0], row)


@needed
@pytest.mark.parametrize("row", rows(ERRORS), ids=lambda row: row[0])
def test_real_errors(row: tuple[str, ...]) -> None:
    """Class and words of a real error."""
    name, status, cause, says = row
    told = fault.classify(recorded(name))
    assert (told.status, told.cause, told.billable) == (int(status), Cause(cause), Billable.NO)
    assert says in told.detail


@needed
def test_every_real_body_of_this_shape_stands_in_a_table() -> None:
    """None is left out."""
    listed = {row[0] for row in (*rows(REPLIES), *rows(ERRORS))}
    assert listed == files("anthropic/*", "bedrock/*chat_invoke*", "bedrock/x_*")
