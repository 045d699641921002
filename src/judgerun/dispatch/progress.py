"""Progress: how a run stands, for those who watch it; it decides nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, Protocol, get_args

from judgerun.dispatch.eta import Left
from judgerun.dispatch.hours import Hours, Stint
from judgerun.model.kept import Cell

WaitCause = Literal["money", "slot", "rate", "backoff", "other process", "window", "job", "paused"]
WAIT_CAUSES: tuple[WaitCause, ...] = get_args(WaitCause)

SPAN_S = 10
"""Seconds over which calls and tokens per second are averaged."""
LONGEST = 5
"""How many of the calls that have been in flight longest are named."""
LATE_S = 0.1
"""A loop that is later than this has been held up: timeouts and paces are no longer exact."""


class OpenJob(Protocol):
    """A job that has not ended."""

    @property
    def provider(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def told(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def size(self) -> int: ...


class Flight(Protocol):
    """A call in flight."""

    @property
    def cells(self) -> Sequence[Cell]: ...
    @property
    def stint(self) -> Stint: ...
    @property
    def failed(self) -> int: ...


class Lateness:
    """By how many seconds the event loop came too late to what was due."""

    __slots__ = ("_recent", "most")

    def __init__(self, *, beats: int) -> None:
        """`beats` measurements are recent."""
        self.most = 0.0
        self._recent: deque[float] = deque(maxlen=beats)

    def note(self, late: float) -> None:
        """One more measurement."""
        self._recent.append(late)
        self.most = max(self.most, late)

    @property
    def recent(self) -> float:
        """The worst of the recent ones."""
        return max(self._recent, default=0.0)

    @property
    def held_up(self) -> int:
        """How many of the recent ones are above `LATE_S`."""
        return sum(late > LATE_S for late in self._recent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearing:
    """How a provider bears the run."""

    width: int  # slots of its lane that are used at once now
    ceiling: int  # and that may be
    breaker: str  # "ok", "open", "half-open"
    slow: float  # how many times slower than at its start its slowest model is; 1: it is not, or that is not known yet


@dataclass(slots=True)
class Progress:
    """Counters of one run, updated in place. Times are monotonic seconds of the run's clock."""

    paused: bool = False  # by a person
    in_flight: int = 0  # attempts whose bytes may have left and whose close is not durable
    open_work: int = 0  # cells (or batches of them) taken from the flow and not yet resolved or dropped
    calls: int = 0  # attempts closed
    answers: int = 0  # those that came to a reply
    tokens: int = 0  # of replies, input and output, where reported
    news: list[str] = field(default_factory=list)  # what happened and is yet to be told; a watcher takes it out
    recovered: int = 0  # holds of dead processes that this run forfeited
    waiting: dict[WaitCause, int] = field(default_factory=lambda: dict.fromkeys(WAIT_CAUSES, 0))  # cells, now
    idle: dict[WaitCause, float] = field(default_factory=lambda: dict.fromkeys(WAIT_CAUSES, 0.0))  # cell-seconds so far
    hours: Hours = field(default_factory=Hours)  # what the slots of the lanes do
    flights: dict[Flight, None] = field(default_factory=dict)  # calls in flight, the oldest first
    left: Left | None = None  # how long it will still take, where that can be told
    lateness: Lateness = field(default_factory=lambda: Lateness(beats=100))
    jobs: Mapping[int, OpenJob] = field(default_factory=dict)  # of this run, by the cache's number
    next_try: dict[str, float] = field(default_factory=dict)  # provider -> when its next backoff ends
    closed: dict[str, str] = field(default_factory=dict)  # provider to which nothing more is sent -> why
    bearings: Mapping[str, Bearing] = field(default_factory=dict)  # by provider
    trouble: dict[str, str] = field(default_factory=dict)  # provider -> why its calls wait, until it answers again
    _recent: deque[tuple[int, int, int]] = field(default_factory=deque)  # (second, calls, tokens)

    def count(self, *, now: float, tokens: int) -> None:
        """One more attempt closed, with so many tokens."""
        self.calls += 1
        self.tokens += tokens
        second = int(now)
        recent = self._recent
        if recent and recent[-1][0] == second:
            _, calls, sum_tokens = recent[-1]
            recent[-1] = (second, calls + 1, sum_tokens + tokens)
        else:
            recent.append((second, 1, tokens))
            while recent[0][0] <= second - SPAN_S:
                recent.popleft()

    def rates(self, now: float) -> tuple[float, float]:
        """Calls and tokens per second over the last ten seconds."""
        since = int(now) - SPAN_S
        held = [row for row in self._recent if row[0] > since]
        if not held:
            return 0.0, 0.0
        span = max(1.0, min(float(SPAN_S), now - held[0][0]))
        return sum(row[1] for row in held) / span, sum(row[2] for row in held) / span

    def backoff(self, provider: str, until: float, now: float, why: str) -> None:
        """A cell of the provider sleeps until then, and why; the earliest such moment still to come is kept."""
        self.trouble[provider] = why
        held = self.next_try.get(provider)
        if held is None or held <= now or until < held:
            self.next_try[provider] = until

    def troubles(self, now: float) -> Mapping[str, tuple[str, float]]:
        """For each provider of which a cell sleeps now: why, and the seconds until the next try."""
        return {
            name: (self.trouble[name], at - now)
            for name, at in self.next_try.items()
            if at > now and name in self.trouble
        }

    def longest(self, now: float) -> list[tuple[Cell, float, int]]:
        """The calls that have been in flight longest: their first cell, for how many seconds, and which try it is."""
        flights = islice(self.flights, LONGEST)
        return [(flight.cells[0], now - flight.stint.since, flight.failed + 1) for flight in flights]

    def standing(self) -> str:
        """How many calls are in jobs, and where; empty when there are none."""
        calls: dict[str, int] = {}
        for job in self.jobs.values():
            calls[job.provider] = calls.get(job.provider, 0) + job.size
        return ", ".join(f"{n} calls are in jobs at {name}" for name, n in sorted(calls.items()))

    def waits(self) -> Mapping[WaitCause, int]:
        """The causes for which anything waits now, with the number of cells."""
        return {cause: cells for cause, cells in self.waiting.items() if cells}
