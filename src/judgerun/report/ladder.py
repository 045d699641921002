"""Cells that were asked again under higher caps: how each rung ended and what it cost, by condition; and each cell's way up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from judgerun.analysis.estimate import Estimate
from judgerun.analysis.intervals import proportion
from judgerun.audit.evidence import Evidence
from judgerun.audit.ladder import Step, answered, steps
from judgerun.report.columns import Record, order
from judgerun.report.told import Told
from judgerun.report.verdicts import Teller


def climbs(teller: Teller) -> Iterator[Told]:
    """By condition and cap: the shares truncated and concluded of the cells asked under it, and what their replies cost."""
    for condition, held in steps(teller.evidence).items():
        stage = next(counts.stage for counts in teller.evidence.counts if counts.condition == condition)
        for step in held if len(held) > 1 else ():
            yield from _step(teller, {"stage": stage, "condition": condition, "value": str(step.cap)}, step)


def _step(teller: Teller, coords: dict[str, str], step: Step) -> Iterator[Told]:
    asked = Estimate(value=step.asked, n=step.asked, method="count", convention="cells asked under the cap")
    yield teller.told("ladder", {**coords, "measure": "asked"}, asked, "")
    for mark in ("truncated", "concluded"):
        rate = step.rate(mark)
        estimate = replace(proportion(rate.count, rate.n), convention="over cells asked under the cap")
        yield teller.told("ladder", {**coords, "measure": mark}, estimate, "")
    known = [cost for cost in step.costs.values() if cost is not None]
    lacking = len(step.costs) - len(known)
    yield Told(
        question="ladder",
        coords={**coords, "unit": "nanos", "measure": "cost"},
        value=sum(known),
        n=len(step.costs),
        method="ledger",
        convention="what the replies under the cap cost; n: replies",
        seal=teller.evidence.seal,
        note=f"{lacking} at a cost that is not known" if lacking else "",
    )


def ways(evidence: Evidence) -> list[Record]:
    """Each reply of each cell that was asked again, the one in force last: under which cap, and how it ended."""
    climbed = [counts for counts in evidence.counts if any(outcome.below for outcome in answered(evidence, counts))]
    told: list[Record] = []
    for counts in climbed:
        for row in sorted(evidence.rows[counts.stage], key=order):
            outcome = row.outcome
            if row.condition.name != counts.condition or outcome is None or not outcome.below:
                continue
            told += [
                {
                    "stage": counts.stage,
                    "condition": counts.condition,
                    "id": row.id,
                    "draws": dict(row.draws),
                    "rung": one.rung,
                    "key": one.key.hex() if one.key is not None else None,
                    "finish": one.finish,
                    "concluded": one.concluded,
                    "cost_nanos": one.kept.cost if one.kept is not None else None,
                    "in_force": one is outcome,
                }
                for one in (*outcome.below, outcome)
            ]
    return told
