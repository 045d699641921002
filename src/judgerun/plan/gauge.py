"""Gauge: what only a gate asks of the replies of a condition, kept as they come; and Pairing, over the conditions of a stage."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judgerun.model.kept import Kept
from judgerun.model.money import Nanos
from judgerun.model.reply import Finish
from judgerun.table.gate import ITEMS_MAX, Pairs

FAR = 4
"""How many times longer or shorter than expected an answer is far from its length."""

_REFUSALS = (Finish.REFUSAL, Finish.FILTER)

Draws = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Pairing:
    """How often the conditions of a stage were truncated on the same items. An item that all have answered is forgotten."""

    conditions: Sequence[str]
    _open: dict[tuple[str, Draws], tuple[int, int]] = field(
        default_factory=dict
    )  # bits of who answered, of who was cut
    _both: dict[tuple[int, int], int] = field(default_factory=dict)  # lower number first
    _alone: dict[tuple[int, int], int] = field(default_factory=dict)  # who was truncated first

    def reply(self, place: int, id: str, draws: Draws, *, truncated: bool) -> None:
        """The condition at a place has answered an item, which it does once."""
        answered, cut = self._open.pop((id, draws), (0, 0))
        for other in range(len(self.conditions)):
            if not answered >> other & 1:
                continue
            pair = (place, other) if place < other else (other, place)
            self._both[pair] = self._both.get(pair, 0) + 1
            if truncated is not bool(cut >> other & 1):
                alone = (place, other) if truncated else (other, place)
                self._alone[alone] = self._alone.get(alone, 0) + 1
        answered |= 1 << place
        if answered.bit_count() < len(self.conditions):
            self._open[id, draws] = (answered, cut | truncated << place)

    def pairs(self, place: int) -> dict[str, Pairs]:
        """Of one condition with each other that shares items with it."""
        found: dict[str, Pairs] = {}
        for other, name in enumerate(self.conditions):
            n = self._both.get((place, other) if place < other else (other, place), 0)
            if n:
                found[name] = (n, self._alone.get((place, other), 0), self._alone.get((other, place), 0))
        return found


@dataclass(slots=True, kw_only=True)
class Gauge:
    """Of one condition with a gate."""

    expected: int | None = None  # output tokens
    pairing: Pairing | None = None  # where the gate asks for differences
    place: int = 0  # in it
    _length: int = 0
    _told: int = 0
    _billed: int = 0
    _cost: Nanos = 0
    _squares: float = 0.0
    _bad: dict[str, deque[str]] = field(default_factory=dict)
    _dearest: list[tuple[Nanos, str]] = field(default_factory=list)

    def reply(self, id: str, draws: Draws, kept: Kept, *, parsed: bool, shared: bool) -> None:
        """A cell has a reply; `shared` ones cost nothing more."""
        reply, made = kept.reply, kept.reply.usage.output
        truncated = reply.finish is Finish.LENGTH
        if self.expected is not None and made is not None:
            self._told += 1
            if made * FAR < self.expected or made > self.expected * FAR:
                self._length += 1
                self._note("length", id)
        if kept.cost is not None and not shared:
            self._bill(id, kept.cost)
        if self.pairing is not None:
            self.pairing.reply(self.place, id, draws, truncated=truncated)
        if truncated:
            self._note("truncated", id)
        elif reply.finish in _REFUSALS:
            self._note("refused", id)
        if reply.empty:
            self._note("empty", id)
        if not parsed:
            self._note("unparsed", id)

    def fail(self, id: str) -> None:
        """A cell was tried in vain."""
        self._note("failed", id)

    def _note(self, limit: str, id: str) -> None:
        if limit not in self._bad:
            self._bad[limit] = deque(maxlen=ITEMS_MAX)
        self._bad[limit].append(id)

    def _bill(self, id: str, cost: Nanos) -> None:
        self._billed += 1
        self._cost += cost
        self._squares += float(cost) ** 2
        if len(self._dearest) < ITEMS_MAX:
            heapq.heappush(self._dearest, (cost, id))
        elif cost > self._dearest[0][0]:
            heapq.heapreplace(self._dearest, (cost, id))

    def counts(self) -> dict[str, Any]:
        """As it stands now: fields of Counts."""
        bad = {limit: tuple(ids) for limit, ids in self._bad.items()}
        return {
            "length": self._length,
            "told": self._told,
            "billed": self._billed,
            "cost": self._cost,
            "squares": self._squares,
            "pairs": {} if self.pairing is None else self.pairing.pairs(self.place),
            "bad": {**bad, "cost": tuple(id for _, id in sorted(self._dearest, reverse=True))},
        }
