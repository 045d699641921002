"""Server-Sent Events: what stands in a body comes out as events, whatever its line ends, comments and cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.providers import stream
from judgerun.providers.stream import Event
from judgerun.providers.wire import WireReply


def wire(body: bytes, kind: str | None = None) -> WireReply:
    return WireReply(status=200, headers={} if kind is None else {"content-type": kind}, body=body, at=0.0)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", []),
        (b"data: a\n\ndata: b\n\n", [Event("", b"a"), Event("", b"b")]),
        (b"data:a\r\n\r\ndata:  b\r\n\r\n", [Event("", b"a"), Event("", b" b")]),
        (b"data: a\r\rdata: b\r\r", [Event("", b"a"), Event("", b"b")]),
        (b"event: error\ndata: {}\n\n", [Event("error", b"{}")]),
        (b"data: {\ndata: }\n\n", [Event("", b"{\n}")]),
        (b": keep alive\n\n: again\n\ndata: a\n: inside\n\n", [Event("", b"a")]),
        (b"id: 7\nretry: 10\ndata: a\nunknown: x\n\n", [Event("", b"a")]),
        (b"event: ping\n\ndata: a\n\n", [Event("", b"a")]),
        (b"data\n\n", [Event("", b"")]),
        (b"data: a\n\ndata: [DONE]", [Event("", b"a"), Event("", b"[DONE]")]),
        (b"data: a\n\n\n\n\ndata: b\n", [Event("", b"a"), Event("", b"b")]),
        ("\ufeffdata: \u2028é\n\n".encode(), [Event("", "\u2028é".encode())]),
    ],
)
def test_events(body: bytes, expected: list[Event]) -> None:
    """Comments, CRLF, data of several lines, a missing last blank line, a byte order mark, line ends that are none."""
    assert stream.events(body) == expected


_LINES = st.binary(max_size=12).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b""))


@given(
    st.lists(st.tuples(st.sampled_from(["", "error", "delta"]), st.lists(_LINES, min_size=1, max_size=3)), max_size=5),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_what_was_written_is_read(written: list[tuple[str, list[bytes]]], end: bytes) -> None:
    """Any events, with any line end, come back as they were."""
    body = b"".join(
        (b"event: " + name.encode() + end if name else b"") + b"".join(b"data: " + line + end for line in lines) + end
        for name, lines in written
    )
    assert stream.events(body) == [Event(name, b"\n".join(lines)) for name, lines in written]


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"data: {}\n\n", None, True),
        (b": OPENROUTER PROCESSING\n\n", "application/json", True),
        (b"\n\nevent: error\n", None, True),
        (b"", "text/event-stream; charset=utf-8", True),
        (b"half", "text/event-stream", True),
        (b'{"error": {}}', "text/event-stream", False),
        (b'\n\n {"choices": []}', None, False),
        (b"", None, False),
    ],
)
def test_a_stream_is_told_by_its_first_bytes_before_its_content_type(
    body: bytes, kind: str | None, expected: bool
) -> None:
    """JSON under the content type of a stream is JSON, and a stream under another is a stream."""
    assert stream.streamed(wire(body, kind)) is expected
