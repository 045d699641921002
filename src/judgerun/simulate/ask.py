"""Call, Ask, Given, Trouble: a call, its answer and its refusal without any dialect's shape; the simulated tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

Body = dict[str, Any]
Kind = Literal["chat", "embed", "count"]

EFFORTS: Mapping[str, float] = {"minimal": 0.25, "low": 0.5, "medium": 1.0, "high": 2.0, "xhigh": 3.0, "max": 4.0}
"""How the words for effort multiply the length of the hidden reasoning."""

DIMENSIONS_MAX = 8192


def tokens(text: str) -> int:
    """Tokens of a text: one for every four bytes begun. Never above its bytes."""
    return -(-len(text.encode()) // 4)


def cut(text: str, most: int) -> str:
    """The longest beginning of the text that has at most `most` tokens."""
    return text.encode()[: most * 4].decode("utf-8", "ignore")


class Wrong(Exception):
    """The body cannot be answered: a 400 with these words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One HTTP request. `path` is the pattern under the base URL, `match` what stood in its holes; header names in lower case."""

    path: str
    raw: bytes
    match: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Of the body's bytes, and of the model where the path names it."""
        named = self.match.get("model", "").encode()
        return hashlib.blake2b(named + self.raw, digest_size=16).hexdigest()

    def body(self) -> Body:
        """The body as an object. Raises Wrong."""
        try:
            body = orjson.loads(self.raw)
        except orjson.JSONDecodeError:
            raise Wrong("the body is no JSON") from None
        if not isinstance(body, dict):
            raise Wrong("the body is no JSON object")
        return body


def whole(body: Any, name: str, *, least: int = 1, most: int | None = None) -> int | None:
    """A field that is a whole number, or None where it is absent or null. Raises Wrong."""
    value = body.get(name) if isinstance(body, dict) else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        until = "" if most is None else f" to {most}"
        raise Wrong(f"{name}: must be a whole number from {least}{until}")
    return value


def words(content: Any) -> str:
    """The text of a content: a string, or a list of parts each with a `text`. Raises Wrong."""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise Wrong("a message's content is text")
    return content


def listed(texts: Any, name: str, most: int | None = None) -> tuple[str, ...]:
    """Texts from one text or a list of texts. Raises Wrong."""
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise Wrong(f"'{name}' must be a text or a list of texts, none of them empty")
    if most is not None and len(texts) > most:
        raise Wrong(f"'{name}' holds {len(texts)} texts, more than {most}")
    return tuple(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client wants. `digest` is that of the body's bytes: the same bytes always get the same answer, whatever the
    temperature, as if each draw were taken once.
    """

    kind: Kind
    model: str
    digest: str
    messages: tuple[tuple[str, str], ...] = ()  # (role, text)
    cap: int | None = None  # output tokens, reasoning included
    thinking: bool | None = None  # None: the model's own habit
    budget: int | None = None  # tokens of reasoning at most
    effort: float = 1.0  # multiplies the length of the reasoning
    thoughts: bool = False  # the reasoning is to be shown
    schema: Mapping[str, Any] | None = None
    cache: Literal["auto", "off", "5m", "1h"] = "auto"  # by the provider itself, not at all, or as the body asks
    stream: bool = False
    stream_usage: bool = True
    texts: tuple[str, ...] = ()
    role: str = ""  # of the texts, in the dialect's own word
    dimensions: int | None = None
    form: str = "float"  # of the numbers of a vector
    truncate: bool = False  # a text that is too long is cut in silence
    alone: bool = False  # the call takes one text, and gives one vector instead of a list

    @property
    def prompt(self) -> str:
        """The last message."""
        return self.messages[-1][1] if self.messages else ""

    @property
    def input(self) -> int:
        """Input tokens: those of every text, and one for each message."""
        return sum(map(tokens, self.texts)) + sum(tokens(text) + 1 for _, text in self.messages)


@dataclass(slots=True, kw_only=True)
class Given:
    """What the provider made. Faults change it before it is written."""

    text: str | None = ""
    vectors: list[list[float]] | None = None
    finish: str | None = "stop"  # stop, length, content_filter, blocked; or a word that nobody knows
    input: int = 0
    cached: int = 0  # inside input
    written: int = 0  # into a cache for five minutes; inside input
    written_1h: int = 0  # the same for an hour
    visible: int = 0
    reasoning: int = 0
    thoughts: str = ""  # the words of the reasoning, for dialects that show them
    refusal: str | None = None

    @property
    def fresh(self) -> int:
        """Input tokens that no cache had a part in."""
        return self.input - self.cached - self.written - self.written_1h

    @property
    def output(self) -> int:
        """All output tokens."""
        return self.visible + self.reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a call gets no answer. `wait`: the seconds of patience that the provider names."""

    kind: Literal["request", "missing", "context", "limit", "quota", "key", "server", "overload", "timeout"]
    message: str
    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A trouble in a dialect's words."""

    status: int
    body: Body
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A limit as response headers tell it; `reset` in seconds from now."""

    unit: Literal["requests", "tokens"]
    limit: int
    remaining: int
    reset: float
