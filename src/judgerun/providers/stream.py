"""Server-Sent Events: the bytes of a whole streamed body -> its events; pure, and no dialect's meaning of them may stand here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from judgerun.providers.wire import WireReply

DONE = b"[DONE]"
"""The data with which the openai dialect ends a stream."""

_LINE = re.compile(rb"\r\n|\n|\r")
BOM = b"\xef\xbb\xbf"
_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name ("" where the server gives none) and its data, the lines of which are joined by newlines."""

    name: str
    data: bytes


def streamed(wire: WireReply) -> bool:
    """Whether a body is a stream of events: by its first bytes, else by its content type (an error may come as JSON under it)."""
    head = wire.body.removeprefix(BOM).lstrip()[:8]
    if head.startswith(_STARTS):
        return True
    return wire.headers.get("content-type", "").startswith("text/event-stream") and head[:1] not in (b"{", b"[")


def events(body: bytes) -> list[Event]:
    """The events of a stream in order. Comments are left out, and so are events without data; the last one needs no blank line
    after it, so that what a broken connection left of it is seen.
    """
    found: list[Event] = []
    name, data = "", list[bytes]()
    for line in (*_LINE.split(body.removeprefix(BOM)), b""):
        if not line:
            if data:
                found.append(Event(name, b"\n".join(data)))
            name, data = "", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return found
