"""Serving: the simulated provider, or any handler of raw sockets, on a port of 127.0.0.1 for the length of a block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from judgerun.simulate.server import Simulator
from judgerun.simulate.serving import serving as at_all_bases


@contextlib.asynccontextmanager
async def serving(simulator: Simulator) -> AsyncIterator[str]:
    """Serve in this loop; the base URL, up to and with /v1."""
    async with at_all_bases(simulator.app()) as urls:
        yield urls["openai"]


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[str]:
    """Serve raw bytes: `talk` gets each connection, which is closed when it returns."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """The bytes of one HTTP request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    return head + await reader.readexactly(length)
