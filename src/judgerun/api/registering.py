"""Registering and excluding: what people fix before the first reply, and what they leave out after it, on the record."""

from __future__ import annotations

import json
from dataclasses import dataclass

from judgerun.api.project import Project, snapshot
from judgerun.api.quoting import refuse_strange
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Problem, Refused
from judgerun.model.exclusion import ITEM, excluded
from judgerun.model.exclusion import KIND as EXCLUDE
from judgerun.model.registration import KIND as REGISTER
from judgerun.model.registration import Item, digest_of, items, registrations, standings
from judgerun.plan.flow import Flow
from judgerun.store.inline import Inline
from judgerun.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What stands on the record now, how many replies were there, and how each item stands."""

    digest: str
    replies: int
    standing: tuple[Item, ...]
    known: bool  # it was on the record already, just so


async def register(project: Project, because: str = "") -> Registered:
    """Fix the questions, gates and rules of the experiment as its file says them now. The same again changes nothing."""
    now = items(project.experiment)
    with snapshot(project.workspace.cache) as view:
        held = () if view is None else registrations(view.events(0), project.name)
        replies = 0 if view is None else _replies(view, project.name)
    known = bool(held) and held[-1].digest == digest_of(now)
    if not known:
        detail = {"digest": digest_of(now), "items": now, "replies": replies, "because": because.strip()}
        async with _opened(project) as cache:
            await cache.note(REGISTER, project.name, json.dumps(detail), experiment=project.name)
        with snapshot(project.workspace.cache) as view:
            held = () if view is None else registrations(view.events(0), project.name)
    return Registered(digest=digest_of(now), replies=replies, standing=tuple(standings(now, held)), known=known)


async def exclude(project: Project, subject: str, because: str, *, undo: bool = False) -> int:
    """Leave a condition key, or `item ID`, out of every comparison, or take it in again; how many replies were there. Refused
    without a reason, for what the experiment does not have, and for what is already so.
    """
    if not because.strip():
        raise Refused(Problem("command line", "--because", "no reason is given", "why it is left out"))
    with snapshot(project.workspace.cache) as view:
        flow = project.survey(view, keep=True)
        _refuse_unknown(project, flow, subject)
        held = {} if view is None else {one.subject: one for one in excluded(view.events(0), project.name)}
        replies = 0 if view is None else _replies(view, project.name)
    if (subject in held) != undo:
        wrong = (
            f"{subject} is left out already: {held[subject].because}"
            if subject in held
            else f"{subject} is not left out"
        )
        raise Refused(
            Problem("command line", "CONDITION", wrong, "--undo takes it in again" if subject in held else "")
        )
    detail = {"because": because.strip(), "replies": replies, "undo": undo}
    async with _opened(project) as cache:
        await cache.note(EXCLUDE, subject, json.dumps(detail), experiment=project.name)
    return replies


def _refuse_unknown(project: Project, flow: Flow, subject: str) -> None:
    """Raise Refused for an item or a key of conditions that the experiment does not have."""
    rows = [row for stage in project.experiment.stages for row in flow.rows(stage.name)]
    if not subject.startswith(ITEM):
        refuse_strange(subject, (row.condition.name for row in rows), place="CONDITION")
        return
    ids, wanted = {name for row in rows for name in (row.id, row.root)}, subject.removeprefix(ITEM)
    if wanted not in ids:
        right = f"for example {min(ids)}" if ids else "the id of a row"
        raise Refused(Problem("command line", "--item", f"{wanted!r} is the id of no row", right))


def _opened(project: Project) -> Inline:
    return Inline.open(project.workspace.cache, clock=WallClock())


def _replies(view: Snapshot, experiment: str) -> int:
    """Replies that the experiment has bought so far."""
    return len(view.columns("replies", experiment)["attempt"])
