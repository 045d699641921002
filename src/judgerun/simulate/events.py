"""Events: server-sent events as bytes, and a text cut into the pieces in which a stream brings it; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from judgerun.simulate.ask import Ask, Body, Refused

PIECES = 5


def event(data: Any, name: str | None = None) -> bytes:
    """One event; with a name where the dialect names its events."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + (data if isinstance(data, bytes) else orjson.dumps(data)) + b"\n\n"


def pieces(text: str | None) -> list[str]:
    """A text in at most PIECES pieces; none of nothing."""
    text = text or ""
    step = -(-len(text) // PIECES)
    return [text[start : start + step] for start in range(0, len(text), step)] if text else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """How a dialect streams: a whole answer as events, and the event of an error in the middle of them."""

    events: Callable[[Ask, Body], list[bytes]]
    broken: Callable[[Refused], bytes]
