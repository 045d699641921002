"""Beat: what a run measures by the clock: how late its loop is, and, each second, what the slots without work had to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from judgerun.dispatch.hours import Account, SlotCause
from judgerun.dispatch.progress import LATE_S
from judgerun.dispatch.room import Room
from judgerun.model.experiment import Chat, Embed, Experiment, Model, Stage
from judgerun.plan.graph import needs

BEAT_S = 0.1
CLOSE_EVERY = 10
"""Beats between two closings of the accounts."""
HELD_UP = 5
"""So many late beats among the recent ones are told."""
TOLD_EVERY = 600
"""Beats between two such words."""


class Pump(Protocol):
    """What a beat asks of the scheduler."""

    @property
    def full(self) -> bool:
        """Whether the window of open work is full."""
        ...

    def stages(self) -> frozenset[str]:
        """The stages of which a cell is open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the stages of a lane stand among all stages that send."""

    fed: bool  # one of them reads no other: its cells come straight from the rows
    upstream: frozenset[str]  # stages whose replies some of them wait for


class Beat:
    """Beats from `start` to `stop`, ten times a second."""

    def __init__(self, room: Room, pump: Pump) -> None:
        self._room = room
        self._pump = pump
        self._places = places(room.given.experiment, room.given.models.values())
        self._beats = 0
        self._told = -TOLD_EVERY
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat; the lanes of all stages have accounts from now on."""
        room = self._room
        for model in room.given.models.values():
            if model.provider.name in self._places and model.lane != "batch":  # jobs use no slot
                room.accounts(room.lanes.route(model.provider.name, model.name))
        self._next()

    def stop(self) -> None:
        """Beat no more; the accounts are closed once more, at this moment."""
        if self._handle is not None:
            self._handle.cancel()
        self._close()

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + BEAT_S
        self._handle = loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        with self._room.contained():
            self._beats += 1
            self._measure(asyncio.get_running_loop().time() - self._due)
            if self._beats % CLOSE_EVERY == 0:
                self._close()
        self._next()

    def _measure(self, late: float) -> None:
        lateness = self._room.progress.lateness
        lateness.note(late)
        if late > LATE_S and lateness.held_up >= HELD_UP and self._beats >= self._told + TOLD_EVERY:
            self._told = self._beats
            self._room.progress.news.append(
                f"the event loop is held up: {lateness.held_up} times in ten seconds for more than {LATE_S * 1000:.0f} ms, at "
                f"worst {lateness.recent * 1000:.0f} ms; the machine is busy, or lanes are wider than it can serve"
            )

    def _close(self) -> None:
        open_stages = self._pump.stages()
        now = self._room.given.clock.now()
        self._room.progress.hours.close(now, lambda account: self._spare(account, open_stages))

    def _spare(self, account: Account, open_stages: frozenset[str]) -> SlotCause:
        """Why slots of a lane have no work."""
        room, place = self._room, self._places.get(account.name)
        drained = room.given.flow.drained
        if room.halted:
            return "stop"
        if room.pause.on:
            return "paused"
        if account.provider in room.closed:
            return "provider"
        if place is None:
            return "nothing left" if drained else "unknown"
        if place.fed and not drained:
            return "window" if self._pump.full else "local"
        if place.upstream and (place.upstream & open_stages or not drained):
            return "upstream"
        if any(job.provider == account.provider for job in room.progress.jobs.values()):
            return "job"
        return "nothing left"


def places(experiment: Experiment, models: Iterable[Model]) -> Mapping[str, Place]:
    """Each lane's place, by name; those of which no stage asks a model have none."""
    named = {stage.name: stage for stage in experiment.stages}
    upstream = {name: frozenset(_upstream(stage, named)) for name, stage in named.items()}
    lanes: dict[str, set[str]] = {}
    for model in models:
        for stage in experiment.stages:
            if model.name in _asked(stage):
                lanes.setdefault(model.provider.name, set()).add(stage.name)
                lanes.setdefault(f"{model.provider.name}/{model.name}", set()).add(stage.name)
    return {
        lane: Place(
            fed=any(not upstream[name] for name in stages),
            upstream=frozenset[str]().union(*(upstream[name] for name in stages)),
        )
        for lane, stages in lanes.items()
    }


def _asked(stage: Stage) -> frozenset[str]:
    """The models that a stage sends to."""
    if isinstance(stage, Chat):
        return frozenset(arm.model.name for arm in stage.arms)
    return frozenset(model.name for model in stage.models) if isinstance(stage, Embed) else frozenset()


def _upstream(stage: Stage, named: Mapping[str, Stage]) -> set[str]:
    """The stages that send and lie upstream of a stage."""
    found: set[str] = set()
    for name in needs(stage):
        if name in named:
            found |= _upstream(named[name], named) | ({name} if _asked(named[name]) else set())
    return found
