"""Hours: what the slots of each lane did with their time; arithmetic over moments that it is given, it reads no clock.

Each slot-second of a lane goes to exactly one cause. A lane has as many slots as a person wrote (or set since). At any moment:

1. A slot in use goes to what its work does: `sending` (from the first byte to the answer, or to the lack of one), `store` (its
   reservation or its close is made durable), `rate limit` or `token limit` (it waits for its turn), `other lane` (it waits for
   a slot of the other lane of its route), `local` (anything else: our own loop).
2. Of the slots that are free, those that were taken away when the provider was overloaded go to `cut`.
3. Each of the others goes to one piece of the lane's work that waits without a slot, and to what that waits for:
   `reservation` (money that others hold), `backoff`, `provider` (its breaker is open), `rate limit` and `token limit` (as the
   provider states them), `other lane`, `other process` (it has the same call open), `paused`, `local` (the loop is late). Where
   more work waits than slots are free, the free ones are divided in proportion. Work that waits for a slot of this very lane
   comes after all others, as `local`: the slot is being handed over.
4. What is still left has no work, and goes to one cause, the first that holds: `stop` (the run drains), `paused`, `provider`
   (it is closed), `window` (the window of open work is full of other lanes'), `upstream` (the lane's stages wait for those
   before them), `local` (cells are still being read and planned), `job` (what is left is in jobs of the provider),
   `nothing left`; and `unknown`, where cells may come but no stage says that they are this lane's.

Rules 1 and 3 are exact sums of moments; 2 to 4 are settled each time the account is closed, which a run does each second, for
the time since the last closing. So the causes of a lane add up to its slots times the time that it was open, whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

SlotCause = Literal[
    "sending",
    "store",
    "rate limit",
    "token limit",
    "other lane",
    "local",
    "reservation",
    "backoff",
    "provider",
    "other process",
    "paused",
    "cut",
    "stop",
    "window",
    "upstream",
    "job",
    "nothing left",
    "unknown",
]
SLOT_CAUSES: tuple[SlotCause, ...] = get_args(SlotCause)
DOING: tuple[SlotCause, ...] = SLOT_CAUSES[:11]
"""What a piece of work can be in the middle of."""
IDLE: frozenset[SlotCause] = frozenset({"paused", "stop", "window", "upstream", "job", "nothing left", "unknown"})
"""Causes that say nothing of how quickly the lane works off what it has."""

_CODE: Mapping[SlotCause, int] = {cause: code for code, cause in enumerate(DOING)}
_QUEUE = len(DOING)
"""The state of work that waits for a slot of the lane itself."""
_KINDS = _QUEUE + 1
_NOWHERE = 2 * _KINDS
_OTHER = _CODE["other lane"]


class Account:
    """The time of one lane. `width` says how many slots it has as written, and how many of them may be used now."""

    __slots__ = (
        "_began",
        "_since",
        "answered",
        "calls",
        "counts",
        "name",
        "provider",
        "settled",
        "spent",
        "sums",
        "width",
    )

    def __init__(self, name: str, *, width: Callable[[], tuple[int, int]], now: float) -> None:
        self.name = name
        self.provider = name.split("/", 1)[0]
        self.width = width
        self.answered = 0  # cells that came to their end here
        self.calls = 0  # pieces of work in which they did
        self.settled = 0, 0  # both at the last closing
        self.spent: dict[SlotCause, float] = dict.fromkeys(SLOT_CAUSES, 0.0)  # slot-seconds, up to the last closing
        self._began = self._since = now
        # By what work does, first without a slot and then with one, and once more for work that is not there: how many there
        # are, and the sum of the moments since when (taken off) and until when (added).
        self.counts = [0] * (_NOWHERE + 1)
        self.sums = [0.0] * (_NOWHERE + 1)

    def close(self, now: float, spare: SlotCause) -> None:
        """Settle the time since the last closing; `spare` is the cause of slots for which there was no work."""
        ceiling, size = self.width()
        span, self._since = now - self._since, now
        self.settled = self.answered, self.calls
        taken = [self._taken(state, now) for state in range(_NOWHERE)]
        waited, used = taken[:_KINDS], taken[_KINDS:]
        free = max(0.0, ceiling * span - sum(used))
        cut = min(free, max(0, ceiling - size) * span)
        free -= cut
        wanted = sum(waited[:_QUEUE])
        share = min(1.0, free / wanted) if wanted > 0 else 0.0
        for code, cause in enumerate(DOING):
            self.spent[cause] += used[code] + waited[code] * share
        left = free - wanted * share
        handed = min(left, waited[_QUEUE])
        self.spent["cut"] += cut
        self.spent["local"] += handed
        self.spent[spare] += left - handed

    def _taken(self, state: int, now: float) -> float:
        """Seconds that work spent in a state since the last closing."""
        taken = self.sums[state] + self.counts[state] * now
        self.sums[state] = -self.counts[state] * now
        return max(0.0, taken)

    def present(self) -> Mapping[SlotCause, int]:
        """What the slots in use do now, and how many of them."""
        return {cause: held for code, cause in enumerate(DOING) if (held := self.counts[_KINDS + code])}

    @property
    def lasted(self) -> float:
        """For how many seconds it has been open, up to the last closing."""
        return self._since - self._began

    @property
    def shares(self) -> Mapping[SlotCause, float]:
        """The causes that took any time, with their slot-seconds."""
        return {cause: seconds for cause, seconds in self.spent.items() if seconds > 0}


class Stint:
    """What one piece of work does, told to the lanes of its route. `holds` of them gave it a slot, in the order of the route."""

    __slots__ = ("_accounts", "_at", "holds", "resolved", "since")

    def __init__(self, accounts: tuple[Account, ...], now: float) -> None:
        self._accounts = accounts
        self._at = [_NOWHERE] * len(accounts)
        self.holds = 0
        self.resolved = 0  # cells that came to their end
        self.since = now  # when it began to do what it does
        self.turn("local", now)

    def turn(self, doing: SlotCause, now: float) -> None:
        """It does something else from now on."""
        code, holds = _CODE[doing], self.holds
        self.since = now
        for place, account in enumerate(self._accounts):
            will = code + _KINDS if place < holds else _QUEUE if code == _OTHER and place == holds else code
            was, self._at[place] = self._at[place], will
            counts, sums = account.counts, account.sums
            counts[was] -= 1
            sums[was] += now
            counts[will] += 1
            sums[will] -= now

    def end(self, now: float) -> None:
        """It does nothing any more."""
        for place, account in enumerate(self._accounts):
            account.counts[self._at[place]] -= 1
            account.sums[self._at[place]] += now
            account.answered += self.resolved
            account.calls += self.resolved > 0


OUTSIDE = Stint((), 0.0)
"""Of whatever uses no slot."""


@dataclass(slots=True)
class Hours:
    """The accounts of all lanes of a run, by name."""

    accounts: dict[str, Account] = field(default_factory=dict)

    def open(self, name: str, *, width: Callable[[], tuple[int, int]], now: float) -> Account:
        """The account of a lane; it is opened when it is first asked for."""
        if (account := self.accounts.get(name)) is None:
            account = self.accounts[name] = Account(name, width=width, now=now)
        return account

    def close(self, now: float, spare: Callable[[Account], SlotCause]) -> None:
        """Settle all accounts."""
        for account in self.accounts.values():
            account.close(now, spare(account))

    def spent(self) -> Mapping[str, Mapping[str, float]]:
        """Slot-seconds by lane and cause, up to the last closing."""
        return {name: {str(cause): s for cause, s in account.shares.items()} for name, account in self.accounts.items()}

    def present(self) -> Iterator[tuple[str, int, Mapping[SlotCause, int]]]:
        """Of each lane its slots as they may be used now, and what those in use do."""
        for name, account in self.accounts.items():
            yield name, account.width()[1], account.present()
