"""Ask, Given and Wrong: a call and its answer without any dialect's shape; the tokenizer of the simulated provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


def tokens(text: str) -> int:
    """Tokens of a text: one for every four bytes begun. Never above its bytes."""
    return -(-len(text.encode()) // 4)


def cut(text: str, most: int) -> str:
    """The longest beginning of the text that has at most `most` tokens."""
    return text.encode()[: most * 4].decode("utf-8", "ignore")


class Wrong(Exception):
    """The body cannot be answered: a 400 with these words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client wants. `digest` is that of the body's bytes: the same bytes always get the same answer."""

    kind: Literal["chat", "embed"]
    model: str
    digest: str
    messages: tuple[tuple[str, str], ...] = ()  # (role, text)
    cap: int | None = None  # output tokens, reasoning included
    thinking: bool | None = None  # None: the model's own habit
    schema: Mapping[str, Any] | None = None
    texts: tuple[str, ...] = ()
    dimensions: int | None = None
    base64: bool = False

    @property
    def prompt(self) -> str:
        """The last message."""
        return self.messages[-1][1] if self.messages else ""

    @property
    def input(self) -> int:
        """Input tokens: those of every text, and one for each message."""
        if self.kind == "embed":
            return sum(map(tokens, self.texts))
        return sum(tokens(text) + 1 for _, text in self.messages)


@dataclass(slots=True, kw_only=True)
class Given:
    """What the provider made. Faults change it before it is written."""

    text: str | None = ""
    vectors: list[list[float]] | None = None
    finish: str | None = "stop"
    input: int = 0
    cached: int = 0  # inside input
    visible: int = 0
    reasoning: int = 0
    refusal: str | None = None

    @property
    def output(self) -> int:
        """All output tokens."""
        return self.visible + self.reasoning
