"""What the head of a response alone tells, over real HTTP: stated limits with every status, and doubt where a body broke off."""

from __future__ import annotations

import asyncio

import pytest

from fakes.serving import request_of, talking
from judgerun.model.experiment import Deployment, Model
from judgerun.model.lane import Limit
from judgerun.model.reply import Billable, Cause
from judgerun.model.request import build
from judgerun.ports import Answer
from judgerun.providers.open import connect

BODY = b'{"choices": [{"message": {"content": "YES"}, "finish_reason": "stop"}]}'
STATED = b"X-RateLimit-Limit-Requests: 500\r\nX-RateLimit-Remaining-Requests: 0\r\nX-RateLimit-Reset-Requests: 6m0s\r\n"


def ask(raw: bytes, *, like: str | None = None) -> Answer:
    """The answer of a server that writes these bytes and closes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(raw)
        await writer.drain()

    async def main() -> Answer:
        async with talking(talk) as url:
            place = Deployment(name="p", dialect="openai", base_url=url, identity="p", like=like)
            provider = connect([place], [Model(name="m", provider=place, model="m")], {})["p"]
            request = build("chat", {"model": "m", "messages": []}, deployment="p", adapter="openai/1", draw=0)
            try:
                return await provider.send([request], timeout_s=5, attempt=1)
            finally:
                await provider.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize("status", ["200 OK", "400 Bad", "429 Slow", "500 Oh"])
def test_limits_are_told_with_every_status(status: str) -> None:
    """Over what they count is known of a server that is like one that is known."""
    raw = f"HTTP/1.1 {status}\r\ncontent-length: {len(BODY)}\r\n".encode() + STATED + b"\r\n" + BODY
    limit = Limit(unit="requests", limit=500, remaining=0, reset_s=360.0)
    assert ask(raw).limits == (limit,)
    raw = raw.replace(b"6m0s", b"60s")
    assert ask(raw, like="openai").limits == (
        Limit(unit="requests", limit=500, remaining=0, reset_s=60.0, window_s=60.0),
    )


def test_patience_asked_for_with_an_answer_is_not_obeyed() -> None:
    """Neither as a failure's hint nor as a limit."""
    answer = ask(b"HTTP/1.1 200 OK\r\nretry-after: 59\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)
    assert (answer.replies[0].text, answer.failure, answer.limits) == ("YES", None, ())


@pytest.mark.parametrize(
    ("status", "billable"),
    [(400, Billable.NO), (429, Billable.NO), (503, Billable.NO), (504, Billable.UNKNOWN), (524, Billable.UNKNOWN)],
)
def test_a_gateway_that_stopped_waiting_is_in_doubt_however_its_body_ends(status: int, billable: Billable) -> None:
    """Whole, broken off, or above the limit: the status alone says whether it may have been charged."""
    for length in (2, 9000, 99_000_000):
        answer = ask(f"HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n".encode() + b"{}")
        assert answer.failure is not None
        assert (answer.failure.billable, answer.status) == (billable, status)
        assert answer.failure.cause is not Cause.NOT_SENT
