"""Books: what the ledger and the cache hold for one experiment, as plain rows; the form in which a snapshot is handed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgerun.ledger.account import Balance
from judgerun.ledger.budget import Leaf
from judgerun.ledger.entry import Amount, Entry
from judgerun.model.event import Event
from judgerun.model.money import Nanos
from judgerun.model.reply import Usage
from judgerun.model.request import RequestKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try and what it carried."""

    id: int
    leaf: Leaf  # budget, experiment, stage, condition, provider, day
    model: str  # the experiment's name of the model
    keys: tuple[RequestKey, ...]  # one request, or a batch of embedding requests
    need: Amount  # what was reserved
    open: bool = False
    sent: bool = True
    status: int | None = None  # HTTP
    cause: str | None = None  # why it gave no reply
    detail: str = ""
    bound_by: str = ""
    served_by: str | None = None
    latency_ms: int | None = None
    closed_at: float | None = None  # Unix time of its answer: the moment at which it was priced
    job: int | None = None  # the number of its job: it went through the batch lane, at the price of that lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """One reply in the cache, without text and body. `cost` is its share of the settled bill, None when forfeited."""

    key: RequestKey
    attempt: int
    cost: Nanos | None
    usage: Usage
    reported_cost: Nanos | None = None
    reported_tokens: int | None = None  # the provider's own total
    embedding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What a ledger audit reads.

    `attempts`, `entries` and `bought` hold those of the experiment, and besides them the attempts (with their entries and
    replies) of other experiments that bought a reply on which this experiment's cells rest. `entries` are in the order in
    which they were committed; `covered` is how many of them, from the first, the seal covers (None: no seal, all count): later
    adjusts are audited, but the spend that a report tells is that of the seal. `balances` are the leaves that carry the
    experiment's name. `events` are those of the experiment and those that concern no single one, up to the seal where there is
    one, oldest first. `gaps` are the numbers that are missing among the entries and the attempts of the whole cache ("entry",
    "attempt"); of a part of a cache nothing is known.
    """

    attempts: tuple[Attempt, ...] = ()
    entries: tuple[Entry, ...] = ()
    bought: tuple[Bought, ...] = ()
    balances: Mapping[Leaf, Balance] = field(default_factory=dict)
    covered: int | None = None
    events: tuple[Event, ...] = ()
    gaps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def sealed_entries(self, experiment: str) -> tuple[Entry, ...]:
        """The experiment's own entries, as far as the seal covers them."""
        return tuple(entry for entry in self.entries[: self.covered] if entry.leaf.experiment == experiment)
