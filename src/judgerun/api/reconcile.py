"""Reconciling: a cache against what its providers say that they charged; the report, the record of it, and adjusts that cite it."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from judgerun.api.offline import write
from judgerun.api.project import Project, Workspace, snapshot
from judgerun.audit.matching import ALL, Booked, Period, State
from judgerun.audit.reconcile import Reconciliation, page
from judgerun.audit.reconcile import reconcile as compare
from judgerun.audit.residual import Resolve
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Problem, Refused
from judgerun.files.deployments import BUILTIN
from judgerun.files.statements.read import read
from judgerun.files.written import SLUG
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ledger.prices import Price, PriceSheet
from judgerun.ledger.statement import Rate, Statement
from judgerun.model.experiment import Model
from judgerun.model.money import Nanos
from judgerun.model.reply import BUCKETS, Usage
from judgerun.store.inline import Inline
from judgerun.store.snapshot import Snapshot

KIND = "reconcile"
_HOSTS = {name: urlsplit(place.base_url).netloc for name, place in BUILTIN.items() if place.base_url}
_CLOSINGS = {"settle": State.SETTLED, "forfeit": State.FORFEITED, "void": State.VOID}
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asks for: how files are read, what is compared, whether forfeits are resolved."""

    format: str | None = None
    zone: str | None = None
    provider: str | None = None
    rates: tuple[Rate, ...] = ()
    period: Period = ALL
    keys: tuple[str, ...] = ()
    budget: str | None = None
    experiment: str | None = None
    tolerance: Nanos | None = None
    name: str | None = None
    apply: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What was found, where it is written, which attempts were adjusted now and which budgets that froze, and experiments whose
    prices are not known here.
    """

    told: Reconciliation
    folder: Path
    applied: tuple[int, ...]
    frozen: frozenset[str]
    unpriced: tuple[str, ...]


def reconcile(workspace: Workspace, paths: Sequence[Path], asked: Asked) -> Reconciled:
    """Compare the cache with a statement in files, write audits/reconcile-NAME/, record the verdict and, where asked, adjust the
    forfeits that it resolves. Refused for files that are not understood, a currency without a rate, a scope that nothing ran under.
    """
    statement = read(paths, format=asked.format, zone=asked.zone, provider=asked.provider)
    _refuse_currencies(statement, asked.rates)
    name = asked.name or re.sub(r"[^A-Za-z0-9._-]+", "-", paths[0].stem)
    if SLUG.fullmatch(name) is None:
        raise Refused(Problem("command line", "--name", f"{name!r} is no name", "letters, digits, dots, - and _"))
    with snapshot(workspace.cache) as view:
        if view is None:
            raise Refused(Problem(str(workspace.cache), "", "there is no cache yet", "nothing was bought"))
        ledger = Ledger(workspace, view, statement)
        booked = list(ledger.booked())
    _refuse_scope(booked, asked)
    told = compare(
        statement,
        booked,
        rates=asked.rates,
        period=asked.period,
        keys=asked.keys,
        scope=lambda one: asked.budget in (None, one.budget) and asked.experiment in (None, one.experiment),
        tolerance=asked.tolerance,
    )
    applied, frozen = asyncio.run(_record(workspace, name, statement, told, ledger.forfeited if asked.apply else None))
    folder = workspace.root / "audits" / f"reconcile-{name}"
    document = told.record() | {"name": name, "applied": list(applied)}
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
    write(folder, {"reconcile.json": body, "reconcile.md": page(name, told, [str(number) for number in applied])})
    unpriced = tuple(sorted(ledger.unpriced))
    return Reconciled(told=told, folder=folder, applied=applied, frozen=frozen, unpriced=unpriced)


def _refuse_currencies(statement: Statement, rates: Sequence[Rate]) -> None:
    held = {"USD", *(rate.currency for rate in rates)}
    first = {line.currency: line for line in reversed(statement.lines) if line.amount is not None}
    problems = [
        Problem(
            line.file, line.where, f"is in {currency}, of which no rate is known", f"--rate {currency}=1.08@2026-11-30"
        )
        for currency, line in sorted(first.items())
        if currency not in held
    ]
    if problems:
        raise Refused(problems)


def _refuse_scope(booked: Sequence[Booked], asked: Asked) -> None:
    for option, wanted, known in (
        ("--budget", asked.budget, {one.budget for one in booked}),
        ("--experiment", asked.experiment, {one.experiment for one in booked}),
    ):
        if wanted is not None and wanted not in known:
            wrong = f"nothing was bought under {wanted!r}"
            raise Refused(Problem("command line", option, wrong, f"there are {', '.join(sorted(known)) or 'none'}"))


# -- the record


async def _record(
    workspace: Workspace,
    name: str,
    statement: Statement,
    told: Reconciliation,
    forfeited: Mapping[int, Amount] | None,
) -> tuple[tuple[int, ...], frozenset[str]]:
    """The verdict as an event; with what was `forfeited`, adjusts. The attempts adjusted, each at most once by the same files, and
    the budgets that are frozen, since an attempt was billed above its hold.
    """
    detail = json.dumps(
        {
            "verdict": told.verdict,
            "files": {file.name: file.digest for file in statement.files},
            "residual_nanos": told.residual,
            "components": {str(one.name): one.amount for one in told.components},
        },
        sort_keys=True,
    )
    applied: list[int] = []
    frozen: set[str] = set()
    async with Inline.open(workspace.cache, clock=WallClock()) as cache:
        for one in told.resolves if forfeited is not None else ():
            if not one.booked.resolved and forfeited is not None:
                held = forfeited[one.booked.attempt]
                tokens = held.tokens if one.tokens is None else one.tokens
                amount = replace(held, nanos=one.nanos, tokens=tokens)
                closed = await cache.adjust(one.booked.attempt, amount, document=_document(statement, one))
                applied.append(one.booked.attempt)
                frozen |= {one.booked.budget} if closed.overrun else set()
        last = [event.detail for event in cache.events(0) if event.kind == KIND and event.subject == name]
        if not last or last[-1] != detail:
            await cache.note(KIND, name, detail)
    return tuple(applied), frozenset(frozen)


def _document(statement: Statement, one: Resolve) -> str:
    """What an adjust cites: file, digest and line; the whole statement for an attempt that is on none of its lines."""
    if not one.lines:
        files = ", ".join(f"{file.name} sha256:{file.digest}" for file in statement.files)
        return f"{files} on no line"
    first, *others = one.lines
    return statement.cited(first) + (f" and {len(others)} more lines" if others else "")


# -- the ledger


@dataclass(slots=True)
class Ledger:
    """The attempts of a cache as a statement would bill them. Not frozen: it remembers what it looked up."""

    workspace: Workspace
    view: Snapshot
    statement: Statement
    forfeited: dict[int, Amount] = field(default_factory=dict)  # attempt -> what its forfeit booked
    unpriced: set[str] = field(default_factory=set)
    _projects: dict[str, Project | None] = field(default_factory=dict)
    _asked: dict[tuple[str, str], str] = field(default_factory=dict)
    _prices: dict[tuple[str, str, str], tuple[Price | None, Price | None]] = field(default_factory=dict)

    def booked(self) -> Iterator[Booked]:
        """Every attempt whose bytes left, or may have, in order."""
        entries = defaultdict(list)
        for row in self._rows("entries"):
            entries[row["attempt"]].append(row)
        replies = defaultdict(list)
        for row in self._rows("replies"):
            replies[row["attempt"]].append(row)
        carried = defaultdict(list)
        for row in self._rows("carried"):
            carried[row["attempt"]].append(row["key"])
        deployments = {row["key"]: row["deployment"] for row in self._rows("requests")}
        for row in self._rows("attempts"):
            if row["sent"]:
                keys = carried[row["id"]]
                names = {row["provider"], _builtin(deployments[keys[0]]) if keys else ""} - {""}
                yield self._one(row, entries[row["id"]], replies[row["id"]], keys, frozenset(names))

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        columns = self.view.columns(table)
        lists = {name: values if isinstance(values, list) else values.tolist() for name, values in columns.items()}
        return (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))

    def _one(
        self,
        row: Mapping[str, Any],
        entries: Sequence[Mapping[str, Any]],
        replies: Sequence[Mapping[str, Any]],
        keys: Sequence[bytes],
        names: frozenset[str],
    ) -> Booked:
        state, settled, doubt, resolved = self._state(row, entries)
        adjusted = any(entry["kind"] == EntryKind.ADJUST and not _cites(entry, self._digests()) for entry in entries)
        usual, batch = self._priced(row["experiment"], row["model"], row["day"])
        moment = row["closed_at"] if row["job"] is not None and row["closed_at"] else row["at"]
        return Booked(
            attempt=row["id"],
            providers=names,
            models=frozenset(self._models(row, replies, keys)),
            at=moment,
            state=state,
            settled=settled,
            doubt=doubt,
            usage=None if adjusted else _usage(replies) if state is State.SETTLED else None,
            ids=frozenset(self._ids(row, replies, keys, names)),
            job=row["job"] is not None,
            usual=usual,
            batch=batch,
            answered=None if row["closed_at"] is None else datetime.fromtimestamp(row["closed_at"], UTC),
            experiment=row["experiment"],
            budget=row["budget"],
            resolved=resolved,
        )

    def _digests(self) -> frozenset[str]:
        return frozenset(file.digest for file in self.statement.files)

    def _state(self, row: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> tuple[State, Nanos, Nanos, bool]:
        """How an attempt stands, its settled and its doubtful money, and whether these files resolved it already."""
        state, settled, doubt, resolved = State.OPEN, 0, row["need_nanos"], False
        for entry in entries:
            kind = entry["kind"]
            if kind in _CLOSINGS:
                state = _CLOSINGS[kind]
                settled = entry["nanos"] if state is State.SETTLED else 0
                doubt = entry["nanos"] if state is State.FORFEITED else 0
                if state is State.FORFEITED:
                    units = (entry["nanos"], entry["calls"], entry["tokens"], entry["gpu_ms"])
                    self.forfeited[row["id"]] = Amount(*units)
            elif kind == EntryKind.ADJUST and _cites(entry, self._digests()):
                resolved = True
            elif kind == EntryKind.ADJUST:
                state, settled, doubt = State.SETTLED if entry["nanos"] else State.CLEARED, entry["nanos"], 0
        return state, settled, doubt, resolved

    def _models(
        self, row: Mapping[str, Any], replies: Sequence[Mapping[str, Any]], keys: Sequence[bytes]
    ) -> Iterator[str]:
        """The names under which a provider may bill an attempt's model."""
        yield from (reply["served_model"] for reply in replies if reply["served_model"])
        name = (row["experiment"], row["model"])
        if name not in self._asked and keys:
            body = self.view.canonical(keys[0])
            self._asked[name] = "" if body is None else str(orjson.loads(body)["payload"]["model"])
        if self._asked.get(name):
            yield self._asked[name]

    def _ids(
        self,
        row: Mapping[str, Any],
        replies: Sequence[Mapping[str, Any]],
        keys: Sequence[bytes],
        names: frozenset[str],
    ) -> Iterator[str]:
        """The provider's names of a call: of its answer's head, and of its body; in a job the key is the name."""
        if not names & {line.provider for line in self.statement.lines if line.call is not None}:
            return
        if row["served_by"]:
            yield row["served_by"]
        if row["job"] is not None:
            yield from (key.hex() for key in keys)
        for reply in replies:
            found = self.view.reply(reply["key"]) if reply["kind"] == "chat" else None
            if found is not None and (id_ := _body_id(found.raw)):
                yield id_

    def _priced(self, experiment: str, model: str, day: str) -> tuple[Price | None, Price | None]:
        """The price in force on a day, in the usual lane and in that of batches."""
        name = (experiment, model, day)
        if name not in self._prices:
            project = self._project(experiment)
            found = None if project is None else project.models.get(model)
            if project is None or found is None:
                self.unpriced.add(experiment)
                self._prices[name] = (None, None)
            else:
                self._prices[name] = (_price(project, found, day, None), _price(project, found, day, "batch"))
        return self._prices[name]

    def _project(self, experiment: str) -> Project | None:
        if experiment not in self._projects:
            try:
                self._projects[experiment] = self.workspace.open(experiment)
            except Refused:
                self._projects[experiment] = None  # its files are gone; the ledger still has its money
        return self._projects[experiment]


def _price(project: Project, model: Model, day: str, lane: Any) -> Price | None:
    prices = project.prices(replace(model, lane=lane))
    return PriceSheet({"": prices}).find("", date.fromisoformat(day))


def _builtin(deployment: str) -> str:
    """The provider that everybody can name at whose host a deployment is; "" for another."""
    return next((name for name, host in _HOSTS.items() if f"//{host}/" in f"{deployment}/"), "")


def _cites(entry: Mapping[str, Any], digests: frozenset[str]) -> bool:
    return bool(digests & set(_DIGEST.findall(entry["document"] or "")))


def _usage(replies: Sequence[Mapping[str, Any]]) -> Usage | None:
    """The sum of the usages of an attempt's replies; None where one does not tell its input or output."""
    if not replies:
        return None
    sums: dict[str, int | None] = dict.fromkeys(BUCKETS)
    for reply in replies:
        output = (reply["output_visible"], reply["reasoning"])
        if reply["input_fresh"] is None or (reply["kind"] == "chat" and output == (None, None)):
            return None
        for name in BUCKETS:
            if reply[name] is not None:
                sums[name] = (sums[name] or 0) + reply[name]
    usage = Usage(**sums)
    return usage if usage.output is not None else replace(usage, output_visible=0)


def _body_id(raw: bytes) -> str | None:
    """The `id` in an answer's body: OpenRouter calls its generations by it."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    found = body.get("id") if isinstance(body, dict) else None
    return found if isinstance(found, str) else None
