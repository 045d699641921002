"""Deliver: answers and refusals on the wire, whole or as a fault has it; the only place that cuts connections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email.utils import formatdate

import orjson
from aiohttp import web

SLOW_S = 20.0
STALL_S = 600.0
PIECES = 5
PIECE_S = 1.0
ABSURD_S = 30 * 365 * 86_400
BLANK = b" " * 65_536
DAY_S = 86_400
LEFT = 499
"""The status of a response that nobody will see."""


def answer(status: int, body: object, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response."""
    held = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(status=status, body=orjson.dumps(body), headers=held)


def limited(fault: str, body: object, wall: float) -> web.Response:
    """A 429 with the fault's kind of Retry-After; `wall` is the server's Unix time."""
    match fault:
        case "429":
            return answer(429, body, {"Retry-After": "2"})
        case "429_date":
            return answer(429, body, {"Date": _date(wall), "Retry-After": _date(wall + 3)})
        case "429_absurd":
            return answer(429, body, {"Retry-After": str(ABSURD_S)})
    return answer(429, body)


async def success(
    request: web.Request, raw: bytes, fault: str | None, *, wall: float, flood: int
) -> web.StreamResponse:
    """A 200 with these bytes. `flood`: the bytes that the fault `oversized` adds."""
    headers = {"Content-Type": "application/json"}
    match fault:
        case "drop_after":
            return drop(request)
        case "drop_mid":
            return await _half(request, raw)
        case "trickle":
            return await _trickle(request, raw)
        case "oversized":
            return await _flood(request, raw, flood)
        case "stall":
            await asyncio.sleep(STALL_S)
        case "slow":
            await asyncio.sleep(SLOW_S)
        case "skew":
            headers["Date"] = _date(wall - DAY_S)
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


async def _half(request: web.Request, raw: bytes) -> web.StreamResponse:
    response = await _started(request, len(raw))
    await response.write(raw[: len(raw) // 2])
    if request.transport is not None:
        request.transport.close()  # what was written still leaves
    return response


async def _trickle(request: web.Request, raw: bytes) -> web.StreamResponse:
    response = await _started(request, len(raw))
    step = len(raw) // PIECES + 1
    for start in range(0, len(raw), step):
        await response.write(raw[start : start + step])
        await asyncio.sleep(PIECE_S)
    await response.write_eof()
    return response


async def _flood(request: web.Request, raw: bytes, left: int) -> web.StreamResponse:
    """JSON followed by blanks, in chunks: the headers do not tell how much comes."""
    response = await _started(request, None)
    await response.write(raw)
    while left > 0:
        await response.write(BLANK)
        left -= len(BLANK)
    await response.write_eof()
    return response


async def _started(request: web.Request, length: int | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    if length is None:
        response.enable_chunked_encoding()
    else:
        response.content_length = length
    await response.prepare(request)
    return response


def _date(wall: float) -> str:
    return formatdate(wall, usegmt=True)
