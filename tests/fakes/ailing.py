"""Providers that suffer in one way each, by the clock or by their load, for runs in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fakes.provider import FakeProvider


class Ailing(FakeProvider):
    """A provider whose fault is told by a rule: of the seconds since it was first asked, and the calls in flight."""

    def __init__(
        self,
        rule: Callable[[float, int], str] = lambda at, load: "",
        *,
        slowness: Callable[[float], float] = lambda at: 1.0,
        latency: tuple[float, float] = (0.5, 1.5),
        retry_after: str = "2",
        seed: int = 0,
    ) -> None:
        """`slowness` multiplies the latency."""
        super().__init__(seed=seed, latency=latency, retry_after=retry_after)
        self._rule = rule
        self._slowness = slowness
        self._usual = latency
        self._first: float | None = None
        self.faults: list[tuple[float, str]] = []  # when a call came, and what befell it

    def _draw(self) -> str:
        now = asyncio.get_running_loop().time()
        if self._first is None:
            self._first = now
        at = now - self._first
        times = self._slowness(at)
        self.latency = (self._usual[0] * times, self._usual[1] * times)
        fault = super()._draw() or self._rule(at, self.in_flight)
        self.faults.append((at, fault))
        return fault

    def came(self, since: float, until: float) -> int:
        """Calls that came in this time."""
        return sum(since <= at < until for at, _ in self.faults)

    def suffered(self, *faults: str) -> int:
        """Calls that such faults befell."""
        return sum(fault in faults for _, fault in self.faults)


def slope(most: float = 2.0, free: int = 40, span: float = 0.1) -> Callable[[float, int], str]:
    """A rule: whoever comes more than so many times as often as in the time before is sent away."""
    came: list[float] = []

    def rule(at: float, load: int) -> str:
        came.append(at)
        now = sum(one > at - span for one in came[-2000:])
        before = sum(at - 2 * span < one <= at - span for one in came[-2000:])
        return "429 bare" if now > most * before + free else ""

    return rule
