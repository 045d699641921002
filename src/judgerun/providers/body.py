"""Body: what dialects share of JSON bodies: objects read or refused, fields merged, a chat's reply made; no dialect's shape."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import orjson

from judgerun.model.money import Nanos
from judgerun.model.profile import Lack
from judgerun.model.reply import Failure, Finish, Reply, Usage
from judgerun.model.request import digest
from judgerun.providers import fault, stream
from judgerun.providers.wire import WireReply

_ESCAPE = re.compile(
    rb"(?P<whole>\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A backslash that stands for itself, both halves of a surrogate pair; else one half alone."""


def loads(raw: bytes) -> Any:
    """The value of a JSON text. A mark of byte order is skipped; half of a surrogate pair, which servers write that cut a text, or
    an emoji between two events, in the middle, becomes U+FFFD. Raises orjson.JSONDecodeError.
    """
    raw = raw.removeprefix(stream.BOM)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        mended = _ESCAPE.sub(lambda found: found["whole"] or rb"\ufffd", raw)
        if mended == raw:
            raise
        return orjson.loads(mended)


def read(wire: WireReply) -> dict[str, Any] | Failure:
    """The JSON object of a body with a status of success; an error in it is a failure."""
    try:
        held = loads(wire.body)
    except orjson.JSONDecodeError as error:
        return fault.malformed(wire, f"the body is no JSON: {error}")
    if not isinstance(held, dict):
        return fault.malformed(wire, "the body is no JSON object")
    return fault.in_band(held["error"], wire) if held.get("error") else held


def events(wire: WireReply) -> list[Mapping[str, Any]] | Failure:
    """The objects that the events of a streamed body hold, in order."""
    held = [event.data for event in stream.events(wire.body) if event.data != stream.DONE]
    try:
        found = objects([loads(data) for data in held])
    except orjson.JSONDecodeError as error:
        return fault.malformed(wire, f"an event of the stream is no JSON: {error}")
    return fault.malformed(wire, "an event of the stream is no JSON object") if found is None else found


def reply(
    wire: WireReply,
    *,
    finish: Finish,
    finish_raw: str | None,
    text: str,
    thoughts: str,
    usage: Usage,
    served_model: str | None = None,
    fingerprint: str | None = None,
    reported_tokens: int | None = None,
    reported_cost: Nanos | None = None,
) -> tuple[Reply, ...]:
    """The one reply of a chat call, as `decode` gives it. Thoughts are kept only where the answer may stand in them: the reply
    finished, and says nothing.
    """
    return (
        Reply(
            finish=finish,
            finish_raw=finish_raw,
            text=text,
            thoughts=thoughts if finish is Finish.STOP and not text.strip() else "",
            usage=usage,
            served_model=served_model,
            fingerprint=fingerprint,
            reported_tokens=reported_tokens,
            reported_cost=reported_cost,
            raw=wire.body,
            raw_digest=digest(wire.body),
        ),
    )


def merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body with these fields on top; where both hold an object, the objects are merged, so that `effort` and `format` can
    stand in one.
    """
    both = {
        name: merged(body[name], value)
        for name, value in fields.items()
        if isinstance(value, Mapping) and isinstance(body.get(name), Mapping)
    }
    return {**body, **fields, **both}


def stripped(extra: Mapping[str, Any], owned: Collection[str]) -> dict[str, Any]:
    """`extra` without the fields that the dialect owns; `a.b` is the field b of the object a."""
    kept = {}
    for name, value in extra.items():
        inner = [path.removeprefix(f"{name}.") for path in owned if path.startswith(f"{name}.")]
        if name not in owned:
            kept[name] = stripped(value, inner) if inner and isinstance(value, Mapping) else value
    return kept


def lacks(owned: Mapping[str, str]) -> tuple[Lack, ...]:
    """That `extra` may not hold the fields that a dialect owns, with what says them instead."""
    return tuple(Lack(key=f"extra.{field}", right=right) for field, right in owned.items())


def mapping(value: Any) -> Mapping[str, Any]:
    """The object that a field holds; an empty one where it holds none."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Mapping[str, Any]] | None:
    """The list of objects that a field holds; None where it holds anything else."""
    return value if isinstance(value, list) and all(isinstance(item, dict) for item in value) else None


def text(held: Iterable[Any]) -> str | None:
    """These texts as one; None where one of them is none."""
    found = list(held)
    return "".join(found) if all(isinstance(item, str) for item in found) else None


def word(value: Any) -> str | None:
    """A label that a field holds; None where it holds none."""
    return value if isinstance(value, str) and value else None
