"""Slots: a semaphore that serves by plan order."""

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
        self.free = size
        self._waits = waits
        self._heap: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._next = count()

    async def acquire(self, rank: Rank, waiter: Waiter) -> None:
        """Own a slot. Raises Ended when the wait lost its purpose."""
        if self.free:  # then nobody waits: release serves all whom it can
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (rank, next(self._next), turn))
        await self._waits.granted("slot", turn, waiter, self.release)

    def release(self) -> None:
        """Give a slot back, to the first in plan order that still waits."""
        while self._heap:
            turn = heapq.heappop(self._heap)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1
        invariant(self.free <= self.size, "a slot was released twice")
