"""Where the money of an experiment went: by condition, stage, provider and model, by how replies ended, in retries and forfeits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from judgerun.audit.books import Attempt
from judgerun.audit.endings import endings
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.words import few, percent
from judgerun.errors import InvariantBroken
from judgerun.ledger.account import EMPTY, Balance, change
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.model.money import Nanos, format_usd
from judgerun.model.request import RequestKey
from judgerun.table.row import Row

WASTE_MAX = 0.10
"""Share of the settled money in truncated replies above which an audit warns: the share of truncated replies that it bears."""
CONCLUDED, UNPLANNED, REPLACED, UNSETTLED = "concluded", "no longer planned", "replaced by a higher cap", "no reply"
CANARY = "canary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was spent on something."""

    attempts: int = 0
    settled: Nanos = 0
    forfeited: Nanos = 0
    held: Nanos = 0

    def __add__(self, other: Line) -> Line:
        return Line(
            attempts=self.attempts + other.attempts,
            settled=self.settled + other.settled,
            forfeited=self.forfeited + other.forfeited,
            held=self.held + other.held,
        )


def booked(evidence: Evidence) -> Mapping[int, Balance]:
    """What stands booked for each attempt of the experiment, up to the seal, in order; none where the entries are no ledger."""
    holds: dict[int, Amount] = {}
    stands: dict[int, Balance] = {}
    try:
        for entry in evidence.books.sealed_entries(evidence.experiment.name):
            held = stands.get(entry.attempt, EMPTY)
            if entry.kind is EntryKind.RESERVE:
                holds[entry.attempt] = entry.amount
            delta = change(entry.kind, entry.amount, hold=holds[entry.attempt], stands=held)
            stands[entry.attempt] = held + delta
    except (InvariantBroken, KeyError):
        return {}  # told by the checks of the ledger
    return stands


def lines(evidence: Evidence) -> Mapping[int, tuple[Attempt, Line]]:
    """Each attempt of the experiment with what it cost."""
    attempts = {attempt.id: attempt for attempt in evidence.books.attempts}
    return {
        id_: (
            attempts[id_],
            Line(
                attempts=1,
                settled=balance.settled.nanos,
                forfeited=balance.forfeited.nanos,
                held=balance.held.nanos,
            ),
        )
        for id_, balance in booked(evidence).items()
        if id_ in attempts
    }


def tables(evidence: Evidence) -> Iterator[Table]:
    """Spend by condition, stage, provider, model and lane; by how replies ended; in retries; and what the cache avoided."""
    held = lines(evidence)
    if not held:
        return
    rows: list[tuple[Cell, ...]] = []
    for name, of in DIMENSIONS:
        sums: dict[str, Line] = defaultdict(Line)
        for attempt, line in held.values():
            sums[of(attempt)] += line
        rows += [(name, value, *_told(line)) for value, line in sorted(sums.items())]
    again = [line for _, line in _retries(held)]
    rows += [("retries", "tries after the first of a request", *_told(sum(again, Line())))] if again else []
    yield Table(
        name="spend",
        title="Where the money went",
        columns=("by", "which", "attempts", "settled USD", "forfeited USD", "held USD"),
        rows=tuple(rows),
        note="Forfeited: what attempts of unknown outcome may have cost.",
    )
    ended = _by_ending(evidence, held)
    total = sum(ended.values())
    yield Table(
        name="spend by ending",
        title="What the settled money bought",
        columns=("replies", "settled USD", "share"),
        rows=tuple(
            (name, format_usd(nanos), nanos / total if total else None) for name, nanos in sorted(ended.items())
        ),
        note="Endings of a reply stand together: a truncated reply that did not parse is truncated + unparsed.",
    )
    yield from _avoided(evidence)


DIMENSIONS: tuple[tuple[str, Callable[[Attempt], str]], ...] = (
    ("stage", lambda attempt: attempt.leaf.stage),
    ("condition", lambda attempt: attempt.leaf.condition),
    ("provider", lambda attempt: attempt.leaf.provider),
    ("model", lambda attempt: attempt.model),
    ("day", lambda attempt: attempt.leaf.day),
    ("lane", lambda attempt: "calls" if attempt.job is None else "batch"),
)


def _told(line: Line) -> tuple[Cell, ...]:
    return line.attempts, format_usd(line.settled), format_usd(line.forfeited), format_usd(line.held)


def _retries(held: Mapping[int, tuple[Attempt, Line]]) -> Iterator[tuple[Attempt, Line]]:
    """Attempts of whose requests another attempt came before."""
    seen: set[RequestKey] = set()
    for _, (attempt, line) in sorted(held.items()):
        if any(key in seen for key in attempt.keys):
            yield attempt, line
        seen.update(attempt.keys)


def by_ending(evidence: Evidence) -> Mapping[str, Nanos]:
    """The settled money by how the replies ended that it bought, each reply's share of its attempt's bill."""
    return _by_ending(evidence, lines(evidence))


def _by_ending(evidence: Evidence, held: Mapping[int, tuple[Attempt, Line]]) -> Mapping[str, Nanos]:
    told = _endings(evidence)
    sums: dict[str, Nanos] = defaultdict(int)
    paid: dict[int, Nanos] = defaultdict(int)
    for bought in evidence.books.bought:
        if bought.attempt in held and bought.cost:
            sums[told.get(bought.key, UNPLANNED)] += bought.cost
            paid[bought.attempt] += bought.cost
    rest = sum(line.settled - paid[id_] for id_, (_, line) in held.items())
    if rest:
        sums[UNSETTLED] += rest
    return sums


def _endings(evidence: Evidence) -> Mapping[RequestKey, str]:
    """How the reply to each request of the plan ended, in words."""
    told: dict[RequestKey, str] = {}
    for row in (row for counts in evidence.counts for row in evidence.rows.get(counts.stage, ())):
        outcome = row.outcome
        if outcome is None or outcome.key is None or outcome.kept is None:
            continue
        told.setdefault(outcome.key, _ending(row))
        for below in outcome.below:
            if below.key is not None:
                told[below.key] = REPLACED
    for row in evidence.canaries:
        if row.outcome is not None and row.outcome.key is not None:
            told.setdefault(row.outcome.key, CANARY)
    return told


def _ending(row: Row) -> str:
    return " + ".join(sorted(endings(row) - {"fallback"})) or CONCLUDED


def _avoided(evidence: Evidence) -> Iterator[Table]:
    rows = [(stage, cells, format_usd(nanos), unknown) for stage, cells, nanos, unknown in avoided(evidence)]
    if rows:
        yield Table(
            name="avoided",
            title="What the cache avoided",
            columns=("stage", "cells", "USD", "of unknown cost"),
            rows=tuple(rows),
            note="Cells answered without a call of their own: by replies bought before, or by a call that several cells share.",
        )


def avoided(evidence: Evidence) -> Iterator[tuple[str, int, Nanos, int]]:
    """Of each stage: cells answered without a call of their own, what the same replies cost when they were bought, and of how many
    of them nobody knows the cost.
    """
    for stage in dict.fromkeys(counts.stage for counts in evidence.counts):
        cells: dict[RequestKey, list[tuple[Nanos | None, bool]]] = {}
        for row in evidence.rows.get(stage, ()):
            outcome = row.outcome
            if outcome is not None and outcome.key is not None and outcome.kept is not None:
                own = outcome.kept.experiment == evidence.experiment.name
                cells.setdefault(outcome.key, []).append((outcome.kept.cost, own))
        costs = [cost for held in cells.values() for cost, own in held[:1] if not own]
        costs += [cost for held in cells.values() for cost, _ in held[1:]]
        known = [cost for cost in costs if cost is not None]
        if costs:
            yield stage, len(costs), sum(known), len(costs) - len(known)


def check_waste(evidence: Evidence) -> Iterator[Finding]:
    """How much of the settled money went into replies that were cut at their cap: a warning above 10%, with how much of it bought
    nothing to read at all.
    """
    ended = by_ending(evidence)
    total = sum(ended.values())
    cut = _of(ended, "truncated")
    if total and cut > WASTE_MAX * total:
        empty = _of(ended, "empty by truncation")
        yield Finding(
            check="spend on truncated",
            severity="warning",
            message=f"{format_usd(cut)} of {format_usd(total)} USD settled ({percent(cut / total)}) bought truncated replies, "
            f"{format_usd(empty)} USD of it empty ones",
            value=format_usd(cut),
            evidence=few(f"{name}: {format_usd(nanos)} USD" for name, nanos in sorted(ended.items())),
        )


def _of(ended: Mapping[str, Nanos], mark: str) -> Nanos:
    return sum(nanos for name, nanos in ended.items() if mark in name.split(" + "))


def check_estimates(evidence: Evidence) -> Iterator[Finding]:
    """A settle that rests on no usage: whoever booked it took an estimate for a bill. An error, since the ledger calls it exact."""
    kinds = {entry.attempt: entry for entry in evidence.books.entries if entry.kind is EntryKind.SETTLE}
    silent: dict[str, list[str]] = defaultdict(list)
    for bought in evidence.books.bought:
        entry = kinds.get(bought.attempt)
        if entry is None or entry.leaf.experiment != evidence.experiment.name or bought.reported_cost is not None:
            continue
        unknown = bought.usage.input is None or (bought.usage.output is None and not bought.embedding)
        if unknown and entry.amount.nanos:
            silent[entry.leaf.condition].append(f"attempt {bought.attempt}: {format_usd(entry.amount.nanos)} USD")
    for condition, names in sorted(silent.items()):
        yield Finding(
            check="estimate",
            severity="error",
            condition=condition,
            message=f"{len(names)} settles rest on no usage and no reported cost: they are estimates, booked as bills",
            value=len(names),
            evidence=few(names),
        )


def check_gaps(evidence: Evidence) -> Iterator[Finding]:
    """The numbers of entries and attempts run without a gap: the cache deletes none, so a missing number is a row that somebody
    took out.
    """
    for what, numbers in evidence.books.gaps.items():
        yield Finding(
            check="gaps",
            severity="error",
            message=f"{what} numbers are missing from the cache: rows were taken out",
            value=len(numbers),
            evidence=few(map(str, numbers)),
        )
