"""Trays: cells of one model that wait to be sent in a job, and which of them fit into the next; nothing here waits or sends.

A part is what goes into one job: as many cells, in plan order, as the provider's limits allow. What is open in jobs counts
against the limit on enqueued tokens; a request that is above a limit by itself goes alone, and the provider's answer decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from judgerun.dispatch.claim import input_expected
from judgerun.dispatch.hours import OUTSIDE, Stint
from judgerun.dispatch.money import Scope
from judgerun.dispatch.slots import Rank
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell
from judgerun.model.profile import JobLimits


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A cell in a tray."""

    rank: Rank
    number: int
    cell: Cell = field(compare=False)
    bytes: int = field(compare=False)

    @property
    def tokens(self) -> int:
        """What it enqueues."""
        return input_expected(self.cell)


@dataclass(slots=True, kw_only=True)
class Part:
    """How much the next job holds so far, and how much it may hold."""

    requests_max: int
    bytes_max: int
    tokens_max: int | None  # what is left of the limit on enqueued tokens
    alone: bool  # nothing is enqueued: one request may pass that limit
    requests: int = 0
    bytes: int = 0
    tokens: int = 0

    def fits(self, entry: Entry) -> bool:
        """Whether one more cell may go in."""
        within = self.tokens_max is None or self.tokens + entry.tokens <= self.tokens_max
        if not self.requests:
            return within or self.alone
        return self.requests < self.requests_max and self.bytes + entry.bytes <= self.bytes_max and within

    def put(self, entry: Entry) -> None:
        """A cell goes in."""
        self.requests += 1
        self.bytes += entry.bytes
        self.tokens += entry.tokens


@dataclass(slots=True, kw_only=True, eq=False)
class Tray:
    """The cells of one model that are in no job, first in plan order first; as a waiter, it waits for all of them."""

    model: Model
    limits: JobLimits
    tokens_max: int | None = None  # the tightest limit on enqueued tokens
    most: int = 0  # requests in a part: the provider's limit, or less after it refused a part
    not_before: float = 0.0  # on the run's clock: a backoff
    room_at: float = (
        0.0  # on the run's clock: until then, or until a job of its provider has ended, nothing would be taken
    )
    filling: bool = False  # a task takes parts out of it
    sending: int = 0  # parts that are being submitted
    called: Scope | None = None  # the money queue whose head it is while it tries
    bytes: int = 0
    tokens: int = 0
    conditions: tuple[str, ...] = ()  # it waits for cells of many conditions: each is looked at when its turn comes
    scopes: tuple[Scope, ...] = ()
    stint: Stint = OUTSIDE
    asks: str = ""
    _heap: list[Entry] = field(default_factory=list)
    _next: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.most = self.limits.requests

    @property
    def provider(self) -> str:
        """The deployment that serves it."""
        return self.model.provider.name

    @property
    def size(self) -> int:
        """Cells."""
        return len(self._heap)

    @property
    def first(self) -> Entry:
        """The first in plan order."""
        return self._heap[0]

    @property
    def full(self) -> bool:
        """Whether a whole part is there: nothing more need be gathered for it."""
        enough = self.tokens_max is not None and self.tokens >= self.tokens_max
        return bool(self._heap) and (enough or len(self._heap) >= self.most or self.bytes >= self.limits.bytes)

    def add(self, cell: Cell, *, bytes: int) -> None:
        """A cell that takes so many bytes in a job."""
        self.back([Entry(cell.rank, next(self._next), cell, bytes)])

    def back(self, entries: Iterable[Entry]) -> None:
        """Entries that were drawn and not sent."""
        for entry in entries:
            heapq.heappush(self._heap, entry)
            self.bytes += entry.bytes
            self.tokens += entry.tokens

    def draw(self, part: Part, most: int) -> list[Entry]:
        """Up to so many of the cells that fit into a part, in plan order; they are put into it when their money is held."""
        found: list[Entry] = []
        ahead = replace(part)
        while self._heap and len(found) < most and ahead.fits(self._heap[0]):
            entry = self._pop()
            ahead.put(entry)
            found.append(entry)
        return found

    def drop(self, out: Callable[[Cell], bool]) -> list[Cell]:
        """Take out the cells of which this is said."""
        entries, gone = self._heap, []
        self._heap, self.bytes, self.tokens = [], 0, 0
        for entry in entries:
            if out(entry.cell):
                gone.append(entry.cell)
            else:
                self.back([entry])
        return gone

    def _pop(self) -> Entry:
        entry = heapq.heappop(self._heap)
        self.bytes -= entry.bytes
        self.tokens -= entry.tokens
        return entry
