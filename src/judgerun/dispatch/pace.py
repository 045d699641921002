"""Pace: an even rate of requests and tokens under an exact sliding window, served in plan order, with turns that come back.

The windows that must hold belong to the cache (`Store.reserve` answers RATE); the pace of this room keeps the order and the
evenness, so that a minute's allowance does not leave in one burst and few reservations are refused.

After a silence (`restart`) turns begin at a rising rate, with gaps that are drawn: a provider that limits how steeply its load
may rise sees a slope, and those that were sent away in one moment do not come back in one.

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
import random
from collections import deque
from itertools import count
from math import inf

from aiolimiter import AsyncLimiter

from judgerun.dispatch.hours import SlotCause
from judgerun.dispatch.slots import Rank
from judgerun.dispatch.waits import Waiter, Waits
from judgerun.ports import Clock

MINUTE_S = 60.0
GUARD_S = 1.0
"""Added to the minute: requests do not travel equally fast, and the window is the provider's, not ours."""
SPAN_S = MINUTE_S + GUARD_S

FIRST = 8
"""Turns that are given at once after a silence."""
RISE_S = 0.15
"""The rate doubles in about a tenth of a second: the n-th turn comes so many seconds, divided by n, after the one before it."""
GAP_S = 0.0005
"""The rate rises up to one turn in so many seconds: 200 in 0.1 s."""
LOT_S = 0.005
"""While the rate rises, turns that are due within so many seconds are given together: what they reserve shares a commit."""
LATE_S = 0.01
"""A loop sleeps a little longer than it is asked to: so much is made good."""


class _Bucket:
    """One leaky bucket in units of requests or tokens, with a credit (below zero: a debt)."""

    def __init__(self, per_minute: int, *, grain: float) -> None:
        """`grain` is what may leave at once."""
        self._limiter = AsyncLimiter(grain, SPAN_S * grain / per_minute)
        self._grain = grain
        self.credit = 0.0

    def short(self, amount: float) -> bool:
        """Whether `draw` would have to wait for `amount`."""
        left = amount - min(self.credit, amount)
        return left > self._grain or (left > 0 and not self._limiter.has_capacity(left))

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
        rng: random.Random,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        """`rng` draws the gaps after a silence."""
        self._clock = clock
        self._rng = rng
        self._waits = waits
        self._heap: list[tuple[Rank, int, int, asyncio.Future[None]]] = []
        self._next = count()
        self._log: deque[float] = deque()  # when turns were given, within the span
        self._not_before = 0.0
        self._limit: SlotCause = "rate limit" if requests_per_minute or not tokens_per_minute else "token limit"
        self._rising: int | None = None  # turns given since a silence; None: that is long ago
        self._rises_to = 0
        self._due = -inf  # when the next of them may be given
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
        if not self._rated and self._rising is None and not self.postponed and self._first() is None:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (rank, next(self._next), tokens, turn))
        if self._server is None or self._server.done():
            self._server = asyncio.ensure_future(self._serve())
        await self._waits.granted("rate", turn, waiter, lambda: self.back(tokens), self._limit)
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

    def postpone(self, delay: float, limit: SlotCause | None = None) -> None:
        """Give no turn for so many seconds: the window of the cache is full, or the provider's, or it asked for patience. `limit`
        says what turns wait for, where that is not the same as before.
        """
        until = self._clock.now() + delay
        if until > self._not_before:
            self._not_before = until
            self._bind(limit or self._limit)

    def restart(self, width: int) -> None:
        """There was a silence: the next `width` turns are given at a rising rate. What comes after them takes the place of a call
        that has ended.
        """
        self._rising, self._rises_to, self._due = 0, width, -inf

    def forgive(self, seconds: float) -> None:
        """So many seconds passed that the clock did not count, at a machine that was asleep: what waits for a time waits less."""
        self._not_before -= seconds
        self._log = deque(at - seconds for at in self._log)

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
                if self._requests.short(1):
                    self._bind("rate limit")
                await self._requests.draw(1)
            if self._tokens is not None and self._tokens_max is not None:
                wanted = min(head[2], self._tokens_max)
                if self._tokens.short(wanted):
                    self._bind("token limit")
                await self._tokens.draw(wanted)
            while (delay := self._delay()) > 0:
                await self._clock.sleep(delay if self._rising is None else max(delay, LOT_S))
            self._rise()
            served = self._first()
            if served is None:
                self._unused(head[2])
                return
            heapq.heappop(self._heap)
            self.correct(served[2] - head[2])  # an earlier one may have come while the bucket leaked for `head`
            self._grant(served[3])

    def _bind(self, limit: SlotCause) -> None:
        """What turns wait for is this from now on; those who wait already are told."""
        if limit != self._limit:
            self._limit = limit
            self._waits.retell((turn for *_, turn in self._heap), limit)

    def _unused(self, tokens: int) -> None:
        """A turn that nobody wants any more."""
        self.correct(-tokens)
        if self._requests is not None:
            self._requests.credit = 1.0

    def _rise(self) -> None:
        """One more turn after a silence: when the next may be given, counted from when this one was due."""
        if self._rising is None:
            return
        self._rising = given = self._rising + 1
        if given >= FIRST:
            gap = max(RISE_S / given, GAP_S)
            self._due = max(self._due, self._clock.now() - LATE_S) + self._rng.uniform(0.0, 2 * gap)
        if given >= self._rises_to:
            self._rising, self._due = None, -inf

    def _delay(self) -> float:
        """Seconds until the window and the cache allow one more."""
        now = self._clock.now()
        while self._log and self._log[0] <= now - SPAN_S:
            self._log.popleft()
        delay = max(self._not_before, self._due) - now
        if self._requests_max is not None and len(self._log) >= self._requests_max:
            delay = max(delay, self._log[0] + SPAN_S - now)
        return delay
