"""The trajectory half of the structural-retrieval study: which trajectory is relevant to which goal, by rule.

Goals and trajectories are labelled with a task type (1 place, 2 examine, 3 clean, 4 heat, 5 cool, 6 two objects), the object
handled and the receptacle where it ends. A goal may allow several objects ("a bottle"); a trajectory handles one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from judgerun.analysis import chance

EXAMINE = 2
"""The task type that ends under a lamp, not in a receptacle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a goal asks for, or what a trajectory does."""

    task_type: int
    objects: frozenset[str]
    receptacle: str | None = None

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Label:
        """A label from its record: `task_type`, `target_object` or `target_objects`, `goal_receptacle`."""
        objects = written["target_objects"] if "target_objects" in written else [written["target_object"]]
        return cls(
            task_type=int(written["task_type"]), objects=frozenset(objects), receptacle=written.get("goal_receptacle")
        )


Rule = Callable[[Label, Label], bool]


def strict(goal: Label, trajectory: Label) -> bool:
    """STRICT: the same task done to another object. What a surface match cannot find."""
    return goal.task_type == trajectory.task_type and not goal.objects & trajectory.objects


def elsewhere(goal: Label, trajectory: Label) -> bool:
    """Definition (ii): STRICT, and another receptacle. Task type 2 has none and falls back to STRICT; a missing receptacle
    counts as another. Names are compared as written: "counter" is not "countertop" here, as in the study.
    """
    if not strict(goal, trajectory) or goal.task_type == EXAMINE:
        return strict(goal, trajectory)
    return goal.receptacle is None or trajectory.receptacle is None or goal.receptacle != trajectory.receptacle


def sibling(goal: Label, trajectory: Label) -> bool:
    """SIBLING: the same task done to the same object."""
    return goal.task_type == trajectory.task_type and bool(goal.objects & trajectory.objects)


def near_miss(goal: Label, trajectory: Label) -> bool:
    """NEAR_MISS: another task done to the same object."""
    return goal.task_type != trajectory.task_type and bool(goal.objects & trajectory.objects)


def lenient(goal: Label, trajectory: Label) -> bool:
    """LENIENT: the same task, STRICT or SIBLING."""
    return goal.task_type == trajectory.task_type


def gold(goals: Mapping[str, Label], trajectories: Mapping[str, Label], rule: Rule) -> dict[str, dict[str, int]]:
    """`grades[goal id][trajectory id] = 1` where the rule holds, goals and trajectories in their order."""
    return {
        goal_id: {document: 1 for document, label in trajectories.items() if rule(goal, label)}
        for goal_id, goal in goals.items()
    }


def chance_hit(grades: Mapping[str, Mapping[str, int]], *, documents: int, k: int) -> float:
    """The mean over goals of the chance that a random ranking of all `documents` has a relevant one among its first k."""
    return fsum(chance.hit(documents, len(relevant), k) for relevant in grades.values()) / len(grades)


def text(trajectory: Mapping[str, Any]) -> str:
    """What is embedded of a trajectory record: its task, then its numbered steps of state and action."""
    steps = "".join(
        f"{step['step_id']}. State: {step['state']} -> Action: {step['action']}\n"
        for step in trajectory["state_action_pairs"]
    )
    return f"Task: {trajectory['task_description']}\nSteps:\n{steps}".strip()
