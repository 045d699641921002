"""What the simulated provider reads and tells beside whole answers: token counts, switches of thinking, paths, refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from fakes.serving import serving
from judgerun.simulate import virtual
from judgerun.simulate.ask import Ask, Call, Wrong, tokens
from judgerun.simulate.dialects import BASES, DIALECTS
from judgerun.simulate.law import Law, give
from judgerun.simulate.server import Simulator

TEXT = "How many apples are there?"
MESSAGES = [{"role": "user", "content": TEXT}]
PARTS = [{"role": "user", "parts": [{"text": TEXT}]}]
CONVERSE = {"messages": [{"role": "user", "content": [{"text": TEXT}]}]}
GENERATE = "/models/{model:[^:]+}:generateContent"


def post(base: str, path: str, body: Any, **headers: str) -> tuple[int, Any, Simulator]:
    """Status and JSON of one call to a healthy provider."""

    async def main() -> tuple[int, Any, Simulator]:
        simulator = Simulator(seed=1, wall=asyncio.get_running_loop().time)
        async with serving(simulator) as url, aiohttp.ClientSession() as session:
            root = url.removesuffix("/v1")
            async with session.post(root + base + path, data=json.dumps(body), headers=headers) as response:
                return response.status, await response.json(content_type=None), simulator

    return virtual.run(main())


@pytest.mark.parametrize(
    ("base", "count", "counted", "call", "called", "field"),
    [
        (
            "/anthropic/v1",
            "/messages/count_tokens",
            {"model": "m", "messages": MESSAGES},
            "/messages",
            {"model": "m", "messages": MESSAGES, "max_tokens": 9},
            "input_tokens",
        ),
        (
            "/v1",
            "/responses/input_tokens",
            {"model": "m", "input": TEXT},
            "/responses",
            {"model": "m", "input": TEXT},
            "input_tokens",
        ),
        (
            "/google/v1beta",
            "/models/m:countTokens",
            {"contents": PARTS},
            "/models/m:generateContent",
            {"contents": PARTS},
            "totalTokens",
        ),
        (
            "/bedrock",
            "/model/m/count-tokens",
            {"input": {"converse": CONVERSE}},
            "/model/m/converse",
            CONVERSE,
            "inputTokens",
        ),
        (
            "",
            "/tokenize",
            {"model": "m", "messages": MESSAGES},
            "/v1/chat/completions",
            {"model": "m", "messages": MESSAGES},
            "count",
        ),
    ],
)
def test_a_count_is_what_the_call_is_billed(
    base: str, count: str, counted: Any, call: str, called: Any, field: str
) -> None:
    """And costs nothing."""
    version = {"anthropic-version": "2023-06-01"}
    _, told, free = post(base, count, counted, **version)
    _, _, paid = post(base, call, called, **version)
    assert told[field] == paid.bill.rows[0]["input"] > 0
    assert not any(row["billed"] for row in free.bill.rows)


@pytest.mark.parametrize("field", ["content", "prompt"])
def test_a_text_is_tokenized_as_llama_cpp_and_vllm_tell_it(field: str) -> None:
    """A list and its length."""
    _, told, _ = post("", "/tokenize", {field: TEXT})
    assert (told["count"], len(told["tokens"])) == (tokens(TEXT), tokens(TEXT))


def read(name: str, path: str, body: dict[str, Any]) -> Ask:
    """What a dialect reads from a body."""
    headers = {"anthropic-version": "2023-06-01"}
    return DIALECTS[name].read(Call(path=path, raw=json.dumps(body).encode(), match={"model": "m"}, headers=headers))


def _google(**thinking: Any) -> dict[str, Any]:
    return {"contents": PARTS, "generationConfig": {"thinkingConfig": thinking}}


CHAT = {"model": "m", "messages": MESSAGES}
CLAUDE = {**CHAT, "max_tokens": 4000}
THINKING: list[tuple[str, str, dict[str, Any], tuple[bool | None, int | None, float]]] = [
    ("openai", "/chat/completions", CHAT, (None, None, 1.0)),
    ("openai", "/chat/completions", {**CHAT, "reasoning_effort": "none"}, (False, None, 1.0)),
    ("openai", "/chat/completions", {**CHAT, "reasoning_effort": "low"}, (True, None, 0.5)),
    ("openai", "/chat/completions", {**CHAT, "thinking": {"type": "disabled"}}, (False, None, 1.0)),
    ("openai", "/chat/completions", {**CHAT, "thinking": {"type": "enabled"}}, (True, None, 1.0)),
    ("openai", "/chat/completions", {**CHAT, "reasoning": {"enabled": False}}, (False, None, 1.0)),
    ("openai", "/chat/completions", {**CHAT, "reasoning": {"effort": "high"}}, (True, None, 2.0)),
    ("openai", "/chat/completions", {**CHAT, "chat_template_kwargs": {"enable_thinking": False}}, (False, None, 1.0)),
    ("openai-responses", "/responses", {"model": "m", "input": TEXT}, (None, None, 1.0)),
    (
        "openai-responses",
        "/responses",
        {"model": "m", "input": TEXT, "reasoning": {"effort": "none"}},
        (False, None, 1.0),
    ),
    (
        "openai-responses",
        "/responses",
        {"model": "m", "input": TEXT, "reasoning": {"effort": "xhigh"}},
        (True, None, 3.0),
    ),
    ("anthropic", "/messages", CLAUDE, (None, None, 1.0)),
    ("anthropic", "/messages", {**CLAUDE, "thinking": {"type": "disabled"}}, (False, None, 1.0)),
    ("anthropic", "/messages", {**CLAUDE, "thinking": {"type": "enabled", "budget_tokens": 2000}}, (True, 2000, 1.0)),
    (
        "anthropic",
        "/messages",
        {**CLAUDE, "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        (True, None, 4.0),
    ),
    ("google", GENERATE, {"contents": PARTS}, (None, None, 1.0)),
    ("google", GENERATE, _google(thinkingBudget=0), (False, None, 1.0)),
    ("google", GENERATE, _google(thinkingBudget=-1), (True, None, 1.0)),
    ("google", GENERATE, _google(thinkingBudget=512), (True, 512, 1.0)),
    ("google", GENERATE, _google(thinkingLevel="MINIMAL"), (True, None, 0.25)),
    ("google", GENERATE, _google(thinking_budget=512), (True, 512, 1.0)),
    ("cohere", "/chat", {**CHAT, "thinking": {"type": "disabled"}}, (False, None, 1.0)),
    ("cohere", "/chat", {**CHAT, "thinking": {"type": "enabled", "token_budget": 300}}, (True, 300, 1.0)),
]


@pytest.mark.parametrize(("name", "path", "body", "expected"), THINKING)
def test_each_switch_of_thinking_is_read(
    name: str, path: str, body: dict[str, Any], expected: tuple[bool | None, int | None, float]
) -> None:
    """On or off, a budget, an effort."""
    ask = read(name, path, body)
    assert (ask.thinking, ask.budget, ask.effort) == expected


def test_reasoning_keeps_to_its_budget_and_grows_with_effort() -> None:
    """Both laws hold for every dialect: they are the model's."""
    law = Law(reasoning=1000.0, spread=0.0)
    made = {
        effort: give(0, law, Ask(kind="chat", model="m", digest="d", effort=effort, thinking=True)).reasoning
        for effort in (0.5, 1.0, 2.0)
    }
    assert made == {0.5: 500, 1.0: 1000, 2.0: 2000}
    assert give(0, law, Ask(kind="chat", model="m", digest="d", budget=300, thinking=True)).reasoning == 300


WRONG: list[tuple[str, str, dict[str, Any], str]] = [
    ("anthropic", "/messages", CHAT, "max_tokens"),
    ("anthropic", "/messages", {**CLAUDE, "messages": [{"role": "system", "content": "x"}]}, "system prompt"),
    ("anthropic", "/messages", {**CLAUDE, "thinking": {"type": "enabled", "budget_tokens": 4000}}, "greater than"),
    ("anthropic", "/messages", {**CLAUDE, "thinking": {"type": "enabled", "budget_tokens": 9}}, "from 1024"),
    (
        "anthropic",
        "/messages",
        {**CLAUDE, "temperature": 0, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        "temperature",
    ),
    ("openai-responses", "/responses", {"model": "m", "input": TEXT, "max_output_tokens": 15}, "from 16"),
    ("openai-responses", "/responses", {"model": "m", "input": []}, "not empty"),
    ("google", GENERATE, {"contents": []}, "not specified"),
    ("google", GENERATE, {"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
    (
        "google",
        "/models/{model:[^:]+}:batchEmbedContents",
        {"requests": [{"model": "models/other", "content": {"parts": [{"text": "x"}]}}]},
        "that of the call",
    ),
    ("google", "/models/{model:[^:]+}:streamGenerateContent", {"contents": PARTS}, "alt=sse"),
    ("voyage", "/embeddings", {"model": "m", "input": ["x"], "dimensions": 8}, "'dimensions' is not supported"),
    ("voyage", "/embeddings", {"model": "m", "input": ["x"], "input_type": "passage"}, "query or document"),
    ("cohere", "/embed", {"model": "m", "texts": ["x"]}, "input_type"),
    ("cohere", "/embed", {"model": "m", "texts": ["x"] * 97, "input_type": "search_query"}, "more than 96"),
    ("bedrock", "/model/{model:.+}/converse", {"messages": [{"role": "system", "content": []}]}, "user or assistant"),
]


@pytest.mark.parametrize(("name", "path", "body", "says"), WRONG)
def test_what_a_provider_would_refuse_is_refused(name: str, path: str, body: dict[str, Any], says: str) -> None:
    """So that an adapter that sends it is found out."""
    with pytest.raises(Wrong, match=says):
        read(name, path, body)


def test_anthropic_wants_the_version_of_its_api() -> None:
    """In a header."""
    status, told, _ = post("/anthropic/v1", "/messages", CLAUDE)
    assert (status, told["error"]["message"]) == (400, "anthropic-version: header is required")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/messages", CLAUDE),
        ("/v1beta/models/m:generateContent", {"contents": PARTS}),
        ("/google/v1/projects/p/locations/global/publishers/google/models/m:generateContent", {"contents": PARTS}),
        ("/google/v1beta/models/m:embedContent", {"content": {"parts": [{"text": TEXT}]}}),
        ("/v2/chat", CHAT),
        ("/model/eu.vendor.m-v1%3A0/converse", CONVERSE),
        ("/openai/v1/responses", {"model": "m", "input": TEXT}),
    ],
)
def test_dialects_are_served_without_a_prefix_too_where_no_other_has_the_path(path: str, body: Any) -> None:
    """And Vertex under the path of its projects."""
    status, _, simulator = post("", path, body, **{"anthropic-version": "2023-06-01"})
    assert status == 200
    assert simulator.bill.rows[0]["billed"]


def test_a_model_in_the_path_is_part_of_what_is_asked() -> None:
    """The same body to two models is two calls with answers of their own."""
    one, other = (Call(path=GENERATE, raw=b"{}", match={"model": model}).digest for model in ("gemini-a", "gemini-b"))
    assert one != other
    assert Call(path="/chat/completions", raw=b"{}").digest not in (one, other)


def test_every_dialect_has_a_base_of_its_own() -> None:
    """By which it can be told from every other; the two of OpenAI share theirs, as they do there."""
    first = {name: bases[0] for name, bases in BASES.items() if name != "openai-responses"}
    assert len(set(first.values())) == len(first)
