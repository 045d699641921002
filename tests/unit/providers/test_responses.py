"""The openai-responses dialect: the bytes that go out, and how bodies and streams are read."""

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
from judgerun.providers import fault, responses
from judgerun.providers import open as opening
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="openai-responses", dialect="openai-responses", base_url="http://127.0.0.1:1/v1", builtin=True)


def a_chat(*, adapter: str = responses.VERSION, **parameters: Any) -> Request:
    """A chat request."""
    payload = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **parameters}
    return build("chat", payload, deployment="d", adapter=adapter, draw=0)


def sent(request: Request, deployment: Deployment = PLACE) -> dict[str, Any]:
    """The body that a request becomes."""
    call = responses.encode([request], deployment)
    assert call.path == "/responses"
    body = orjson.loads(call.body)
    assert isinstance(body, dict)
    return body


def read(body: Any) -> Reply | Failure:
    """What a body becomes: the reply, or the failure."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    told = responses.decode([a_chat()], WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)
    return told if isinstance(told, Failure) else told[0]


def a_message(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A message item of these parts; one text, where none are given."""
    return {"type": "message", "content": list(parts) or [{"type": "output_text", "text": "yes"}], **more}


def a_response(*items: dict[str, Any], status: Any = "completed", **more: Any) -> dict[str, Any]:
    """A body with these items."""
    return {"status": status, "output": list(items), **more}


def events(*held: dict[str, Any]) -> bytes:
    """A stream of these events, ended as openrouter ends it."""
    return b"".join(b"data: %s\n\n" % orjson.dumps(event) for event in held) + b"data: [DONE]\n\n"


THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": []}
CALL = {"type": "function_call", "name": "f", "arguments": "{}"}


def test_only_what_stands_in_the_payload_is_sent() -> None:
    """Messages go as input under their own roles, the cap under its own name, and nothing is stored."""
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert sent(a_chat(messages=messages, max_output_tokens=16, temperature=0)) == {
        "model": "m",
        "input": messages,
        "max_output_tokens": 16,
        "temperature": 0,
        "store": False,
    }


@pytest.mark.parametrize(("word", "effort"), [("off", "none"), ("low", "low"), ("medium", "medium"), ("high", "high")])
def test_thinking_becomes_an_effort_beside_what_extra_asks_of_reasoning(word: str, effort: str) -> None:
    """A summary may be asked for; the effort is the key's own."""
    body = sent(a_chat(thinking=word, extra={"reasoning": {"summary": "auto", "effort": "xhigh"}}))
    assert body["reasoning"] == {"summary": "auto", "effort": effort}


def test_a_provider_may_bring_its_own_words_for_thinking() -> None:
    """The fields of its table are sent as they are."""
    own = Deployment(name="x", dialect="openai-responses", thinking={"off": {"thinking": {"type": "disabled"}}})
    body = sent(a_chat(thinking="off"), own)
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning" not in body
    assert "max" in responses.profile(Deployment(name="x", dialect="d", thinking={"max": {}})).thinking


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"thinking": 1024}, "one of off, low, medium, high"),
        ({"max_output_tokens": 10}, "16 and more"),
        ({"dimensions": 8}, "cannot send dimensions"),
    ],
)
def test_what_the_api_would_refuse_is_said_before(keys: dict[str, Any], says: str) -> None:
    """One problem, with what would be right."""
    (problem,) = opening.unsent(Model(name="m", provider=PLACE, model="gpt-5", **keys), responses.profile(PLACE))
    assert says in str(problem)


def test_a_server_of_ones_own_may_take_a_smaller_cap() -> None:
    """The least cap is OpenAI's."""
    own = Deployment(name="x", dialect="openai-responses", base_url="http://127.0.0.1:1/v1")
    assert opening.unsent(Model(name="m", provider=own, model="g", max_output_tokens=1), responses.profile(own)) == []


def test_the_key_goes_as_a_bearer() -> None:
    """A server without a key gets none."""
    assert responses.authorise("k", PLACE) == {"authorization": "Bearer k"}
    assert responses.authorise(None, PLACE) == {}


def test_a_stream_is_asked_for_by_the_adapter_in_the_key() -> None:
    """What determines the bytes stands in the request's key."""
    assert sent(a_chat(adapter="openai-responses/1 stream"))["stream"] is True


def test_a_parameter_that_the_dialect_cannot_send_is_our_bug() -> None:
    """It stands in the key: dropping it in silence would make the key lie."""
    with pytest.raises(InvariantBroken, match="wings"):
        sent(a_chat(wings=2))


@given(st.dictionaries(st.sampled_from(sorted({*responses.OWNED, "reasoning", "top_p"})), st.integers(0, 99_999)))
def test_nothing_in_extra_touches_what_has_a_key_of_its_own(extra: dict[str, int]) -> None:
    """The cap that a reservation counted on is what is sent."""
    given_, body = a_chat(max_output_tokens=16), sent(a_chat(max_output_tokens=16, extra=extra))
    plain = sent(given_)
    assert {name: body.get(name) for name in responses.OWNED} == {name: plain.get(name) for name in responses.OWNED}
    assert body.get("top_p") == extra.get("top_p")


_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text()}), max_size=5
)


@given(_MESSAGES)
def test_messages_arrive_as_they_were_written(messages: list[dict[str, str]]) -> None:
    """No text is changed, merged or moved."""
    assert sent(a_chat(messages=messages))["input"] == messages


@pytest.mark.parametrize(
    ("body", "finish", "raw", "text"),
    [
        (a_response(a_message()), Finish.STOP, "completed", "yes"),
        (a_response(a_message(), status="complete"), Finish.STOP, "complete", "yes"),
        (a_response(THOUGHT, a_message(), CALL), Finish.TOOL, "completed", "yes"),
        (a_response({"type": "web_search_call"}, a_message()), Finish.STOP, "completed", "yes"),
        (
            a_response(a_message(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Finish.LENGTH,
            "max_output_tokens",
            "yes",
        ),
        (
            a_response(status="incomplete", incomplete_details={"reason": "content_filter"}),
            Finish.FILTER,
            "content_filter",
            "",
        ),
        (
            a_response(status="incomplete", incomplete_details={"reason": "bedtime"}),
            Finish.UNKNOWN,
            "bedtime",
            "",
        ),
        (a_response(status="incomplete", incomplete_details=None), Finish.UNKNOWN, "incomplete", ""),
        (a_response(a_message({"type": "refusal", "refusal": "No."})), Finish.REFUSAL, "completed", "No."),
        (
            a_response(a_message({"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"})),
            Finish.STOP,
            "completed",
            "ab",
        ),
        (
            a_response(a_message({"type": "output_text", "text": "let me see"}, phase="commentary"), a_message()),
            Finish.STOP,
            "completed",
            "yes",
        ),
    ],
)
def test_finish_and_text(body: dict[str, Any], finish: Finish, raw: str, text: str) -> None:
    """The status, the reason, the items and the refusal together say how it ended; remarks on the way are no answer."""
    reply = read(body)
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.finish_raw, reply.text) == (finish, raw, text)


def test_thoughts_are_kept_only_where_there_is_no_text() -> None:
    """Reasoning and its summary may hold the answer of a reply that finished without one."""
    spoken = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "so 7"}]}
    both, alone = read(a_response(THOUGHT, a_message())), read(a_response(THOUGHT, spoken))
    cut = read(a_response(THOUGHT, status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert [reply.thoughts for reply in (both, alone, cut) if isinstance(reply, Reply)] == ["", "hmso 7", ""]


def test_usage_has_cached_input_and_reasoning_inside() -> None:
    """The buckets are disjoint, and agree with the provider's total."""
    told = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 45},
        "total_tokens": 150,
        "cost": "0.002",
    }
    reply = read(a_response(a_message(), usage=told))
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(input_fresh=10, cache_read=60, cache_write=30, output_visible=5, reasoning=45)
    assert (reply.reported_tokens, reply.reported_cost) == (150, 2_000_000)


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled", "failed", "new", None, 7])
def test_a_status_that_is_no_end_is_no_answer(status: Any) -> None:
    """A background response goes on, and may be charged."""
    told = read(a_response(a_message(), status=status))
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)
    assert ("background" in told.detail) == (status in ("queued", "in_progress"))


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("server_error", Cause.OVERLOADED),
        ("rate_limit_exceeded", Cause.RATE_LIMITED),
        ("insufficient_quota", Cause.QUOTA),
        ("invalid_prompt", Cause.MALFORMED),
    ],
)
def test_a_failed_response_is_classed_by_its_error(code: str, cause: Cause) -> None:
    """In a body, as the last event of a stream, and as an event of its own."""
    error = {"code": code, "message": "?"}
    failed = a_response(status="failed", error=error)
    event = {"type": "response.failed", "response": failed}
    for body in (failed, events(event), events({"type": "error", **error}), events({"error": error})):
        told = read(body)
        assert isinstance(told, Failure)
        assert (told.cause, told.billable) == (cause, Billable.UNKNOWN)


@pytest.mark.parametrize("end", ["completed", "incomplete"])
def test_a_stream_is_what_its_last_event_holds(end: str) -> None:
    """The pieces before it are not looked at."""
    held = a_response(a_message(), status=end, incomplete_details={"reason": "max_output_tokens"})
    piece = {"type": "response.output_text.delta", "delta": "never"}
    assert isinstance(reply := read(events(piece, {"type": f"response.{end}", "response": held})), Reply)
    assert (reply.text, reply.finish) == ("yes", {"completed": Finish.STOP, "incomplete": Finish.LENGTH}[end])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        {},
        {"status": "completed"},
        {"status": "completed", "output": ["x"]},
        a_response(a_message({"type": "output_text"})),
        a_response(a_message({"type": "refusal", "refusal": None})),
        a_response({"type": "reasoning", "summary": [{"text": 7}]}),
        events({"type": "response.created", "response": {"status": "in_progress"}}),
        events({"type": "response.completed"}),
        b"data: {\n\n",
        b"data: 7\n\n",
    ],
)
def test_a_200_that_cannot_be_read_may_have_been_charged(body: Any) -> None:
    """Never a reply, never free."""
    told = read(body)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


_NAMES = st.sampled_from(
    ["type", "status", "output", "content", "summary", "text", "refusal", "phase", "usage", "input_tokens", "error",
     "output_tokens", "input_tokens_details", "cached_tokens", "incomplete_details", "reason", "response", "model"]
)  # fmt: skip
_WORDS = st.sampled_from(
    ["message", "reasoning", "output_text", "refusal", "completed", "incomplete", "response.completed", "error"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=5), st.sampled_from(["completed", "incomplete", None]))
def test_no_json_makes_the_decoder_raise(held: dict[str, Any], status: str | None) -> None:
    """Any JSON object, alone, in an event or as the response of one, becomes a reply or a failure."""
    body = held if status is None else {"output": [], **held, "status": status}
    for raw in (body, events(body), events({"type": "response.completed", "response": body})):
        assert isinstance(read(raw), (Reply, Failure))


#: Read by hand from each body; the columns are told in `readings.check`.
REPLIES = r"""
openai/openai_chat_resp_01b4d93abce33afe00698b9df44be4819bb99fff16d77a0236_completed
    tool completed | 51 0 - - 15 0 | gpt-4o-2024-08-06 | 66 | - | ''
openai/openai_chat_resp_047f9036fb333784006a5fe9db456c819095d041b89bf6629e_completed
    stop completed | 14 0 0 - 12 0 | gpt-5.6-sol | 26 | - | '2 + 2 = 4.'
openai/openai_chat_resp_06a562f31ab7703300698b9df109c481979ebf760b2ff5fc75_completed
    stop completed | 15 0 - - 9 0 | gpt-4o-2024-08-06 | 24 | - | '2 + 2 equals 4.'
openai/openai_chat_resp_078b21da0e109d4800699cc4c6b1ac8193b47f01da738fad41_completed
    stop completed | 15 0 - - 9 0 | gpt-4o-2024-08-06 | 24 | - | '2 + 2 equals 4.'
openai/openai_chat_resp_0e6b15873828668f00698b9df63cb08196a7f29ecc4788d6b6_completed
    stop completed | 78 0 - - 17 0 | gpt-4o-2024-08-06 | 95 | - | 'The weather in Paris'
openai/openai_chat_responses_complete_0
    stop complete | 10 0 - - 1 0 | gpt-5 | 11 | - | 'sesame'
openai/openai_chat_responses_complete_1
    stop complete | 10 0 - - 1 0 | gpt-5 | 11 | - | '4'
openai/openai_chat_responses_completed_0
    stop completed | 51 0 - - 11 0 | gpt-4o-2024-08-06 | 62 | - | 'The document contains'
openai/openai_chat_responses_completed_1
    stop completed | 24 0 - - 8 0 | gpt-4o-2024-08-06 | 32 | - | 'The capital of France'
openai/openai_chat_responses_completed_cached_0
    stop completed | 8 4012 0 - 5 0 | gpt-5.6-sol | 4025 | - | 'OK'
openai/openai_chat_responses_completed_cached_1
    stop completed | 39 2048 - - 124 0 | gpt-5-2025-08-07 | 2211 | - | 'Softly old fountains'
openai/openai_chat_responses_completed_reasoning_0
    stop completed | 13 0 - - 35 192 | o3-mini-2025-01-31 | 240 | - | 'The capital of Mexico'
openai/openai_chat_responses_completed_reasoning_1
    stop completed | 8236 0 - - 40 34 | gpt-5.2-2025-12-11 | 8310 | - | 'The tallest mountain'
openai/openai_chat_responses_completed_reasoning_cached_0
    stop completed | 213 1280 - - 61 64 | gpt-5-2025-08-07 | 1618 | - | 'Using standard order'
openai/openai_chat_responses_completed_reasoning_cached_1
    stop completed | 930 8576 - - 55 384 | gpt-5-2025-08-07 | 9945 | - | 'Today (Tuesday, September'
openai/openai_stream_responses_responses
    tool completed | 255 0 - - 16 0 | gpt-4o-2024-08-06 | 271 | - | ''
deepseek/deepseek_chat_responses_completed_cached
    stop completed | 60 384 - - 14 0 | deepseek-v4-flash | 458 | - | 'The current temperature'
deepseek/deepseek_chat_responses_completed_reasoning_0
    stop completed | 87 0 - - 2 6 | deepseek-v4-flash | 95 | - | 'hello'
deepseek/deepseek_chat_responses_completed_reasoning_1
    stop completed | 91 0 - - 2 18 | deepseek-v4-flash | 111 | - | '391'
deepseek/deepseek_chat_responses_completed_reasoning_cached_0
    stop completed | 72 128 - - 2 14 | deepseek-v4-flash | 216 | - | 'done'
deepseek/deepseek_chat_responses_completed_reasoning_cached_1
    stop completed | 52 128 - - 2 38 | deepseek-v4-flash | 220 | - | 'done'
deepseek/deepseek_stream_responses_responses
    stop completed | 56 384 - - 14 0 | deepseek-v4-flash | 454 | - | 'The current temperature'
openrouter/openrouter_chat_responses_completed
    stop completed | 8 0 4012 - 5 0 | openai/gpt-5.6-sol | 4025 | 25265000 | 'OK'
openrouter/openrouter_chat_responses_completed_cached
    stop completed | 8 4012 - - 5 0 | openai/gpt-5.6-sol | 4025 | 2196000 | 'OK'
openrouter/openrouter_stream_responses_responses
    stop completed | 78 0 - - 15 22 | openai/gpt-oss-20b | 115 | 11300 | '4'
"""

UNFINISHED = """
openai/openai_chat_resp_06a562f31ab7703300698b9df109c481979ebf760b2ff5fc75_in_progress
    in_progress
openai/openai_chat_resp_0e1eedd011e1e4c200699cc47a9ec481998df8ee139d308590_queued
    queued
openai/openai_chat_resp_0e6b15873828668f00698b9df63cb08196a7f29ecc4788d6b6_in_progress
    in_progress
openai/openai_chat_responses_queued_0
    queued
openai/openai_chat_responses_queued_1
    queued
"""

ERRORS = """
openai/openai_error_400__error_code_decimal_below_min_value_message_In
    400 | rejected | decimal_below_min_value
openai/openai_error_400__error_code_invalid_value_message_Invalid_file
    400 | rejected | Invalid file data
openai/openai_error_400__error_code_model_not_found_message_The_reques
    400 | rejected | gpt-5.2-proo
openai/openai_error_400__error_code_null_message_Item_rs_68c42de022c881
    400 | rejected | without its required following item
openai/openai_error_400__error_code_unsupported_file_message_The_file
    400 | rejected | unsupported_file
deepseek/deepseek_error_400__error_message_No_tool_output_found_for_tool_call_ca
    400 | rejected | No tool output
"""


@needed
@pytest.mark.parametrize("row", rows(REPLIES), ids=lambda row: row[0])
def test_real_bodies(row: tuple[str, ...]) -> None:
    """Finish, buckets, served model, total, cost and text of a real body."""
    told = responses.decode([a_chat()], recorded(row[0]), PLACE)
    assert not isinstance(told, Failure)
    check(told[0], row)
    assert told[0].reported_tokens == (told[0].usage.input or 0) + (told[0].usage.output or 0)


@needed
@pytest.mark.parametrize("row", rows(UNFINISHED), ids=lambda row: row[0])
def test_real_background_responses(row: tuple[str, ...]) -> None:
    """A response that is still being made is no answer."""
    told = responses.decode([a_chat()], recorded(row[0]), PLACE)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)
    assert told.detail.endswith(row[1])


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
    listed = {row[0] for table in (REPLIES, UNFINISHED) for row in rows(table)}
    assert listed == files("*/*responses*", "openai/openai_chat_resp_*")
