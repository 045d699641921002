"""Fill: the money of a part: its reservations, what the ledger says to them, and the wait for what is short.

What may live here: everything between a tray and a job whose holds are committed. When a part is due, and what becomes of the
job, is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from judgerun.dispatch import claim as claims
from judgerun.dispatch.collect import CHUNK, POLL_FIRST_S, POLL_MAX_S, Job
from judgerun.dispatch.hours import OUTSIDE, Stint
from judgerun.dispatch.money import Scope
from judgerun.dispatch.progress import WaitCause
from judgerun.dispatch.room import Room
from judgerun.dispatch.trays import Entry, Part, Tray
from judgerun.errors import InvariantBroken
from judgerun.ledger.entry import Decision
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell
from judgerun.model.request import RequestKey, digest
from judgerun.ports import Grant, JobState, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A waiter: one cell that waits for money, or so many that wait for other processes."""

    size: int = 1
    provider: str = ""
    conditions: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    asks: str = ""
    stint: Stint = OUTSIDE


@dataclass(slots=True, kw_only=True)
class Filling:
    """A job while its holds are taken."""

    token: str
    part: Part
    at: float  # Unix time
    job: int | None = None
    short: Scope | None = None  # the cap that said wait
    over: bool = False  # nothing more may go in


class Filler:
    """Takes parts out of trays. `cells` gets what is in a job, `held` what somebody else has open, `begin` the jobs."""

    def __init__(
        self,
        room: Room,
        *,
        cells: dict[RequestKey, Cell | None],
        held: Callable[[Cell], None],
        begin: Callable[[Tray, Job], None],
    ) -> None:
        self._room = room
        self._given = room.given
        self._cells = cells
        self._held = held
        self._begin = begin
        self._made = 0  # names of jobs

    async def part(self, tray: Tray) -> None:
        """Hold the money of a part, and hand it over; what the ledger says must wait stands in line for money."""
        room = self._room
        while (delay := max(tray.not_before, tray.room_at) - self._given.clock.now()) > 0:
            cause: WaitCause = (
                "job" if tray.room_at > tray.not_before else "backoff"
            )  # other jobs must end, or it failed
            await room.waits.sleep(cause, min(delay, POLL_FIRST_S), tray)
        if room.pause.on:
            return
        first = tray.first
        if tray.called is None and (scope := room.money.blocked(room.scopes(first.cell), first.rank)) is not None:
            await self._join(tray, scope)
            return
        filling = await self._reserve(tray)
        if filling.job is not None:
            self._begin(tray, self._job(tray, filling, filling.job))
        elif tray.size and not self._empty(tray).fits(tray.first):
            tray.room_at = self._given.clock.now() + POLL_MAX_S  # its tokens find no room: others must end first
        self.called(tray, short=filling.short)
        if filling.short is not None and tray.size:
            await self._join(tray, filling.short)

    async def _join(self, tray: Tray, scope: Scope) -> None:
        cell, room = tray.first.cell, self._room
        waiter = Waiting(provider=cell.provider, conditions=room.ancestry(cell.condition), scopes=room.scopes(cell))
        await self._room.money.join(scope, cell.rank, waiter)
        tray.called = scope

    def called(self, tray: Tray, *, short: Scope | None = None) -> None:
        """The head of a money queue has had its try: the next is called, unless nothing came back."""
        if (scope := tray.called) is not None:
            tray.called = None
            self._room.money.done(scope, wake=scope != short)

    def _empty(self, tray: Tray) -> Part:
        """An empty part, with what the limits leave now."""
        left = [
            (limit - used, used)
            for name, limit in self.enqueued(tray.model)
            for used in [self._given.store.enqueued(tray.provider, name)]
        ]
        return Part(
            requests_max=min(tray.most, tray.limits.requests),
            bytes_max=tray.limits.bytes,
            tokens_max=min((free for free, _ in left), default=None),
            alone=not any(used for _, used in left),
        )

    async def _reserve(self, tray: Tray) -> Filling:
        """Hold the money of as many cells as the part takes, in plan order, until the ledger says no."""
        self._made += 1
        wall = self._given.clock.wall()
        named = (self._given.experiment.name, repr(wall), str(self._made), tray.first.cell.request.short)
        filling = Filling(token=digest([name.encode() for name in named])[:32], part=self._empty(tray), at=wall)
        while not filling.over and not self._room.halted:
            entries = tray.draw(filling.part, CHUNK)
            if not entries:
                break
            await self._enlist(tray, filling, entries)
        return filling

    async def _enlist(self, tray: Tray, filling: Filling, entries: list[Entry]) -> None:
        """Ask the ledger for some more cells; what was not reached goes back."""
        model = tray.model
        price = self._room.price(model, at=filling.at)
        ceiling = self._given.budget.ceilings.get(f"{model.provider.name}/{model.model}")
        profile = self._given.providers[tray.provider].profile
        asked = [claims.enlisted(entry.cell, model, price, ceiling, profile) for entry in entries]
        said = await self._given.store.enlist(asked, token=filling.token, deployment=model.provider.key_part)
        filling.job = said.job
        tray.back(entries[len(said.grants) :])
        for entry, grant in zip(entries, said.grants, strict=False):
            self._granted(tray, filling, entry, grant)

    def _granted(self, tray: Tray, filling: Filling, entry: Entry, grant: Grant) -> None:
        """What the ledger said to one cell."""
        cell, room = entry.cell, self._room
        match grant.decision:
            case Decision.RESERVED:
                filling.part.put(entry)
                self._cells[cell.request.key] = cell
            case Decision.KEPT:
                room.bought(cell)
            case Decision.HELD:
                self._held(cell)
            case Decision.WAIT:
                tray.back([entry])
                filling.short, filling.over = grant.scope, True
            case Decision.EXHAUSTED:
                room.exhaust(grant.scope)
                tray.back([entry])
                self.sweep(tray)  # and what it leaves may go on
            case Decision.FROZEN:
                tray.back([entry])
                room.frozen(grant.scope)
            case Decision.RATE:
                raise InvariantBroken("a job counts in no rate window")

    def _job(self, tray: Tray, filling: Filling, number: int) -> Job:
        return Job(
            id=number,
            place=Place(tray.provider, tray.model.provider.key_part, tray.model.name),
            model=tray.model,
            token=filling.token,
            state=JobState.FILLING,
            at=filling.at,
            size=filling.part.requests,
        )

    def sweep(self, tray: Tray) -> None:
        """Leave pending what has lost its purpose. A run that ends leaves everything open as it is."""
        if not self._room.halted:
            for cell in tray.drop(self._room.dropped):
                self._given.flow.forgo(cell)

    def enqueued(self, model: Model) -> list[tuple[str | None, int]]:
        """The limits on enqueued tokens over a model, and over all models (None) of its provider."""
        lanes = self._room.lanes.route(model.provider.name, model.name).lanes
        return [
            (model.name if lane.spec.name != model.provider.name else None, limit)
            for lane in lanes
            if (limit := lane.spec.enqueued_tokens) is not None
        ]
