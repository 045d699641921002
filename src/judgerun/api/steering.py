"""What a person does to a run or a budget from outside: ask to drain, reopen what is frozen."""

from __future__ import annotations

from judgerun.api.project import Project, Workspace, snapshot
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Problem, Refused
from judgerun.files.budgets import find_budget
from judgerun.ledger.budget import Budget
from judgerun.store.inline import Inline


def budget_for(project: Project, name: str | None) -> Budget | None:
    """The budget of that name; without a name the one under which the experiment last ran here, else the only one, else
    None.
    """
    return budget_of(project.workspace, project.name, name)


def budget_of(workspace: Workspace, experiment: str, name: str | None) -> Budget | None:
    """The same of an experiment that is not opened."""
    root = workspace.root
    if name is not None:
        return find_budget(root, name)
    with snapshot(workspace.cache) as view:
        last = view.budget_of(experiment) if view is not None else None
    try:
        return find_budget(root, last)
    except Refused:
        return None


async def ask_stop(project: Project) -> int:
    """Ask the living processes of an experiment to drain; how many there are."""
    if not project.workspace.cache.exists():
        return 0
    async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
        return await cache.ask_stop(project.name)


async def unfreeze(project: Project, budget: Budget | None, because: str) -> bool:
    """Reopen the budget under which an experiment runs; whether it was frozen. Refused without a reason or a budget."""
    if budget is None:
        raise Refused(
            Problem("command line", "--budget", f"no budget of {project.name} is known here", "--budget NAME")
        )
    if not project.workspace.cache.exists():
        raise Refused(Problem(str(project.workspace.cache), "", "there is no cache yet", "nothing can be frozen"))
    async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
        return await cache.unfreeze(budget.name, because)
