"""Gate: whether what came back of a condition is so bad that it must stop; pure arithmetic over its counts.

Limits are looked at again and again while a run goes on, so bounds tighten with each doubling of what they rest on, and
differences are tested by a method that any number of looks cannot mislead: see analysis/sequential.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from typing import Any, Protocol

from judgerun.analysis import sequential
from judgerun.analysis.intervals import wilson
from judgerun.model.event import Event
from judgerun.model.experiment import Gate
from judgerun.model.money import Nanos, format_usd

ITEMS_MAX = 10
"""Ids of bad items that stand in the evidence of a gate."""

Pairs = tuple[int, int, int]
"""Items that two conditions have both answered; truncated here alone; truncated there alone."""


class Counted(Protocol):
    """What of a condition's counts a gate reads."""

    @property
    def condition(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def starved(self) -> int: ...
    @property
    def truncated(self) -> int: ...
    @property
    def empty(self) -> int: ...
    @property
    def unparsed(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def told(self) -> int: ...
    @property
    def billed(self) -> int: ...
    @property
    def cost(self) -> Nanos: ...
    @property
    def squares(self) -> float: ...
    @property
    def pairs(self) -> Mapping[str, Pairs]: ...
    @property
    def bad(self) -> Mapping[str, tuple[str, ...]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The sums by which a condition is judged. They grow with its replies, so those of an earlier moment can be taken off."""

    done: int = 0
    failed: int = 0  # of the cells that were tried
    truncated: int = 0
    empty: int = 0
    unparsed: int = 0
    refused: int = 0
    length: int = 0  # output far from the expected length
    told: int = 0  # replies that told their output
    billed: int = 0  # calls whose cost is known
    cost: Nanos = 0
    squares: float = 0.0  # sum of the squares of the costs: how they spread is no money
    pairs: Mapping[str, Pairs] = field(default_factory=dict)  # by the other condition

    @classmethod
    def of(cls, counts: Counted) -> Sums:
        """As counts stand now. Cells that were never asked, since their upstream failed, did not fail themselves."""
        told = {name: getattr(counts, name) for name in _SUMS}
        told["failed"] -= counts.starved
        return cls(**told, pairs=_pairs(counts.pairs))

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Sums:
        """From `record`."""
        return cls(**{name: record[name] for name in _SUMS}, pairs=_pairs(record["pairs"]))

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def after(self, earlier: Sums) -> Sums:
        """What came since an earlier moment; pairs are left out. No sum falls below 0: a truncated reply may have been bought
        again since, and is none now.
        """
        rest: dict[str, Any] = {name: max(0, getattr(self, name) - getattr(earlier, name)) for name in _SUMS}
        return Sums(**rest)

    def most(self, other: Sums) -> Sums:
        """The larger of each sum."""
        pairs = {
            name: max(self.pairs.get(name, NONE), other.pairs.get(name, NONE)) for name in {**self.pairs, **other.pairs}
        }
        return Sums(**{name: max(getattr(self, name), getattr(other, name)) for name in _SUMS}, pairs=pairs)


def _pairs(told: Mapping[str, Sequence[int]]) -> dict[str, Pairs]:
    """JSON knows no tuples."""
    return {name: (n, here, there) for name, (n, here, there) in told.items()}


NONE: Pairs = (0, 0, 0)
_SUMS = tuple(each.name for each in fields(Sums) if each.name != "pairs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A condition that must stop: which limit it passed, the numbers in words, and items that were bad, the last ones."""

    condition: str
    limit: str
    why: str
    items: tuple[str, ...] = ()

    def detail(self) -> str:
        """As the event keeps it."""
        return json.dumps({"limit": self.limit, "why": self.why, "items": self.items}, ensure_ascii=False)


def judge(
    counts: Iterable[Counted],
    gates: Mapping[str, Gate],
    *,
    quoted: Mapping[str, Nanos],
    since: Mapping[str, Sums],
    stopped: Collection[str] = (),
) -> list[Fired]:
    """The conditions that must stop now, each with the first of its limits that it passed.

    `gates` and `quoted` (nano-dollars of a call, as quoted) are by condition, as are `since` (from which sums on a reopened
    condition is judged) and `stopped`: those that stopped before, which are not judged again.
    """
    held = {each.condition: each for each in counts if each.condition in gates}
    sums = {name: Sums.of(each) for name, each in held.items()}
    found: dict[str, Fired] = {}
    for name, each in held.items():
        if name not in stopped:
            reopened = name in since
            own = sums[name].after(since[name]) if reopened else sums[name]
            told = next(passed(gates[name], own, quoted=quoted.get(name)), None)
            if told is not None:
                why = told[1] + ", since it was reopened" * reopened
                found[name] = Fired(condition=name, limit=told[0], why=why, items=each.bad.get(told[0], ()))
    for name, why in _differing(held, sums, gates, since):
        if name not in stopped and name not in found:
            found[name] = Fired(condition=name, limit="difference", why=why, items=held[name].bad.get("truncated", ()))
    return list(found.values())


def passed(gate: Gate, sums: Sums, *, quoted: Nanos | None = None) -> Iterator[tuple[str, str]]:
    """The limits of its own that a condition passes, with the numbers in words.

    A share passes when the lower end of its Wilson interval lies above the limit, and at least `after` replies (for `failed`:
    cells tried; for `length`: replies that told their output) are there. The mean cost of a call passes when the lower end of
    its interval lies above so many times what it was quoted at; what was quoted at nothing, or not at all, has no limit.
    """
    for name, limit in gate.limits.items():
        tried = {"failed": sums.done + sums.failed, "length": sums.told}.get(name, sums.done)
        bad = min(tried, int(getattr(sums, name)))
        if tried < max(1, gate.after):
            continue
        low, high = wilson(bad, tried, level=sequential.level(tried, after=gate.after))
        if low > limit:
            yield (
                name,
                f"{name} {bad} of {tried} ({_share(bad / tried)} [{_share(low)}, {_share(high)}]), the gate is {_share(limit)}",
            )
    if gate.cost is not None and quoted and sums.billed >= max(2, gate.after):
        level = sequential.level(sums.billed, after=gate.after)
        low = sequential.mean_low(sums.billed, sums.cost, sums.squares, level=level) / quoted
        if low > gate.cost:
            mean = sums.cost // sums.billed
            yield (
                "cost",
                f"cost of {sums.billed} calls: {format_usd(mean)} USD each where {format_usd(quoted)} was quoted "
                f"({mean / quoted:.2f} times, at least {low:.2f}), the gate is {gate.cost:g} times",
            )


def _differing(
    held: Mapping[str, Counted], sums: Mapping[str, Sums], gates: Mapping[str, Gate], since: Mapping[str, Sums]
) -> Iterator[tuple[str, str]]:
    """The conditions that are truncated certainly oftener than another one of their stage, by more than their limit.

    The p-values are multiplied by the number of pairs of conditions (C. Bonferroni).
    """
    stages: dict[str, list[str]] = {}
    for name, each in held.items():
        if gates[name].difference is not None:
            stages.setdefault(each.stage, []).append(name)
    for names in stages.values():
        pairs = list(combinations(names, 2))
        for one, two in pairs:
            n, here, there = _paired(one, two, sums, since)
            worse, better = (one, two) if here >= there else (two, one)
            more, less, gate = max(here, there), min(here, there), gates[worse]
            if n < max(1, gate.after) or gate.difference is None:
                continue
            p = min(1.0, len(pairs) * sequential.mcnemar(more, less))
            level = sequential.level(n, after=gate.after)
            low, high = sequential.difference(n, more, less, level=level)
            if p < sequential.ALPHA and low > gate.difference:
                yield (
                    worse,
                    f"truncated on {more} of {n} items where {better} is not, the reverse on {less}: {_share((more - less) / n)} "
                    f"[{_share(low)}, {_share(high)}] oftener (p = {p:.2g}), the gate is {_share(gate.difference)}",
                )


def _paired(one: str, two: str, sums: Mapping[str, Sums], since: Mapping[str, Sums]) -> Pairs:
    """What both conditions answered since either was last reopened: items, truncated in the first alone, in the second alone."""
    n, here, there = sums[one].pairs.get(two, NONE)
    first = since[one].pairs.get(two, NONE) if one in since else NONE
    m, other, own = since[two].pairs.get(one, NONE) if two in since else NONE
    n0, here0, there0 = max(first, (m, own, other))
    n = max(0, n - n0)
    here = min(n, max(0, here - here0))
    return n, here, min(n - here, max(0, there - there0))


def _share(value: float) -> str:
    return f"{value:.1%}"


# -- what the record of a cache says of gates


def reopening(because: str, was: str, counts: Counted) -> str:
    """The detail of a `resume` event: why the condition goes on, why it had stopped, and from which sums on it is judged."""
    held = {"because": because, "was": was, "counts": Sums.of(counts).record()}
    return json.dumps(held, ensure_ascii=False)


def unfired(was: str) -> str:
    """The same of a condition that a new run finds good again: its files changed, or what was in flight came good."""
    return json.dumps({"because": "it is within its gate now", "was": was, "counts": None}, ensure_ascii=False)


def stopped(events: Iterable[Event], experiment: str) -> dict[str, str]:
    """The conditions of an experiment that a gate has stopped and nobody reopened since, with the reason."""
    found: dict[str, str] = {}
    for event in events:
        if event.experiment == experiment and event.kind == "gate":
            found[event.subject] = json.loads(event.detail)["why"]
        elif event.experiment == experiment and event.kind == "resume":
            found.pop(event.subject, None)
    return found


def baselines(events: Iterable[Event], experiment: str) -> dict[str, Sums]:
    """From which sums on the reopened conditions of an experiment are judged."""
    found: dict[str, Sums] = {}
    for event in events:
        if event.experiment == experiment and event.kind == "resume":
            counts = json.loads(event.detail)["counts"]
            if counts is not None:
                found[event.subject] = Sums.read(counts)
    return found
