"""Gates of an experiment: what a run stops on, what a call was quoted at, how many failed cells are borne, and reopening."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from judgerun.api.project import Project, snapshot
from judgerun.api.quoting import refuse_strange
from judgerun.dispatch.clock import WallClock
from judgerun.dispatch.gates import Rule
from judgerun.errors import Problem, Refused, both
from judgerun.model.condition import canary_of, matches
from judgerun.model.event import Event
from judgerun.model.experiment import Chat, Experiment, Gate
from judgerun.model.money import Nanos
from judgerun.plan.counts import Counts
from judgerun.plan.quote import Line
from judgerun.store.front import Front
from judgerun.store.inline import Inline
from judgerun.table.gate import Fired, Sums, judge, reopening, stopped


def gate_of(experiment: Experiment, condition: str, stage: str) -> Gate | None:
    """The gate of the arm that a condition belongs to; None where none is written, and for canaries."""
    if canary_of(condition):
        return None
    found = next((known for known in experiment.stages if known.name == stage), None)
    if not isinstance(found, Chat):
        return None
    for arm in found.arms:
        if matches(f"{stage}/{arm.model.name}/{arm.prompt.name}", condition):
            return arm.settings.gate
    return None


def rule(experiment: Experiment, quoted: Mapping[str, Nanos]) -> Rule | None:
    """Which conditions must stop, by all counts; no rule at all where no gate is written. `quoted` is what a call of each
    condition was quoted at.
    """
    arms = [arm for stage in experiment.stages if isinstance(stage, Chat) for arm in stage.arms]
    if all(arm.settings.gate is None for arm in arms):
        return None
    known: dict[str, Gate | None] = {}

    def look(counts: Collection[Counts], since: Mapping[str, Sums], fired: Collection[str]) -> list[Fired]:
        for held in counts:
            if held.condition not in known:
                known[held.condition] = gate_of(experiment, held.condition, held.stage)
        gates = {condition: gate for condition, gate in known.items() if gate is not None}
        return judge(counts, gates, quoted=quoted, since=since, stopped=fired)

    return look


def failed_limit(experiment: Experiment, counts: Counts) -> float:
    """The share of failed cells that a complete condition may have: its gate's, else none at all."""
    gate = gate_of(experiment, counts.condition, counts.stage)
    return 0.0 if gate is None else gate.limits.get("failed", 0.0)


# -- what a call was quoted at


def quoted_calls(events: Iterable[Event], experiment: str) -> dict[str, Nanos]:
    """Nano-dollars of a call by condition, as last recorded."""
    told = [event.detail for event in events if event.kind == "quote" and event.experiment == experiment]
    return json.loads(told[-1]) if told else {}


async def quote_first(store: Front, experiment: str, lines: Iterable[Line]) -> dict[str, Nanos]:
    """Record what a call of each condition is quoted at that is now about to run for the first time; that of all that ever ran."""
    held = quoted_calls(store.events(0), experiment)
    calls = {line.condition: -(-line.expected // line.to_send) for line in lines if line.to_send} | held
    if calls != held:
        await store.note("quote", experiment, json.dumps(calls), experiment=experiment)
    return calls


# -- reopening


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """A condition that goes on, why it had stopped, and whether a process runs that will hear of it."""

    condition: str
    was: str
    running: bool


async def reopen(project: Project, key: str, because: str) -> list[Reopened]:
    """Let the conditions of a key that a gate has stopped go on, on record: they are judged by what comes from now on.

    Raises Refused without a reason, for a key that no condition has, and where no gate has stopped a condition of that key.
    """
    reason, (wanted, running) = both(lambda: _stated(because), lambda: _stopped(project, key))
    async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
        for name, (why, counts) in wanted.items():
            await cache.note("resume", name, reopening(reason, why, counts), experiment=project.name)
    return [Reopened(condition=name, was=why, running=running) for name, (why, _) in wanted.items()]


def _stated(because: str) -> str:
    """The reason that a person gives. Refused without one."""
    if not because.strip():
        raise Refused(Problem("command line", "--because", "no reason is given", "why the condition may go on"))
    return because.strip()


def _stopped(project: Project, key: str) -> tuple[Mapping[str, tuple[str, Counts]], bool]:
    """The conditions of a key that a gate has stopped, with why and how they stand; whether a process runs the experiment."""
    with snapshot(project.workspace.cache) as view:
        counts = {held.condition: held for held in project.survey(view).counts()}
        refuse_strange(key, counts, place="--condition")
        held = {} if view is None else stopped(view.events(0), project.name)
        owners = [] if view is None else view.owners()
    running = any(owner.alive and owner.experiment == project.name for owner in owners)
    wanted = {name: (why, counts[name]) for name, why in held.items() if name in counts and matches(key, name)}
    if not wanted:
        there = ", ".join(name for name in held if name in counts)
        right = f"stopped are: {there}" if there else "a condition that `judgerun status` shows as stopped"
        raise Refused(Problem("command line", "--condition", f"no gate has stopped {key!r}", right))
    return wanted, running
