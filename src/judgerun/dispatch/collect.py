"""Collect: the life of one job after its holds are committed: submitted once, looked at until it has ended, and each of its
attempts closed.

    state        what happens                                  then
    ----------   -------------------------------------------   ---------------------------------------------------------------
    FILLING      submit, after `submitting` is committed       an id: SUBMITTED; certainly not taken: void; else ask again
    SUBMITTING   the provider is asked for the job's token     found: SUBMITTED; twice not found, a while apart: void
    SUBMITTED    looked at, now and then                       ended: collected, each attempt by the outcome table
    ENDED        every attempt is closed                       -

A job that a stop, a closed provider or the death of the process leaves in one of the middle states keeps its holds; the next run
adopts it. What is not known of a job is asked for, and never sent a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from judgerun.dispatch import claim as claims
from judgerun.dispatch.hours import OUTSIDE, Stint
from judgerun.dispatch.money import Scope
from judgerun.dispatch.retry import WAIT_MAX_S, Again, CloseProvider, GiveUp, Tries, says
from judgerun.dispatch.room import Room
from judgerun.dispatch.waits import Ended
from judgerun.errors import Exit, InvariantBroken
from judgerun.ledger.entry import EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.reply import CLOSING, Billable, Cause, Failure
from judgerun.model.request import Request, RequestKey
from judgerun.ports import Answer, Closing, Jobs, JobState, Line, Look, Place

POLL_FIRST_S = 15.0
POLL_MAX_S = 60.0
GRACE_S = 60.0
"""How long after a provider did not know a job it is asked again, before the job is taken not to exist."""
DOUBT_S = 1.0
"""How soon a stop is heard by a job that waits to be asked for again."""
LOOK_TIMEOUT_S = 60.0
CHUNK = 256
"""Attempts that are reserved, or closed, in one commit."""

UNFOUND = Failure(cause=Cause.TIMED_OUT, billable=Billable.NO, detail="the provider does not know the job")
SILENT = Failure(
    cause=Cause.MALFORMED, billable=Billable.UNKNOWN, detail="its job ended without a word on this request"
)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A job of this run, its own or adopted. As a waiter it waits for all of its cells, and only a stop of the run or of its
    provider ends that: what was submitted is paid for, whatever becomes of its conditions.
    """

    id: int
    place: Place
    model: Model
    token: str
    state: JobState
    at: float  # Unix time of its first reservation
    size: int  # attempts
    remote: str | None = None
    collected: bool = False  # it ended with results
    told: str = ""  # the provider's own word for how it stands
    pause: float = 0.0  # seconds until it is looked at again
    missed: bool = False  # the provider did not know it when it was asked before
    failing: float | None = None  # since when it cannot be looked at
    conditions: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    stint: Stint = OUTSIDE
    asks: str = ""

    @property
    def provider(self) -> str:
        """The deployment that has it."""
        return self.place.provider


@dataclass(slots=True, kw_only=True)
class Collector:
    """Takes jobs through their lives. `cells` are the cells of the run that are in jobs, by key: None for a key of an adopted job
    whose cell has not come yet, or never does. `again` takes back a cell that is to be tried after so many seconds; `refused`
    takes back the cells of a job that was refused whole, where its size may be why.
    """

    room: Room
    cells: dict[RequestKey, Cell | None]
    again: Callable[[Cell, float], None]
    refused: Callable[[Job, Failure, list[Cell]], bool]
    settling: int = 0  # jobs whose results are being handed on: they may bring new cells
    _tried: dict[RequestKey, Tries] = field(default_factory=dict)

    async def follow(self, job: Job) -> None:
        """Until the job has ended. Raises Ended when it must be left standing."""
        while job.state is not JobState.ENDED:
            if job.pause:
                await self._wait(job)
            job.pause = min(max(POLL_FIRST_S, job.pause * 1.5), POLL_MAX_S)
            await (self._find(job) if job.state is JobState.SUBMITTING else self._look(job))

    async def _wait(self, job: Job) -> None:
        """Let its pause pass. A run that ends of itself waits for a job in doubt all the same: every later one that ends as soon
        would begin with the same doubt. Raises Ended when it is to be left standing.
        """
        if not (job.state is JobState.SUBMITTING and job.missed):
            await self.room.waits.sleep("job", job.pause, job)
            return
        clock = self.room.given.clock
        until = clock.now() + job.pause
        while (left := until - clock.now()) > 0:
            if Exit.INTERRUPTED in self.room.codes:
                raise Ended
            await clock.sleep(min(left, DOUBT_S))

    # -- to the provider

    async def submit(self, job: Job) -> None:
        """Hand the job over, once. A run that was stopped in the meantime sends nothing. Raises Ended when it was, or is."""
        lines = self.room.given.store.lines(job.id)
        if self.room.halted:
            await self._close([claims.unsent(line.attempt) for line in lines])
            await self._end(job, "nothing of it was sent")
            raise Ended
        requests = await self._requests(lines)
        await self._move(job, JobState.SUBMITTING)
        said = await self._ask(self._jobs(job).submit(requests, token=job.token, timeout_s=self._timeout(job)))
        if isinstance(said, str):
            await self._submitted(job, said)
        elif said.billable is Billable.NO:
            await self._undone(job, said)

    async def _find(self, job: Job) -> None:
        """Ask for a job that may have been submitted."""
        store, timeout_s = self.room.given.store, self._timeout(job)
        requests, known = await self._requests(store.lines(job.id)), store.remotes(job.provider, job.token)
        asked = self._jobs(job).find(requests, token=job.token, since=job.at, known=known, timeout_s=timeout_s)
        said = await self._ask(asked)
        if isinstance(said, str):
            await self._submitted(job, said)
        elif isinstance(said, Look):  # some other job must end first, however long that takes
            job.told, job.failing = self.room.scrub(said.told), None
        elif said is not None:
            await self._trouble(job, said)
        elif not job.missed:
            job.missed, job.pause = True, GRACE_S
        else:
            await self._undone(job, UNFOUND)

    async def _look(self, job: Job) -> None:
        """Ask how a job stands, and collect it when it has ended."""
        assert job.remote is not None
        look = await self._ask(self._jobs(job).look(job.remote, timeout_s=LOOK_TIMEOUT_S))
        if isinstance(look, Failure):
            await self._trouble(job, look)
            return
        if look.told != job.told:
            job.told = self.room.scrub(look.told)
            await self._move(job, JobState.SUBMITTED, detail=job.told)
        if not look.ended:
            job.failing = None
        elif look.failure is not None:
            await self._undone(job, look.failure)
        else:
            await self._collect(job, job.remote)

    async def _submitted(self, job: Job, remote: str) -> None:
        job.remote, job.pause, job.failing = remote, POLL_FIRST_S, None
        await self._move(job, JobState.SUBMITTED, remote=remote)

    async def _trouble(self, job: Job, failure: Failure) -> None:
        """A job cannot be looked at: again later, until that has lasted for too long. Then it stands for a later run."""
        room, now = self.room, self.room.given.clock.now()
        why = room.scrub(says(failure))
        if failure.cause in CLOSING:
            room.close_provider(job.provider, why)
            raise Ended
        job.failing = now if job.failing is None else job.failing
        if now - job.failing >= WAIT_MAX_S:
            told = f"{job.provider}: job {job.id} cannot be looked at: {why}"
            if job.state is JobState.SUBMITTED:  # what it said last: for who asks what became of the job
                await self._move(job, JobState.SUBMITTED, detail=why)
            room.codes.setdefault(Exit.PROVIDER, told)
            room.progress.news.append(told)
            raise Ended
        room.progress.backoff(job.provider, now + job.pause, now, why)

    async def _ask(self, exchange: Awaitable[T]) -> T:
        """An exchange with a provider, which only the second stop ends."""
        task = asyncio.current_task()
        assert task is not None
        self.room.sending[task] = None
        try:
            return await exchange
        except asyncio.CancelledError:
            task.uncancel()
            raise Ended from None
        finally:
            self.room.sending.pop(task, None)

    # -- the end of a job

    async def _undone(self, job: Job, failure: Failure) -> None:
        """Nothing of the job was done, or will be: every attempt is void, and its cells are tried anew."""
        lines = self.room.given.store.lines(job.id)
        for some in _chunks(lines):
            await self._close([claims.undone(line.attempt, failure) for line in some])
        why = self.room.scrub(says(failure))
        await self._end(job, why)
        self.room.progress.news.append(f"job {job.id} at {job.provider} was not done: {why}")
        cells = [cell for line in lines if (cell := self.cells.pop(line.key, None)) is not None]
        if failure.cause not in CLOSING and self.refused(job, failure, cells):
            return
        for cell in cells:
            await self._failed(cell, failure)

    async def _collect(self, job: Job, remote: str) -> None:
        """Close every attempt that is still open by what the provider says of it, and hand the replies on."""
        lines = self.room.given.store.lines(job.id)
        requests = await self._requests(lines)
        answers = await self._ask(self._jobs(job).collect(remote, requests, timeout_s=self._timeout(job)))
        if isinstance(answers, Failure):
            await self._trouble(job, answers)
            return
        # As it was reserved: at the price of the lane and of the day on which it was sent, whatever the files say by now.
        price = self.room.price(replace(job.model, lane="batch"), at=job.at)
        self.settling += 1
        try:
            for some in _chunks(list(zip(lines, requests, strict=True))):
                await self._settle(job, some, answers, price)
            await self._end(job, "collected")
            job.collected = True
        finally:
            self.settling -= 1

    async def _settle(
        self, job: Job, some: Sequence[tuple[Line, Request]], answers: Mapping[RequestKey, Answer], price: Price
    ) -> None:
        """One commit of closings, and what follows from them."""
        room, wall = self.room, self.room.given.clock.wall()
        found = [(line, answers.get(line.key) or Answer(failure=SILENT), request) for line, request in some]
        closings = [
            claims.closing(claims.reserved(line, request, job.place), line.attempt, answer, price, at=wall)
            for line, answer, request in found
        ]
        if await self._close(closings):
            room.halt(Exit.FROZEN, f"job {job.id} was billed more than it held; the budget is frozen")
        before = room.resolved
        for (line, answer, _), closing in zip(found, closings, strict=True):
            cell = self.cells.pop(line.key, None)
            if answer.failure is None:
                self._answered(job, cell, closing)
            elif cell is not None:
                await self._failed(cell, answer.failure)
        if room.gates.due(room.resolved - before):
            await room.look_at_gates()

    def _answered(self, job: Job, cell: Cell | None, closing: Closing) -> None:
        room = self.room
        room.heard(job.provider)
        if cell is not None:
            (_, reply, share), *_ = closing.replies
            name = room.given.experiment.name
            self._resolve(cell, Kept(reply=claims.slim(reply), attempt=closing.attempt, experiment=name, cost=share))

    async def _failed(self, cell: Cell, failure: Failure) -> None:
        """What follows for a cell whose line in a job failed, by the rules of calls."""
        room = self.room
        key, name = cell.request.key, cell.provider
        answered, most = room.answered.get(name, 0), room.lanes.route(name, cell.model).attempts_max
        tries = self._tried.setdefault(key, Tries())
        match tries.after(failure, answered=answered, attempts_max=most, rng=room.given.rng):
            case CloseProvider(reason):
                room.close_provider(name, room.scrub(reason))
                self.again(cell, 0.0)  # and its tray drops it
            case GiveUp(reason):
                await room.given.store.lose(cell.request, reason)
                self._resolve(cell, Lost(reason))
            case Again(after):
                self.again(cell, after)

    def _resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        self._tried.pop(cell.request.key, None)
        self.room.resolve(cell, outcome)

    # -- the books

    async def _close(self, closings: Sequence[Closing]) -> bool:
        """Ends of attempts, durable; whether one froze the budget. Who waits for money is called by the clock."""
        room = self.room
        closed = await room.given.store.close_all(closings)
        now = room.given.clock.now()
        for closing in closings:
            room.progress.count(now=now, tokens=closing.amount.tokens if closing.kind is EntryKind.SETTLE else 0)
        return any(one.overrun for one in closed)

    async def _move(self, job: Job, state: JobState, *, remote: str | None = None, detail: str | None = None) -> None:
        await self.room.given.store.move(job.id, state, remote=remote, detail=detail)
        job.state = state

    async def _end(self, job: Job, why: str) -> None:
        await self._move(job, JobState.ENDED, detail=why)

    async def _requests(self, lines: Sequence[Line]) -> list[Request]:
        """The requests of a job: those of cells of this run as they are, others out of the cache."""
        found = []
        for some in _chunks(lines):
            for line in some:
                cell = self.cells.get(line.key)
                found.append(self.room.given.store.request(line.key) if cell is None else cell.request)
            await asyncio.sleep(0)  # fifty thousand bodies must not keep the loop from its sockets
        return found

    def _jobs(self, job: Job) -> Jobs:
        return jobs_of(self.room, job.provider)

    def _timeout(self, job: Job) -> float:
        return self.room.lanes.route(job.provider, job.model.name).timeout_s


def jobs_of(room: Room, provider: str) -> Jobs:
    """The batch API of a provider, without which no model of its has the lane."""
    jobs = room.given.providers[provider].jobs
    if jobs is None:
        raise InvariantBroken(f"{provider} has no batch API, and a model of it the lane")
    return jobs


def _chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """Slices of so many as one commit holds."""
    return (items[at : at + CHUNK] for at in range(0, len(items), CHUNK))
