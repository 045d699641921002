"""Deliver: answers and refusals on the wire, whole or as a fault has it; the only place that cuts connections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from email.utils import formatdate

import orjson
from aiohttp import web

from judgerun.simulate.ask import Refused

SLOW_S = 20.0
STALL_S = 600.0
PIECES = 5
PIECE_S = 1.0
ABSURD_S = 30 * 365 * 86_400
BLANK = b" " * 65_536
DAY_S = 86_400
RETRY_AFTER_200_S = 36
LEFT = 499
"""The status of a response that nobody will see."""


def answer(status: int, body: object, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response."""
    held = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(status=status, body=orjson.dumps(body), headers=held)


def refusal(refused: Refused, headers: Mapping[str, str] | None = None) -> web.Response:
    """A trouble on the wire."""
    return answer(refused.status, refused.body, {**refused.headers, **(headers or {})})


PATIENCE: Mapping[str, float] = {"429": 2.0, "429_absurd": float(ABSURD_S)}
"""The seconds that these faults name."""


def dated(wall: float) -> Mapping[str, str]:
    """A Retry-After of three seconds as a date; `wall` is the server's Unix time."""
    return {"Date": _date(wall), "Retry-After": _date(wall + 3)}


async def success(
    request: web.Request, parts: Sequence[bytes], fault: str | None, headers: dict[str, str], *, wall: float, flood: int
) -> web.StreamResponse:
    """A 200 with these bytes, part by part. `flood`: the bytes that the fault `oversized` adds."""
    raw = b"".join(parts)
    match fault:
        case "drop_after" | "job_submit_lost":
            return drop(request)
        case "drop_mid":
            return await _half(request, raw, headers)
        case "trickle":
            return await _trickle(request, raw, headers)
        case "oversized":
            return await _flood(request, raw, headers, flood)
        case "stall":
            await asyncio.sleep(STALL_S)
        case "slow":
            await asyncio.sleep(SLOW_S)
        case "skew":
            headers["Date"] = _date(wall - DAY_S)
        case "retry_after_200":
            headers["Retry-After"] = str(RETRY_AFTER_200_S)
    if len(parts) > 1:
        return await _streamed(request, parts, headers, close=fault == "drop_end")
    response = web.Response(body=raw, headers=headers)
    if fault == "drop_end":
        response.force_close()
    return response


def drop(request: web.Request) -> web.Response:
    """Cut the connection at once."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=LEFT)


def dropped(request: web.Request) -> bool:
    """Whether the connection is gone."""
    return request.transport is None or request.transport.is_closing()


async def _streamed(
    request: web.Request, parts: Sequence[bytes], headers: Mapping[str, str], *, close: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    if close:
        response.force_close()
    await response.prepare(request)
    for part in parts:
        await response.write(part)
    await response.write_eof()
    return response


async def _half(request: web.Request, raw: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
    response = await _started(request, len(raw), headers)
    await response.write(raw[: len(raw) // 2])
    if request.transport is not None:
        request.transport.close()  # what was written still leaves
    return response


async def _trickle(request: web.Request, raw: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
    response = await _started(request, len(raw), headers)
    step = len(raw) // PIECES + 1
    for start in range(0, len(raw), step):
        await response.write(raw[start : start + step])
        await asyncio.sleep(PIECE_S)
    await response.write_eof()
    return response


async def _flood(request: web.Request, raw: bytes, headers: Mapping[str, str], left: int) -> web.StreamResponse:
    """The answer followed by blanks, in chunks: the headers do not tell how much comes."""
    response = await _started(request, None, headers)
    await response.write(raw)
    while left > 0:
        await response.write(BLANK)
        left -= len(BLANK)
    await response.write_eof()
    return response


async def _started(request: web.Request, length: int | None, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    if length is None:
        response.enable_chunked_encoding()
    else:
        response.content_length = length
    await response.prepare(request)
    return response


def _date(wall: float) -> str:
    return formatdate(wall, usegmt=True)
