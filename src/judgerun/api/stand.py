"""Stand: how an experiment stood when it was last surveyed, kept in the cache, and whether it can only still stand so.

A survey of a million cells takes minutes; `status` and a rerun of what is complete are answered from here where nothing that
a survey reads has changed.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from judgerun.api.project import Project, Workspace, snapshot
from judgerun.api.state import Result, State, heard, state, told
from judgerun.api.steering import budget_for, budget_of
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Exit
from judgerun.files import trace
from judgerun.files.workspace import find_experiment
from judgerun.ledger.budget import Budget
from judgerun.plan.counts import Counts
from judgerun.store.inline import Inline
from judgerun.store.snapshot import Snapshot

_ENV = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """How a run ended under a budget, whose counts a stand holds."""

    budget: Budget
    code: Exit
    reason: str | None


def settles(counts: Iterable[Counts]) -> bool:
    """Whether every cell has its reply or, for want of one upstream, never will: replies are never changed, so nothing that
    comes into a cache can change such counts.
    """
    return all(
        not (count.pending or count.owed or count.lapsed or count.diverted) and count.failed == count.starved
        for count in counts
    )


def look(workspace: Workspace, name: str, budget: str | None) -> State:
    """How an experiment stands: as it is kept, where that still holds, and its files are not read then; else as a survey finds
    it, which is kept where no process is about to change it. Refused as `Workspace.open`.
    """
    with snapshot(workspace.cache) as view:
        running = None if view is None else _running(workspace, name, budget, view)
        if running is not None:
            return running
        stand = None if view is None else recall(workspace, name, view)
        if stand is not None:
            return told(stand.experiment, stand.counts, budget_of(workspace, stand.experiment, budget), view)
    project = workspace.open(name)
    found = state(project, budget=budget_for(project, budget))
    if not found.live and all(os.access(path, os.W_OK) for path in (workspace.cache, workspace.cache.parent)):
        asyncio.run(keep(project, found))
    return found


def glance(workspace: Workspace, name: str, budget: str | None) -> State | None:
    """How an experiment stands in the words of the processes that run it, where there are any: cheap, since no file of its is read.
    Its cells are not told by a run that leaves some out, nor in its first second.
    """
    with snapshot(workspace.cache) as view:
        if view is None:
            return None
        if (found := _running(workspace, name, budget, view)) is not None:
            return found
        experiment = find_experiment(workspace.root, name).resolve().parent.name
        found = told(experiment, (), budget_of(workspace, experiment, budget), view)
        return found if found.live else None


def _running(workspace: Workspace, name: str, budget: str | None, view: Snapshot) -> State | None:
    """What the processes that run an experiment tell of it."""
    experiment = find_experiment(workspace.root, name).resolve().parent.name
    return heard(experiment, budget_of(workspace, experiment, budget), view)


async def keep(project: Project, found: State, ended: LastRun | None = None) -> None:
    """Keep the counts of a state. Those that no survey of a view found are kept only where nothing can change them; where it
    cannot be proved that a later change of a file would show, nothing is.
    """
    settled = settles(found.counts)
    if not settled and found.marks is None:
        return
    place, now_ns = project.workspace, time.time_ns()
    traced = trace.trace(project.loaded, place.data_root, opened_ns=project.opened_ns, now_ns=now_ns)
    if traced is None:
        return
    later = () if settled or found.marks is None else found.marks[1:]
    rests_on = {"version": version("judgerun"), "marks": [project.escalated, *later], **traced}
    document = {"counts": [asdict(count) for count in found.counts], "ended": _ended(project, ended)}
    async with Inline.open(place.cache, clock=WallClock()) as cache:
        await cache.stand(
            project.name, rests_on=orjson.dumps(rests_on).decode(), document=orjson.dumps(document).decode()
        )


def _ended(project: Project, ended: LastRun | None) -> dict[str, Any] | None:
    """What a rerun must find as it was beside the cells, as JSON; None where it was changed too shortly before the run."""
    if ended is None:
        return None
    files = trace.prints(_money(project.workspace, ended.budget.name))
    budget = next(iter(files.values()))
    if budget is None or not all(trace.still(found, project.opened_ns) for found in files.values()):
        return None
    written = project.loaded.path.read_text(encoding="utf-8")
    names = {*_ENV.findall(written), *(place.api_key_env for place in project.deployments if place.api_key_env)}
    environ = {name: bool(project.workspace.environ.get(name)) for name in sorted(names)}
    return {"budget": ended.budget.name, "code": int(ended.code), "reason": ended.reason} | {
        "files": files,
        "environ": environ,
    }


def _money(workspace: Workspace, budget: str) -> list[Path]:
    return [workspace.root / "budgets" / f"{name}.toml" for name in (budget, "lanes", "prices")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Counts that hold still, and how the run ended that found them, where one did."""

    experiment: str
    counts: tuple[Counts, ...]
    ended: Mapping[str, Any] | None


def recall(workspace: Workspace, name: str, view: Snapshot) -> Stand | None:
    """The kept stand of an experiment, where nothing on which it rests has changed; else None. Refused when there is no such
    experiment.
    """
    folder = find_experiment(workspace.root, name).resolve().parent
    found = view.stand(folder.name)
    if found is None:
        return None
    rests_on, document = orjson.loads(found[1]), orjson.loads(found[2])
    marks = list(view.marks(folder.name))
    if (
        rests_on["version"] != version("judgerun")
        or rests_on["marks"] != marks[: len(rests_on["marks"])]
        or not trace.unchanged(rests_on, folder, workspace.data_root)
    ):
        return None
    counts = tuple(Counts(**count) for count in document["counts"])
    return Stand(experiment=folder.name, counts=counts, ended=document["ended"])


def rerun(workspace: Workspace, name: str, budget: Budget) -> Result | None:
    """How a rerun of a complete experiment under a budget ends, without its files being read; None where it must be run to know.
    Nothing is left to send; no process is at work or died; and all that a person or the world could have changed is as it was.
    """
    with snapshot(workspace.cache) as view:
        stand = None if view is None else recall(workspace, name, view)
        if view is None or stand is None or stand.ended is None or not settles(stand.counts):
            return None
        ended, code = stand.ended, Exit(stand.ended["code"])
        still = (
            code in (Exit.DONE, Exit.FINDINGS)
            and ended["budget"] == budget.name
            and ended["files"] == trace.prints(_money(workspace, budget.name))
            and all(bool(workspace.environ.get(variable)) == was for variable, was in ended["environ"].items())
        )
        busy = any(owner.experiment == stand.experiment or not owner.alive for owner in view.owners())
        found = told(stand.experiment, stand.counts, budget, view)
    if not still or busy or found.jobs:
        return None
    return Result(code=code, reason=ended["reason"], state=found)
