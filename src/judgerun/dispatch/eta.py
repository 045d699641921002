"""Eta: how long a run will still take, by what its lanes lately did with their slots; arithmetic, it reads no clock.

A cell costs its lane so many slot-seconds: all that its slots lately spent, waits for limits, money and backoffs included, over
the cells that were answered meanwhile. What slots spend without work of their own (`IDLE` in hours.py) is no cost, nor are slots
that were cut. Cells left, times the cost of one, over the slots that may be used now, is the time that the lane still needs.
Both sums fade, with `FADE_S` or twice the time of a call, whichever is longer; so the estimate follows a provider that becomes
slow, even while it answers nothing: time is spent, and no cell is answered. What limits is told from a shorter while
(`TOLD_S`), so that a limit that was lifted is soon named no more.

Lanes work side by side, and the slowest sets the time. Stages that cannot begin before others have ended for all rows (a ranking
before its corpus has its vectors) stand on a later level; levels come one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp

from judgerun.dispatch.hours import IDLE, SLOT_CAUSES, Account, Hours
from judgerun.model.experiment import Experiment, Fold, Map, Retrieve
from judgerun.plan.graph import needs, ordered

FADE_S = 60.0
TOLD_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Cells that are still to come to their end."""

    lanes: tuple[str, ...]  # all that they pass
    level: int
    cells: int
    alone_s: float  # how long they would take by the quote: for lanes that have answered nothing yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Seconds left, and what limits: the lane that needs longest, with what its slots lately spent most time on."""

    seconds: float
    lane: str
    cause: str  # "" where it has done nothing yet

    @property
    def limit(self) -> str:
        """What limits, for people."""
        return f"{self.lane} ({self.cause})" if self.cause else self.lane

    def __str__(self) -> str:
        return f"about {span(self.seconds)} left, limited by {self.limit}"


@dataclass(slots=True)
class _Recent:
    """What a lane lately did."""

    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SLOT_CAUSES, 0.0))
    newly: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SLOT_CAUSES, 0.0))
    answered: float = 0.0
    seen: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SLOT_CAUSES, 0.0))
    counted: int = 0
    calls: float = 0.0
    before: int = 0

    def step(self, account: Account, span: float) -> None:
        """Take in what was spent since the last step."""
        call = self.spent["sending"] / self.calls if self.calls else 0.0
        faded, told = exp(-span / max(FADE_S, 2 * call)), exp(-span / TOLD_S)
        for cause, seconds in account.spent.items():
            more, self.seen[cause] = seconds - self.seen[cause], seconds
            self.spent[cause] = self.spent[cause] * faded + more
            self.newly[cause] = self.newly[cause] * told + more
        answered, calls = account.settled
        self.answered = self.answered * faded + answered - self.counted
        self.calls = self.calls * faded + calls - self.before
        self.counted, self.before = answered, calls

    @property
    def cost(self) -> float | None:
        """Slot-seconds of a cell; None before there was one."""
        if self.answered <= 0:
            return None
        return sum(seconds for cause, seconds in self.spent.items() if cause not in IDLE | {"cut"}) / self.answered

    @property
    def cause(self) -> str:
        """What takes most now."""
        busy = {cause: seconds for cause, seconds in self.newly.items() if cause not in IDLE}
        most = max(busy, key=busy.__getitem__)
        return most if busy[most] > 0 else ""


class Eta:
    """The estimate of one run; `step` each second, after the hours were closed."""

    def __init__(self) -> None:
        self._recent: dict[str, _Recent] = {}
        self._at: float | None = None

    def step(self, hours: Hours, opened: Iterable[Open], now: float) -> Left | None:
        """The time left now; None where nothing is left, or not even a quote says how long it takes."""
        span, self._at = (0.0 if self._at is None else now - self._at), now
        for name, account in hours.accounts.items():
            self._recent.setdefault(name, _Recent()).step(account, span)
        levels: dict[int, dict[str, float]] = {}
        for part in opened:
            for lane in part.lanes if part.cells else ():
                needed = levels.setdefault(part.level, {})
                needed[lane] = needed.get(lane, 0.0) + self._needed(hours, lane, part)
        return self._longest(levels)

    def _needed(self, hours: Hours, lane: str, part: Open) -> float:
        account, recent = hours.accounts.get(lane), self._recent.get(lane)
        cost = None if recent is None else recent.cost
        if account is None or cost is None:
            return part.alone_s
        return part.cells * cost / max(1, account.width()[1])

    def _longest(self, levels: Mapping[int, Mapping[str, float]]) -> Left | None:
        slowest = [max(needed.items(), key=lambda item: item[1]) for needed in levels.values()]
        if not slowest or not any(seconds for _, seconds in slowest):
            return None
        lane, _ = max(slowest, key=lambda item: item[1])
        recent = self._recent.get(lane)
        return Left(seconds=sum(seconds for _, seconds in slowest), lane=lane, cause=recent.cause if recent else "")


def levels(experiment: Experiment) -> Mapping[str, int]:
    """How many times, before a stage can ask anything, whole tables must be complete."""
    found: dict[str, int] = {}
    for stage in ordered(experiment):
        above = max((found[name] for name in needs(stage) if name in found), default=0)
        whole = (
            (isinstance(stage, Retrieve) and stage.method == "dense")
            or (isinstance(stage, Map) and stage.whole)
            or (isinstance(stage, Fold) and stage.over == "rows")
        )
        found[stage.name] = above + whole
    return found


def span(seconds: float) -> str:
    """A time to come, for people: `1 h 40 min`, `12 min`, `40 s`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
