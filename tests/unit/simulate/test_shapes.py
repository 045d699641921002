"""The simulated bodies beside real ones: the fields that no real body holds are known by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judgerun.simulate.ask import Call
from judgerun.simulate.dialects import DIALECTS
from judgerun.simulate.law import Law, give

HOME = os.environ.get("JUDGERUN_DATA")
BODIES = Path(HOME or "nowhere") / "provider-responses"
LAW = Law(cached=1.0, reasoning=50.0)
LONG = "filler " * 200 + "Answer YES or NO."

MESSAGE = [{"role": "user", "content": LONG}]
PARTS = [{"role": "user", "parts": [{"text": LONG}]}]
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("openai", "openai", "/chat/completions", {"model": "m", "messages": MESSAGE}),
    ("openai", "openai", "/chat/completions", {"model": "m", "messages": MESSAGE, "stream": True}),
    ("openai", "openai", "/embeddings", {"model": "m", "input": ["a"]}),
    ("openai-responses", "openai", "/responses", {"model": "m", "input": LONG}),
    ("openai-responses", "openai", "/responses", {"model": "m", "input": LONG, "stream": True}),
    ("anthropic", "anthropic", "/messages", {"model": "m", "max_tokens": 999, "messages": MESSAGE}),
    ("anthropic", "anthropic", "/messages", {"model": "m", "max_tokens": 999, "messages": MESSAGE, "stream": True}),
    ("google", "gemini", "/models/{model:[^:]+}:generateContent", {"contents": PARTS}),
    ("google", "gemini", "/models/{model:[^:]+}:streamGenerateContent", {"contents": PARTS}),
    ("google", "gemini", "/models/{model:[^:]+}:countTokens", {"contents": PARTS}),
    (
        "google",
        "gemini",
        "/models/{model:[^:]+}:batchEmbedContents",
        {"requests": [{"model": "models/m", "content": {"parts": [{"text": "a"}]}}]},
    ),
    ("voyage", "voyage", "/embeddings", {"model": "m", "input": ["a"]}),
    ("cohere", "cohere", "/chat", {"model": "m", "messages": MESSAGE}),
    ("cohere", "cohere", "/embed", {"model": "m", "texts": ["a"], "input_type": "search_query"}),
    (
        "bedrock",
        "bedrock",
        "/model/{model:.+}/converse",
        {"messages": [{"role": "user", "content": [{"text": LONG}, {"cachePoint": {"type": "default"}}]}]},
    ),
]
_SAID = {f"{item}.content.{field}" for item in (".item", ".response.output") for field in ("text", "type")}
_REASONED = ".output.message.content.reasoningContent.reasoningText"
UNSEEN: dict[tuple[str, bool], set[str]] = {
    ("/responses", True): {
        *_SAID,
        ".item.role",
        ".response.output.role",
        ".content_index",
        ".part.text",
        ".part.type",
        ".text",
        ".sequence_number",
    },
    ("/messages", True): {
        ".content_block.signature",
        ".content_block.thinking",
        ".delta.signature",
        ".delta.thinking",
        ".message.usage.output_tokens_details.thinking_tokens",
    },
    ("/chat", False): {".message.content.thinking"},
    ("/model/{model:.+}/converse", False): {f"{_REASONED}.text", f"{_REASONED}.signature"},
}
"""Documented, but in none of the bodies at hand: a stream that thinks, a stream of the responses dialect that says something, and
thinking at providers of which there is no body that thinks.
"""


def leaves(held: Any, at: str = "") -> Iterator[str]:
    """The paths of all fields that hold a value; lists count as what they hold."""
    if isinstance(held, dict):
        for name, value in held.items():
            yield from leaves(value, f"{at}.{name}")
    elif isinstance(held, list):
        for value in held:
            yield from leaves(value, at)
    elif held is not None:
        yield at


def events(text: str) -> list[Any]:
    """The data of a stream of events."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def real(folder: str) -> set[str]:
    """Every path that a body of this provider holds."""
    found: set[str] = set()
    for path in sorted((BODIES / folder).glob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))["body"]
        found.update(leaves(events(body) if isinstance(body, str) else body))
    return found


@pytest.mark.skipif(HOME is None, reason="JUDGERUN_DATA does not name the folder with real provider bodies")
@pytest.mark.parametrize(
    ("name", "folder", "path", "body"), CASES, ids=lambda case: case if isinstance(case, str) else ""
)
def test_no_field_is_made_up(name: str, folder: str, path: str, body: dict[str, Any]) -> None:
    """Whole or streamed, each field that holds a value stands in a body that a real provider sent."""
    dialect = DIALECTS[name]
    headers = {"anthropic-version": "2023-06-01"}
    call = Call(path=path, raw=json.dumps(body).encode(), match={"model": "m"}, query={"alt": "sse"}, headers=headers)
    ask = dialect.read(call)
    written = dialect.write(ask, give(0, LAW, ask))
    made: Any = written
    if ask.stream:
        assert dialect.STREAM is not None
        made = events(b"".join(dialect.STREAM.events(ask, written)).decode())
    assert set(leaves(made)) - real(folder) == UNSEEN.get((path, ask.stream), set())
