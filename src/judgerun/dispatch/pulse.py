"""Pulse: how quickly a provider answers for one model, and how long it has been silent, against its own start; pure."""

from __future__ import annotations

from collections import deque
from math import inf
from statistics import median

RECENT = 20
"""Answers that a median is taken over."""
MOMENT_S = 0.05
SILENT_S = 30.0
SILENT_TIMES = 10.0
"""A silence is a stall after so many seconds, and so many times the usual latency."""


class Pulse:
    """Of the answers of one model at one provider. Times are seconds of the run's clock."""

    __slots__ = ("in_flight", "last", "recent", "stalled", "start", "worst")

    def __init__(self) -> None:
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)  # (seconds, output tokens; 0: not told)
        self.start: tuple[float, float] | None = None  # medians of the first answers, in all and for each token
        self.in_flight = 0
        self.worst = 0.0  # how slow it was when that was last acted upon; 0: it is not slow
        self.stalled = False
        self.last = 0.0  # of an answer, or of the moment in which something went in flight after nothing was

    def sent(self, now: float) -> None:
        """A call leaves."""
        if not self.in_flight:
            self.last = now
        self.in_flight += 1

    def reset(self, now: float) -> None:
        """Forget what was, as after a sleep of the machine: the network may be another one."""
        self.recent.clear()
        self.start = None
        self.last = now

    def slow(self) -> float:
        """How many times slower than at its start it is; 1 while that is not known.

        Slower in all and for each token of output: longer answers take longer in all, and shorter ones longer for each token.
        """
        if len(self.recent) < RECENT:
            return 1.0
        if self.start is None:
            self.start = self._medians()
        return min(now / then for now, then in zip(self._medians(), self.start, strict=True))

    def _medians(self) -> tuple[float, float]:
        """Seconds of an answer, and for each token of its output; none below a moment, which no network keeps to."""
        whole = [(max(seconds, MOMENT_S), tokens) for seconds, tokens in self.recent]
        return median(seconds for seconds, _ in whole), median(seconds / max(tokens, 1) for seconds, tokens in whole)

    @property
    def patience(self) -> float:
        """Seconds without an answer, with calls in flight, that are still usual; without end while none has come."""
        if not self.recent:
            return inf
        return max(SILENT_S, SILENT_TIMES * median(seconds for seconds, _ in self.recent))

    def silence(self, now: float) -> float:
        """Seconds for which calls are in flight and nothing has been heard."""
        return now - self.last if self.in_flight else 0.0
