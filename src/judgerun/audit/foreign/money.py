"""What a foreign spend log did twice, lost, estimated, or cannot explain."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.foreign.answers import standings
from judgerun.audit.foreign.copies import counted
from judgerun.audit.words import few, percent
from judgerun.model.foreign import TOTAL, Call, Run, Total
from judgerun.model.money import format_usd

NEAR = 0.95
"""A role that has at least this share of the items of another one under the same condition should have all of them."""
ROUNDING = 1_000
"""Nanos by which a stated total may differ from the sum of its rows: floats were added."""


def _groups(calls: Iterable[Call]) -> Mapping[tuple[str, str], dict[str, list[Call]]]:
    """By (role, condition), then by item."""
    held: dict[tuple[str, str], dict[str, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        held[call.role, call.condition][call.item].append(call)
    return held


def usd(calls: Iterable[Call]) -> str:
    """What calls cost together, as far as it is known."""
    return format_usd(sum(call.cost or 0 for call in calls))


def said(call: Call) -> str:
    """A call as evidence."""
    tokens = f"{'?' if call.input is None else call.input} + {'?' if call.output is None else call.output} tokens"
    cost = "" if call.cost is None else f", {format_usd(call.cost)} USD"
    return f"{call.source}: {call.role} {call.condition}/{call.item}, {tokens}{cost}"


def check_twice(run: Run) -> Iterator[Finding]:
    """The same role, condition and item is paid once; a second row is a double payment: the first answer was lost, or the row was
    booked twice.
    """
    for (role, condition), items in sorted(_groups(counted(run)).items()):
        again = [call for held in items.values() for call in held[1:] if call.item and call.cost is not None]
        if again:
            told = [call for held in items.values() if len(held) > 1 for call in held]
            yield Finding(
                check="paid twice",
                severity="error",
                condition=f"{role}/{condition}",
                message=f"{len(again)} rows pay for an item that was paid before: {usd(again)} USD",
                value=len(again),
                evidence=few(map(said, told)),
            )


def check_lost(run: Run) -> Iterator[Finding]:
    """Two roles of one condition that have nearly all items in common (95%) have all of them: a grader's row that is missing
    beside its solver's was lost from the log, or was never written.
    """
    least = math.floor(NEAR / (1 - NEAR))  # fewer items are never so near to one more of them
    groups = {key: items for key, items in _groups(run.calls).items() if len(items) >= least}
    for (role, condition), items in sorted(groups.items()):
        wider = [
            (other, held)
            for (other, where), held in groups.items()
            if where == condition
            and other != role
            and NEAR * len(held) <= len(items) < len(held)
            and items.keys() <= held.keys()
        ]
        if wider:
            other, held = min(wider, key=lambda one: (len(one[1]), one[0]))
            missing = sorted(held.keys() - items.keys())
            yield Finding(
                check="lost rows",
                severity="error",
                condition=f"{role}/{condition}",
                message=f"{len(missing)} items have a row of {other} and none of {role}: {len(items)} of {len(held)} are there",
                value=len(missing),
                evidence=few(f"{condition}/{item}" for item in missing),
            )


def check_estimates(run: Run) -> Iterator[Finding]:
    """Rows that are estimates and stand among bills: an error, since totals call them exact."""
    held = [call for call in counted(run) if call.estimated]
    if held:
        yield Finding(
            check="estimate",
            severity="error",
            message=f"{len(held)} rows are estimates, booked as if they were bills: {usd(held)} USD",
            value=len(held),
            evidence=few(map(said, held)),
        )


def check_booked(run: Run) -> Iterator[Finding]:
    """Estimates of one role with the very same tokens under different items: one of them was booked again."""
    held: dict[tuple[str, str | None, int | None, int | None], list[Call]] = defaultdict(list)
    for call in counted(run):
        if call.estimated:
            held[call.role, call.model, call.input, call.output].append(call)
    for calls in held.values():
        if len(calls) > 1:
            yield Finding(
                check="booked twice",
                severity="error",
                message=f"{len(calls)} estimates of {calls[0].role} are the same to the token: {usd(calls[1:])} USD booked again",
                value=len(calls) - 1,
                evidence=few(map(said, calls)),
            )


def check_totals(run: Run) -> Iterator[Finding]:
    """A total that the source states is the sum of the rows of that provider, and `total` of all, in the files that it is of; what
    no row explains was entered by hand.
    """
    for total in run.totals:
        rows = _summed(run, total)
        found = sum(call.cost or 0 for call in rows)
        if total.cost is None or abs(gap := total.cost - found) <= ROUNDING:
            continue
        yield Finding(
            check="totals",
            severity="error" if gap < 0 or rows else "warning",
            message=f"the source states {format_usd(total.cost)} USD for {total.name}, its rows add up to "
            f"{format_usd(found)}: {format_usd(gap)} USD have no row",
            value=format_usd(gap),
            evidence=(total.source,),
        )


def _summed(run: Run, total: Total) -> list[Call]:
    """The rows that a total should be the sum of."""
    rows = [call for call in run.calls if call.cost is not None and (not total.files or call.file in total.files)]
    own = [call for call in rows if call.provider == total.name]
    return own or (rows if total.name == TOTAL else [])


def check_waste(run: Run) -> Iterator[Finding]:
    """How much was paid for answers that stand at their cap: a warning above 10% of what a role cost."""
    for role, calls in roles(run).items():
        cut = [call for call, at in zip(calls, standings(calls), strict=True) if at.cut and call.cost]
        spent, wasted = (sum(call.cost or 0 for call in held) for held in (calls, cut))
        if wasted > 0.1 * spent:
            yield Finding(
                check="spend on truncated",
                severity="warning",
                condition=role,
                message=f"{format_usd(wasted)} of {format_usd(spent)} USD ({percent(wasted / spent)}) went into {len(cut)} answers "
                "at their cap",
                value=format_usd(wasted),
            )


def roles(run: Run) -> Mapping[str, Sequence[Call]]:
    """The rows of each role, those that count."""
    held: dict[str, list[Call]] = defaultdict(list)
    for call in counted(run):
        held[call.role].append(call)
    return dict(sorted(held.items()))


def tables(run: Run) -> Iterator[Table]:
    """Calls, tokens and money by role and condition."""
    rows: list[tuple[Cell, ...]] = []
    for (role, condition), items in sorted(_groups(counted(run)).items()):
        calls = [call for held in items.values() for call in held]
        cost = None if all(call.cost is None for call in calls) else usd(calls)
        sums = (sum(getattr(call, name) or 0 for call in calls) for name in ("input", "output"))
        rows.append((role, condition, len(calls), len(items), *sums, cost))
    if rows:
        yield Table(
            name="spend",
            title="Calls and money",
            columns=("role", "condition", "rows", "items", "input tokens", "output tokens", "USD"),
            rows=tuple(rows),
        )
