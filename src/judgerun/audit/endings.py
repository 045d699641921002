"""How replies ended, counted in full: each ending with its interval, their union, and which came together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Rate, Table
from judgerun.audit.tally import grouped, label
from judgerun.model.reply import Finish
from judgerun.table.row import Row

ENDINGS = (
    "truncated",
    "empty by truncation",
    "empty otherwise",
    "refused",
    "filtered",
    "other finish",
    "unparsed",
    "fallback",
)
"""What can be wrong with a reply; they overlap."""
_FINISHES = {Finish.LENGTH: "truncated", Finish.REFUSAL: "refused", Finish.FILTER: "filtered"}
ANY = "any of these"


def endings(row: Row) -> frozenset[str]:
    """Which of ENDINGS the reply of a row bears; none where it has no reply."""
    outcome = row.outcome
    if outcome is None or outcome.kept is None:
        return frozenset()
    reply = outcome.kept.reply
    held = set() if reply.finish is Finish.STOP else {_FINISHES.get(reply.finish, "other finish")}
    if reply.empty:
        held.add("empty by truncation" if reply.finish is Finish.LENGTH else "empty otherwise")
    if outcome.verdict is not None and not outcome.verdict.parsed:
        held.add("unparsed")
    if any(one.fallback for one in row.stages.values()):
        held.add("fallback")
    return frozenset(held)


def tables(evidence: Evidence) -> Iterator[Table]:
    """Every ending of every condition and slice with its count and Wilson interval; and which endings came together."""
    single: list[tuple[Cell, ...]] = []
    together: list[tuple[Cell, ...]] = []
    for condition, part, rows in _parts(evidence):
        held = [endings(row) for row in rows if row.outcome is not None and row.outcome.kept is not None]
        single.extend((condition, part, *line) for line in _counted(held, rows))
        combined = Counter(" + ".join(sorted(marks)) for marks in held if len(marks) > 1)
        together.extend((condition, part, marks, count, len(held)) for marks, count in sorted(combined.items()))
    if single:
        yield Table(
            name="endings",
            title="How the replies ended, in full",
            columns=("condition", "slice", "ending", "count", "n", "share", "low", "high"),
            rows=tuple(single),
            note="Over the replies, failed over the cells tried; 95% Wilson intervals. Endings overlap: any of these is their "
            "union. Endings that no reply has are left out.",
        )
    if together:
        yield Table(
            name="overlaps",
            title="Endings that came together",
            columns=("condition", "slice", "endings", "count", "n"),
            rows=tuple(together),
            note="Replies with exactly these endings.",
        )


def _parts(evidence: Evidence) -> Iterator[tuple[str, str, Sequence[Row]]]:
    """(condition, slice in words, its rows), conditions in file order."""
    stages = {counts.stage: grouped(evidence.rows.get(counts.stage, ())) for counts in evidence.counts}
    for counts in evidence.counts:
        rows = stages[counts.stage].get(counts.condition, [])
        yield counts.condition, "", rows
        stage = evidence.stage(counts.stage)
        for name in stage.slices if stage is not None else ():
            labels = [label(row, name) for row in rows]
            for value in sorted(set(labels)):
                chosen = [row for row, own in zip(rows, labels, strict=True) if own == value]
                yield counts.condition, f"{name} is {value}", chosen


def _counted(held: Sequence[frozenset[str]], rows: Iterable[Row]) -> Iterator[tuple[Cell, ...]]:
    """(ending, count, n, share, low, high): concluded without any, each ending, the union, and cells without a reply."""
    counted = Counter(mark for marks in held for mark in marks)
    union = sum(map(bool, held))
    failed = sum(
        row.weight for row in rows if row.state == "failed" and (row.outcome is None or row.outcome.kept is None)
    )
    n = len(held)
    told = [("finished", Rate(n - union, n)), *((mark, Rate(counted[mark], n)) for mark in ENDINGS if counted[mark])]
    told += [(ANY, Rate(union, n))] if union else []
    told += [("failed", Rate(failed, n + failed))] if failed else []
    for mark, rate in told:
        low, high = rate.interval or (None, None)
        yield mark, rate.count, rate.n, rate.share, low, high
