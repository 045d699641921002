"""The bedrock dialect: the bytes that go out, and how a converse body is read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.readings import check, files, rows
from fakes.recorded import needed, recorded
from judgerun.errors import InvariantBroken
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.providers import bedrock, fault
from judgerun.providers import open as opening
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="aws", dialect="bedrock", base_url="http://127.0.0.1:1", api_key_env="AWS_BEARER_TOKEN_BEDROCK")
NOVA, HAIKU, OPUS = (
    "us.amazon.nova-micro-v1:0",
    "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "anthropic.claude-opus-4-7",
)


def a_chat(**parameters: Any) -> Request:
    """A chat request."""
    payload = {"model": NOVA, "messages": [{"role": "user", "content": "hi"}], **parameters}
    return build("chat", payload, deployment="d", adapter=bedrock.VERSION, draw=0)


def sent(request: Request, deployment: Deployment = PLACE) -> dict[str, Any]:
    """The body that a request becomes."""
    body = orjson.loads(bedrock.encode([request], deployment).body)
    assert isinstance(body, dict)
    return body


def read(body: Any) -> Reply | Failure:
    """What a body becomes: the reply, or the failure."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    told = bedrock.decode([a_chat()], WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)
    return told if isinstance(told, Failure) else told[0]


def a_body(*blocks: Any, reason: Any = "end_turn", **more: Any) -> dict[str, Any]:
    """A body with these blocks; one text, where none are given."""
    content = list(blocks) or [{"text": "yes"}]
    return {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, **more}


def test_only_what_stands_in_the_payload_is_sent() -> None:
    """Texts become blocks, system messages have a field of their own, the model stands in the path."""
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    request = a_chat(messages=messages, max_output_tokens=16, temperature=0)
    assert bedrock.encode([request], PLACE).path == f"/model/{NOVA}/converse"
    assert sent(request) == {
        "messages": [{"role": "user", "content": [{"text": "u"}]}],
        "system": [{"text": "s"}],
        "inferenceConfig": {"maxTokens": 16, "temperature": 0},
    }
    assert sent(a_chat()) == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}


@pytest.mark.parametrize(
    ("model", "thinking", "fields"),
    [
        (HAIKU, "off", None),
        (HAIKU, 1024, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (OPUS, "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
    ],
)
def test_thinking_goes_among_the_models_own_fields(model: str, thinking: str | int, fields: Any) -> None:
    """As Claude takes it, and beside what `extra` asks of the model."""
    extra = {bedrock.MODEL_FIELDS: {"top_k": 5, "thinking": 7}}
    body = sent(a_chat(model=model, thinking=thinking, max_output_tokens=2048))
    assert body.get(bedrock.MODEL_FIELDS) == fields
    both = sent(a_chat(model=model, thinking=thinking, max_output_tokens=2048, extra=extra))
    assert both[bedrock.MODEL_FIELDS] == {"top_k": 5, **(fields or {})}


def test_a_provider_may_bring_its_own_words_for_thinking() -> None:
    """So any model can be told to think."""
    fields = {bedrock.MODEL_FIELDS: {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}}
    own = Deployment(name="x", dialect="bedrock", thinking={"low": fields})
    assert sent(a_chat(thinking="low"), own)[bedrock.MODEL_FIELDS] == fields[bedrock.MODEL_FIELDS]


@pytest.mark.parametrize(
    ("model", "keys", "says"),
    [
        (NOVA, {"thinking": "low"}, "providers.aws.thinking"),
        (NOVA, {"temperature": 1.5}, "from 0 to 1"),
        (HAIKU, {"thinking": "low"}, "one of off, a number from 1024"),
        (HAIKU, {"thinking": 1024}, "max_output_tokens"),
        (OPUS, {"temperature": 0}, "takes no temperature"),
        (NOVA, {"extra": {"inferenceConfig": {"temperature": 0}}}, "the key `temperature`"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.x", {}, "slash"),
    ],
)
def test_what_the_api_would_refuse_is_said_before(model: str, keys: dict[str, Any], says: str) -> None:
    """One problem, with what would be right."""
    (problem,) = opening.unsent(Model(name="m", provider=PLACE, model=model, **keys), bedrock.profile(PLACE))
    assert says in str(problem)


def test_the_key_goes_as_a_bearer() -> None:
    """No request is signed: without a key nothing goes along."""
    assert bedrock.authorise("k", PLACE) == {"authorization": "Bearer k"}
    assert bedrock.authorise(None, PLACE) == {}


def test_a_parameter_that_the_dialect_cannot_send_is_our_bug() -> None:
    """It stands in the key: dropping it in silence would make the key lie."""
    with pytest.raises(InvariantBroken, match="wings"):
        sent(a_chat(wings=2))


_LIMITS = st.dictionaries(
    st.sampled_from(["maxTokens", "temperature", "topP", "max_tokens", "thinking"]), st.integers(0, 9999)
)


@given(st.dictionaries(st.sampled_from(["inferenceConfig", bedrock.MODEL_FIELDS]), _LIMITS), st.booleans())
def test_nothing_in_extra_touches_what_has_a_key_of_its_own(extra: dict[str, Any], capped: bool) -> None:
    """The cap is the key's or none; what stands beside it in the same object is kept."""
    body = sent(a_chat(extra={**extra, "system": 1, "messages": 2}, **({"max_output_tokens": 16} if capped else {})))
    config, fields = body.get("inferenceConfig", {}), body.get(bedrock.MODEL_FIELDS, {})
    assert config.get("maxTokens") == (16 if capped else None)
    assert not {"max_tokens", "temperature", "thinking"} & fields.keys()
    assert "temperature" not in config
    assert config.get("topP") == extra.get("inferenceConfig", {}).get("topP")
    assert "system" not in body


_ROLES = st.sampled_from(["user", "assistant"])
_MESSAGES = st.lists(st.fixed_dictionaries({"role": _ROLES, "content": st.text()}), max_size=5)


@given(_MESSAGES)
def test_messages_arrive_as_they_were_written(messages: list[dict[str, str]]) -> None:
    """No text is changed, merged or moved."""
    held = sent(a_chat(messages=messages))["messages"]
    assert [{"role": message["role"], "content": message["content"][0]["text"]} for message in held] == messages


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.LENGTH),
        ("tool_use", Finish.TOOL),
        ("guardrail_intervened", Finish.FILTER),
        ("content_filtered", Finish.FILTER),
        ("malformed_model_output", Finish.ERROR),
        ("new", Finish.UNKNOWN),
        (None, Finish.UNKNOWN),
    ],
)
def test_finish_words(word: Any, finish: Finish) -> None:
    """A word is what it says; any other is unknown, and kept."""
    reply = read(a_body(reason=word))
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw) == (finish, word)


def test_reasoning_is_no_text_and_is_kept_only_where_there_is_none() -> None:
    """Thoughts stand beside an empty answer alone."""
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    both, alone = (
        read(a_body(thought, {"text": "yes"})),
        read(a_body(thought, {"reasoningContent": {"redactedContent": "x"}})),
    )
    assert [(reply.text, reply.thoughts) for reply in (both, alone) if isinstance(reply, Reply)] == [
        ("yes", ""),
        ("", "hm"),
    ]


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({}, Usage()),
        ({"inputTokens": 0, "outputTokens": 0}, Usage()),
        ({"inputTokens": 5, "outputTokens": 7}, Usage(input_fresh=5, output_visible=7)),
        (
            {
                "inputTokens": 5,
                "cacheReadInputTokens": 3,
                "cacheWriteInputTokens": 30,
                "cacheDetails": [{"ttl": "1h", "inputTokens": 20}, {"ttl": "5m", "inputTokens": 10}],
                "outputTokens": 7,
            },
            Usage(input_fresh=5, cache_read=3, cache_write=10, cache_write_1h=20, output_visible=7),
        ),
        (
            {"inputTokens": 5, "cacheWriteInputTokens": 3, "cacheDetails": [{"ttl": "1h", "inputTokens": 9}]},
            Usage(input_fresh=5, cache_write=3),
        ),
    ],
)
def test_usage_falls_into_disjoint_buckets(told: dict[str, Any], usage: Usage) -> None:
    """Cached input is outside the fresh; what cannot be is unknown, never 0."""
    reply = read(a_body(usage=told))
    assert isinstance(reply, Reply)
    assert reply.usage == usage


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        {},
        {"output": {}},
        {"output": {"message": {"content": ["x"]}}},
        a_body({"text": None}),
        a_body({"reasoningContent": {"reasoningText": {"text": 7}}}),
    ],
)
def test_a_200_that_cannot_be_read_may_have_been_charged(body: Any) -> None:
    """Never a reply, never free."""
    told = read(body)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


_NAMES = st.sampled_from(
    ["output", "message", "content", "text", "reasoningContent", "reasoningText", "stopReason", "usage", "inputTokens",
     "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "cacheDetails", "ttl", "error"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=5), st.lists(_JSON, max_size=2))
def test_no_json_makes_the_decoder_raise(body: dict[str, Any], content: list[Any]) -> None:
    """Any JSON object becomes a reply or a failure."""
    for held in (body, {**body, "output": {"message": {"content": content}}}):
        assert isinstance(read(held), (Reply, Failure))


#: Read by hand from each body; the columns are told in `readings.check`.
REPLIES = r"""
bedrock/bedrock_chat_converse_end_turn_0
    stop end_turn | 25 - - - 4 - | - | 29 | - | 'The city of Paris'
bedrock/bedrock_chat_converse_end_turn_1
    stop end_turn | 7 - - - 2 - | - | 9 | - | 'ok'
bedrock/bedrock_chat_converse_end_turn_cached_0
    stop end_turn | 13 1504 0 - 5 - | - | 1522 | - | '5'
bedrock/bedrock_chat_converse_end_turn_cached_1
    stop end_turn | 2 1322 0 - 5 - | - | 1329 | - | '21'
bedrock/bedrock_chat_converse_max_tokens_0
    length max_tokens | 13 - - - 5 - | - | 18 | - | 'The capital of France is'
bedrock/bedrock_chat_converse_max_tokens_1
    length max_tokens | 13 - - - 5 - | - | 18 | - | 'The capital of France is Paris'
bedrock/bedrock_chat_converse_tool_use_0
    tool tool_use | 64 - - - 17 - | - | 81 | - | ''
bedrock/bedrock_chat_converse_tool_use_1
    tool tool_use | 901 - - - 14 - | - | 915 | - | ''
bedrock/bedrock_chat_converse_tool_use_cached_0
    tool tool_use | 22 2492 0 - 13 - | - | 2527 | - | ''
bedrock/bedrock_chat_converse_tool_use_cached_1
    tool tool_use | 433 2752 0 - 16 - | - | 3201 | - | ''
"""

ERRORS = """
bedrock/bedrock_error_400__message_The_model_returned_the_following_errors_Malfor
    400 | rejected | Malformed input request
bedrock/bedrock_error_400__message_The_model_returned_the_following_errors_messag
    400 | rejected | Field required
bedrock/bedrock_error_400__message_The_provided_model_doesn_t_support_counting_tok
    400 | rejected | counting tokens
bedrock/bedrock_error_400__message_The_provided_model_identifier_is_invalid
    400 | rejected | identifier is invalid
bedrock/bedrock_error_400__message_This_model_doesn_t_support_the_s3Uri_field_Rem
    400 | rejected | s3Uri
bedrock/bedrock_error_400__message_This_model_doesn_t_support_the_video_content_bl
    400 | rejected | video content block
bedrock/bedrock_error_400__message_tools_0_Input_tag_web_search_20250305_found
    400 | rejected | web_search_20250305
"""

#: Bodies of `invoke`, an endpoint that this dialect does not call: chats there have the shape of messages (see the anthropic
#: tests), vectors a shape for each vendor.
INVOKED = {
    "bedrock/bedrock_chat_invoke_end_turn",
    "bedrock/x_openllmetry_200_max_tokens_test_prompt_cache_0",
    "bedrock/x_openllmetry_200_max_tokens_test_prompt_cache_1",
    "bedrock/bedrock_embeddings_invoke_0",
    "bedrock/bedrock_embeddings_invoke_1",
}


@needed
@pytest.mark.parametrize("row", rows(REPLIES), ids=lambda row: row[0])
def test_real_bodies(row: tuple[str, ...]) -> None:
    """Finish, buckets, total and text of a real body; the buckets agree with the total."""
    told = bedrock.decode([a_chat()], recorded(row[0]), PLACE)
    assert not isinstance(told, Failure)
    check(told[0], row)
    assert told[0].reported_tokens == (told[0].usage.input or 0) + (told[0].usage.output or 0)


@needed
@pytest.mark.parametrize("row", rows(ERRORS), ids=lambda row: row[0])
def test_real_errors(row: tuple[str, ...]) -> None:
    """Class and words of a real error."""
    name, status, cause, says = row
    told = fault.classify(recorded(name))
    assert (told.status, told.cause, told.billable) == (int(status), Cause(cause), Billable.NO)
    assert says in told.detail


@needed
@pytest.mark.parametrize("name", sorted(INVOKED))
def test_bodies_of_the_other_endpoint_are_not_half_read(name: str) -> None:
    """They are malformed here."""
    told = bedrock.decode([a_chat()], recorded(name), PLACE)
    assert isinstance(told, Failure)
    assert told.cause is Cause.MALFORMED


@needed
def test_every_real_body_of_this_provider_stands_in_a_table() -> None:
    """None is left out."""
    listed = {row[0] for row in (*rows(REPLIES), *rows(ERRORS))}
    assert listed | INVOKED == files("bedrock/*")
