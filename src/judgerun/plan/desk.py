"""Desk: every wish for a reply passes here; it is answered from the cache, shares another's call, or becomes a cell."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from judgerun.errors import invariant
from judgerun.model.condition import matches
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.request import Request, RequestKey
from judgerun.plan.feed import rank
from judgerun.plan.requests import Form
from judgerun.plan.tally import Tally
from judgerun.table.row import Outcome, Row

Found = Kept | Lost
Lookup = Callable[[RequestKey], Found | None]
Lookups = Callable[[Sequence[RequestKey]], Mapping[RequestKey, Found]]
"""The same of several keys at once, in half of the time; what the cache knows nothing of is left out."""

Buys = Literal["all", "rungs", "own"]
"""Which cells a flow gives out: all; those of rungs alone; or those under the conditions' own caps alone, so that a cell with a
reply stands with the highest rung that it has reached.
"""

GATHERED = 16
"""Wishes for which the cache is asked at once. More of them push each other out of the processor's caches."""

PREFIX = 16
"""Bytes of a key by which the desk remembers that it has seen it."""

_DIGEST_SPACE = 2**256


class Asker(Protocol):
    """A node whose rows need replies."""

    def hold(self, root: str) -> None: ...
    def release(self, root: str) -> None: ...

    def cell(self, ask: Ask) -> Cell:
        """The cell to be sent."""
        ...

    def settle(self, ask: Ask, found: Kept | Lost, *, shared: bool) -> None:
        """Go on with what became of it."""
        ...

    def pend(self, ask: Ask) -> None:
        """It stays without a reply: send a pending mark down."""
        ...

    def spare(self, ask: Ask) -> Ask | None:
        """The same wish, as the failover of the model that it asks would be asked; None where none is named."""
        ...


@dataclass(slots=True)
class Ask:
    """One cell's wish for a reply: the row, where it asks, and the request. `slot` is the asker's own."""

    node: Asker
    slot: Any
    row: Row
    draws: tuple[tuple[str, int], ...]
    request: Request
    place: tuple[int, ...]  # behind the block in plan order
    tally: Tally
    form: Form  # whose request it is
    below: tuple[Outcome, ...] = ()  # what came of it under lower caps, the lowest first
    was_shared: bool = False  # the last of these, on another cell's call


@dataclass(slots=True, kw_only=True)
class Desk:
    """Open cells by key, those that are ready to be taken, and which keys were seen."""

    seed: int
    lookup: Lookup
    many: Lookups | None = None  # without it each wish is looked up by itself, at once
    only: str | None = None
    buys: Buys = "all"
    quiet: bool = False  # nothing more is given out: what has no reply stays pending
    open: dict[RequestKey, list[Ask]] = field(default_factory=dict)
    lost: dict[RequestKey, Lost] = field(default_factory=dict)  # in the life of this flow
    total: int = 0
    _gathered: deque[Ask] = field(default_factory=deque)  # not looked up yet
    _ready: list[tuple[tuple[int, ...], int, Cell]] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)
    _given_up: set[bytes] = field(default_factory=set)  # seen, and left pending
    _moved: dict[RequestKey, RequestKey] = field(default_factory=dict)  # where diverted cells went
    _merged: Counter[RequestKey] = field(default_factory=Counter)  # open keys that several taken cells are to answer
    _count: int = 0
    _block: tuple[str, int] = ("", -1)
    _allowed: dict[str, bool] = field(default_factory=dict)
    _places: dict[tuple[str, tuple[tuple[str, int], ...]], Any] = field(default_factory=dict)  # begun digests

    def ask(self, ask: Ask) -> None:
        """Answer from the cache, join an open cell, or open a new one; where several are looked up at once, with `answer`."""
        ask.tally.planned += 1
        self._digest(ask)
        self.seek(ask)

    def seek(self, ask: Ask) -> None:
        """The same for a cell that is planned already: it is asked again under a higher cap."""
        if self.many is None:
            self._decide(ask, self.lookup(ask.request.key))
        else:
            ask.node.hold(ask.row.root)
            self._gathered.append(ask)

    @property
    def full(self) -> bool:
        """Whether so many wishes are gathered that they should be looked up."""
        return len(self._gathered) >= GATHERED

    def answer(self) -> None:
        """Look up what is gathered, and what is asked for thereby, until nothing is left; oldest first. To be called where no row
        is on its way: rows of any stage are sent on.
        """
        while self._gathered and self.many is not None:
            asks = [self._gathered.popleft() for _ in range(min(len(self._gathered), GATHERED))]
            found = self.many([ask.request.key for ask in asks])
            for ask in asks:
                self._decide(ask, found.get(ask.request.key))
                ask.node.release(ask.row.root)

    def _decide(self, ask: Ask, found: Found | None) -> None:
        """Go on with a wish of which the cache told what it has."""
        key, tally = ask.request.key, ask.tally
        found = found or self.lost.get(key)
        if ask.form.model.failover is not None and not isinstance(found, Kept):
            ask, found = self._served(ask, found)
            key = ask.request.key
        prefix = key[:PREFIX]
        if found is not None:
            shared = prefix in self._seen
            self._seen.add(prefix)
            ask.node.settle(ask, found, shared=shared)
        elif (waiting := self.open.get(key)) is not None:
            tally.twins += 1
            ask.node.hold(ask.row.root)
            waiting.append(ask)
        elif prefix in self._given_up:
            tally.twins += 1
            ask.node.pend(ask)
        elif self.buys == ("own" if ask.below else "rungs") or not self.wanted(tally.condition):
            ask.node.pend(ask)
        elif self.quiet:
            self._given_up.add(prefix)
            ask.node.pend(ask)
        else:
            self._open(ask, prefix)

    def _open(self, ask: Ask, prefix: bytes) -> None:
        self._seen.add(prefix)
        self.open[ask.request.key] = [ask]
        ask.node.hold(ask.row.root)
        self._ready_up(ask)

    def _ready_up(self, ask: Ask) -> None:
        cell = ask.node.cell(ask)
        self._count += 1
        heapq.heappush(self._ready, (cell.rank, self._count, cell))

    def _served(self, ask: Ask, found: Lost | None) -> tuple[Ask, Kept | Lost | None]:
        """The wish and its reply as a failover model answered it; where none did, as they are."""
        spare = ask.node.spare(ask)
        while spare is not None:
            if isinstance(kept := self.lookup(spare.request.key), Kept):
                return spare, kept
            spare = spare.node.spare(spare)
        return ask, found

    def divert(self, cell: Cell) -> Cell | None:
        """A taken cell as its model's failover asks it; None where none is named, or where that has been tried in vain. Those that
        waited for it and have another failover stay pending.
        """
        key = cell.request.key
        spares = [(ask, ask.node.spare(ask)) for ask in self.open.get(key, ())]
        first = spares[0][1] if spares else None
        if first is None or first.request.key in self.lost:
            return None
        moved = first.request.key
        left = [ask for ask, spare in spares if spare is None or spare.request.key != moved]
        going = [spare for _, spare in spares if spare is not None and spare.request.key == moved]
        del self.open[key]
        self._seen.discard(key[:PREFIX])
        self._moved[key] = moved
        if moved in self.open:
            self._merged[moved] += 1
            going[0].tally.twins += 1
        self._seen.add(moved[:PREFIX])
        self.open.setdefault(moved, []).extend(going)
        self._pend(left)
        return first.node.cell(first)

    def rank(self, ask: Ask) -> tuple[int, ...]:
        """The place of a cell in plan order."""
        return (self.block(ask.row.block), *ask.place)

    def block(self, name: str) -> int:
        """The place of a block in seeded order; the last one is remembered."""
        if self._block[0] != name or self._block[1] < 0:
            self._block = (name, rank(self.seed, name))
        return self._block[1]

    @property
    def ready(self) -> bool:
        """Whether a cell can be taken now."""
        return bool(self._ready)

    def take(self) -> Cell | None:
        """The first of the ready cells in plan order."""
        return heapq.heappop(self._ready)[2] if self._ready else None

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        """What became of an open cell, for all that wait for it."""
        waiting = self.open.pop(cell.request.key, None)
        if waiting is None and self._another(cell.request.key):
            return
        invariant(waiting is not None, f"{cell.condition} {cell.id} is not open")
        if isinstance(outcome, Lost):
            self.lost[cell.request.key] = outcome
        for n, ask in enumerate(waiting or ()):
            if n:
                ask.tally.twins -= 1
            ask.node.settle(ask, outcome, shared=n > 0)
            ask.node.release(ask.row.root)

    def abandon(self, key: RequestKey) -> None:
        """Leave an open cell pending for good, with all that wait for it; the memory of it is freed."""
        while key not in self.open and key in self._moved:
            key = self._moved[key]
        if self._another(key):
            return
        prefix = key[:PREFIX]
        self._seen.discard(prefix)
        self._given_up.add(prefix)
        self._pend(self.open.pop(key, ()))

    def forgo(self, key: RequestKey) -> None:
        """Leave a taken cell pending, but none that shares its call: the next of those that wait for it may be taken in its place,
        since what kept the first from being sent, a gate or a cap of its condition, need not keep them.
        """
        asks = self.open.get(key, ())
        if len(asks) < 2 or key in self._merged:
            self.abandon(key)
            self._given_up.discard(key[:PREFIX])  # whoever asks for it later may take it
            return
        first, *rest = asks
        self._pend([first])
        rest[0].tally.twins -= 1
        self.open[key] = rest
        self._ready_up(rest[0])

    @staticmethod
    def _pend(asks: Iterable[Ask]) -> None:
        for ask in asks:
            ask.node.pend(ask)
            ask.node.release(ask.row.root)

    def _another(self, key: RequestKey) -> bool:
        """Whether another taken cell is to answer a key too, or has answered it: then this one says nothing."""
        if not self._merged or key not in self._merged:
            return False
        self._merged[key] -= 1
        if not self._merged[key]:
            del self._merged[key]
        return True

    def close(self) -> None:
        """Give out nothing more, and leave every open cell pending."""
        self.quiet = True
        self._ready.clear()
        while self.open:
            self.abandon(next(iter(self.open)))
            self.answer()

    def wanted(self, condition: str) -> bool:
        """Whether cells of this condition may be given out."""
        if self.only is None:
            return True
        if condition not in self._allowed:
            self._allowed[condition] = matches(self.only, condition)
        return self._allowed[condition]

    def _digest(self, ask: Ask) -> None:
        """Add the cell to the plan's digest: a sum, so that it does not matter in which order cells became known."""
        place = self._places.get((ask.tally.condition, ask.draws))
        if place is None:
            place = hashlib.sha256(repr((ask.tally.condition, ask.draws)).encode())
            self._places[ask.tally.condition, ask.draws] = place
        sha = place.copy()
        sha.update(ask.request.key)
        sha.update(ask.row.id.encode())
        self.total = (self.total + int.from_bytes(sha.digest(), "big")) % _DIGEST_SPACE
