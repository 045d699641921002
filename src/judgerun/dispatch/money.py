"""Queues for money: who waits for which scope, in plan order.

Nobody owns a slot while waiting here, so no wait for money can block another's calls. Only the head of a scope tries, and
nobody overtakes it: a newcomer behind a waiting head joins the queue, or small requests would pass large ones and the part
of an experiment that is done when its cap is reached would be a selection by length.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from judgerun.dispatch.slots import Rank
from judgerun.dispatch.waits import Waiter, Waits

Scope = str


@dataclass(slots=True)
class _Line:
    """The queue of one scope, and the one that was called out of it and is trying now."""

    heap: list[tuple[Rank, int, asyncio.Future[None]]] = field(default_factory=list)
    trying: Rank | None = None

    def first(self) -> Rank | None:
        """The rank of the first that still waits."""
        while self.heap and self.heap[0][2].done():
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None


class Money:
    """The queues of all scopes."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._lines: dict[Scope, _Line] = {}
        self._next = count()

    def blocked(self, scopes: Iterable[Scope], rank: Rank) -> Scope | None:
        """The first scope in which somebody earlier in plan order waits or tries; None when the way is free."""
        if not self._lines:
            return None
        for scope in scopes:
            if (line := self._lines.get(scope)) is None:
                continue
            first = line.first()
            if (line.trying is not None and line.trying < rank) or (first is not None and first < rank):
                return scope
        return None

    @property
    def waiting(self) -> bool:
        """Whether anybody waits for money."""
        return any(line.first() is not None for line in self._lines.values())

    async def join(self, scope: Scope, rank: Rank, waiter: Waiter) -> None:
        """Wait until called to try in `scope`; whoever returns from here must say `done`. Raises Ended."""
        line = self._lines.setdefault(scope, _Line())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(line.heap, (rank, next(self._next), turn))
        try:
            await self._waits.granted("money", turn, waiter, lambda: self.done(scope))
        finally:
            self._tidy(scope)

    def wake(self, scope: Scope) -> None:
        """Call the head of a scope, unless one is trying already."""
        line = self._lines.get(scope)
        if line is None or line.trying is not None or (rank := line.first()) is None:
            return
        line.trying = rank
        heapq.heappop(line.heap)[2].set_result(None)

    def freed(self, scopes: Iterable[Scope]) -> None:
        """An attempt under these scopes was closed: call the head of each (even a forfeit may turn `wait` into `exhausted`)."""
        if self._lines:
            for scope in scopes:
                self.wake(scope)

    def wake_all(self) -> None:
        """Call the head of every scope: other processes may have given money back."""
        for scope in list(self._lines):
            self.wake(scope)

    def done(self, scope: Scope, *, wake: bool = True) -> None:
        """The one that was called has tried; `wake` calls the next (not after a failure: nothing has come back)."""
        self._lines[scope].trying = None
        if wake:
            self.wake(scope)
        self._tidy(scope)

    def _tidy(self, scope: Scope) -> None:
        line = self._lines.get(scope)
        if line is not None and line.trying is None and line.first() is None:
            del self._lines[scope]  # `blocked` must cost nothing while nobody waits
