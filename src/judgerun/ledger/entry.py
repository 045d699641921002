"""Entry, its kinds, Amount, and what a reservation may be told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from judgerun.ledger.budget import Leaf
from judgerun.model.money import Nanos


class EntryKind(StrEnum):
    """Each reserve ends in exactly one settle, void or forfeit; an adjust cites a document."""

    RESERVE = "reserve"
    SETTLE = "settle"
    VOID = "void"
    FORFEIT = "forfeit"
    ADJUST = "adjust"


class Decision(StrEnum):
    """What a reservation is told."""

    RESERVED = "reserved"
    WAIT = "wait"  # it will fit if other holds come back
    EXHAUSTED = "exhausted"  # settled + forfeited + need passes a cap, whatever comes back
    FROZEN = "frozen"  # a bill passed its hold
    KEPT = "kept"  # every key has a reply already
    HELD = "held"  # a key has an open attempt elsewhere
    RATE = "rate"  # a rate window of the cache is full; try after a delay


@dataclass(frozen=True, slots=True)
class Amount:
    """Dollars, calls, tokens and GPU time at once."""

    nanos: Nanos = 0
    calls: int = 0
    tokens: int = 0
    gpu_ms: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.nanos + other.nanos,
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.gpu_ms + other.gpu_ms,
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            self.nanos - other.nanos,
            self.calls - other.calls,
            self.tokens - other.tokens,
            self.gpu_ms - other.gpu_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One immutable line of the ledger. A closing names its attempt's reserve by the attempt; an adjust cites a document."""

    attempt: int
    kind: EntryKind
    leaf: Leaf  # of the attempt's reservation
    amount: Amount
    document: str | None = None
