"""State: how an experiment stands, as the one document that `status` and `run` print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judgerun.api.project import Project, snapshot
from judgerun.dispatch.work import ancestry
from judgerun.errors import Exit
from judgerun.ledger.budget import Budget
from judgerun.model.money import format_usd
from judgerun.plan.counts import Counts
from judgerun.ports import Spend, Standing
from judgerun.store.snapshot import KeptJob, Snapshot
from judgerun.table.gate import stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What a running process last said of itself."""

    owner: int
    pid: int
    at: float  # Unix seconds
    said: Mapping[str, Any] = field(default_factory=dict)
    counts: tuple[Counts, ...] | None = None  # of the whole experiment, where it told them


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Cells, money and life of an experiment in a cache. `state` and `reason` are as the cache knows them."""

    experiment: str
    state: str  # planned running complete stopped
    reason: str | None
    counts: tuple[Counts, ...]
    standing: Standing
    budget: Budget | None
    live: tuple[Live, ...] = ()
    marks: tuple[int | float, ...] | None = None  # of the view that was surveyed; None where the counts are of no view
    told: tuple[Mapping[str, Any], ...] = ()  # last words of processes that have not left
    jobs: tuple[KeptJob, ...] = ()  # in the batch lane, that have not ended
    gates: Mapping[str, str] = field(default_factory=dict)  # conditions that a gate has stopped -> why

    def document(self) -> dict[str, Any]:
        """The object of `status --json` and `run --json`. Amounts are decimal strings of dollars."""
        names = ("planned", "done", "failed", "pending", "cached", "shared")
        return {
            "experiment": self.experiment,
            "state": self.state,
            "reason": self.reason,
            "cells": {name: sum(getattr(count, name) for count in self.counts) for name in names},
            "attempts": self.standing.attempts,
            "spend": {**_spend(self.standing.experiment), "cap_usd": _usd(self.cap)},
            "budget": {
                "name": self.budget.name if self.budget else None,
                "high_usd": format_usd(self.standing.budget.high),
                "cap_usd": _usd(self.budget.total if self.budget else None),
                "frozen": self.standing.frozen,
            },
            "conditions": self._conditions(),
            "idle": {cause: round(seconds, 3) for cause, seconds in sorted(self._idle().items())},
            "lanes": {lane: _rounded(spent) for lane, spent in self.lanes().items()},
            "jobs": [job_document(job) for job in self.jobs],
            "processes": [{"owner": one.owner, "pid": one.pid, "at": one.at, **one.said} for one in self.live],
        }

    def _idle(self) -> dict[str, float]:
        """Cell-seconds by cause: what ended processes left, and what those that have not say."""
        return _sum(self.standing.idle, *(said.get("idle", {}) for said in self.told))

    def lanes(self) -> dict[str, dict[str, float]]:
        """The same in slot-seconds, by lane."""
        every = (self.standing.lanes, *(said.get("lanes", {}) for said in self.told))
        names = sorted({lane for lanes in every for lane in lanes})
        return {name: _sum(*(lanes.get(name, {}) for lanes in every)) for name in names}

    @property
    def cap(self) -> int | None:
        """The tightest dollar cap over the whole experiment; None without a budget."""
        return None if self.budget is None else self.budget.tightest(self.experiment)

    def gate(self, condition: str) -> str | None:
        """Why a gate keeps a condition from going on: its own, or one upstream of it; None when none does."""
        own, *feeds = ancestry(condition)
        if own in self.gates:
            return self.gates[own]
        return next((f"{feed}, upstream: {self.gates[feed]}" for feed in feeds if feed in self.gates), None)

    def _conditions(self) -> list[dict[str, Any]]:
        spent = dict(self.standing.conditions)
        listed = [
            _condition(count, spent.pop(count.condition, Spend())) | {"gate": self.gate(count.condition)}
            for count in self.counts
        ]
        # Money that was spent on conditions which the files no longer plan is still money that was spent.
        gone = [
            _condition(Counts(condition=name, stage=_stage(name)), spend) | {"gate": None}
            for name, spend in sorted(spent.items())
        ]
        return listed + gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a run ended and how the experiment stands after it."""

    code: Exit
    reason: str | None
    state: State
    closed: Mapping[str, str] = field(default_factory=dict)  # provider to which nothing more was sent -> why

    def document(self) -> dict[str, Any]:
        """The object of `run --json`: the state, with how *this* process ended, though others may still run."""
        document = self.state.document()
        if self.state.state == "running":
            document |= {"state": "stopped" if document["cells"]["pending"] else "complete"}
        if self.reason is not None:
            document |= {"reason": self.reason}
        return {**document, "exit": int(self.code)}


def _sum(*spent: Mapping[str, float]) -> dict[str, float]:
    """Seconds by cause, added up."""
    found: dict[str, float] = {}
    for each in spent:
        for cause, seconds in each.items():
            found[cause] = found.get(cause, 0.0) + seconds
    return found


def _rounded(spent: Mapping[str, float]) -> dict[str, float]:
    return {cause: round(seconds, 1) for cause, seconds in sorted(spent.items())}


def _stage(name: str) -> str:
    return name.split("@", 1)[0].split("/", 1)[0]


def _condition(count: Counts, spend: Spend) -> dict[str, Any]:
    numbers = ("planned", "done", "failed", "pending", "cached", "shared")
    marks = ("truncated", "empty", "unparsed", "refused", "concluded", "input_cut")
    other = ("escalated", "owed", "lapsed", "diverted")
    return {
        "condition": count.condition,
        "stage": count.stage,
        **{name: getattr(count, name) for name in numbers},
        "finish": dict(sorted(count.finish.items())),
        **{name: getattr(count, name) for name in (*marks, *other)},
        "reasons": dict(sorted(count.reasons.items())),
        "spend_usd": format_usd(spend.high),
        "spend_low_usd": format_usd(spend.low),
    }


def job_document(job: KeptJob) -> dict[str, Any]:
    """A job, for programs. `since` is the Unix time of its submit, or of its first reservation before that."""
    return {
        "job": job.id,
        "provider": job.place.provider,
        "model": job.place.model,
        "state": job.state.value,
        "id": job.remote,
        "told": job.told,
        "calls": job.calls,
        "held_usd": format_usd(job.held),
        "since": job.at if job.submitted is None else job.submitted,
    }


def _spend(spend: Spend) -> dict[str, str]:
    parts = {
        "settled": spend.settled,
        "forfeited": spend.forfeited,
        "held": spend.held,
        "low": spend.low,
        "high": spend.high,
    }
    return {f"{name}_usd": format_usd(nanos) for name, nanos in parts.items()}


def _usd(nanos: int | None) -> str | None:
    return None if nanos is None else format_usd(nanos)


def state(project: Project, *, budget: Budget | None, counts: Sequence[Counts] | None = None) -> State:
    """How the experiment stands now in its workspace's cache. `counts` spares the survey where they are known."""
    with snapshot(project.workspace.cache) as view:
        if counts is not None:
            return told(project.name, tuple(counts), budget, view)
        found = told(project.name, project.survey(view).counts(), budget, view)
        return found if view is None else replace(found, marks=view.marks(project.name))


def told(experiment: str, counts: tuple[Counts, ...], budget: Budget | None, view: Snapshot | None) -> State:
    """The state of an experiment whose cells are counted; the rest is read from the view, where there is a cache."""
    if view is None:
        return _made(experiment, counts, Standing(), budget, (), None)
    standing = view.standing(experiment, budget.name if budget else None)
    made = _made(experiment, counts, standing, budget, _live(view, experiment), _stopped(view, experiment))
    said = tuple(json.loads(document) for _, _, document in view.progress(experiment))
    return replace(made, told=said, jobs=tuple(view.jobs(experiment)), gates=stopped(view.events(0), experiment))


def heard(experiment: str, budget: Budget | None, view: Snapshot) -> State | None:
    """The state of an experiment as the processes that run it tell it, without a survey: in the words of the one that knows of most
    replies. None where none of them tells its counts.
    """
    counted = [one.counts for one in _live(view, experiment) if one.counts is not None]
    if not counted:
        return None
    return told(experiment, max(counted, key=lambda counts: sum(count.done for count in counts)), budget, view)


def _made(
    experiment: str,
    counts: tuple[Counts, ...],
    standing: Standing,
    budget: Budget | None,
    live: tuple[Live, ...],
    stopped: str | None,
) -> State:
    if live:
        word, reason = "running", None
    elif not any(count.pending or count.owed for count in counts):
        word, reason = "complete", None
    elif stopped is not None:
        word, reason = "stopped", stopped
    else:
        word, reason = "planned", None
    return State(
        experiment=experiment,
        state=word,
        reason=reason,
        counts=counts,
        standing=standing,
        budget=budget,
        live=live,
    )


def _live(view: Snapshot, experiment: str) -> tuple[Live, ...]:
    said = {owner: (at, document) for owner, at, document in view.progress(experiment)}
    found = []
    for owner in view.owners():
        if owner.experiment == experiment and owner.alive:
            at, document = said.get(owner.id, (owner.started, "{}"))
            words = json.loads(document)
            counts = words.pop("counts", None)
            told = None if counts is None else tuple(Counts(**count) for count in counts)
            found.append(Live(owner=owner.id, pid=owner.pid, at=at, said=words, counts=told))
    return tuple(found)


def _stopped(view: Snapshot, experiment: str) -> str | None:
    """Why cells are left although no process works on them; None when none ever did."""
    if any(owner.experiment == experiment and not owner.alive for owner in view.owners()):
        return "a process died; the next run recovers what it left open"
    events = view.columns("events", experiment)
    ends = [
        (kind, detail) for kind, detail in zip(events["kind"], events["detail"], strict=True) if kind in ("stop", "end")
    ]
    if not ends:
        return None
    kind, detail = ends[-1]
    return (
        detail
        if kind == "stop"
        else "the last run was of other cells (--only, --limit, escalate), or these came after it"
    )
