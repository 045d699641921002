"""Gathering: the state of an experiment in a cache as the one Evidence on which audits, reports and exports rest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from judgerun.api.project import Project
from judgerun.audit.books import Attempt, Books, Bought
from judgerun.audit.evidence import Evidence
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Refused
from judgerun.files.budgets import find_budget
from judgerun.files.waivers import load_waivers
from judgerun.ledger.account import Balance
from judgerun.ledger.budget import UNITS, Budget, Leaf
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.condition import canary_of
from judgerun.model.event import Event
from judgerun.model.exclusion import KIND as EXCLUDE
from judgerun.model.exclusion import excluded
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import lanes_in_force
from judgerun.model.registration import KIND as REGISTER
from judgerun.model.reply import BUCKETS, Usage
from judgerun.model.request import RequestKey
from judgerun.model.setting import Setting
from judgerun.plan.ladder import Escalation
from judgerun.store.snapshot import Sealed, Snapshot


@dataclass(slots=True)
class Recorder:
    """A look-up that remembers the keys it was asked, each once, in plan order."""

    view: Snapshot
    seen: dict[RequestKey, None] = field(default_factory=dict)

    def __call__(self, key: RequestKey) -> Kept | Lost | None:
        self.seen[key] = None
        return self.view.lookup(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The evidence, with what a seal must know: the keys of the whole plan in its order."""

    evidence: Evidence
    keys: tuple[RequestKey, ...]
    sealed: Sealed | None
    plans: tuple[Escalation, ...] = ()  # by which cells were asked again


def gather(
    project: Project, view: Snapshot, *, sealed: Sealed | None = None, present: bool = False, part: bool = False
) -> Gathered:
    """The evidence of an experiment as the view shows it. `sealed` defaults to the newest seal, if there is one: what was
    escalated, registered or excluded after it is left out. With `present` all of it counts, and a seal that does not cover all
    of it is none. Of a `part` of a cache, as bundles have it, nobody knows which rows are missing.
    """
    if sealed is None:
        seals = view.seals(project.name)
        sealed = seals[-1] if seals else None
    plans = project.plans(view)
    if sealed is not None:
        covered = tuple(plan for plan in plans if plan.event <= sealed.stated.get("escalation", 0))
        uncovered = covered != plans or later(view, project.name, sealed)
        sealed, plans = (None, plans) if present and uncovered else (sealed, covered)
    record = Recorder(view)
    flow = project.flow(lookup=record, matrix=view.matrix, keep=True, plans=plans, buys="own")
    for _ in flow.survey():
        pass

    def request(key: RequestKey) -> Mapping[str, Any] | None:
        found = view.canonical(key)
        return None if found is None else orjson.loads(found)

    books = replace(read_books(view, project.name, record.seen, sealed), gaps={} if part else view.gaps())
    settings = view.settings(math.inf if sealed is None else sealed.at)
    budgets = tuple(_budgets(project, books, settings))
    evidence = Evidence(
        experiment=project.experiment,
        counts=tuple(count for count in flow.counts() if not canary_of(count.condition)),
        rows={stage.name: flow.rows(stage.name) for stage in project.experiment.stages},
        canaries=tuple(flow.canaries()),
        document=flow.document,
        request=request,
        recounts=dict(_recounts(books.events)),
        books=books,
        prices=_prices(project, None),
        job_prices=_prices(project, "batch"),
        profiles=project.profiles,
        budgets=budgets,
        amended=tuple(_amended(project, books, budgets, settings)),
        waivers=load_waivers(project.workspace.root),
        today=datetime.fromtimestamp(WallClock().wall() if sealed is None else sealed.at, UTC).date(),
        exclusions=excluded(books.events, project.name),
        seal=sealed.digest if sealed else None,
        sealed_because=(sealed.reason or "") if sealed else "",
        plan=flow.digest,
        lanes=_lanes(view, project.name, sealed),
        plans=plans,
        questions={
            name.removeprefix("questions:"): function
            for name, function in project.loaded.inputs.functions.items()
            if name.startswith("questions:")
        },
        study=project.loaded.inputs.study,
    )
    return Gathered(evidence=evidence, keys=tuple(record.seen), sealed=sealed, plans=plans)


def _recounts(events: Iterable[Event]) -> Iterator[tuple[RequestKey, int]]:
    """What was counted anew, by request."""
    for event in events:
        if event.kind == "recount":
            yield from ((bytes.fromhex(key), tokens) for key, tokens in orjson.loads(event.detail).items())


def _lanes(view: Snapshot, experiment: str, sealed: Sealed | None) -> Mapping[str, Mapping[str, float]]:
    """The time of the lanes, in tenths of a second. What came after a seal is not in it: the report of a seal never changes."""
    if sealed is not None:
        held: Mapping[str, Mapping[str, float]] = sealed.stated.get("lanes", {})
        return held
    spent = view.standing(experiment).lanes
    return {lane: {cause: round(seconds, 1) for cause, seconds in by.items()} for lane, by in spent.items()}


def _prices(project: Project, lane: Literal["batch"] | None) -> dict[str, tuple[Price, ...]]:
    """The dated prices of the experiment's models in a lane; a model without one there is left out."""
    models = (replace(model, lane=lane) for model in project.experiment.models)
    return {model.name: found for model in models if (found := project.prices(model))}


def _budgets(project: Project, books: Books, settings: Sequence[Setting]) -> Iterator[Budget]:
    """The budgets under which the experiment has spent: their files as they are now, with what was set since; a file that is gone
    is left out.
    """
    for name in dict.fromkeys(attempt.leaf.budget for attempt in books.attempts):
        try:
            yield find_budget(project.workspace.root, name).amended(settings)
        except Refused:
            continue  # an experiment outlives its budget file; the entries still name it


def _amended(project: Project, books: Books, budgets: Iterable[Budget], settings: Sequence[Setting]) -> Iterator[str]:
    """What is in force in the place of what the files say, of these budgets and of the lanes of the experiment, in words."""
    for budget in budgets:
        yield from (f"budget {budget.name}: {words}" for words in budget.amendments)
    providers = {place.name for place in project.deployments} | {attempt.leaf.provider for attempt in books.attempts}
    for name, lane in sorted(lanes_in_force(project.lanes, settings).items()):
        if name.split("/", 1)[0] in providers:
            yield from (f"lane {name}: {words}" for words in lane.amendments)


def read_books(view: Snapshot, experiment: str, keys: Iterable[RequestKey], sealed: Sealed | None) -> Books:
    """The experiment's attempts, entries and replies, and those of others that bought a reply for one of `keys`. Entries
    that came after the seal are marked as such.
    """
    wanted = set(keys)
    replies = [
        reply
        for reply in _records(view, "replies", None)
        if reply["experiment"] == experiment or reply["key"] in wanted
    ]
    own = _records(view, "attempts", experiment)
    foreign = {reply["attempt"] for reply in replies} - {row["id"] for row in own}
    attempts = own + ([row for row in _records(view, "attempts", None) if row["id"] in foreign] if foreign else [])
    held = {row["id"] for row in attempts}
    scope = None if foreign else experiment
    carried: dict[int, list[RequestKey]] = defaultdict(list)
    for row in _records(view, "carried", scope):
        if row["attempt"] in held:
            carried[row["attempt"]].append(row["key"])
    entries = [row for row in _records(view, "entries", scope) if row["attempt"] in held]
    return Books(
        attempts=tuple(_attempt(row, carried[row["id"]]) for row in attempts),
        entries=tuple(map(_entry, entries)),
        covered=None if sealed is None else sum(row["id"] <= sealed.entry for row in entries),
        bought=tuple(map(_bought, replies)),
        balances=read_balances(view, experiment),
        events=tuple(_events(view, experiment, sealed)),
    )


def _events(view: Snapshot, experiment: str, sealed: Sealed | None) -> Iterator[Event]:
    """What happened to the experiment, up to the seal."""
    for row in _records(view, "events", None):
        event = Event(**row)
        if event.experiment in (experiment, None) and (sealed is None or event.at <= sealed.at):
            yield event


def later(view: Snapshot, experiment: str, sealed: Sealed) -> tuple[Event, ...]:
    """What was registered and excluded after a seal, oldest first."""
    return tuple(
        event
        for event in view.events(0)
        if event.experiment == experiment and event.kind in (REGISTER, EXCLUDE) and event.at > sealed.at
    )


def read_balances(view: Snapshot, experiment: str | None = None) -> dict[Leaf, Balance]:
    """The leaves of an experiment, or of all, with what stands on them."""
    return {_leaf(row): _balance(row) for row in _records(view, "accounts", experiment)}


def _records(view: Snapshot, table: str, experiment: str | None) -> list[dict[str, Any]]:
    columns = view.columns(table, experiment)
    lists = {name: values if isinstance(values, list) else values.tolist() for name, values in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _leaf(row: Mapping[str, Any]) -> Leaf:
    return Leaf(*(row[name] for name in Leaf._fields))


def _amount(row: Mapping[str, Any], prefix: str = "") -> Amount:
    return Amount(*(row[prefix + unit] for unit in UNITS))


def _balance(row: Mapping[str, Any]) -> Balance:
    return Balance(*(_amount(row, f"{part}_") for part in ("settled", "forfeited", "held")))


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(
        attempt=row["attempt"],
        kind=EntryKind(row["kind"]),
        leaf=_leaf(row),
        amount=_amount(row),
        document=row["document"],
    )


def _attempt(row: Mapping[str, Any], keys: Sequence[RequestKey]) -> Attempt:
    return Attempt(
        id=row["id"],
        leaf=_leaf(row),
        model=row["model"],
        keys=tuple(keys),
        need=_amount(row, "need_"),
        open=bool(row["open"]),
        closed_at=row["closed_at"],
        job=row["job"],
        sent=bool(row["sent"]),
        status=row["status"],
        cause=row["cause"],
        detail=row["detail"] or "",
        bound_by=row["bound_by"],
        served_by=row["served_by"],
        latency_ms=row["latency_ms"],
    )


def _bought(row: Mapping[str, Any]) -> Bought:
    return Bought(
        key=row["key"],
        attempt=row["attempt"],
        cost=row["cost"],
        usage=Usage(**{bucket: row[bucket] for bucket in BUCKETS}),
        reported_cost=row["reported_cost"],
        reported_tokens=row["reported_tokens"],
        embedding=row["kind"] == "embed",
    )
