"""Precision: how wide the interval of the experiment's main number is now, and how wide the rest of the budget lets it become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgerun.analysis.precision import Forecast, forecast, share
from judgerun.api.project import Project, snapshot
from judgerun.api.quoting import headroom
from judgerun.audit.evidence import Evidence
from judgerun.ledger.budget import Budget
from judgerun.plan.counts import Counts
from judgerun.ports import Spend, Standing
from judgerun.report.main import Main, main_number
from judgerun.report.told import seed_of

SMALL = 20_000
"""Planned cells up to which a status looks ahead without being asked: it must read every row."""
LEAST = 2
"""Blocks without which nothing has a width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The forecast of the main number, and which share of what is left the budget pays for (None: not known yet)."""

    main: Main
    forecast: Forecast | None = None
    paid: float | None = None
    standing: Standing = field(default_factory=Standing)

    def document(self) -> dict[str, Any]:
        """For programs. Widths are high - low of a 95 % interval; `at_end` holds the quantiles .05, .5 and .95."""
        found = self.forecast
        return {
            "question": self.main.question,
            "coords": dict(self.main.coords),
            "measure": self.main.measure,
            "blocks": None if found is None else found.n,
            "now": None if found is None else round(found.now, 6),
            "blocks_at_end": None if found is None else found.at,
            "at_end": None if found is None else [round(q, 6) for q in (found.low, found.middle, found.high)],
            "paid": None if self.paid is None else round(self.paid, 4),
            "method": "" if found is None else found.method,
            "note": self.note,
        }

    @property
    def note(self) -> str:
        """Why there is no forecast, or what limits it."""
        if self.main.why:
            return self.main.why
        if self.forecast is None:
            return (
                "too few complete blocks" if len(set(self.main.blocks)) < LEAST else "no two complete blocks differ yet"
            )
        if self.paid is None:
            return "what the rest costs is not known yet: all of it is taken as paid"
        return "the budget ends first" if self.paid < 1 else ""


def ahead(project: Project, budget: Budget | None) -> Ahead | None:
    """The forecast of an experiment as its cache stands now; None where no question says which number is the main one."""
    if not project.experiment.questions:
        return None
    with snapshot(project.workspace.cache) as view:
        flow = project.survey(view, keep=True)
        rows = {stage.name: flow.rows(stage.name) for stage in project.experiment.stages}
        evidence = Evidence(experiment=project.experiment, rows=rows, document=flow.document)
        standing = Standing() if view is None else view.standing(project.name, budget.name if budget else None)
        main = main_number(evidence)
        if main is None:
            return None
        paid = (
            None
            if budget is None
            else affordable(flow.counts(), standing, max(0, headroom(project.name, budget, standing)))
        )
    more = int(main.left * (1.0 if paid is None else paid))
    return Ahead(main=main, forecast=_forecast(main, more, project.experiment.seed), paid=paid, standing=standing)


def _forecast(main: Main, more: int, seed: int) -> Forecast | None:
    seed = seed_of(seed, main.question)
    if main.binary:
        return share(int(sum(main.values)), len(main.values), more=more, seed=seed)
    return forecast(main.values, main.blocks, more=more, seed=seed)


def affordable(counts: Sequence[Counts], standing: Standing, left: int) -> float | None:
    """Which share of the pending cells `left` nanos pay for, at what the cells of each condition cost so far; a condition
    that bought nothing yet is taken at the mean of the others. None where nothing was bought.
    """
    means = {count.condition: _mean(count, standing.conditions) for count in counts}
    known = [mean for mean in means.values() if mean is not None]
    if not known:
        return None
    usual = sum(known) / len(known)
    rest = sum(count.pending * (usual if (mean := means[count.condition]) is None else mean) for count in counts)
    return 1.0 if rest <= left else max(0.0, left / rest)


def _mean(count: Counts, spent: Mapping[str, Spend]) -> float | None:
    """Nanos for each cell of a condition that was bought by this experiment; its forfeits are part of the price."""
    own = count.done - count.cached - count.shared
    return spent.get(count.condition, Spend()).high / own if own > 0 else None
