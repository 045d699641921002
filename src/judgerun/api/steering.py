"""What a person does to a run, a budget or a lane from outside: stop, pause, set caps and limits, reopen what is frozen."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from judgerun.api.project import Project, Workspace, snapshot
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Problem, Refused
from judgerun.files.budgets import find_budget, load_lanes
from judgerun.files.workspace import find_experiment
from judgerun.ledger.budget import Budget, Cap
from judgerun.model.lane import SETTABLE, LaneSpec, lanes_in_force, limit
from judgerun.model.money import parse_usd
from judgerun.model.setting import Value
from judgerun.ports import Order
from judgerun.store.inline import Inline
from judgerun.store.schema import made


def budget_for(project: Project, name: str | None) -> Budget | None:
    """The budget of that name; without a name the one under which the experiment last ran here, else the only one, else
    None.
    """
    return budget_of(project.workspace, project.name, name)


def budget_of(workspace: Workspace, experiment: str, name: str | None) -> Budget | None:
    """The same of an experiment that is not opened."""
    if name is not None:
        return budget_named(workspace, name)
    with snapshot(workspace.cache) as view:
        last = view.budget_of(experiment) if view is not None else None
    try:
        return budget_named(workspace, last)
    except Refused:
        return None


def budget_named(workspace: Workspace, name: str | None) -> Budget:
    """The budget that a command means, without a name the only one: its file, with what was set in its place. Refused."""
    return find_budget(workspace.root, name).amended(workspace.settings())


def ask(workspace: Workspace, name: str, order: Order, *, within: float | None = None) -> tuple[str, int]:
    """Ask something of the living processes of an experiment: its name, and how many there are. `within` (seconds) is how long a
    drain may take. Its files are not read: whoever edits them must be able to stop a run.
    """
    experiment = find_experiment(workspace.root, name).resolve().parent.name
    if not made(workspace.cache):
        return experiment, 0

    async def write() -> int:
        async with Inline.open(workspace.cache, clock=WallClock()) as cache:
            return await cache.ask(experiment, order, by=f"process {os.getpid()}", within=within)

    return experiment, asyncio.run(write())


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """What was set: of which subject (`budget NAME`, `lane NAME`), each key with what was in force before and what is now, and how
    many processes live that go by it.
    """

    subject: str
    changes: tuple[tuple[str, str, str], ...]
    heard_by: int


def set_caps(workspace: Workspace, name: str | None, words: Sequence[str]) -> Set:
    """Put caps (`total=12.00`) in the place of those of a budget's file. Refused for one that the file has not, and for one below
    what is spent.
    """
    _refuse_unrecorded(workspace)
    budget = budget_named(workspace, name)
    file = f"budgets/{budget.name}.toml"
    known = {cap.path: cap for cap in budget.caps}
    caps: list[Cap] = []
    problems: list[Problem] = []
    for key, text in _pairs(words, problems):
        if key not in known:
            problems.append(Problem(file, key, "is no cap of the file", f"write it there; it has {', '.join(known)}"))
            continue
        try:
            caps.append(replace(known[key], limit=_amount(known[key], text)))
        except ValueError as error:
            problems.append(Problem("command line", key, str(error), "an amount as in the file"))
    if problems:
        raise Refused(problems)

    async def write() -> None:
        async with Inline.open(workspace.cache, clock=WallClock()) as cache:
            await cache.cap(budget, caps)

    asyncio.run(write())
    changes = tuple((cap.path, cap.told(known[cap.path].limit), cap.told(cap.limit)) for cap in caps)
    return Set(subject=f"budget {budget.name}", changes=changes, heard_by=_living(workspace, budget.name))


def set_lane(workspace: Workspace, name: str, words: Sequence[str]) -> Set:
    """Put limits (`concurrency=4`, `requests_per_minute=none`) in the place of those of a lane's table in lanes.toml. Refused for a
    lane that is neither there nor a provider that was ever called.
    """
    _refuse_unrecorded(workspace)
    lanes = lanes_in_force(load_lanes(workspace.root), workspace.settings())
    if (lane := lanes.get(name)) is None:
        with snapshot(workspace.cache) as view:
            if view is None or "/" in name or not view.called(name):
                wrong = f"is no lane; there are {', '.join(sorted(lanes)) or 'none'}"
                raise Refused(Problem("budgets/lanes.toml", name, wrong, f'write ["{name}"] there'))
        lane = LaneSpec(name=name)
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    for key, text in _pairs(words, problems):
        try:
            values[key] = _value(key, text)
        except ValueError as error:
            problems.append(Problem("command line", f"{name}: {key}", str(error), ""))
    if problems:
        raise Refused(problems)

    async def write() -> None:
        async with Inline.open(workspace.cache, clock=WallClock()) as cache:
            await cache.lane(lane, values)

    asyncio.run(write())
    changes = tuple((key, limit(getattr(lane, key)), limit(value)) for key, value in values.items())
    return Set(subject=f"lane {name}", changes=changes, heard_by=_living(workspace, None))


def _refuse_unrecorded(workspace: Workspace) -> None:
    """Refused where there is no cache: what is set is recorded there."""
    if not made(workspace.cache):
        raise Refused(Problem(str(workspace.cache), "", "there is no cache yet", "write it in the file: nothing runs"))


def _pairs(words: Sequence[str], problems: list[Problem]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, found, text = word.rpartition("=")
        if found:
            yield key.strip(), text.strip()
        else:
            problems.append(Problem("command line", word, "sets nothing", "KEY=VALUE"))


def _amount(cap: Cap, text: str) -> int:
    """An amount of a cap's unit, as its file has it. ValueError."""
    if cap.unit == "nanos":
        return parse_usd(text)
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no whole number")
    return int(text) * (1000 if cap.unit == "gpu_ms" else 1)


def _value(key: str, text: str) -> Value:
    """A limit of a lane, as its file has it. ValueError."""
    if key not in SETTABLE:
        raise ValueError(f"cannot be set; {', '.join(SETTABLE)} can")
    if text == "none" and getattr(LaneSpec(name=""), key) is None:
        return None
    if key == "timeout_s":
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise ValueError(f"{text!r} is no number of seconds above 0")
        return seconds
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is no number above 0")
    return int(text)


def _living(workspace: Workspace, budget: str | None) -> int:
    """How many processes live, of those that run under a budget where one is named."""
    with snapshot(workspace.cache) as view:
        owners = view.owners() if view is not None else []
    return sum(owner.alive and budget in (None, owner.budget) for owner in owners)


async def unfreeze(project: Project, budget: Budget | None, because: str) -> bool:
    """Reopen the budget under which an experiment runs; whether it was frozen. Refused without a reason or a budget."""
    if budget is None:
        raise Refused(
            Problem("command line", "--budget", f"no budget of {project.name} is known here", "--budget NAME")
        )
    if not made(project.workspace.cache):
        raise Refused(Problem(str(project.workspace.cache), "", "there is no cache yet", "nothing can be frozen"))
    async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
        return await cache.unfreeze(budget.name, because)
