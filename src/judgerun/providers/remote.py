"""Remote: a deployment behind HTTP, as the Provider port wants it: encode, send, class or decode, scrub; no dialect's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from judgerun.model.experiment import Deployment
from judgerun.model.profile import Profile
from judgerun.model.reply import Billable, Failure, Reply
from judgerun.model.request import Request
from judgerun.ports import Answer, Jobs
from judgerun.providers import facts, fault, limits, tokenize
from judgerun.providers.jobs.driver import Codec, Driver
from judgerun.providers.secrets import Scrub
from judgerun.providers.wire import WireCall, WireReply

if TYPE_CHECKING:
    from judgerun.providers.http import Http

ATTEMPT_HEADER = "x-judgerun-attempt"
COUNT_S = 30.0
"""So long may a server take to count the tokens of one request, in seconds."""

_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")


class Dialect(Protocol):
    """What a dialect's module offers; all of it pure."""

    def profile(self, deployment: Deployment) -> Profile: ...

    def authorise(self, key: str | None, deployment: Deployment) -> Mapping[str, str]: ...

    def encode(self, requests: Sequence[Request], deployment: Deployment) -> WireCall: ...

    def decode(
        self, requests: Sequence[Request], wire: WireReply, deployment: Deployment
    ) -> tuple[Reply, ...] | Failure: ...


class Remote:
    """A deployment that speaks a dialect over HTTP."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        dialect: Dialect,
        profile: Profile,
        http: Http,
        scrub: Scrub,
        codec: Codec | None = None,
    ) -> None:
        """`codec` is of the dialect's batch API, which a deployment has where its profile says so."""
        self.profile = profile
        self._deployment = deployment
        self._windows = facts.of(deployment).windows
        self._dialect = dialect
        self._http = http
        self._scrub = scrub
        self.jobs: Jobs | None = None
        if profile.jobs is not None and codec is not None:
            self.jobs = Driver(
                limits=profile.jobs,
                codec=codec,
                encode=lambda requests: dialect.encode(requests, deployment),
                read=self._answer,
                http=http,
                scrub=scrub,
            )

    async def send(self, requests: Sequence[Request], *, timeout_s: float, attempt: int) -> Answer:
        """One HTTP call. What the world does is in the Answer; only cancellation and our own bugs pass through."""
        call = self._dialect.encode(requests, self._deployment)
        loop = asyncio.get_running_loop()
        started = loop.time()
        wire = await self._http.send(call, headers={ATTEMPT_HEADER: str(attempt)}, timeout_s=timeout_s)
        latency_ms = round((loop.time() - started) * 1000)
        if isinstance(wire, Failure):
            if wire.status in self.profile.doubtful:  # the body that broke off would not have said more
                wire = replace(wire, billable=Billable.UNKNOWN)
            return Answer(failure=wire, status=wire.status, latency_ms=latency_ms)
        return self._answer(requests, wire, latency_ms)

    def _answer(self, requests: Sequence[Request], wire: WireReply, latency_ms: int | None = None) -> Answer:
        """What a reply to these requests says, and its headers say of limits; without our keys."""
        stated = limits.stated(wire.headers, at=wire.at, windows=self._windows)
        told = self._decoded(requests, wire)
        given = next((wire.headers[name] for name in _REQUEST_IDS if name in wire.headers), None)
        served_by = None if given is None else self._scrub.header(given)[:200]
        if isinstance(told, Failure):
            told = self._scrub.failure(told)
            return Answer(failure=told, status=wire.status, served_by=served_by, latency_ms=latency_ms, limits=stated)
        return Answer(replies=told, status=wire.status, served_by=served_by, latency_ms=latency_ms, limits=stated)

    def _decoded(self, requests: Sequence[Request], wire: WireReply) -> tuple[Reply, ...] | Failure:
        clean = self._scrub.known(wire.body)
        if clean is not wire.body:  # a server that echoes our key: taken out before anything is cut or kept
            wire = replace(wire, body=clean)
        if not 200 <= wire.status < 300:
            return fault.classify(wire, doubtful=self.profile.doubtful)
        return self._dialect.decode(requests, wire, self._deployment)

    async def count(self, request: Request) -> int | None:
        """Input tokens by the server's own tokenizer (/tokenize), without what a chat template puts around them; None where it
        gives no count: then the bytes bound it.
        """
        wire = await self._http.send(tokenize.ask(request), headers={}, timeout_s=COUNT_S)
        return None if isinstance(wire, Failure) else tokenize.told(wire)

    def reset(self, asleep: float) -> None:
        """Drop the connections that idle, and give calls in flight the time that passed."""
        self._http.reset(asleep)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
