"""Spoil: what a fault does to an answer whatever the dialect: to what was made, and to the bytes of its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from judgerun.simulate.ask import Ask, Given

Body = dict[str, Any]


def made(fault: str | None, ask: Ask, given: Given) -> None:
    """Change what was made, before it is written and charged."""
    match fault:
        case "overrun" if ask.kind == "chat":
            given.visible = 3 * (ask.cap or max(given.output, 1))
        case "overrun":
            given.input *= 40  # above any bound on it: more than the bytes of the texts
        case "filter":
            given.text, given.finish = None, "content_filter"
        case "refusal":
            given.text, given.refusal = None, "I cannot help with that."
        case "empty":
            given.text, given.visible = "", 0
        case "finish_null":
            given.finish = None
        case "finish_new":
            given.finish = "wandered_off"


def written(fault: str | None, body: Body, shapes: Mapping[str, Callable[[Body], None]]) -> bytes:
    """The bytes of the body, as the fault leaves them; `shapes` are the dialect's own ways to spoil it."""
    if fault is not None and fault in shapes:
        shapes[fault](body)
    raw = orjson.dumps(body)
    match fault:
        case "garbage":
            return b"<html>it works</html>"
        case "truncated":
            return raw[: len(raw) * 2 // 3]
    return raw
