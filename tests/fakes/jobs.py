"""A batch API with seeded faults and books of its own, in the process: it remembers what it was handed, and what it would charge.

What becomes of a request is drawn when its job is submitted and happens when the job has ended. It says itself when it is handed
a request that an earlier job has done, or may still do: nobody can see that better.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fakes.mortal import Mortal
from fakes.provider import text_for
from judgerun.model.profile import JobLimits
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, RequestKey
from judgerun.ports import Answer, Look

LIMITS = JobLimits(requests=6, bytes=100_000, factor="1", embed=True)

SUBMITS = ("late", "lost", "unreached", "too many", "broken")
"""What may become of a submit: it times out and the job is there; or is not; not sent; 429; refused."""
WHOLES = ("over quota", "void")
"""What may become of a job as a whole: too much is enqueued; it failed for no reason that it tells."""
LINES = ("errored", "expired", "cancelled", "rejected", "missing", "charged", "overrun", "no usage")
"""What may become of a line; `missing` and `charged` are not spoken of, and the second is charged all the same."""
ASKS = ("find fails", "look fails", "collect fails")
"""What may become of a question."""
FAULTS = (*SUBMITS, *WHOLES, *LINES, *ASKS)


@dataclass(slots=True)
class Remote:
    """A job at the provider."""

    token: str
    requests: tuple[Request, ...]
    known_at: float  # when `find` sees it
    ends_at: float
    whole: str
    fates: dict[RequestKey, str]

    def charges(self, key: RequestKey) -> int:
        """Nano-dollars for a line."""
        fate = self.fates[key]
        if self.whole or fate not in ("", "charged", "overrun", "no usage"):
            return 0
        used = usage(next(request for request in self.requests if request.key == key), fate)
        return (used.input or 0) * 1000 + (used.output or 0) * 4000


@dataclass(slots=True)
class Batches:
    """The provider's side; it outlives every process. `weights` are per fault, against 1 for none."""

    seed: int
    weights: dict[str, float] = field(default_factory=dict)
    pace: tuple[float, float] = (5.0, 300.0)
    jobs: dict[str, Remote] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    submits: int = 0
    cancelled: list[str] = field(default_factory=list)

    def draw(self, *names: str) -> str:
        """One of these faults, or none."""
        rng = random.Random(f"batches {self.seed} {names} {self.submits} {asyncio.get_running_loop().time():.3f}")
        weights = [1.0, *(self.weights.get(name, 0.0) for name in names)]
        return rng.choices(["", *names], weights)[0]

    def take(self, requests: Sequence[Request], token: str) -> str:
        """A job arrives."""
        self.submits += 1
        rng, now = random.Random(f"job {self.seed} {self.submits}"), asyncio.get_running_loop().time()
        if any(job.token == token for job in self.jobs.values()):
            self.findings.append(f"token {token} was submitted twice")
        for request in requests:
            self._check(request.key, now)
        names = [name for name in LINES if self.weights.get(name)]
        weights = [1.0, *(self.weights[name] for name in names)]
        fates = {request.key: rng.choices(["", *names], weights)[0] for request in requests}
        number = f"remote-{len(self.jobs) + 1}"
        known, ends = now + rng.uniform(0.0, 50.0), now + rng.uniform(*self.pace)
        self.jobs[number] = Remote(token, tuple(requests), known, ends, self.draw(*WHOLES), fates)
        return number

    def _check(self, key: RequestKey, now: float) -> None:
        for number, job in self.jobs.items():
            if key not in job.fates or (job.whole and now >= job.ends_at):
                continue
            if now < job.ends_at:
                self.findings.append(f"{key.hex()[:12]} was submitted again while {number} was at work on it")
            elif job.fates[key] in ("", "overrun", "no usage"):
                self.findings.append(f"{key.hex()[:12]} was submitted again though {number} had done it")


@dataclass(slots=True)
class FakeJobs:
    """The port, as one process has it."""

    batches: Batches
    mortal: Mortal = field(default_factory=Mortal)
    limits: JobLimits = LIMITS
    mutant: str = ""

    def size(self, request: Request) -> int:
        return len(request.canonical)

    async def submit(self, requests: Sequence[Request], *, token: str, timeout_s: float) -> str | Failure:
        self.mortal.before_step()
        said = await self._submit(requests, token, timeout_s)
        self.mortal.after_step()
        return said

    async def _submit(self, requests: Sequence[Request], token: str, timeout_s: float) -> str | Failure:
        fault = self.batches.draw(*SUBMITS)
        await asyncio.sleep(1.0)
        match fault:
            case "unreached":
                return _failure(Cause.NOT_SENT, Billable.NO)
            case "too many":
                return _failure(Cause.RATE_LIMITED, Billable.NO)
            case "broken":
                return _failure(Cause.OVERLOADED, Billable.NO)
            case "lost":
                await asyncio.sleep(timeout_s)
                return _failure(Cause.TIMED_OUT)
        number = self.batches.take(requests, token)
        if fault == "late":
            await asyncio.sleep(timeout_s)
            return _failure(Cause.TIMED_OUT)
        return number

    async def find(
        self, requests: Sequence[Request], *, token: str, since: float, known: Collection[str], timeout_s: float
    ) -> str | Look | Failure | None:
        self.mortal.before_step()
        await asyncio.sleep(0.5)
        if self.mutant == "no find":
            return None
        if self.batches.draw("find fails"):
            return _failure(Cause.OVERLOADED)
        now = asyncio.get_running_loop().time()
        return next(
            (name for name, job in self.batches.jobs.items() if job.token == token and job.known_at <= now), None
        )

    async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
        self.mortal.before_step()
        await asyncio.sleep(0.5)
        if self.batches.draw("look fails"):
            return _failure(Cause.DISCONNECTED)
        remote = self.batches.jobs[job]
        if asyncio.get_running_loop().time() < remote.ends_at:
            return Look(ended=False, told="in progress")
        cause = {"over quota": Cause.RATE_LIMITED, "void": Cause.REJECTED}.get(remote.whole)
        return Look(ended=True, told="failed" if cause else "done", failure=_failure(cause) if cause else None)

    async def collect(
        self, job: str, requests: Sequence[Request], *, timeout_s: float
    ) -> Mapping[RequestKey, Answer] | Failure:
        self.mortal.before_step()
        await asyncio.sleep(2.0)
        if self.batches.draw("collect fails"):
            return _failure(Cause.DISCONNECTED)
        remote = self.batches.jobs[job]
        lines = [(request.key, answer(request, remote.fates[request.key])) for request in remote.requests]
        random.Random(job).shuffle(lines)
        lines += lines[:1]  # a line that stands twice
        return {key: said for key, said in lines if said is not None}

    async def cancel(self, job: str, *, timeout_s: float) -> Failure | None:
        self.batches.cancelled.append(job)
        return None


def _failure(cause: Cause, billable: Billable = Billable.UNKNOWN) -> Failure:
    return Failure(cause=cause, billable=billable, detail="simulated")


def usage(request: Request, fate: str = "") -> Usage:
    """What a line uses."""
    body = request.payload
    if request.kind == "embed":
        return Usage(input_fresh=len(body["text"].encode()) // 4 + 1, output_visible=0)
    tokens = sum(len(message["content"].encode()) // 4 + 2 for message in body["messages"])
    return Usage(input_fresh=tokens * (400 if fate == "overrun" else 1), output_visible=3)


def answer(request: Request, fate: str) -> Answer | None:
    """What the results say of a line; None where they are silent."""
    match fate:
        case "missing" | "charged":
            return None
        case "errored":
            return Answer(failure=_failure(Cause.OVERLOADED, Billable.NO))
        case "expired":
            return Answer(failure=_failure(Cause.TIMED_OUT, Billable.NO))
        case "cancelled":
            return Answer(failure=_failure(Cause.INTERRUPTED, Billable.NO))
        case "rejected":
            return Answer(failure=_failure(Cause.REJECTED, Billable.NO))
    used = Usage() if fate == "no usage" else usage(request, fate)
    if request.kind == "embed":
        return Answer(replies=(Reply(finish=Finish.STOP, vector=b"\0\0\0\0", usage=used, raw_digest="00"),))
    text = text_for(json.loads(request.canonical)["payload"])
    return Answer(replies=(Reply(finish=Finish.STOP, finish_raw="stop", text=text, usage=used, raw_digest="00"),))
