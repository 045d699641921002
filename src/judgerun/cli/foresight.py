"""Foresight: how wide the interval of the main number will be, for `status`."""

from __future__ import annotations

from judgerun.api.precision import SMALL, Ahead, ahead
from judgerun.api.project import Workspace
from judgerun.api.state import State
from judgerun.api.steering import budget_for


def foresee(place: Workspace, name: str, budget: str | None, found: State, *, asked: bool) -> Ahead | None:
    """The forecast where something is pending, and the experiment is small or it was asked for."""
    planned, pending = sum(count.planned for count in found.counts), sum(count.pending for count in found.counts)
    if not pending or (planned > SMALL and not asked):
        return None
    project = place.open(name)
    return ahead(project, budget_for(project, budget))


def told_width(seen: Ahead) -> str:
    """The forecast in words."""
    main, found = seen.main, seen.forecast
    where = ", ".join(
        f"{name} {value}" for name, value in sorted(main.coords.items()) if name not in ("stage", "condition")
    )
    what = f"main number ({main.question}{f': {where}' if where else ''})"
    if found is None:
        return f"{what}: no forecast: {seen.note}"
    note = f" ({seen.note})" if seen.note else ""
    return (
        f"{what}: its interval is {found.now:.3g} wide after {found.n} blocks, and will be {found.low:.3g} to {found.high:.3g} "
        f"after {found.at}{note}"
    )
