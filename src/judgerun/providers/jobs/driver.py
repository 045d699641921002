"""Driver: the Jobs port over HTTP: makes the exchanges of a flow, reads each result as a single call's; no API's shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from judgerun.model.profile import JobLimits
from judgerun.model.reply import Billable, Failure
from judgerun.model.request import Request, RequestKey
from judgerun.ports import Answer, Look
from judgerun.providers import fault
from judgerun.providers.jobs.flow import Flow, Results
from judgerun.providers.secrets import Scrub
from judgerun.providers.wire import WireCall, WireReply

if TYPE_CHECKING:
    from judgerun.providers.http import Http

BODY_BYTES_MAX = 2**30
"""The results of a whole job come as one body."""
TOLD_CHARS_MAX = 100
CHUNK = 256
"""Requests between two breaths: fifty thousand bodies must not keep the loop from its sockets."""

DOUBTFUL = frozenset({408, *range(500, 600)} - {501, 503, 505, 529})
"""Statuses after which what was asked may have been done all the same: of a job that is worth a question, for it may exist."""

T = TypeVar("T")


class Codec(Protocol):
    """What a batch API's module offers; all of it pure."""

    def line(self, name: str, call: WireCall) -> bytes: ...

    def submit(self, lines: list[bytes], call: WireCall, *, token: str) -> Flow[str]: ...

    def find(
        self, names: Collection[str], *, token: str, since: float, known: Collection[str]
    ) -> Flow[str | Look | None]: ...

    def look(self, job: str) -> Flow[Look]: ...

    def collect(self, job: str) -> Flow[Results]: ...

    def cancel(self, job: str) -> Flow[None]: ...


class Driver:
    """A deployment's batch API. `encode` makes the call that would carry one request alone, `read` what came back of one."""

    def __init__(
        self,
        *,
        limits: JobLimits,
        codec: Codec,
        encode: Callable[[Sequence[Request]], WireCall],
        read: Callable[[Sequence[Request], WireReply], Answer],
        http: Http,
        scrub: Scrub,
    ) -> None:
        self.limits = limits
        self._codec = codec
        self._encode = encode
        self._read = read
        self._http = http
        self._scrub = scrub

    def size(self, request: Request) -> int:
        """Bytes of its line."""
        return len(self._line(request))

    def _line(self, request: Request) -> bytes:
        return self._codec.line(request.key.hex(), self._encode([_whole(request)]))

    async def submit(self, requests: Sequence[Request], *, token: str, timeout_s: float) -> str | Failure:
        """Hand a job over. The lines hold the bodies that single calls would send, except that no reply is streamed."""
        lines: list[bytes] = []
        for request in requests:
            await _breathe(len(lines))
            lines.append(self._line(request))
        call = self._encode([_whole(requests[0])])
        return await self._drive(self._codec.submit(lines, call, token=token), timeout_s)

    async def find(
        self, requests: Sequence[Request], *, token: str, since: float, known: Collection[str], timeout_s: float
    ) -> str | Look | Failure | None:
        """Ask for a job that may have been submitted. The timeout is for each page."""
        names = frozenset(request.key.hex() for request in requests)
        return await self._drive(self._codec.find(names, token=token, since=since, known=known), timeout_s)

    async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
        """How a job stands."""
        said = await self._drive(self._codec.look(job), timeout_s)
        if isinstance(said, Failure):
            return said
        refused = None if said.failure is None else self._scrub.failure(said.failure)
        return replace(said, told=self._scrub.text(said.told)[:TOLD_CHARS_MAX], failure=refused)

    async def collect(
        self, job: str, requests: Sequence[Request], *, timeout_s: float
    ) -> Mapping[RequestKey, Answer] | Failure:
        """The first line of a request counts; of what is not asked for only whether it was done. The timeout is for each body."""
        results = await self._drive(self._codec.collect(job), timeout_s)
        if isinstance(results, Failure):
            return results
        wanted = {request.key.hex(): request for request in requests}
        answers: dict[RequestKey, Answer] = {}
        seen: set[str] = set()
        done = 0
        for name, told in results.lines:
            if name in seen:
                continue
            await _breathe(len(seen))
            seen.add(name)
            done += isinstance(told, WireReply) and _good(told)
            if (request := wanted.get(name)) is not None:
                answers[request.key] = self._answer(request, told)
        if results.rest is not None and results.done is not None and done >= results.done:
            for request in requests:
                answers.setdefault(request.key, Answer(failure=results.rest))
        return answers

    def _answer(self, request: Request, told: WireReply | Failure) -> Answer:
        if isinstance(told, Failure):
            return Answer(failure=self._scrub.failure(told))
        answer = self._read([request], told)
        if answer.failure is None or _good(told):
            return answer
        return replace(answer, failure=replace(answer.failure, billable=Billable.NO))

    async def cancel(self, job: str, *, timeout_s: float) -> Failure | None:
        """Ask that nothing more of a job be done."""
        return await self._drive(self._codec.cancel(job), timeout_s)

    async def _drive(self, flow: Flow[T], timeout_s: float) -> T | Failure:
        """Make the exchanges of a flow; what it returns."""
        try:
            call = next(flow)
            while True:
                call = flow.send(await self._exchange(call, timeout_s))
        except StopIteration as end:
            said: T | Failure = end.value
            return self._scrub.failure(said) if isinstance(said, Failure) else said

    async def _exchange(self, call: WireCall, timeout_s: float) -> WireReply | Failure:
        """One HTTP call; an error status is a failure, which says whether what was asked may have been done all the same."""
        wire = await self._http.send(call, headers={}, timeout_s=timeout_s, body_bytes_max=BODY_BYTES_MAX)
        if isinstance(wire, Failure):
            return replace(wire, billable=Billable.UNKNOWN) if wire.status in DOUBTFUL else wire
        wire = replace(wire, body=self._scrub.known(wire.body))
        return wire if _good(wire) else fault.classify(wire, doubtful=DOUBTFUL)


def _whole(request: Request) -> Request:
    """The request with its reply asked for in one piece, as it is in a job."""
    words = [word for word in request.adapter.split() if word != "stream"]
    return replace(request, adapter=" ".join(words))


def _good(wire: WireReply) -> bool:
    return 200 <= wire.status < 300


async def _breathe(done: int) -> None:
    if done % CHUNK == 0:
        await asyncio.sleep(0)
