"""Scheduler: a bounded window of open work over the lazy flow, the batches of embedding cells, and the way to the batch lane.

The window is what keeps the memory of a run and the distance between its conditions bounded: cells are taken in plan order,
and no further one is taken while so much work is open. Work that sleeps in a backoff keeps its place in the window, so the
conditions drift apart by at most the window; then the slowest lane sets the pace.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from judgerun.dispatch.attempt import Driver
from judgerun.dispatch.hours import Stint
from judgerun.dispatch.jobs import Keeper
from judgerun.dispatch.room import Room
from judgerun.dispatch.work import Work
from judgerun.errors import InvariantBroken
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell

STRIDE = 64
"""Cells taken, or blocks without any opened, in one go before the loop may look at its sockets again."""


def window(width: int) -> int:
    """How much work may be open over so many slots: a free slot always finds work, and some may sleep in a backoff."""
    return 2 * width + 8


class Scheduler:
    """Takes cells from the flow, starts their work, and knows when all is done."""

    def __init__(self, room: Room, *, width: Callable[[], int]) -> None:
        """`width` says how many calls can be in flight at once, as the lanes are now."""
        self._room = room
        self._flow = room.given.flow
        self._driver = Driver(room, start=self._start)
        self._keeper = Keeper(room, spawn=self._spawn, again=self._soon)
        self._others: set[asyncio.Task[None]] = set()  # of the keeper: they count in no window
        self._width = width
        self._window = window(width())
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._batches: dict[tuple[str, str], list[Cell]] = {}  # (condition, model) -> embedding cells not yet sent
        self._tokens: Counter[tuple[str, str]] = Counter()  # input bounds of these batches
        self._open_batches: dict[str, int] = {}  # model -> batches that are open
        self._full_since: float | None = None
        self._later = False  # a further pump is on its way
        self._over = asyncio.Event()
        self._escaped: BaseException | None = None

    async def run(self) -> None:
        """Until nothing is open and nothing more can be taken."""
        with self._room.contained():
            await self._keeper.adopt()
        self._pump()
        await self._over.wait()
        if self._escaped is not None:
            raise self._escaped

    def widen(self) -> None:
        """Look again, over lanes that may be wider now, or narrower."""
        self._window = window(self._width())
        self._soon()

    # -- taking

    def _pump(self) -> None:
        """Take and start cells until the window is full or nothing is ready; called whenever either may have changed."""
        with self._room.contained():
            self._take()
            self._keeper.pump(stalled=not self._later, last=not self._tasks and self._flow.drained)
        self._measure()
        if not self._tasks and not self._others and not self._later:
            self._over.set()

    def _take(self) -> None:
        for _ in range(STRIDE):
            if self._room.halted or len(self._tasks) >= self._window or self._keeper.full:
                return
            if (cell := self._flow.take(blocks=STRIDE)) is None:
                if self._flow.drained:
                    self._flush()
                    return
                break
            if self._room.dropped(cell):
                self._pass_on(cell)
            else:
                self._open(cell)
        self._soon()

    def _soon(self) -> None:
        """Look again when the loop has looked at its sockets."""
        if not self._later:
            self._later = True
            asyncio.get_running_loop().call_soon(self._pump_on)

    def _pump_on(self) -> None:
        self._later = False
        self._pump()

    def _pass_on(self, cell: Cell) -> None:
        """A cell that its model cannot be asked: its failover is, where there is one; else it stays pending."""
        if (other := self._room.divert(cell)) is not None:
            self._open(other)

    def _open(self, cell: Cell) -> None:
        """Start a chat cell; put an embedding cell to its batch, and a cell of the batch lane to its job."""
        model = self._room.given.models.get(cell.model)
        if model is None:
            raise InvariantBroken(f"the flow names a model that the experiment has not: {cell.model}")
        if model.lane == "batch":
            self._keeper.add(cell)
        elif cell.request.kind == "chat":
            self._start(self._work([cell], model))
        else:
            self._put(cell)

    def _put(self, cell: Cell) -> None:
        """Put an embedding cell to its batch; start that when it is full, or when the cell would make it too long. A text that is
        too long by itself goes alone, and the provider's answer decides.
        """
        place = (cell.condition, cell.model)
        profile = self._room.given.providers[cell.provider].profile
        most = profile.texts_tokens_max
        if most is not None and place in self._batches and self._tokens[place] + cell.input_bound > most:
            self._send_batch(place)
        batch = self._batches.setdefault(place, [])
        batch.append(cell)
        self._tokens[place] += cell.input_bound
        size = self._room.lanes.route(cell.provider, cell.model).batch_size
        if len(batch) >= min(size, profile.texts_max or size):
            self._send_batch(place)

    def _flush(self) -> None:
        """Nothing more is ready now: start batches that are not full where a slot would stay free, or nothing else is open.

        While all slots are busy a batch may still grow: larger batches, and nobody waits for longer.
        """
        for place in list(self._batches):
            model = self._room.given.models[place[1]]
            slots = min(lane.slots.size for lane in self._room.lanes.route(model.provider.name, model.name).lanes)
            if not self._tasks or self._open_batches.get(model.name, 0) < slots:
                self._send_batch(place)

    def _send_batch(self, place: tuple[str, str]) -> None:
        del self._tokens[place]
        self._start(self._work(self._batches.pop(place), self._room.given.models[place[1]]))

    def _work(self, cells: list[Cell], model: Model) -> Work:
        first = cells[0]
        return Work(
            cells=cells,
            embed=first.request.kind == "embed",
            rank=first.rank,
            model=model,
            route=self._room.lanes.route(first.provider, first.model),
            scopes=self._room.scopes(first),
            conditions=self._room.ancestry(first.condition),
        )

    # -- open work

    @property
    def full(self) -> bool:
        """Whether the window of open work is full."""
        return len(self._tasks) >= self._window

    def stages(self) -> frozenset[str]:
        """The stages of which a cell is open: taken, and with no end yet."""
        cells = [work.cells for work in self._tasks.values() if work.cells] + list(self._batches.values())
        return frozenset(held[0].stage for held in cells)

    def _start(self, work: Work) -> None:
        work.stint = Stint(self._room.accounts(work.route), self._room.given.clock.now())
        work.task = task = asyncio.get_running_loop().create_task(self._live(work))
        self._tasks[task] = work
        if work.embed:
            self._open_batches[work.model.name] = self._open_batches.get(work.model.name, 0) + 1
        task.add_done_callback(self._ended)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """A task of the keeper."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._others.add(task)
        task.add_done_callback(self._ended)

    async def _live(self, work: Work) -> None:
        room = self._room
        with room.contained():
            before = room.resolved
            await self._driver.drive(work)
            if not room.halted:  # a run that ends leaves everything open as it is
                for cell in work.cells:
                    self._pass_on(cell)
            if room.gates.due(room.resolved - before):
                await room.look_at_gates()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._others.discard(task)
        work = self._tasks.pop(task, None)
        if work is not None and work.embed:
            self._open_batches[work.model.name] -= 1
        if task.cancelled() or task.exception() is not None:
            # Nothing that is an Exception passes `contained`: this is the end of the process, or a stranger's cancellation.
            self._escaped = asyncio.CancelledError() if task.cancelled() else task.exception()
            self._over.set()
            return
        self._soon()  # not at once: what ends in the same turn of the loop is replaced in one go, from one look at the cache

    def _measure(self) -> None:
        """Keep the count of open work, and the time during which a full window kept cells from being taken."""
        progress = self._room.progress
        progress.open_work = len(self._tasks)
        full = len(self._tasks) >= self._window
        if full == (self._full_since is not None):
            return
        now = self._room.given.clock.now()
        if self._full_since is None:
            self._full_since = now
            progress.waiting["window"] = 1
        else:
            progress.idle["window"] += now - self._full_since
            self._full_since = None
            progress.waiting["window"] = 0
