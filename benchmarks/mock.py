"""A mock chat server for benchmarks: one asyncio Protocol, a fixed reply, a fixed latency, counts at GET /stats.

`python benchmarks/mock.py --latency 1.0` prints {"ready": URL} and serves on 127.0.0.1 until its standard input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
import time
from collections import deque

WINDOW_S = 60.0
TEXT = "The candidate that asks for the same is number 3. " * 4
REPLY = json.dumps(
    {
        "id": "chatcmpl-mock",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "mock",
        "system_fingerprint": "fp_mock",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
        "usage": {
            "prompt_tokens": 512,
            "completion_tokens": 40,
            "total_tokens": 552,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }
).encode()


def answer(body: bytes) -> bytes:
    """An HTTP response that keeps the connection."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


CHAT = answer(REPLY)


class Counts:
    """What the server saw: requests, the most in flight at once, the most in any 60 seconds."""

    def __init__(self) -> None:
        self.requests = 0
        self.in_flight = 0
        self.most = 0
        self.worst = 0
        self._recent: deque[float] = deque()

    def begin(self, now: float) -> None:
        """A request is here."""
        self.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self._recent.append(now)
        while self._recent[0] <= now - WINDOW_S:
            self._recent.popleft()
        self.worst = max(self.worst, len(self._recent))

    def body(self) -> bytes:
        """As JSON."""
        seen = {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "most": self.most,
            "worst_window": self.worst,
            "cpu": time.process_time(),
        }
        return json.dumps(seen).encode()


class Mock(asyncio.Protocol):
    """One connection. Requests come one after another; each ends where its content-length says."""

    def __init__(self, counts: Counts, latency: float) -> None:
        self._counts = counts
        self._latency = latency
        self._held = b""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._open = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._counts.in_flight -= self._open
        self._open = 0

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._held) < end + 4 + length:
                return
            self._held = self._held[end + 4 + length :]
            if head.startswith(b"get /stats"):
                self._write(answer(self._counts.body()))
                continue
            self._counts.begin(self._loop.time())
            self._open += 1
            if self._latency:
                self._loop.call_later(self._latency, self._reply)
            else:
                self._reply()

    def _reply(self) -> None:
        if self._transport is not None:
            self._counts.in_flight -= 1
            self._open -= 1
            self._write(CHAT)

    def _write(self, response: bytes) -> None:
        if self._transport is not None:
            self._transport.write(response)


async def serve(latency: float) -> None:
    """Serve until standard input closes."""
    loop = asyncio.get_running_loop()
    counts = Counts()
    server = await loop.create_server(lambda: Mock(counts, latency), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"ready": f"http://127.0.0.1:{port}"}), flush=True)
    ended = asyncio.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True).start()
    await ended.wait()
    server.close()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[-1]})  # the client has the first core
    asyncio.run(serve(given.latency))


if __name__ == "__main__":
    main()
