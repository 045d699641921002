"""Slots: a semaphore that serves by plan order, and whose size may change while its slots are in use."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

from judgerun.dispatch.waits import Waiter, Waits
from judgerun.errors import invariant

Rank = tuple[int, ...]


class Slots:
    """So many places; whoever comes first in plan order gets the next free one. Nobody waits while one is free."""

    def __init__(self, size: int, waits: Waits) -> None:
        self.size = size
        self.free = size  # below zero: so many more are in use than there are by now
        self._waits = waits
        self._heap: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._next = count()

    async def acquire(self, rank: Rank, waiter: Waiter) -> None:
        """Own a slot. Raises Ended when the wait lost its purpose."""
        if self.free > 0:  # then nobody waits: release serves all whom it can
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (rank, next(self._next), turn))
        await self._waits.granted("slot", turn, waiter, self.release)

    def release(self) -> None:
        """Give a slot back, to the first in plan order that still waits."""
        self.free += 1
        invariant(self.free <= self.size, "a slot was released twice")
        self._serve()

    def resize(self, size: int) -> None:
        """Have so many slots from now on. Of those in use none is taken away: they are missing when they come back."""
        self.free += size - self.size
        self.size = size
        self._serve()

    @property
    def saturated(self) -> bool:
        """Whether all slots are in use and somebody waits for one."""
        return self.free <= 0 and any(not turn.done() for _, _, turn in self._heap)

    def _serve(self) -> None:
        while self.free > 0 and self._heap:
            turn = heapq.heappop(self._heap)[2]
            if not turn.done():
                self.free -= 1
                turn.set_result(None)
