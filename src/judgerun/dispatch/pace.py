"""Pace: an even rate of requests and tokens under an exact sliding window, served in plan order, with turns that come back.

The windows that must hold belong to the cache (`Store.reserve` answers RATE); the pace of this room keeps the order and the
evenness, so that a minute's allowance does not leave in one burst and few reservations are refused.

aiolimiter is the leaky bucket. It has three habits that this module works around:
- it admits a whole burst and then a whole minute's leak (1,199 in the worst minute of "600 a minute"): its bucket here holds
  one request, or one second's tokens, and a sliding window stands above it;
- it serves waiters by amount: here only one waiter ever asks it, the first in plan order;
- it takes nothing back: a turn that was not used goes straight to the first who waits, while the bucket's own sleeper sleeps
  on for the second, and tokens that were debited and not used are a credit that is used up before the bucket is asked.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from itertools import count

from aiolimiter import AsyncLimiter

from judgerun.dispatch.slots import Rank
from judgerun.dispatch.waits import Waiter, Waits
from judgerun.ports import Clock

MINUTE_S = 60.0
GUARD_S = 1.0
"""Added to the minute: requests do not travel equally fast, and the window is the provider's, not ours."""
SPAN_S = MINUTE_S + GUARD_S


class _Bucket:
    """One leaky bucket in units of requests or tokens, with a credit (below zero: a debt)."""

    def __init__(self, per_minute: int, *, grain: float) -> None:
        """`grain` is what may leave at once."""
        self._limiter = AsyncLimiter(grain, SPAN_S * grain / per_minute)
        self._grain = grain
        self.credit = 0.0

    async def draw(self, amount: float) -> None:
        """Return when `amount` has leaked, in pieces that the bucket can hold."""
        spent = min(self.credit, amount)  # a debt makes the amount larger
        self.credit -= spent
        left = amount - spent
        while left > 0:
            piece = min(left, self._grain)
            await self._limiter.acquire(piece)
            left -= piece


class Pace:
    """The pace of one lane. `turn` waits in plan order; `back` returns a turn that was not used; `correct` says what was used.
    Without a rate, and while nothing postpones it, it costs nobody a wait.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        waits: Waits,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        self._clock = clock
        self._waits = waits
        self._heap: list[tuple[Rank, int, int, asyncio.Future[None]]] = []
        self._next = count()
        self._log: deque[float] = deque()  # when turns were given, within the span
        self._not_before = 0.0
        self._server: asyncio.Task[None] | None = None
        self.keep(requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute)

    def keep(self, *, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        """Keep to these rates from now on."""
        self._requests_max = requests_per_minute
        self._tokens_max = tokens_per_minute
        self._requests = _Bucket(requests_per_minute, grain=1) if requests_per_minute else None
        self._tokens = _Bucket(tokens_per_minute, grain=max(1.0, tokens_per_minute / 60)) if tokens_per_minute else None

    async def turn(self, rank: Rank, tokens: int, waiter: Waiter) -> bool:
        """Wait for a turn to send a request of about so many tokens. Whether it is one that `back` may return: without a rate it
        took nobody's place. Raises Ended when the wait lost its purpose.
        """
        if not self._rated and not self.postponed and self._first() is None:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (rank, next(self._next), tokens, turn))
        if self._server is None or self._server.done():
            self._server = asyncio.ensure_future(self._serve())
        await self._waits.granted("rate", turn, waiter, lambda: self.back(tokens))
        return self._rated

    def back(self, tokens: int) -> None:
        """Return a turn that was not used: the first who waits has it at once."""
        self.correct(-tokens)
        if self._log:
            self._log.pop()
        if (head := self._first()) is not None and self._clock.now() >= self._not_before:
            heapq.heappop(self._heap)
            self.correct(head[2])
            self._grant(head[3])
        elif self._requests is not None:
            self._requests.credit = 1.0

    def correct(self, tokens: int) -> None:
        """So many more tokens were used than had been debited (fewer: negative)."""
        if self._tokens is not None and self._tokens_max is not None:
            limit = float(self._tokens_max)  # neither a hoard nor a debt of more than a minute
            self._tokens.credit = max(-limit, min(limit, self._tokens.credit - tokens))

    @property
    def postponed(self) -> bool:
        """Whether no turn is given now."""
        return self._clock.now() < self._not_before

    def postpone(self, delay: float) -> None:
        """Give no turn for so many seconds: the window of the cache is full, or the provider's."""
        self._not_before = max(self._not_before, self._clock.now() + delay)

    async def aclose(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.cancel()
            await asyncio.wait([self._server])

    @property
    def _rated(self) -> bool:
        return self._requests is not None or self._tokens is not None

    def _first(self) -> tuple[Rank, int, int, asyncio.Future[None]] | None:
        while self._heap and self._heap[0][3].done():
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _grant(self, turn: asyncio.Future[None]) -> None:
        self._log.append(self._clock.now())
        turn.set_result(None)

    async def _serve(self) -> None:
        """Give turns, one by one, to whoever is first when the bucket has leaked; ends when nobody waits."""
        while (head := self._first()) is not None:
            if self._requests is not None:
                await self._requests.draw(1)
            if self._tokens is not None and self._tokens_max is not None:
                await self._tokens.draw(min(head[2], self._tokens_max))
            while (delay := self._delay()) > 0:
                await self._clock.sleep(delay)
            served = self._first()
            if served is None:
                self._unused(head[2])
                return
            heapq.heappop(self._heap)
            self.correct(served[2] - head[2])  # an earlier one may have come while the bucket leaked for `head`
            self._grant(served[3])

    def _unused(self, tokens: int) -> None:
        """A turn that nobody wants any more."""
        self.correct(-tokens)
        if self._requests is not None:
            self._requests.credit = 1.0

    def _delay(self) -> float:
        """Seconds until the window and the cache allow one more."""
        now = self._clock.now()
        while self._log and self._log[0] <= now - SPAN_S:
            self._log.popleft()
        delay = self._not_before - now
        if self._requests_max is not None and len(self._log) >= self._requests_max:
            delay = max(delay, self._log[0] + SPAN_S - now)
        return delay
