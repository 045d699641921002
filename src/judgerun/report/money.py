"""What was spent up to the seal, as Told lines in nanos: by stage, by condition, within each cap; what the cache avoided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from judgerun.audit import spend as spending
from judgerun.audit.evidence import Evidence
from judgerun.errors import InvariantBroken
from judgerun.ledger.account import EMPTY, Balance, fold
from judgerun.ledger.budget import Budget, Cap, Leaf
from judgerun.report.told import Told

CONVENTION = "value and low: settled; high: settled + forfeited + held"


def _balances(evidence: Evidence) -> Mapping[Leaf, Balance]:
    """By leaf, folded from the entries; none where these are no ledger, which the audit tells."""
    try:
        return fold(evidence.books.sealed_entries(evidence.experiment.name))
    except InvariantBroken:
        return {}


def spend(evidence: Evidence) -> Iterator[Told]:
    """The experiment's spend: whole, by stage and by condition, over its whole life in this cache, up to the seal."""
    balances = _balances(evidence)
    yield _told(evidence, {"scope": "experiment"}, balances.values())
    for stage in sorted({leaf.stage for leaf in balances}):
        yield _told(
            evidence,
            {"scope": "stage", "stage": stage},
            [balance for leaf, balance in balances.items() if leaf.stage == stage],
        )
    for name in sorted({leaf.condition for leaf in balances}):
        yield _told(
            evidence,
            {"scope": "condition", "condition": name},
            [balance for leaf, balance in balances.items() if leaf.condition == name],
        )


def within(evidence: Evidence) -> Iterator[Told]:
    """The experiment's own spend within each dollar cap of the budget files as they are now; the limit stands in the
    coordinates. A day's cap is told for each day on which something was spent. These lines are shown, and no part of
    estimates.json: raising a cap changes no sealed number.
    """
    balances = _balances(evidence)
    for budget in sorted(evidence.budgets, key=lambda budget: budget.name):
        mine = {leaf: b for leaf, b in balances.items() if leaf.budget == budget.name}
        for cap in budget.caps:
            if cap.unit == "nanos":
                yield from _cap(evidence, budget, cap, mine)


def _cap(evidence: Evidence, budget: Budget, cap: Cap, mine: Mapping[Leaf, Balance]) -> Iterator[Told]:
    covered = [leaf for leaf in mine if cap.covers(leaf, leaf.day)]
    days: Iterable[str] = sorted({leaf.day for leaf in covered}) if cap.kind == "day" else [""]
    for day in days:
        held = [mine[leaf] for leaf in covered if day in ("", leaf.day)]
        if held:
            scope = {"scope": "cap", "budget": budget.name, "cap": f"{cap} {day}".strip()}
            yield _told(evidence, {**scope, "limit_nanos": str(cap.limit)}, held)


def _told(evidence: Evidence, coords: Mapping[str, str], balances: Iterable[Balance]) -> Told:
    total = sum(balances, EMPTY)
    low = total.settled.nanos
    high = low + total.forfeited.nanos + total.held.nanos
    return Told(
        question="spend",
        coords={**coords, "unit": "nanos", "measure": "spend"},
        value=low,
        low=low,
        high=high,
        n=total.settled.calls + total.forfeited.calls + total.held.calls,
        method="ledger",
        convention=f"{CONVENTION}; n: calls",
        seal=evidence.seal,
        note="" if low == high else "what forfeited attempts cost is not known",
    )


def avoided(evidence: Evidence) -> Iterator[Told]:
    """What replies already in the cache, and calls shared by several cells, would have cost: by stage, where there are any."""
    for stage, cells, nanos, unknown in spending.avoided(evidence):
        yield Told(
            question="avoided",
            coords={"scope": "stage", "stage": stage, "unit": "nanos", "measure": "avoided"},
            value=nanos,
            n=cells,
            method="ledger",
            convention="what the same replies cost when they were bought; n: cells answered without a call of their own",
            seal=evidence.seal,
            note=f"{unknown} of them at a cost that is not known" if unknown else "",
        )
