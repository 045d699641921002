"""Spoil: what a fault does to an answer in more than one dialect: to what was made, to its body, and to the bytes of that."""

from __future__ import annotations

import orjson

from judgerun.simulate.ask import Ask, Body, Given, Refused, cut, tokens
from judgerun.simulate.events import Stream
from judgerun.simulate.law import MUSING


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
        case "block":
            given.text, given.finish, given.visible, given.reasoning = None, "blocked", 0, 0
        case "no_parts":
            given.text, given.finish, given.thoughts = "", "length", MUSING
            given.visible, given.reasoning = 0, ask.cap or max(given.output, 1)
        case "think_tag":
            _tagged(ask, given)
        case "empty":
            given.text, given.visible = "", 0
        case "finish_null":
            given.finish = None
        case "finish_new":
            given.finish = "wandered_off"


def _tagged(ask: Ask, given: Given) -> None:
    """Reasoning in tags before the answer, both inside the cap."""
    whole = f"<think>Hm.</think>\n{given.text}"
    given.text = whole if ask.cap is None else cut(whole, ask.cap - given.reasoning)
    given.visible = tokens(given.text)
    if given.text != whole:
        given.finish = "length"


def usage_missing(body: Body) -> None:
    """A body whose `usage` is left out."""
    del body["usage"]


def usage_zero(body: Body) -> None:
    """A body whose `usage` counts nothing."""
    body["usage"] = {name: 0 for name, value in body["usage"].items() if isinstance(value, int)}


def other_model(body: Body) -> None:
    """A body whose `model` is not the one that was asked for."""
    body["model"] += "-other"


def written(fault: str | None, raw: bytes, error: Refused) -> bytes:
    """The bytes of a body as the fault leaves them; `error` is what stands in a 200 in its stead."""
    match fault:
        case "error_200":
            return orjson.dumps(error.body)
        case "garbage":
            return b"<html>it works</html>"
        case "truncated":
            return raw[: len(raw) * 2 // 3]
    return raw


def streamed(fault: str | None, ask: Ask, body: Body, stream: Stream, error: Refused) -> list[bytes]:
    """The events of the body, as the fault leaves them; `error` is what breaks in. What spoils a body has spoilt it before."""
    match fault:
        case "garbage":
            return [b"<html>it works</html>"]
        case "truncated":
            events = stream.events(ask, body)
            return events[: len(events) // 2]
        case "error_200":
            events = stream.events(ask, body)
            return [*events[: len(events) // 2], stream.broken(error)]
    return stream.events(ask, body)
