"""Doctor: what a long run needs of the machine and of the cache, looked at before it is missed."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import orjson

from judgerun.api.heartbeat import judged
from judgerun.api.project import Workspace, snapshot
from judgerun.api.seat import heartbeats
from judgerun.api.sockets import wrong as sockets_wrong
from judgerun.errors import JudgerunError, Problem, Refused
from judgerun.files.workspace import list_budgets, list_experiments
from judgerun.providers.open import problems
from judgerun.store import upkeep

DISK_FREE_MIN = 2 << 30
FILES_MIN = 1024
YEAR_MIN = 2026


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing looked at."""

    what: str
    state: Literal["good", "warn", "bad"]
    says: str


def needed(workspace: Workspace) -> Path:
    """The cache of a workspace, migrated where an older judgerun wrote it. Refused when there is none."""
    if not workspace.cache.exists():
        raise Refused(Problem(str(workspace.cache), "", "there is no cache here", "--workspace DIR"))
    upkeep.renew(workspace.cache)
    return workspace.cache


def examine(workspace: Workspace) -> list[Sign]:
    """Every sign, in a fixed order."""
    return [*_machine(workspace), *_cache(workspace), *_processes(workspace), *_experiments(workspace)]


def _machine(workspace: Workspace) -> Iterator[Sign]:
    yield Sign("python", "good" if sys.version_info >= (3, 11) else "bad", sys.version.split()[0])
    root = workspace.root.absolute()
    if not root.is_dir():
        yield Sign("workspace", "bad", f"there is no folder {root}: --workspace DIR, or judgerun init {root}")
    free = shutil.disk_usage(next(folder for folder in (root, *root.parents) if folder.is_dir())).free
    yield Sign("disk", "good" if free >= DISK_FREE_MIN else "warn", f"{free >> 20} MiB free")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "without a limit" if hard == resource.RLIM_INFINITY else f"up to {hard}"
    low = hard != resource.RLIM_INFINITY and hard < FILES_MIN
    yield Sign(
        "open files", "warn" if low else "good", f"at most {soft}; a run raises that to what its lanes need, {most}"
    )
    wall = datetime.fromtimestamp(time.time(), UTC)
    yield Sign("clock", "good" if wall.year >= YEAR_MIN else "bad", wall.isoformat(timespec="seconds"))
    yield Sign("workspace", "good" if os.access(workspace.root, os.W_OK) else "bad", str(workspace.root.resolve()))
    data = workspace.data_root
    if data is not None:
        yield Sign(
            "JUDGERUN_DATA", "good" if data.is_dir() else "warn", "is a folder" if data.is_dir() else "is no folder"
        )


def _cache(workspace: Workspace) -> Iterator[Sign]:
    path = workspace.cache
    if not path.exists():
        yield Sign("cache", "good", "none yet")
        return
    try:
        upkeep.renew(path)
        wrong = upkeep.integrity(path)
        size = upkeep.size(path)
    except JudgerunError as error:
        yield Sign("cache", "bad", str(error))
        return
    yield Sign("cache", "bad" if wrong else "good", "; ".join(wrong) or f"sound, {size['file'] >> 20} MiB")
    if not wrong:
        yield from _jobs(path)


def _jobs(path: Path) -> Iterator[Sign]:
    """Jobs of the batch lane that have not ended: what nobody collects holds money, and is lost when its provider forgets it."""
    with snapshot(path) as view:
        found = [] if view is None else view.open_jobs()
        alive = set() if view is None else {owner.id for owner in view.owners() if owner.alive}
    for experiment in dict.fromkeys(name for name, *_ in found):
        own = [(provider, owner) for name, provider, owner in found if name == experiment]
        left = sum(owner not in alive for _, owner in own)
        says = f"{len(own)} open at {', '.join(sorted({provider for provider, _ in own}))}"
        says += f"; no process collects {left} of them: judgerun run {experiment}" if left else ""
        yield Sign(f"jobs of {experiment}", "warn" if left else "good", says)


def _processes(workspace: Workspace) -> Iterator[Sign]:
    """What the heartbeats of processes say: one that stopped beating without an end is hung or dead."""
    found = heartbeats(workspace.root)
    if not found:
        return
    with snapshot(workspace.cache) as view:
        alive = {owner.id for owner in view.owners() if owner.alive} if view is not None else set()
    for path in found:
        what = f"process of {path.parent.name}"
        try:
            good, says = judged(orjson.loads(path.read_bytes()), now=time.time(), alive=alive)
        except (OSError, orjson.JSONDecodeError, KeyError) as error:
            yield Sign(what, "warn", f"its heartbeat {path} cannot be read: {type(error).__name__}")
            continue
        yield Sign(what, "good" if good else "warn", says)


def _experiments(workspace: Workspace) -> Iterator[Sign]:
    for budget in list_budgets(workspace.root):
        yield Sign(f"budget {budget.stem}", "good", "is there")
    for path in list_experiments(workspace.root):
        name = path.parent.name
        try:
            project = workspace.open(name)
        except JudgerunError as error:
            yield Sign(f"experiment {name}", "warn", str(error).splitlines()[0])
            continue
        wrong = problems(project.deployments, project.experiment.models, workspace.environ)
        sockets = sockets_wrong(project)
        if sockets is not None:
            yield Sign(f"experiment {name}", "bad", f"{sockets.wrong}: {sockets.right}")
        for problem in wrong:
            yield Sign(f"experiment {name}", "warn", f"{problem.place} {problem.wrong}")
        if not wrong:
            yield Sign(f"experiment {name}", "good", "parses, and every key that it names is set")
