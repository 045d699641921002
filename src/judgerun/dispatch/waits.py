"""Waits: the only way in which a cell may wait; each has a cause, is measured, and ends at once when it has lost its purpose.

A cell is either in a wait named here or between its reservation and the close of its attempt. A stop ends the first kind
and never the second: that is all that a drain is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from judgerun.dispatch.hours import SlotCause, Stint
from judgerun.dispatch.progress import Progress, WaitCause
from judgerun.ports import Clock

_DOING: Mapping[WaitCause, SlotCause] = {
    "money": "reservation",
    "slot": "other lane",
    "rate": "rate limit",
    "backoff": "backoff",
    "other process": "other process",
    "paused": "paused",
}
"""What a piece of work does while it waits, in the hours of its lanes; who waits for anything else uses no slot."""


class Ended(Exception):
    """The wait was ended by a stop, a closed provider, a gate or an exhausted scope; what waited stays pending."""


class Waiter(Protocol):
    """What waits: a number of cells, and by what they may lose their purpose."""

    @property
    def size(self) -> int: ...
    @property
    def provider(self) -> str: ...
    @property
    def conditions(self) -> tuple[str, ...]: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...
    @property
    def stint(self) -> Stint: ...
    @property
    def asks(self) -> str:
        """The model whose calls may go to another one instead; empty where they may not."""
        ...


def granted(turn: asyncio.Future[None]) -> bool:
    """Whether the turn was given, even if its owner was cancelled in the same moment."""
    return turn.done() and not turn.cancelled() and turn.exception() is None


def _never(waiter: Waiter) -> bool:
    return False


class Waits:
    """All waits of a run."""

    def __init__(self, *, clock: Clock, progress: Progress) -> None:
        self.lost: Callable[[Waiter], bool] = _never  # whether a waiter has lost its purpose; the run says
        self._clock = clock
        self._progress = progress
        self._open: dict[asyncio.Future[None], Waiter] = {}

    async def until(
        self, cause: WaitCause, turn: asyncio.Future[None], waiter: Waiter, doing: SlotCause | None = None
    ) -> None:
        """Wait for `turn`. Raises Ended when the waiter has lost its purpose, before or while it waits: what comes back from
        an attempt after a stop must not begin to wait. `doing` tells the lanes' hours more than the cause does.
        """
        if not turn.done() and self.lost(waiter):
            turn.cancel()  # whoever would grant it passes it over
            raise Ended
        cells, progress = waiter.size, self._progress
        self._open[turn] = waiter
        progress.waiting[cause] += cells
        began = self._clock.now()
        waiter.stint.turn(doing or _DOING.get(cause, "local"), began)
        try:
            await turn
        finally:
            del self._open[turn]
            now = self._clock.now()
            progress.waiting[cause] -= cells
            progress.idle[cause] += cells * (now - began)
            waiter.stint.turn("local", now)

    def retell(self, turns: Iterable[asyncio.Future[None]], doing: SlotCause) -> None:
        """What those who wait for these turns wait for is something else from now on."""
        now = self._clock.now()
        for turn in turns:
            if (waiter := self._open.get(turn)) is not None and not turn.done():
                waiter.stint.turn(doing, now)

    async def granted(
        self,
        cause: WaitCause,
        turn: asyncio.Future[None],
        waiter: Waiter,
        back: Callable[[], None],
        doing: SlotCause | None = None,
    ) -> None:
        """Wait for a turn that must be given back by `back` when it came in the moment in which its owner was cancelled."""
        try:
            await self.until(cause, turn, waiter, doing)
        except BaseException:
            if granted(turn):
                back()
            raise

    async def sleep(self, cause: WaitCause, seconds: float, waiter: Waiter) -> None:
        """Sleep on the run's clock. Raises Ended when the wait was ended first."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        nap = asyncio.ensure_future(self._clock.sleep(seconds))
        nap.add_done_callback(lambda _: None if over.done() else over.set_result(None))
        try:
            await self.until(cause, over, waiter)
        finally:
            nap.cancel()

    def end(self) -> None:
        """End every wait whose waiter is lost. One that has just been granted is let be: its owner looks for itself."""
        for turn, waiter in list(self._open.items()):
            if not turn.done() and self.lost(waiter):
                turn.set_exception(Ended())
