"""A network between a run and its provider, in a thread: it resets connections, swallows answers, or brings them late."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

BYTES = 65_536
MOMENTS = ("before", "after", "mid")
"""A connection is reset before its request arrives, when the answer comes, or in the middle of the answer."""


@dataclass(slots=True)
class _Fate:
    """Of the call that is under way on one connection."""

    moment: str = ""
    late: float = 0.0


class Relay:
    """Between a run and its provider; how it is may be changed while calls pass."""

    def __init__(self, url: str, rng: random.Random) -> None:
        """`url`: the provider's."""
        self.resets = 0.0  # the share of calls whose connection is reset
        self.silent = False  # requests arrive, and answers do not
        self.late: Callable[[float], float] = lambda at: (
            0.0
        )  # seconds by which an answer is late, `at` seconds after the first call
        self.cut = 0  # connections that were reset
        self.swallowed = 0  # calls whose answer was swallowed
        self.url = ""
        self._parts = urlsplit(url)
        self._rng = rng
        self._first: float | None = None

    async def serve(self, ready: threading.Event) -> None:
        """Until `close`."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = urlunsplit(self._parts._replace(netloc=f"{host}:{port}"))
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await self._stop.wait()
        server.close()

    def close(self) -> None:
        """End `serve`, from another thread."""
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        fate = _Fate()
        ways = [
            asyncio.ensure_future(self._up(reader, requests, fate)),
            asyncio.ensure_future(self._down(answers, writer, fate)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            if any(isinstance(end, _Cut) for end in await asyncio.gather(*ways, return_exceptions=True)):
                self.cut += 1
                at_once = struct.pack("ii", 1, 0)  # closed with a reset
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                writer.transport.abort()
            writer.close()
            requests.close()

    async def _up(self, reader: asyncio.StreamReader, requests: asyncio.StreamWriter, fate: _Fate) -> None:
        while part := await reader.read(BYTES):
            if part.startswith(b"POST "):
                now = time.monotonic()
                self._first = now if self._first is None else self._first
                fate.moment = self._rng.choice(MOMENTS) if self._rng.random() < self.resets else ""
                fate.late = self.late(now - self._first)
            if fate.moment == "before":
                raise _Cut
            requests.write(part)
            await requests.drain()

    async def _down(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, fate: _Fate) -> None:
        while part := await answers.read(BYTES):
            if self.silent:
                self.swallowed += part.startswith(b"HTTP/")
                continue
            late, fate.late = fate.late, 0.0
            await asyncio.sleep(late)
            if fate.moment == "after":
                raise _Cut
            writer.write(part[: len(part) // 2] if fate.moment == "mid" else part)
            await writer.drain()
            if fate.moment == "mid":
                raise _Cut


class _Cut(Exception):
    """A connection is to be reset."""


@contextmanager
def relay(url: str, rng: random.Random) -> Iterator[Relay]:
    """A relay before the provider at `url`, for as long as the block runs."""
    made, ready = Relay(url, rng), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(made.serve(ready)))
    thread.start()
    try:
        assert ready.wait(10)
        yield made
    finally:
        made.close()
        thread.join()
