"""Breaker: whether a provider is there at all; while it is not, a probe now and then goes to it, and nothing else.

    state       what is let through                            becomes
    ---------   --------------------------------------------   ----------------------------------------------------------------
    ok          everything                                     open: `FAILURES` calls in a row, of `CELLS` cells, had no answer
    open        one call after each pause; pauses grow         half-open: an answer came
    half-open   as many at once as must still be answered      ok: `ANSWERS` answers came; open: one more failure

A probe is the next real call, of the cell that has failed least: no request is made up, and one that fails by its own fault does
not keep the others out. A failure while it is not ok is the provider's and counts against no cell.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from itertools import count
from typing import Literal, Protocol

from judgerun.dispatch.retry import WAIT_MAX_S
from judgerun.dispatch.slots import Rank
from judgerun.dispatch.waits import Waiter, Waits
from judgerun.ports import Clock

FAILURES = 8
CELLS = 4
ANSWERS = 3
PAUSE_FIRST_S = 1.0
PAUSE_MAX_S = 60.0

State = Literal["ok", "open", "half-open"]


class Caller(Waiter, Protocol):
    """Work that asks to be let through."""

    @property
    def rank(self) -> Rank: ...
    @property
    def failed(self) -> int: ...


class Breaker:
    """The gate before one provider."""

    def __init__(self, *, clock: Clock, waits: Waits, rng: random.Random) -> None:
        """`rng` draws the pauses."""
        self.state: State = "ok"
        self.since = 0.0  # when it left `ok`, or last had an answer
        self.next_at = 0.0  # when it lets the next probe through
        self._clock = clock
        self._waits = waits
        self._rng = rng
        self._failures = 0  # in a row
        self._cells: set[int] = set()  # that failed in this row
        self._answers = 0
        self._pause = PAUSE_FIRST_S
        self._heap: list[tuple[int, Rank, int, asyncio.Future[None]]] = []
        self._next = count()
        self._out: set[asyncio.Future[None]] = set()  # calls that were let through while it was not ok
        self._timer: asyncio.Task[None] | None = None

    async def turn(self, caller: Caller) -> asyncio.Future[None] | None:
        """Wait until a call may be made; what must be given `back` when that has ended. Raises Ended when the wait lost its
        purpose.
        """
        if self.state == "ok":
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (caller.failed, caller.rank, next(self._next), turn))
        self._serve()
        await self._waits.granted("backoff", turn, caller, lambda: self.back(turn), "provider")
        return turn

    def back(self, turn: asyncio.Future[None]) -> None:
        """A call that was let through has ended, however."""
        if turn in self._out:
            self._out.remove(turn)
            self._serve()

    def answered(self) -> bool:
        """The provider said something; whether that changed the state."""
        if self._failures:
            self._failures = 0
            self._cells.clear()
        if self.state == "ok":
            return False
        self.since = self._clock.now()
        self._answers += 1
        if self._answers >= ANSWERS:
            self.state, self._pause = "ok", PAUSE_FIRST_S
            self._out.clear()
            self._serve()
            return True
        opened = self.state == "open"
        self.state = "half-open"
        self._serve()
        return opened

    def failed(self, caller: Caller, *, began: float) -> bool:
        """A call that began then had no answer; whether that changed the state."""
        now = self._clock.now()
        if self.state == "ok":
            self._failures += 1
            self._cells.add(id(caller))
            if self._failures < FAILURES or len(self._cells) < CELLS:
                return False
            self.since = now
        elif began < self.since:  # it was on its way before: nothing new
            return False
        changed, self.state = self.state != "open", "open"
        self._answers = 0
        pause = min(self._rng.uniform(self._pause / 2, self._pause), max(0.0, self.since + WAIT_MAX_S - now))
        self._pause = min(2 * self._pause, PAUSE_MAX_S)
        self.next_at = now + pause
        self._wake(pause)
        return changed

    def forgive(self, seconds: float) -> None:
        """So many seconds passed in which nobody could ask."""
        self.since += seconds

    @property
    def lasted(self) -> float:
        """Seconds without an answer since it opened; 0 while it is ok."""
        return 0.0 if self.state == "ok" else self._clock.now() - self.since

    async def aclose(self) -> None:
        """Forget the next probe."""
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.wait([self._timer])

    def _wake(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.ensure_future(self._probe(pause))

    async def _probe(self, pause: float) -> None:
        await self._clock.sleep(pause)
        self._serve()

    def _serve(self) -> None:
        """Let through as many as the state allows."""
        while self._heap and self._allowed():
            turn = heapq.heappop(self._heap)[3]
            if turn.done():
                continue
            if self.state != "ok":
                self._out.add(turn)
            turn.set_result(None)

    def _allowed(self) -> bool:
        if self.state == "open":
            return not self._out and self._clock.now() >= self.next_at
        return self.state == "ok" or len(self._out) < ANSWERS - self._answers
