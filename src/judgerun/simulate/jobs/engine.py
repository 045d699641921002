"""Engine: jobs and their lines, done one after the other in simulated time and charged at the job's share; no wire shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from judgerun.simulate import chance
from judgerun.simulate.ask import Ask, Given, Trouble
from judgerun.simulate.bill import Bill
from judgerun.simulate.dialects import Dialect
from judgerun.simulate.law import Law, give, habit, overlong

JOB_S = 30.0
"""Seconds that a job takes from its submit to its end, times the pace."""
PARTIAL = 1 / 3
"""The share of the lines that `job_partial` spoils, and at least one."""


@dataclass(slots=True, kw_only=True)
class Line:
    """One request of a job, by the client's own name for it."""

    key: str
    dialect: Dialect
    ask: Ask | None = None  # None: it cannot be read
    trouble: Trouble | None = None  # why it has no answer
    given: Given | None = None
    end: Literal["waiting", "succeeded", "errored", "canceled", "expired"] = "waiting"


@dataclass(slots=True, kw_only=True)
class Job:
    """A set of lines. Times are Unix seconds."""

    id: str
    lines: Sequence[Line]
    fault: str | None
    created: float
    keeps: bool = True  # what was done of it before it expired can be had
    told: Mapping[str, Any] = field(default_factory=dict)  # what the dialect's own shape says back of the submit
    cancelled: float | None = None
    ended: float | None = None

    def count(self, end: str) -> int:
        """Lines that ended so."""
        return sum(line.end == end for line in self.lines)

    @property
    def begun(self) -> bool:
        """Whether any of its lines is done."""
        return self.count("waiting") < len(self.lines)

    @property
    def failed(self) -> bool:
        """Whether it was refused as a whole, after it was taken."""
        return self.fault == "job_fail" and self.ended is not None

    def results(self) -> list[Line]:
        """Its lines as the results have them: shuffled, and one missing or there twice where that is the fault."""
        lines = sorted(self.lines, key=lambda line: chance.number(self.id, line.key))
        match self.fault:
            case "job_missing_line":
                return lines[1:]
            case "job_duplicate_line":
                return [*lines, lines[0]]
        return lines


class Engine:
    """All jobs of a provider, newest last, and the files that carry them."""

    def __init__(
        self, *, seed: int, models: Mapping[str, Law], bill: Bill, pace: float, wall: Callable[[], float]
    ) -> None:
        self.jobs: dict[str, Job] = {}
        self.files: dict[str, bytes] = {}
        self._seed = seed
        self._models = models
        self._bill = bill
        self._pace = pace
        self._wall = wall
        self._tasks: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        """Unix seconds."""
        return self._wall()

    def keep(self, raw: bytes) -> str:
        """Keep a file; its id."""
        name = f"file-{len(self.files) + 1:08d}"
        self.files[name] = raw
        return name

    def start(
        self, id: str, lines: Sequence[Line], fault: str | None, told: Mapping[str, Any], *, keeps: bool = True
    ) -> Job:
        """Take a job, whose id begins with `id`; its lines are worked off from now on, whoever asks."""
        name = f"{id}{len(self.jobs) + 1:08d}"
        job = Job(id=name, lines=lines, fault=fault, created=self._wall(), told=told, keeps=keeps)
        self.jobs[job.id] = job
        task = asyncio.get_running_loop().create_task(self._work(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def cancel(self, job: Job) -> Job:
        """Do nothing more of a job; what is done stays done, and charged."""
        if job.ended is None and job.cancelled is None:
            job.cancelled = self._wall()
        return job

    async def close(self) -> None:
        """End the work on all jobs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, job: Job) -> None:
        step = JOB_S * self._pace / len(job.lines)
        for n, line in enumerate(job.lines):
            if step:
                await asyncio.sleep(step)
            if job.cancelled is not None:
                break
            late = job.fault == "job_expire" and (not job.keeps or n >= len(job.lines) // 2)
            if job.fault != "job_fail" and not late:
                self._do(job, n, line)
        rest: Literal["canceled", "expired"] = "expired" if job.cancelled is None else "canceled"
        for line in job.lines:
            line.end = rest if line.end == "waiting" else line.end
        job.ended = self._wall()

    def _do(self, job: Job, n: int, line: Line) -> None:
        """Answer one line, or say why not, and write it in the books."""
        ask = line.ask
        if job.fault == "job_partial" and (n == 0 or chance.uniform(job.id, line.key) < PARTIAL):
            line.trouble = Trouble(kind="server", message="the server had an error")
        elif ask is not None:
            law = habit(self._seed, ask.model, self._models)
            line.trouble = overlong(law, ask)
            if line.trouble is None:
                line.given = give(self._seed, law, ask)
        line.end = "errored" if line.given is None else "succeeded"
        self._bill.enter(
            line.given or Given(),
            model="" if ask is None else ask.model,
            fault=job.fault,
            billed=line.given is not None,
            at=self._wall(),
            attempt=None,
            path=job.id,
            job=job.id,
            line=line.key,
        )
