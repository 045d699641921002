"""Quoting: what a run would send and cost under a budget, what its headroom is, and what changed since the last run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from judgerun.api.changes import changes
from judgerun.api.pricing import aged
from judgerun.api.project import Project, nothing, snapshot
from judgerun.errors import Problem, Refused
from judgerun.files.budgets import stray_caps
from judgerun.files.toml import pointing
from judgerun.ledger.budget import Budget, Leaf
from judgerun.model.condition import matches
from judgerun.model.money import Nanos, format_usd
from judgerun.plan.counts import Counts
from judgerun.plan.ladder import Escalation, followed
from judgerun.plan.quote import Line, Quote
from judgerun.plan.quote import quote as quote_flow
from judgerun.ports import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A quote under one budget. `headroom` is what the tightest cap over the whole experiment leaves."""

    experiment: str
    budget: str
    quote: Quote
    headroom: Nanos
    cap: Nanos
    spent: Nanos  # high, of the budget
    changes: tuple[str, ...]
    warnings: tuple[str, ...]
    prices: str  # version of the sheet

    @property
    def counts(self) -> tuple[Counts, ...]:
        """How the cells stand."""
        return self.quote.counts

    @property
    def at_risk(self) -> Nanos:
        """What a run may spend: its worst case, or the headroom where that is less."""
        return min(self.quote.worst, self.headroom)

    def document(self) -> dict[str, Any]:
        """The object of `plan --json`. Amounts are decimal strings of dollars."""
        held = self.quote
        names = ("cells", "cached", "shared", "to_send", "failed", "unknown")
        return {
            "experiment": self.experiment,
            **{name: held.sum(name) for name in names},
            "expected_usd": format_usd(held.expected),
            "worst_usd": format_usd(held.worst),
            "bound_usd": format_usd(held.bound),
            "seconds": round(held.seconds, 1),
            "days": held.days,
            "budget": {
                "name": self.budget,
                "cap_usd": format_usd(self.cap),
                "high_usd": format_usd(self.spent),
                "headroom_usd": format_usd(self.headroom),
            },
            "conditions": [_line(line) for line in held.lines],
            "changes": list(self.changes),
            "warnings": list(self.warnings),
            "prices": self.prices,
            "plan": held.digest,
        }


def _line(line: Line) -> dict[str, Any]:
    return {
        "condition": line.condition,
        "stage": line.stage,
        "model": line.model,
        "cells": line.cells,
        "cached": line.cached,
        "shared": line.shared,
        "to_send": line.to_send,
        "failed": line.failed,
        "unknown": line.unknown,
        "expected_usd": format_usd(line.expected),
        "worst_usd": format_usd(line.worst),
        "bound_usd": format_usd(line.bound),
        "seconds": round(line.seconds, 1),
        "days": line.days,
    }


def quote(
    project: Project,
    budget: Budget,
    *,
    only: str | None = None,
    limit: int | None = None,
    escalation: Escalation | None = None,
) -> Quoted:
    """What a run would send and cost; with an escalation, what buying again by it would. Raises Refused where a price or a bound
    that a dollar cap needs is not known.
    """
    with snapshot(project.workspace.cache) as view:
        flow = project.flow(
            lookup=nothing if view is None else view.bought,
            many=None if view is None else view.bought_all,
            matrix=project.matrix(view),
            count=project.count(),
            only=only if escalation is None else escalation.condition,
            limit=limit,
            plans=followed(project.plans(view), escalation),
            buys="all" if escalation is None else "rungs",
        )
        today = datetime.now(UTC).date()
        found = quote_flow(
            flow,
            prices=lambda model: project.price(model, today),
            lanes=project.lanes,
            ceilings=budget.ceilings,
            budget=budget.name,
        )
        standing = view.standing(project.name, budget.name) if view is not None else Standing()
        told = changes(project, view, found.counts)
    if found.problems:
        with pointing(project.loaded.path):
            raise Refused(found.problems)
    refuse_strange(only, [line.condition for line in found.lines], place="--only")
    return Quoted(
        experiment=project.name,
        budget=budget.name,
        quote=found,
        headroom=max(0, headroom(project.name, budget, standing)),
        cap=budget.tightest(project.name),
        spent=standing.budget.high,
        changes=tuple(told),
        warnings=(
            *map(str, (*project.loaded.warnings, *aged(project, today=today))),
            *_strays(project, budget, found, today),
        ),
        prices=project.sheet.version,
    )


def refuse_strange(key: str | None, conditions: Iterable[str], *, place: str) -> None:
    """Raise Refused for a key that no condition has: what is done with nothing looks like what has nothing left to do."""
    known = set(conditions)
    if key is not None and not any(matches(key, condition) for condition in known):
        there = ", ".join(sorted({condition.split("@", 1)[0] for condition in known}))
        raise Refused(Problem("command line", place, f"{key!r} is the key of no condition", f"there are {there}"))


def headroom(experiment: str, budget: Budget, standing: Standing) -> Nanos:
    """What the total, and the cap of the experiment where there is one, still leave; below 0 where a cap was lowered."""
    left = [budget.total - standing.budget.high]
    for cap in budget.caps:
        if (cap.unit, cap.kind, cap.key) == ("nanos", "experiment", experiment):
            left.append(cap.limit - standing.experiment.high)
    return min(left)


def _strays(project: Project, budget: Budget, found: Quote, today: date) -> list[str]:
    """Caps that cover nothing of this experiment: a misspelt cap protects nothing."""
    models = project.models
    leaves = [
        Leaf(budget.name, project.name, line.stage, line.condition, models[line.model].provider.name, today.isoformat())
        for line in found.lines
    ]
    return [str(problem) for problem in stray_caps(budget, leaves)]
