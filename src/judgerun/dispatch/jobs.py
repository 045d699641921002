"""Jobs: what a run sends in the batch lane: cells are gathered in trays, their money is held, parts are handed over as jobs.

What may live here: when a part is due, which jobs of earlier runs this one takes over, and where cells go that come back. How
a part gets its money is fill.py's, what becomes of a job collect.py's. A cell in a job owns no slot, no task and no place in
the scheduler's window.

A part is due when its tray is full; or when no further cell can be taken now, and either no job of the model is open (so that
work begins at once) or nothing but jobs could bring another cell (so that nothing is waited for in vain). In between a tray
gathers: a model's first job may be small, its later ones are as large as the time of the one before made them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from judgerun.dispatch.collect import POLL_FIRST_S, POLL_MAX_S, Collector, Job, jobs_of
from judgerun.dispatch.fill import Filler, Waiting
from judgerun.dispatch.recover import stranded
from judgerun.dispatch.retry import WAIT_MAX_S, says
from judgerun.dispatch.room import Room
from judgerun.dispatch.trays import Tray
from judgerun.dispatch.waits import Ended
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell
from judgerun.model.reply import Cause, Failure
from judgerun.model.request import RequestKey
from judgerun.ports import JobState, LeftJob, Line

FOREIGN_S = 1.0
"""How soon a key that another process holds is looked at again, at first."""
ABSENT = frozenset({404, 405})
"""What an address answers a submit that has no batch API, or none for the model."""
BY_SIZE = frozenset({Cause.REJECTED, Cause.TOO_LONG, Cause.RATE_LIMITED})
"""Why a job may have been refused whole though a smaller one would be taken: too large, one bad request, too much enqueued."""


class Keeper:
    """The trays and jobs of one run. `spawn` runs a task that belongs to the run; `again` has the scheduler look again."""

    def __init__(
        self, room: Room, *, spawn: Callable[[Coroutine[Any, Any, None]], None], again: Callable[[], None]
    ) -> None:
        self._room = room
        self._given = room.given
        self._spawn = spawn
        self._again = again
        self._trays: dict[str, Tray] = {}
        self._open: dict[int, Job] = {}
        self._cells: dict[RequestKey, Cell | None] = {}  # in jobs: see Collector
        self._left: set[RequestKey] = set()  # keys of jobs that are left standing though the run goes on
        self._foreign: dict[RequestKey, Cell] = {}  # cells of which another process holds the key
        self._collector = Collector(room=room, cells=self._cells, again=self._retry, refused=self._refused)
        self._filler = Filler(room, cells=self._cells, held=self._held, begin=self._hand_over)
        self._told: set[int] = set()  # jobs of earlier runs that nobody here can collect
        self._stalled = self._last = False
        self._watching = False  # a task waits for the keys that others hold
        room.adopt = self.adopt
        room.progress.jobs = self._open

    # -- what comes in

    def add(self, cell: Cell) -> None:
        """A cell of a model with the lane: to its place in an adopted job, or into its tray."""
        key = cell.request.key
        if key in self._cells:
            self._cells[key] = cell
        elif key in self._left:
            self._given.flow.forgo(cell)
        else:
            self._put(self._tray(cell.model), cell)

    @property
    def full(self) -> bool:
        """Whether a tray holds a whole part: memory is bounded by one for each model."""
        return any(tray.full for tray in self._trays.values())

    async def adopt(self) -> None:
        """Take over the jobs that ended processes of this experiment left standing. One of a model that the experiment no longer
        has there stays as it is: nobody here knows its price.
        """
        room, store = self._room, self._given.store
        found = {
            job.id: (job, lines, self._model_of(job, lines)) for job in store.left() for lines in [store.lines(job.id)]
        }
        taken = (
            await store.adopt([number for number, (*_, model) in found.items() if model is not None]) if found else ()
        )
        for number, (job, lines, model) in found.items():
            if model is None:
                self._forsaken(job, lines)
                continue
            if number not in taken:
                continue
            if not lines:  # all was closed, and then the process died
                await store.move(job.id, JobState.ENDED, detail="collected")
                continue
            for line in lines:
                self._cells[line.key] = self._foreign.pop(line.key, None)
            room.progress.news.append(f"job {job.id} at {job.place.provider} is taken over: {len(lines)} calls")
            self._begin(
                Job(
                    id=job.id,
                    place=job.place,
                    model=model,
                    token=job.token,
                    state=job.state,
                    at=job.at,
                    size=len(lines),
                    remote=job.remote,
                )
            )

    def _model_of(self, job: LeftJob, lines: Sequence[Line]) -> Model | None:
        """The model whose results a job holds: what stands in its requests says so, for a name may have come to mean another."""
        provider = self._given.providers.get(job.place.provider)
        if provider is None or provider.jobs is None:
            return None
        there = [
            model
            for model in self._given.models.values()
            if (model.provider.name, model.provider.key_part) == (job.place.provider, job.place.deployment)
            and (not lines or model.model == self._id_of(lines[0]))
        ]
        return next((model for model in there if model.name == job.place.model), there[0] if there else None)

    def _id_of(self, line: Line) -> str:
        """What the provider calls the model of a request."""
        return str(self._given.store.request(line.key).payload["model"])

    def _forsaken(self, job: LeftJob, lines: Sequence[Line]) -> None:
        """Tell, once, of a job that this run cannot collect."""
        if job.id not in self._told:
            self._told.add(job.id)
            what = (
                f"no model of this experiment is {self._id_of(lines[0])} there now" if lines else "it is not there now"
            )
            how = f"judgerun jobs {self._given.experiment.name}"
            self._room.progress.news.append(f"job {job.id} at {job.place.provider} is left: {what}; {how}")

    def _put(self, tray: Tray, cell: Cell) -> None:
        tray.add(cell, bytes=jobs_of(self._room, cell.provider).size(cell.request))

    def _tray(self, name: str) -> Tray:
        if (tray := self._trays.get(name)) is None:
            model = self._given.models[name]
            limits = jobs_of(self._room, model.provider.name).limits
            most = [limit for _, limit in self._filler.enqueued(model)]
            tray = self._trays[name] = Tray(model=model, limits=limits, tokens_max=min(most, default=None))
        return tray

    # -- when a part is due

    def pump(self, *, stalled: bool, last: bool) -> None:
        """Begin to fill what is due. `stalled`: no further cell can be taken now; `last`: and only jobs can bring another."""
        self._stalled, self._last = stalled, last
        for tray in self._trays.values():
            if not tray.filling and self._due(tray):
                tray.filling = True
                self._spawn(self._fill(tray))

    def _due(self, tray: Tray) -> bool:
        if not tray.size or tray.sending or self._room.halted:
            return False
        if tray.full:
            return True
        if not self._stalled or self._collector.settling:
            return False
        return self._last or not any(job.model.name == tray.model.name for job in self._open.values())

    async def _fill(self, tray: Tray) -> None:
        """Send parts of a tray until none is due."""
        with self._room.contained():
            try:
                while True:
                    try:
                        self._filler.sweep(tray)
                        if self._room.pause.on and tray.size:
                            self._filler.called(tray)
                            await self._room.pause.over(tray.first.rank, tray)
                            continue
                        if tray.called is None and not self._due(tray):
                            return
                        await self._filler.part(tray)
                    except Ended:  # what waited has lost its purpose: it is swept
                        if self._room.halted:
                            return
            finally:
                self._filler.called(tray)
                tray.filling = False

    # -- jobs

    def _hand_over(self, tray: Tray, job: Job) -> None:
        """A job whose holds are committed begins its life."""
        tray.sending += 1
        self._begin(job)

    def _begin(self, job: Job) -> None:
        self._open[job.id] = job
        self._spawn(self._live(job))

    async def _live(self, job: Job) -> None:
        with self._room.contained():
            try:
                if job.state is JobState.FILLING:
                    await self._submit(job)
                await self._collector.follow(job)
            except Ended:
                self._leave(job)
            if job.state is JobState.ENDED:
                self._ended(job)

    def _ended(self, job: Job) -> None:
        """There is room for others at its provider; and what was taken once may be larger the next time."""
        del self._open[job.id]
        for tray in self._trays.values():
            if tray.provider == job.provider:
                tray.room_at = 0.0
            if tray.model.name == job.model.name and job.collected:
                tray.most = min(tray.limits.requests, 2 * tray.most)

    async def _submit(self, job: Job) -> None:
        tray = self._trays[job.model.name]
        try:
            await self._collector.submit(job)
        finally:
            tray.sending -= 1
            self._again()

    def _leave(self, job: Job) -> None:
        """A job is left standing: its cells stay pending. A run that ends leaves everything open as it is."""
        if self._room.halted or job.state is JobState.ENDED:
            return
        for line in self._given.store.lines(job.id):
            self._left.add(line.key)
            if (cell := self._cells.pop(line.key, None)) is not None:
                self._given.flow.forgo(cell)

    # -- cells that come back

    def _retry(self, cell: Cell, after: float) -> None:
        """A cell whose line failed waits in its tray again."""
        tray = self._tray(cell.model)
        tray.not_before = max(tray.not_before, self._given.clock.now() + after)
        self._put(tray, cell)

    def _refused(self, job: Job, failure: Failure, cells: list[Cell]) -> bool:
        """A job was refused whole. Where its size may be why: when another job has ended, or in smaller parts. Where no job of the
        model is taken, its cells stay pending.
        """
        tray, now = self._tray(job.model.name), self._given.clock.now()
        if failure.status in ABSENT:
            self._room.shut_lane(job.model, self._room.scrub(says(failure)))
        elif failure.cause is Cause.RATE_LIMITED and any(
            other.provider == job.provider and other is not job for other in self._open.values()
        ):
            tray.room_at = now + WAIT_MAX_S
        elif failure.cause in BY_SIZE and len(cells) > 1:
            tray.most = len(cells) // 2
            tray.not_before = now + min(max(failure.retry_after or 0.0, POLL_FIRST_S), WAIT_MAX_S)
        else:
            return False
        for cell in cells:
            self._put(tray, cell)
        return True

    def _held(self, cell: Cell) -> None:
        """The key is held: by a job that was adopted meanwhile, or by another process."""
        if cell.request.key in self._cells:
            self._cells[cell.request.key] = cell
            return
        self._foreign[cell.request.key] = cell
        if not self._watching:
            self._watching = True
            self._spawn(self._watch())

    async def _watch(self) -> None:
        """Wait for the keys that other processes hold."""
        room, store = self._room, self._given.store
        pause = FOREIGN_S
        with room.contained():
            try:
                while self._foreign:
                    await room.waits.sleep("other process", pause, Waiting(size=len(self._foreign)))
                    pause = min(pause * 1.5, POLL_MAX_S)
                    for key, cell in list(self._foreign.items()):
                        if key not in self._foreign:  # it came with a job that was taken over meanwhile
                            continue
                        if not store.is_open(key):
                            del self._foreign[key]
                            self.add(cell)
                        elif (where := await stranded(room, key)) is not None:
                            del self._foreign[key]
                            room.strand(cell.provider, where)
                            self._given.flow.forgo(cell)
                    self._again()
            except Ended:
                return
            finally:
                self._watching = False
