"""Pause: whether a run sends nothing new because a person asked it to, and the line, in plan order, of what waits for its end."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

from judgerun.dispatch.slots import Rank
from judgerun.dispatch.waits import Waiter, Waits


class Pause:
    """Off until it begins. Who waits here owns no slot, no turn and no money."""

    def __init__(self, waits: Waits) -> None:
        self.on = False
        self._waits = waits
        self._heap: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._next = count()

    async def over(self, rank: Rank, waiter: Waiter) -> None:
        """Return when the run is not paused. Raises Ended when the wait lost its purpose."""
        while self.on:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._heap, (rank, next(self._next), turn))
            await self._waits.until("paused", turn, waiter)

    def begin(self) -> None:
        """Send nothing new."""
        self.on = True

    def end(self) -> None:
        """Go on, the first in plan order first."""
        self.on = False
        while self._heap:
            turn = heapq.heappop(self._heap)[2]
            if not turn.done():
                turn.set_result(None)
