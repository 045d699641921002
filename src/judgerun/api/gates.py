"""Gate rules of an experiment by condition: what a run stops on, and how many failed cells it bears."""

from __future__ import annotations

from collections.abc import Callable

from judgerun.model.condition import matches
from judgerun.model.experiment import Chat, Experiment, Gate
from judgerun.plan.counts import Counts
from judgerun.table.gate import fired


def gate_of(experiment: Experiment, condition: str, stage: str) -> Gate | None:
    """The gate of the arm that a condition belongs to; None where none is written."""
    found = next((known for known in experiment.stages if known.name == stage), None)
    if not isinstance(found, Chat):
        return None
    for arm in found.arms:
        if matches(f"{stage}/{arm.model.name}/{arm.prompt.name}", condition):
            return arm.settings.gate
    return None


def rule(experiment: Experiment) -> Callable[[Counts], str | None] | None:
    """Why a condition with such counts must stop, None when it need not; no rule at all where no gate is written."""
    arms = [arm for stage in experiment.stages if isinstance(stage, Chat) for arm in stage.arms]
    if all(arm.settings.gate is None for arm in arms):
        return None
    gates: dict[str, Gate | None] = {}

    def judge(counts: Counts) -> str | None:
        if counts.condition not in gates:
            gates[counts.condition] = gate_of(experiment, counts.condition, counts.stage)
        gate = gates[counts.condition]
        return None if gate is None else fired(gate, counts)

    return judge


def failed_limit(experiment: Experiment, counts: Counts) -> float:
    """The share of failed cells that a complete condition may have: its gate's, else none at all."""
    gate = gate_of(experiment, counts.condition, counts.stage)
    return 0.0 if gate is None else gate.limits.get("failed", 0.0)
