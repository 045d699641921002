"""Gauge: what the server sees of its load, and the rate limits that it enforces; times are handed in."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from judgerun.simulate.ask import Stated

WINDOW_S = 60.0


class Window:
    """Calls of the last sixty seconds, and the most that any sixty seconds held."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._times: deque[float] = deque()
        self.worst = 0

    def count(self, now: float) -> None:
        """A call came."""
        self._leave(now)
        self._times.append(now)
        self.worst = max(self.worst, len(self._times))

    def wait(self, now: float) -> float | None:
        """None where one more call is within the limit, else the seconds until it would be."""
        self._leave(now)
        if self._limit is None or len(self._times) < self._limit:
            return None
        return WINDOW_S - (now - self._times[-self._limit])  # in this order no rounding passes the window

    def stated(self, now: float) -> Stated | None:
        """How the limit stands; None where there is none."""
        self._leave(now)
        if self._limit is None:
            return None
        reset = WINDOW_S - (now - self._times[0]) if self._times else 0.0
        return Stated(unit="requests", limit=self._limit, remaining=max(0, self._limit - len(self._times)), reset=reset)

    def _leave(self, now: float) -> None:
        while self._times and self._times[0] <= now - WINDOW_S:
            self._times.popleft()


class Gauge:
    """All calls, those of each model, and those in flight."""

    def __init__(self, *, requests_per_minute: int | None = None, model_requests_per_minute: int | None = None) -> None:
        self._model_limit = model_requests_per_minute
        self._admitted = Window(requests_per_minute)
        self._models: dict[str, Window] = {}
        self._came = Window()
        self._came_by: dict[str, Window] = {}
        self._statuses: Counter[str] = Counter()
        self.requests = 0
        self.in_flight = 0
        self.in_flight_max = 0

    def arrive(self, now: float) -> None:
        """A call came, whatever becomes of it."""
        self.requests += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        self._came.count(now)

    def leave(self, status: int | str) -> None:
        """It was answered, or dropped."""
        self.in_flight -= 1
        self._statuses[str(status)] += 1

    def admit(self, now: float, model: str) -> float | None:
        """None where the call is within the limits (and is counted), else the seconds to wait."""
        self._came_by.setdefault(model, Window()).count(now)
        own = self._models.setdefault(model, Window(self._model_limit))
        waits = [wait for wait in (self._admitted.wait(now), own.wait(now)) if wait is not None]
        if waits:
            return max(waits)
        self._admitted.count(now)
        own.count(now)
        return None

    def stated(self, now: float) -> tuple[Stated, ...]:
        """The limit over all models, as response headers may tell it."""
        stated = self._admitted.stated(now)
        return () if stated is None else (stated,)

    def statistics(self) -> dict[str, Any]:
        """What was seen so far."""
        return {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "in_flight_max": self.in_flight_max,
            "worst_minute": self._came.worst,
            "models": {model: {"worst_minute": window.worst} for model, window in self._came_by.items()},
            "statuses": dict(self._statuses),
        }
