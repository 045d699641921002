"""A provider of chat completions and embeddings on 127.0.0.1 with seeded faults and books of its own, for runs in virtual time.

It knows the wire and nothing of judgerun. What it says to a request depends on the request alone, so any reply can be
checked without memory; when it says it, and what goes wrong, is drawn from the seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

FAULTS = (
    "429",  # with Retry-After
    "429 bare",
    "500",
    "drop before",  # the connection breaks, nothing was charged
    "drop after",  # charged, then the connection breaks
    "stall",  # charged, and answered long after any deadline
    "overrun",  # charged above what the request can cost
    "garbage",  # charged; a body that is no JSON
    "no usage",  # charged; the reply does not say how much
    "odd finish",  # a finish reason that nobody has heard of
    "quota",  # out of credit
    "rejected",  # this request is refused, for good
)


@dataclass(slots=True)
class Hit:
    """One request that arrived."""

    at: float
    attempt: int | None  # the header x-judgerun-attempt
    model: str
    digest: str  # of what was asked


@dataclass(slots=True)
class Bill:
    """The provider's own books."""

    hits: list[Hit] = field(default_factory=list)
    charged: dict[int | None, int] = field(default_factory=dict)  # attempt -> nano-dollars, over all its requests
    overruns: set[int | None] = field(default_factory=set)  # attempts charged above what they could cost

    @property
    def total(self) -> int:
        return sum(self.charged.values())

    def charge(self, attempt: int | None, nanos: int) -> None:
        self.charged[attempt] = self.charged.get(attempt, 0) + nanos

    def worst_window(self, seconds: float, model: str | None = None) -> int:
        """The most requests that arrived within any half-open window of so many seconds."""
        times = sorted(hit.at for hit in self.hits if model in (None, hit.model))
        worst = first = 0
        for last, at in enumerate(times):
            while times[first] <= at - seconds:
                first += 1
            worst = max(worst, last - first + 1)
        return worst


def text_for(body: Mapping[str, Any]) -> str:
    """What the provider answers to a chat request: a function of what was asked."""
    asked = json.dumps([body["model"], body["messages"]], sort_keys=True)
    return f"answer {hashlib.sha256(asked.encode()).hexdigest()[:8]}"


class FakeProvider:
    """A server. `weights` are per fault, against 1 for none; prices are nano-dollars per million tokens."""

    def __init__(
        self,
        *,
        seed: int = 0,
        weights: Mapping[str, float] | None = None,
        latency: tuple[float, float] = (0.2, 3.0),
        price: tuple[int, int] = (1_000_000_000, 4_000_000_000),
        retry_after: str = "2",
    ) -> None:
        self.rng = random.Random(f"provider {seed}")
        self.weights = dict(weights or {})
        self.latency = latency
        self.price = price
        self.retry_after = retry_after
        self.bill = Bill()
        self.in_flight = 0
        self.in_flight_max = 0
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1 (a name would be looked up in a thread, which virtual time does not see)."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0, handler_cancellation=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # -- what is asked

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        tokens_in = sum(len(message["content"].encode()) // 4 + 2 for message in body["messages"])
        text = text_for(body)
        cap = body.get("max_completion_tokens", 64)
        tokens_out = min(3 + int(text[-2:], 16) % 8, cap)
        finish = "length" if tokens_out == cap else "stop"
        reply = {
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out},
        }
        return await self._serve(request, body, reply, tokens_in, tokens_out)

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        texts = body["input"]
        tokens_in = sum(len(text.encode()) // 4 + 1 for text in texts)
        data = [
            {"index": n, "embedding": [byte / 256 + 0.001 for byte in hashlib.sha256(text.encode()).digest()[:4]]}
            for n, text in enumerate(texts)
        ]
        reply = {"model": body["model"], "data": data, "usage": {"prompt_tokens": tokens_in, "total_tokens": tokens_in}}
        return await self._serve(request, body, reply, tokens_in, 0)

    async def _serve(
        self, request: web.Request, body: dict[str, Any], reply: dict[str, Any], tokens_in: int, tokens_out: int
    ) -> web.StreamResponse:
        header = request.headers.get("x-judgerun-attempt")
        attempt = int(header) if header else None
        asked = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
        self.bill.hits.append(Hit(asyncio.get_running_loop().time(), attempt, body["model"], asked))
        fault = self._draw()
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            await asyncio.sleep(self.rng.uniform(*self.latency))
            return await self._answer(request, reply, fault, attempt, tokens_in, tokens_out)
        finally:
            self.in_flight -= 1

    def _draw(self) -> str:
        names = [name for name, weight in self.weights.items() if weight > 0]
        return self.rng.choices(["", *names], [1.0, *(self.weights[name] for name in names)])[0]

    # -- what comes back

    async def _answer(
        self,
        request: web.Request,
        reply: dict[str, Any],
        fault: str,
        attempt: int | None,
        tokens_in: int,
        tokens_out: int,
    ) -> web.StreamResponse:
        refusal = _refusal(fault, self.retry_after)
        if refusal is not None:
            return refusal
        if fault == "drop before":
            return _abort(request)
        if fault == "overrun":
            tokens_in *= 40
            self.bill.overruns.add(attempt)
            reply["usage"]["prompt_tokens"] = tokens_in
        self.bill.charge(attempt, -(-(tokens_in * self.price[0] + tokens_out * self.price[1]) // 1_000_000))
        if fault == "drop after":
            return _abort(request)
        if fault == "stall":
            await asyncio.sleep(500)
        if fault == "garbage":
            return web.Response(text='{"choices": [', content_type="application/json")
        if fault == "no usage":
            del reply["usage"]
        if fault == "odd finish" and "choices" in reply:
            reply["choices"][0]["finish_reason"] = "banana"
        return web.json_response(reply)


def _refusal(fault: str, retry_after: str) -> web.Response | None:
    """An error status: nothing is charged for it."""
    error = {"error": {"message": f"simulated: {fault}", "code": "simulated"}}
    match fault:
        case "429":
            return web.json_response(error, status=429, headers={"Retry-After": retry_after})
        case "429 bare":
            return web.json_response(error, status=429)
        case "500" | "502":
            return web.json_response(error, status=int(fault))
        case "quota":
            return web.json_response({"error": {"message": "simulated", "code": "insufficient_quota"}}, status=429)
        case "unauthorised":
            return web.json_response(error, status=401)
        case "rejected":
            return web.json_response(error, status=400)
        case _:
            return None


def _abort(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
