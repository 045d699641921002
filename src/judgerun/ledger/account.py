"""Account: the fold of entries, and the one decision that keeps every cap.

What may live here: how an entry changes balances, how balances add up to a scope, and what a reservation is told.

Theory. A *leaf* (budget, experiment, stage, condition, provider, day) has a *balance*: settled, forfeited and held, each in
dollars, calls, tokens and GPU time. A cap limits one unit over a scope, and a scope is a sum of leaves, so a cap that is
written down today sees what was spent before it existed. For every cap at every commit

    settled + forfeited + held <= limit

holds, because nothing is reserved that would break it, and because a closing never books more than its hold. The one
exception is a bill above its hold: it is booked in full, and the budget is frozen by whoever books it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from judgerun.errors import InvariantBroken, invariant
from judgerun.ledger.budget import Cap, Leaf, Unit
from judgerun.ledger.entry import Amount, Decision, Entry, EntryKind

NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Balance:
    """What stands on a leaf, or how much it changes (then parts may be negative)."""

    settled: Amount = NOTHING
    forfeited: Amount = NOTHING
    held: Amount = NOTHING

    def high(self, unit: Unit) -> int:
        """settled + forfeited + held in a unit: what a cap limits."""
        return sum(int(getattr(part, unit)) for part in (self.settled, self.forfeited, self.held))

    def __add__(self, other: Balance) -> Balance:
        return Balance(
            _plus(self.settled, other.settled), _plus(self.forfeited, other.forfeited), _plus(self.held, other.held)
        )


def _plus(one: Amount, other: Amount) -> Amount:
    """A sum; most changes leave two of three parts alone, and this runs twice a call."""
    return one if other is NOTHING else other if one is NOTHING else one + other


EMPTY = Balance()


def change(kind: EntryKind, amount: Amount, *, hold: Amount = NOTHING, stands: Balance = EMPTY) -> Balance:
    """How one entry changes the balance of its leaf.

    `hold` is what the attempt's reserve held (for a closing). `stands` is what its closing and later adjusts have booked
    so far (for an adjust): an adjust says, on the word of a document, what the attempt really cost, and replaces it. It is
    the only entry by which `forfeited` falls.
    """
    match kind:
        case EntryKind.RESERVE:
            return Balance(held=amount)
        case EntryKind.SETTLE:
            return Balance(settled=amount, held=NOTHING - hold)
        case EntryKind.FORFEIT:
            return Balance(forfeited=amount, held=NOTHING - hold)
        case EntryKind.VOID:  # the call comes back too
            return Balance(held=NOTHING - hold)
        case EntryKind.ADJUST:
            return Balance(settled=amount - stands.settled, forfeited=NOTHING - stands.forfeited)


def fold(entries: Iterable[Entry]) -> dict[Leaf, Balance]:
    """Balances from zero. InvariantBroken where entries are not a ledger: a closing without its reserve, or a second one."""
    balances: dict[Leaf, Balance] = {}
    holds: dict[int, Amount] = {}
    standing: dict[int, Balance] = {}
    for entry in entries:
        hold, stands = NOTHING, EMPTY
        if entry.kind is EntryKind.RESERVE:
            invariant(
                entry.attempt not in holds and entry.attempt not in standing, f"attempt {entry.attempt} reserved twice"
            )
            holds[entry.attempt] = entry.amount
        elif entry.kind is EntryKind.ADJUST:
            if entry.attempt not in standing:
                raise InvariantBroken(f"attempt {entry.attempt} adjusted before it was closed")
            stands = standing[entry.attempt]
        else:
            if entry.attempt not in holds:
                raise InvariantBroken(f"attempt {entry.attempt} closed twice, or never reserved")
            hold = holds.pop(entry.attempt)
        delta = change(entry.kind, entry.amount, hold=hold, stands=stands)
        if entry.kind is not EntryKind.RESERVE:
            standing[entry.attempt] = Balance(stands.settled + delta.settled, stands.forfeited + delta.forfeited)
        balances[entry.leaf] = balances.get(entry.leaf, EMPTY) + delta
    return balances


def stand(cap: Cap, balances: Mapping[Leaf, Balance], today: str) -> Balance:
    """What stands in the scope of a cap (for a day's cap: of that day)."""
    return sum((balance for leaf, balance in balances.items() if cap.covers(leaf, today)), EMPTY)


class _Sum:
    """The running sum of one cap (for a day's cap: of one day): what is gone, and what may come back."""

    __slots__ = ("cap", "gone", "held", "name", "unit")

    def __init__(self, cap: Cap) -> None:
        self.cap = cap
        self.unit: Unit = cap.unit
        self.name = str(cap)
        self.gone = 0
        self.held = 0

    def add(self, delta: Balance) -> None:
        self.gone += getattr(delta.settled, self.unit) + getattr(delta.forfeited, self.unit)
        self.held += getattr(delta.held, self.unit)


class Account:
    """Running sums of one budget under its caps. It is told of every change, and decides on reservations."""

    def __init__(self, caps: Sequence[Cap], balances: Mapping[Leaf, Balance] | None = None) -> None:
        self._caps = tuple(caps)
        self._sums: dict[tuple[int, str], _Sum] = {}
        self._scopes: dict[Leaf, tuple[_Sum, ...]] = {}
        for leaf, balance in (balances or {}).items():
            self.book(leaf, balance)

    def book(self, leaf: Leaf, delta: Balance) -> None:
        """A change on a leaf is one of every scope over it."""
        for scope in self._over(leaf):
            scope.add(delta)

    def decide(self, leaf: Leaf, need: Amount) -> tuple[Decision, str]:
        """Whether `need` may be held on `leaf`, and the cap that says wait or exhausted.

        `exhausted` is looked for in all scopes before `wait` is said in any: what will never fit must not queue. A need
        of 0 in a unit is never refused by a cap in it: a free model goes on when the money is gone.
        """
        waiting = ""
        for scope in self._over(leaf):
            want = getattr(need, scope.unit)
            if want == 0:
                continue
            room = scope.cap.limit - scope.gone - want
            if room < 0:
                return Decision.EXHAUSTED, scope.name
            if room < scope.held and not waiting:
                waiting = scope.name
        return (Decision.WAIT, waiting) if waiting else (Decision.RESERVED, "")

    def committed(self, cap: Cap, day: str = "") -> int:
        """settled + forfeited + held of a cap's scope, in its unit; `day` names which day for a day's cap."""
        found = self._sums.get((self._caps.index(cap), day if cap.kind == "day" else ""))
        return found.gone + found.held if found else 0

    def _over(self, leaf: Leaf) -> tuple[_Sum, ...]:
        """The sums that a leaf counts in, made when first asked for."""
        known = self._scopes.get(leaf)
        if known is None:
            known = tuple(
                self._sum(place, cap, leaf.day) for place, cap in enumerate(self._caps) if cap.covers(leaf, leaf.day)
            )
            self._scopes[leaf] = known
        return known

    def _sum(self, place: int, cap: Cap, day: str) -> _Sum:
        name = (place, day if cap.kind == "day" else "")
        return self._sums.setdefault(name, _Sum(cap))
