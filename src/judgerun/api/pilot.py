"""Pilot: a run that first buys a few balanced items, and goes on only where what these cost and came to allows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson

from judgerun.analysis.columns import Floats
from judgerun.api.evidence import read_balances, read_books
from judgerun.api.gates import gate_of
from judgerun.api.project import Project
from judgerun.api.quoting import quote
from judgerun.api.running import World, refuse_unconfirmed, run
from judgerun.api.sockets import ready
from judgerun.api.state import Result, state
from judgerun.api.watching import Watch
from judgerun.audit.books import Books
from judgerun.errors import Exit
from judgerun.ledger.account import Account
from judgerun.ledger.budget import Budget
from judgerun.ledger.entry import EntryKind
from judgerun.model.experiment import Embed
from judgerun.model.request import RequestKey
from judgerun.plan.certificate import RISK, UNITS, Certificate, Found, Headroom, Seen, certify
from judgerun.plan.counts import Counts
from judgerun.plan.quote import Line, lanes_of
from judgerun.store.front import Front
from judgerun.store.snapshot import Snapshot
from judgerun.table.gate import stopped

WORLD = World()
"""This machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piloted(Result):
    """How it ended, with the certificate; None where the pilot was stopped, or left nothing."""

    certificate: Certificate | None

    @classmethod
    def of(cls, result: Result, certificate: Certificate | None) -> Piloted:
        """The ending of the last part."""
        return cls(
            code=result.code, reason=result.reason, state=result.state, closed=result.closed, certificate=certificate
        )

    def document(self) -> dict[str, Any]:
        """The object of `run --pilot --json`: that of `run --json`, and the certificate."""
        told = None if self.certificate is None else self.certificate.document()
        return {**Result.document(self), "pilot": told}


async def pilot(
    project: Project,
    *,
    budget: Budget,
    blocks: int,
    risk: float = RISK,
    yes: bool = False,
    signals: bool = False,
    world: World = WORLD,
    watch: Callable[[Watch], None] | None = None,
    log: Callable[[str], None] = lambda _: None,
    tell: Callable[[Certificate], None] = lambda _: None,
) -> Piloted:
    """Run the first `blocks` blocks in plan order across all conditions and what follows from them, draw the certificate, keep
    it as an event, `tell` it, and run the rest where it allows that. Blocks that are done are not bought again. One owner lives
    over both parts, so that what is asked of it between them is heard by the second.

    Ends with the pilot's own code where that was stopped, with Exit.GATE where the certificate does not allow the rest. Raises
    Refused as `run` does; consent is asked once, for the whole.
    """
    refuse_unconfirmed(quote(project, budget), budget, yes=yes)
    if not world.inline:
        ready(project)
    last: Result | None = None
    drawn, refused = None, None
    async with world.opened(project.workspace.cache) as store:

        async def part(limit: int | None) -> Result:
            return await run(
                project, budget=budget, yes=True, limit=limit, signals=signals, stays=limit is not None,
                world=replace(world, store=store), watch=watch, log=log,
            )  # fmt: skip

        try:
            first = last = await part(blocks)
            counts = first.state.counts
            if first.code in (Exit.DONE, Exit.GATE) and any(count.pending or count.owed for count in counts):
                today = datetime.fromtimestamp(world.clock.wall(), UTC).date().isoformat()
                drawn = draw(project, budget, blocks=blocks, risk=risk, today=today, counts=counts)
                refused = await _put_on_record(store, project.name, drawn)
                tell(drawn)
                if refused is None:
                    last = await part(None)
                    return Piloted.of(last, drawn)
        finally:
            if store.owner is not None and (last is None or last.code is not Exit.STORE):
                await store.leave({}, {})
    after = state(project, budget=budget.amended(project.workspace.settings()), counts=counts)
    code, reason = (first.code, first.reason) if refused is None else (Exit.GATE, refused)
    return Piloted.of(replace(first, code=code, reason=reason, state=after), drawn)


async def _put_on_record(store: Front, experiment: str, drawn: Certificate) -> str | None:
    """Keep a certificate, and that the run ends for it; why, None where it goes on."""
    await store.note("pilot", experiment, orjson.dumps(drawn.document()).decode())
    if not drawn.reasons:
        return None
    reason = f"the certificate of the pilot does not allow the rest: {'; '.join(drawn.reasons)}"
    await store.note("stop", experiment, reason)
    return reason


def draw(
    project: Project, budget: Budget, *, blocks: int, risk: float, today: str, counts: tuple[Counts, ...]
) -> Certificate:
    """The certificate of the first `blocks` blocks as the cache has them; `counts` are those of the whole cache."""
    lines = quote(project, budget).quote.lines
    with Snapshot.open(project.workspace.cache) as view:
        items = _items(project, view, blocks)
        books = read_books(view, project.name, items.keys, None)
        balances = {leaf: held for leaf, held in read_balances(view).items() if leaf.budget == budget.name}
        fired = stopped(view.events(0), project.name)
    account = Account(budget.caps, balances)
    gates = {line.condition: gate_of(project.experiment, line.condition, line.stage) for line in lines}
    found = Found(
        experiment=project.experiment,
        budget=budget.name,
        blocks=blocks,
        attempt=max((attempt.id for attempt in books.attempts), default=0),
        seen=_seen(project, items, _costs(books), lines),
        lines=lines,
        counts={count.condition: count for count in counts},
        headrooms=[
            Headroom(cap=cap, leaves=max(0, cap.limit - account.committed(cap, today)))
            for cap in budget.caps
            if cap.unit in UNITS
        ],
        lanes=project.lanes,
        gates={condition: gate for condition, gate in gates.items() if gate is not None},
        fired=fired,
    )
    return certify(found, rng=np.random.default_rng(project.experiment.seed), risk=risk)


@dataclass(slots=True)
class Items:
    """The cells of the first items by condition and block, each key once: (block, weight, key). A cell that nothing reached has
    no key.
    """

    cells: dict[str, list[tuple[str, int, RequestKey | None]]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[RequestKey, bool] = field(default_factory=dict)  # whether a reply is there

    def add(self, condition: str, block: str, key: RequestKey, *, replied: bool) -> None:
        """One more cell, unless another has its key."""
        if key not in self.keys:
            self.keys[key] = replied
            self.cells[condition].append((block, 1, key))


def _items(project: Project, view: Snapshot, blocks: int) -> Items:
    flow = project.flow(lookup=view.bought, matrix=view.matrix, keep=True, limit=blocks)
    items, unanswered = Items(), []
    while (cell := flow.take()) is not None:
        unanswered.append(cell)
        flow.abandon(cell)
    for stage in project.experiment.stages:
        for row in flow.rows(stage.name):
            outcome = row.outcome
            if outcome is not None and outcome.kept is not None and outcome.key is not None:
                items.add(row.condition.name, row.block, outcome.key, replied=True)
            elif row.state == "failed":
                items.cells[row.condition.name].append((row.block, row.weight, None))
    for cell in unanswered:
        items.add(cell.condition, cell.block, cell.request.key, replied=False)
    return items


def _costs(books: Books) -> Mapping[RequestKey, Floats]:
    """What all attempts for a key took, by `UNITS`: settled or forfeited, or as later adjusted; a batch's in equal parts."""
    closed = {
        entry.attempt: entry.amount
        for entry in books.entries
        if entry.kind in (EntryKind.SETTLE, EntryKind.FORFEIT, EntryKind.ADJUST)
    }
    found: dict[RequestKey, Floats] = {}
    for attempt in books.attempts:
        amount = closed.get(attempt.id)
        if amount is not None:
            whole = np.array([amount.nanos, amount.calls, amount.tokens, (attempt.latency_ms or 0) / 1000])
            for key in attempt.keys:
                found[key] = found.get(key, 0.0) + whole / len(attempt.keys)
    return found


def _seen(
    project: Project, items: Items, costs: Mapping[RequestKey, Floats], lines: tuple[Line, ...]
) -> dict[str, Seen]:
    """By condition of which something is left. Cells without a reply count where they were tried; embeddings as if their calls
    were full.
    """
    left = [line for line in lines if line.to_send]
    known = {
        line.condition: [c for c in items.cells[line.condition] if c[2] is None or items.keys[c[2]] or c[2] in costs]
        for line in left
    }
    places = {block: n for n, block in enumerate(dict.fromkeys(c[0] for cells in known.values() for c in cells))}
    found = {}
    for line in left:
        weights, amounts = np.zeros(len(places)), np.zeros((len(places), len(UNITS)))
        for block, weight, key in known[line.condition]:
            weights[places[block]] += weight
            amounts[places[block]] += costs.get(key, 0.0) if key is not None else 0.0
        if isinstance(project.experiment.stage(line.stage), Embed):
            amounts[:, 1] = weights / lanes_of(project.models[line.model], project.lanes)[0].batch_size
        replies = sum(key is not None and items.keys[key] for _, _, key in known[line.condition])
        found[line.condition] = Seen(weights=weights, amounts=amounts, replies=replies)
    return found
