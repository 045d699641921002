"""Budget: caps by scope, and the leaf of an account that a reservation touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from judgerun.model.condition import matches
from judgerun.model.money import NANOS_PER_USD, Nanos, format_usd
from judgerun.model.setting import Setting, in_force

Unit = Literal["nanos", "calls", "tokens", "gpu_ms"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""In the order of the fields of an Amount."""
ScopeKind = Literal["total", "provider", "stage", "condition", "experiment", "day"]


class Leaf(NamedTuple):
    """The finest account: every scope is a sum of leaves."""

    budget: str
    experiment: str
    stage: str
    condition: str
    provider: str
    day: str  # UTC date of the reservation, ISO


@dataclass(frozen=True, slots=True)
class Cap:
    """A hard limit in one unit over one scope. `key` is "" for total, and for day (each day is its own account)."""

    unit: Unit
    kind: ScopeKind
    key: str
    limit: int

    def covers(self, leaf: Leaf, today: str) -> bool:
        """Whether spend on `leaf` counts against this cap today."""
        match self.kind:
            case "total":
                return True
            case "day":
                return leaf.day == today
            case "provider":
                return leaf.provider == self.key
            case "stage":
                return leaf.stage == self.key
            case "experiment":
                return leaf.experiment == self.key
            case "condition":
                return matches(self.key, leaf.condition)

    @property
    def path(self) -> str:
        """Where it stands in a budget file: `total`, `provider.lab`, `calls.day.total`."""
        unit = {"nanos": "", "gpu_ms": "gpu_seconds."}.get(self.unit, f"{self.unit}.")
        return unit + (f"{self.kind}.{self.key}" if self.key else {"day": "day.total"}.get(self.kind, self.kind))

    def told(self, amount: int) -> str:
        """An amount of its unit as a budget file has it."""
        match self.unit:
            case "nanos":
                return format_usd(amount)
            case "gpu_ms":
                seconds, rest = divmod(amount, 1000)
                return f"{seconds}.{rest:03d}".rstrip("0").rstrip(".")
            case _:
                return str(amount)

    def __str__(self) -> str:
        scope = self.kind if not self.key else f"{self.kind} {self.key}"
        return scope if self.unit == "nanos" else f"{self.unit} of {scope}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget file. It is an account for its life in a cache: every process, resume and experiment run under it adds up."""

    name: str
    caps: tuple[Cap, ...]  # in force; the first is the total in nanos
    confirm_above: Nanos = NANOS_PER_USD
    ceilings: dict[str, int] = field(default_factory=dict)  # "provider/model id" -> output tokens to reserve
    written: tuple[Cap, ...] = ()  # as the file has them, where something was set in the place of one

    @property
    def total(self) -> Nanos:
        """The total dollar cap."""
        return next(cap.limit for cap in self.caps if cap.unit == "nanos" and cap.kind == "total")

    @property
    def filed(self) -> tuple[Cap, ...]:
        """The caps as the file has them."""
        return self.written or self.caps

    def amended(self, settings: Iterable[Setting], *, since: int | None = None) -> Budget:
        """With the caps that were set in the place of what the file says: see `in_force`."""
        told, filed = tuple(settings), self.filed
        caps = tuple(_amended(told, f"budget {self.name}", filed, since))
        return replace(self, caps=caps, written=() if caps == filed else filed)

    @property
    def amendments(self) -> list[str]:
        """What is in force in the place of what the file says, in words."""
        pairs = zip(self.caps, self.filed, strict=True)
        return [
            f"{cap.path} = {cap.told(cap.limit)}, {cap.told(was.limit)} in the file" for cap, was in pairs if cap != was
        ]

    def tightest(self, experiment: str) -> Nanos:
        """The smallest dollar cap that covers all of an experiment: the total, or its own."""
        whole = (("total", ""), ("experiment", experiment))
        return min(cap.limit for cap in self.caps if cap.unit == "nanos" and (cap.kind, cap.key) in whole)


def _amended(settings: tuple[Setting, ...], subject: str, filed: tuple[Cap, ...], since: int | None) -> Iterator[Cap]:
    for cap in filed:
        limit = in_force(settings, subject, cap.path, cap.limit, since=since)
        yield cap if limit is None else replace(cap, limit=int(limit))
