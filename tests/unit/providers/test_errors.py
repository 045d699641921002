"""Every real error body of the collection, classed; each expectation was read off the body by a person."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from judgerun.model.experiment import Deployment
from judgerun.model.lane import Limit
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.model.request import build
from judgerun.providers import facts, fault, openai
from judgerun.providers.limits import stated
from judgerun.providers.wire import WireReply

DATA = Path(os.environ.get("JUDGERUN_DATA", "/nonexistent"))
pytestmark = pytest.mark.skipif(
    not (DATA / "provider-responses").is_dir(),
    reason="JUDGERUN_DATA does not name the folder with real provider bodies",
)
AT = 1_763_904_040.0  # shortly before the resets that the collection's headers name


def held(name: str) -> Any:
    """A recorded exchange. The longest names of the collection are cut here: a name is the beginning of its file's."""
    folder = "local-server" if name.startswith("xllamacpp") else "provider-responses"
    path = DATA / folder / f"{name}.json"
    if not path.is_file():
        (path,) = path.parent.glob(f"{path.stem}*.json")
    return orjson.loads(path.read_bytes())


def wire(name: str) -> WireReply:
    """It as the transport would hand it over."""
    told = held(name)
    body = told.get("body", told.get("response"))
    raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
    headers = {
        key.lower(): value[0] if isinstance(value, list) else value for key, value in told.get("headers", {}).items()
    }
    return WireReply(status=told["status"], headers=headers, body=raw, at=AT)


#: File; status, class, and words that the detail must hold.
ERRORS = """
anthropic/anthropic_error_400__error_message_This_model_does_not_support_effort_le
    400 | rejected | effort level 'xhigh'
anthropic/anthropic_error_404__error_message_model_claude_does_not_exist_type
    404 | rejected | not_found_error model: claude-does-not-exist
anthropic/anthropic_error_404__error_message_model_claude_sonet_4_5_type_no
    404 | rejected | claude-sonet-4-5
bedrock/bedrock_error_400__message_The_model_returned_the_following_errors_Malfor
    400 | rejected | extraneous key
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
    400 | rejected | tools.0
cohere/cohere_error_404__id_8bd5b608_887c_49f7_a6b3_d3bd5830c3de_message_m
    404 | rejected | model 'nonexistent' not found
deepseek/deepseek_error_400__error_message_No_tool_output_found_for_tool_call_ca
    400 | rejected | No tool output
gemini/gemini_error_404__error_code_404_message_models_gemini_3_6_flahs
    404 | rejected | not_found models/gemini-3.6-flahs
gemini/gemini_error_404__error_code_404_message_models_nonexistent_model
    404 | rejected | nonexistent-model
groq/groq_error_400__error_code_tool_use_failed_failed_generation
    400 | rejected | tool_use_failed
groq/groq_error_404__error_code_model_not_found_message_The_model
    404 | rejected | non-existent
openai/openai_error_400__error_code_decimal_below_min_value_message_In
    400 | rejected | decimal_below_min_value
openai/openai_error_400__error_code_invalid_value_message_Invalid_file
    400 | rejected | audio/mpeg
openai/openai_error_400__error_code_invalid_value_message_Invalid_mes
    400 | rejected | invalid_value
openai/openai_error_400__error_code_model_not_found_message_The_reques
    400 | rejected | gpt-5.2-proo
openai/openai_error_400__error_code_null_message_Item_rs_68c42de022c881
    400 | rejected | without its required following item
openai/openai_error_400__error_code_null_message_Web_search_options_not
    400 | rejected | Web search
openai/openai_error_400__error_code_unsupported_file_message_The_file
    400 | rejected | unsupported_file
openai/openai_error_400__error_code_unsupported_value_message_Unsuppor
    400 | rejected | 'system'
openai/openai_error_404__error_code_model_not_found_message_The_model
    404 | rejected | nonexistent
openai/x_openinference_400__TestInputValueImageHiding_test_input_value_hides_regular_url_images_0
    400 | rejected | invalid_image_url
openai/x_openinference_401__TestLM_test_exception_event_recorded_on_lm_error_0
    401 | unauthorised | invalid_api_key
openai/x_openinference_401__test_async_pipeline_with_chat_prompt_builder
    401 | unauthorised | Incorrect API key
openai/x_openinference_401__test_error_status_code_and_exception_events_with_invalid_api_key_0
    401 | unauthorised | Incorrect API key
openai/x_openllmetry_400__test_image_gen_metrics_1
    400 | rejected | 'quality'
openai/x_openllmetry_400__test_image_gen_metrics_2
    400 | rejected | unknown_parameter
openai/x_openllmetry_400__test_vision_2
    400 | rejected | Error while downloading
openai/x_openllmetry_400__test_vision_base64_3
    400 | rejected | invalid_image_format
openai/x_openllmetry_400__test_vision_base64_with_events_with_content_3
    400 | rejected | invalid_image_format
openai/x_openllmetry_400__test_vision_base64_with_events_with_no_content_3
    400 | rejected | invalid_image_format
openai/x_openllmetry_400__test_vision_with_events_with_content_2
    400 | rejected | Error while downloading
openai/x_openllmetry_400__test_vision_with_events_with_no_content_2
    400 | rejected | Error while downloading
openai/x_openllmetry_403__test_vision_base64_2
    403 | unauthorised | robot policy
openai/x_openllmetry_403__test_vision_base64_with_events_with_content_2
    403 | unauthorised | robot policy
openai/x_openllmetry_403__test_vision_base64_with_events_with_no_content_2
    403 | unauthorised | robot policy
openai/x_openllmetry_404__test_agents_and_tools_2
    404 | rejected | deprecated
openrouter/openrouter_error_429__error_code_429_message_Provider_returned_error
    429 | rate limited | temporarily rate-limited
other/x_openinference_404__test_chat_error_records_model_name_0
    404 | rejected | nonexistent-model
other/x_openllmetry_401__test_azure_openai_embeddings_2
    401 | unauthorised | Access denied
other/x_openllmetry_401__test_azure_openai_embeddings_3
    401 | unauthorised | Access denied
other/x_openllmetry_401__test_azure_openai_embeddings_with_events_with_content_2
    401 | unauthorised | subscription key
other/x_openllmetry_401__test_azure_openai_embeddings_with_events_with_content_3
    401 | unauthorised | subscription key
other/x_openllmetry_401__test_azure_openai_embeddings_with_events_with_no_content_2
    401 | unauthorised | subscription key
other/x_openllmetry_401__test_azure_openai_embeddings_with_events_with_no_content_3
    401 | unauthorised | subscription key
other/x_openllmetry_404__test_chat_reasoning_1
    404 | rejected | deploymentnotfound
other/x_openllmetry_404__test_chat_reasoning_2
    404 | rejected | deploymentnotfound
other/x_openllmetry_404__test_chat_reasoning_3
    404 | rejected | deploymentnotfound
vertex/vertex_error_400__error_code_400_message_Cannot_fetch_content_fro
    400 | rejected | invalid_argument Cannot fetch content
voyage/voyage_error_400__detail_Model_nonexistent_is_not_supported_Supported_mo
    400 | rejected | nonexistent
xllamacpp/chat_bad_request
    400 | rejected | to be an array
xllamacpp/chat_context_overflow
    400 | too long | 9010 tokens
xllamacpp/embeddings
    501 | rejected | does not support embeddings
xllamacpp/not_found
    404 | rejected | File Not Found
xllamacpp_qwen05b/chat_bad_request
    400 | rejected | to be an array
xllamacpp_qwen05b/chat_context_overflow
    400 | too long | 9030 tokens
xllamacpp_qwen05b/embeddings
    501 | rejected | does not support embeddings
"""


def rows(table: str) -> list[tuple[str, ...]]:
    """Two lines of a table make one row."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [
        (name, *(cell.strip() for cell in rest.split(" | ")))
        for name, rest in zip(lines[::2], lines[1::2], strict=True)
    ]


@pytest.mark.parametrize("row", rows(ERRORS), ids=lambda row: row[0])
def test_errors(row: tuple[str, ...]) -> None:
    """Class, chargeability and words of a real error; none of them asks for patience."""
    name, status, cause, says = row
    told = fault.classify(wire(name))
    assert (told.status, told.cause, told.billable) == (int(status), Cause(cause), Billable.NO)
    assert says in told.detail
    assert told.retry_after is None


def test_no_error_of_the_collection_is_left_out() -> None:
    """Each file with an error status stands in the table above."""
    known = [name for name, *_ in rows(ERRORS)]
    found = 0
    for path in sorted([*DATA.glob("provider-responses/*/*.json"), *DATA.glob("local-server/*/*.json")]):
        if orjson.loads(path.read_bytes()).get("status", 0) >= 300:
            found += 1
            assert any(f"{path.parent.name}/{path.stem}".startswith(name) for name in known), path
    assert found == len(known) == 61


def test_patience_asked_for_on_a_200_is_never_obeyed() -> None:
    """Anthropic and others send Retry-After with answers: it makes no limit, and an error inside says nothing of it."""
    claude, told = (
        wire("anthropic/anthropic_chat_messages_end_turn_0"),
        wire("huggingface/huggingface_chat_completions_length"),
    )
    assert (claude.status, claude.headers["retry-after"]) == (200, "36")
    assert (told.status, told.headers["retry-after"]) == (200, "30")
    assert stated(claude.headers, at=AT, windows={}) == stated(told.headers, at=AT, windows={}) == ()
    refused = fault.in_band({"type": "overloaded_error"}, told)
    assert (refused.cause, refused.retry_after) == (Cause.OVERLOADED, None)
    request = build("chat", {"model": "m", "messages": []}, deployment="d", adapter="openai/1", draw=0)
    place = Deployment(name="hf", dialect="openai", base_url="http://127.0.0.1:1/v1")
    assert not isinstance(openai.decode([request], told, place), Failure)


def test_limits_of_real_headers() -> None:
    """As openai, anthropic, azure and together state them on an answer or on a refusal."""
    windows = facts.of(Deployment(name="openai", dialect="openai", builtin=True)).windows
    vision = wire("openai/x_openllmetry_400__test_vision_2")
    assert set(stated(vision.headers, at=AT, windows=windows)) == {
        Limit(unit="requests", limit=30_000, remaining=29_999, reset_s=0.002, window_s=60.0),
        Limit(unit="tokens", limit=150_000_000, remaining=149_999_225, reset_s=0.0, window_s=60.0),
    }
    claude = wire("anthropic/x_openllmetry_200_end_turn_test_anthropic_structured_outputs_legacy_0")
    assert set(stated(claude.headers, at=AT, windows={})) == {
        Limit(unit="tokens", limit=2_400_000, remaining=2_400_000, reset_s=24.0, window_s=60.0),
        Limit(unit="input tokens", limit=2_000_000, remaining=2_000_000, reset_s=24.0, window_s=60.0),
        Limit(unit="output tokens", limit=400_000, remaining=400_000, reset_s=25.0, window_s=60.0),
    }
    together = wire("together/x_openllmetry_200_length_test_together_completion_legacy_0")
    assert stated(together.headers, at=AT, windows={}) == (Limit(unit="requests", limit=2, remaining=0, reset_s=1.0),)
