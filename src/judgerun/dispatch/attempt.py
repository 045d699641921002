"""Attempts: the one driver that takes a piece of work through the states of work.py until its cells are resolved or dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from judgerun.dispatch import claim as claims
from judgerun.dispatch.admission import Admission, Held
from judgerun.dispatch.health import answered, failed
from judgerun.dispatch.recover import stranded
from judgerun.dispatch.retry import Again, CloseProvider, GiveUp, says
from judgerun.dispatch.room import Room
from judgerun.dispatch.waits import Ended
from judgerun.dispatch.work import State, Work
from judgerun.errors import Exit, InvariantBroken
from judgerun.ledger.entry import Decision, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.reply import Cause, Failure
from judgerun.model.request import RequestKey
from judgerun.plan.requests import SERVER, counted
from judgerun.ports import Answer, Claim, Closing, Grant

FOREIGN_FIRST_S = 0.02
FOREIGN_MAX_S = 0.3

Start = Callable[[Work], None]
"""Begin another piece of work."""


class Driver:
    """Drives work. Its methods are the arrows of the table in work.py."""

    def __init__(self, room: Room, *, start: Start) -> None:
        self._room = room
        self._given = room.given
        self._start = start
        self._admission = Admission(room)

    async def drive(self, work: Work) -> None:
        """Until the work is done or pending. Raises what is no event of the world: StoreError, Refused, our own bugs."""
        try:
            while work.state not in (State.DONE, State.PENDING):
                if work.foreign:
                    await self._look(work)
                failure = await self._try(work)
                if failure is not None:
                    work.stint.turn("local", self._given.clock.now())
                    await self._after(work, failure)
        except Ended:
            work.enter(State.PENDING)
        finally:
            self._admission.called(work)
            work.stint.end(self._given.clock.now())

    # -- one try

    async def _try(self, work: Work) -> Failure | None:
        """One try in the order of work.py; the failure of the attempt that was sent, if one was sent and failed."""
        room = self._room
        if room.lost(work):
            raise Ended
        if room.pause.on:
            self._admission.called(work)
            await room.pause.over(work.rank, work)
        await self._measure(work)
        await self._admission.queue(work)
        tokens = sum(map(claims.tokens_expected, work.cells))
        held = Held(work.stint)
        try:
            await self._admission.admit(work, held, tokens)
            if room.lost(work):
                raise Ended
            if room.pause.on:
                work.enter(State.MONEY)
                return None
            if work.called is None and room.money.blocked(work.scopes, work.rank):
                work.enter(State.MONEY)  # somebody earlier began to wait while this one waited for its slot
                return None
            if held.stale(work.route):  # an answer said meanwhile that nothing is left, or less, or none comes any more
                self._admission.called(work)
                work.enter(State.MONEY)
                return None
            work.enter(State.CLAIM)
            work.stint.turn("store", self._given.clock.now())
            price = self._room.price(work.model)  # only now: the waits may have passed midnight
            claim = self._claim(work, price)
            grant = await self._given.store.reserve(claim)
            if grant.decision is not Decision.RESERVED:
                await self._refused(work, grant, held, tokens)
                return None
            held.turns.clear()
            return await self._reserved(work, grant, claim, price)
        finally:
            held.release(tokens)

    async def _measure(self, work: Work) -> None:
        """Ask the model's own server how many tokens the inputs have, where the experiment wants it; what it does not tell stays
        bounded by its bytes.
        """
        if work.model.tokenizer != SERVER:
            return
        provider = self._given.providers[work.provider]
        for place, cell in enumerate(work.cells):
            if cell.input_bound_by == "bytes" and (tokens := await provider.count(cell.request)) is not None:
                work.cells[place] = counted(cell, tokens)
        if self._room.lost(work):
            raise Ended

    def _claim(self, work: Work, price: Price) -> Claim:
        given, model = self._given, work.model
        ceiling = given.budget.ceilings.get(f"{model.provider.name}/{model.model}")
        return claims.claim(work, price, ceiling, given.providers[work.provider].profile)

    # -- the reservation was refused

    async def _refused(self, work: Work, grant: Grant, held: Held, tokens: int) -> None:
        """What the ledger said instead of `reserved`."""
        room = self._room
        match grant.decision:
            case Decision.WAIT:
                held.release(tokens)
                held.slots.clear()
                held.turns.clear()
                await self._admission.wait_for_money(work, grant.scope)
            case Decision.EXHAUSTED:
                room.exhaust(grant.scope)
                raise Ended
            case Decision.FROZEN:
                room.frozen(grant.scope)
                raise Ended
            case Decision.RATE:
                self._admission.called(work)
                await self._admission.wait_for_window(work, grant.delay, held, tokens)
            case Decision.KEPT:
                self._admission.called(work)
                self._kept(work, grant.keys)
                work.enter(State.MONEY if work.cells else State.DONE)
            case Decision.HELD:
                self._admission.called(work)
                self._split(work, grant.keys)
            case Decision.RESERVED:
                raise InvariantBroken("a reservation is no refusal")

    def _kept(self, work: Work, keys: tuple[RequestKey, ...]) -> None:
        """Another run has bought some of the cells meanwhile."""
        known = frozenset(keys)
        for cell in [cell for cell in work.cells if cell.request.key in known]:
            work.cells.remove(cell)
            self._room.bought(cell)

    def _split(self, work: Work, keys: tuple[RequestKey, ...]) -> None:
        """Another run holds some of the keys open: these wait for it, the others go on without them."""
        known = frozenset(keys)
        others = [cell for cell in work.cells if cell.request.key not in known]
        if others:
            self._begin(work, others)
            work.cells = [cell for cell in work.cells if cell.request.key in known]
        work.foreign = True
        work.enter(State.FOREIGN)

    async def _look(self, work: Work) -> None:
        """Wait until no other run holds a key of this work open. Who died is recovered by the run's ticker."""
        pause = FOREIGN_FIRST_S
        while any(self._given.store.is_open(cell.request.key) for cell in work.cells):
            await self._room.waits.sleep("other process", pause, work)
            pause = min(pause * 1.5, FOREIGN_MAX_S)
            for cell in work.cells:
                if (where := await stranded(self._room, cell.request.key)) is not None:
                    self._room.strand(work.provider, where)
                    raise Ended
        work.foreign = False
        work.enter(State.MONEY)

    # -- the reservation stands: from here to the close nothing but the second stop interferes

    async def _reserved(self, work: Work, grant: Grant, claim: Claim, price: Price) -> Failure | None:
        if (attempt := grant.attempt) is None:
            raise InvariantBroken("a reservation without an attempt")
        self._admission.called(work)
        if self._room.halted:
            work.enter(State.CLOSED)
            await self._close(work, claims.unsent(attempt))
            raise Ended
        work.enter(State.SENT)
        progress, pulse, began = self._room.progress, work.route.stated.pulse, self._given.clock.now()
        progress.in_flight += 1
        progress.flights[work] = None
        work.stint.turn("sending", self._given.clock.now())
        pulse.sent(began)
        try:
            answer, closing = await self._send(work, claim, attempt, price)
            work.enter(State.CLOSED)
            work.stint.turn("store", self._given.clock.now())
            overrun = await self._close(work, closing)
        finally:
            progress.in_flight -= 1
            del progress.flights[work]
            pulse.in_flight -= 1
        now = self._given.clock.now()
        self._count(work, claim, closing, now)
        if overrun:
            self._room.halt(
                Exit.FROZEN,
                f"{work.cells[0].condition}: attempt {attempt} was billed more than it held; the budget is frozen",
            )
        if answer.failure is not None:
            work.away = failed(self._room, work, answer.failure, now=now, began=began)
            return answer.failure
        answered(self._room, work, answer, now=now, began=began)
        self._answered(work, attempt, closing)
        return None

    async def _send(self, work: Work, claim: Claim, attempt: int, price: Price) -> tuple[Answer, Closing]:
        """The answer and what it does to the hold. Whatever happens here, the hold has an end."""
        provider = self._given.providers[work.provider]
        if (task := work.task) is None:
            raise InvariantBroken("an attempt outside of a task")
        self._room.sending[task] = None
        try:
            answer = await provider.send(claim.requests, timeout_s=work.route.timeout_s, attempt=attempt)
            if answer.limits:
                self._room.progress.news += work.route.stated.learn(answer.limits)
            return answer, claims.closing(claim, attempt, answer, price, at=self._given.clock.wall())
        except asyncio.CancelledError:
            # Only `Room.abandon` cancels work, and only here; the answer, if one comes, will not be read.
            task.uncancel()
            return Answer(failure=claims.INTERRUPTED), claims.interrupted(claim, attempt)
        except Exception:
            self._room.sending.pop(task, None)  # another's bug in the same moment must not cancel the end of this hold
            await self._close(work, claims.interrupted(claim, attempt))
            raise
        finally:
            self._room.sending.pop(task, None)

    async def _close(self, work: Work, closing: Closing) -> bool:
        """The end of the attempt, durable; whether it froze the budget."""
        closed = await self._given.store.close(closing)
        self._room.money.freed(work.scopes)
        return closed.overrun

    def _count(self, work: Work, claim: Claim, closing: Closing, now: float) -> None:
        """Tell the watchers and the paces."""
        used = closing.amount.tokens if closing.kind is EntryKind.SETTLE else 0
        self._room.progress.count(now=now, tokens=used)
        paces = [work.route.stated.pace, *(lane.pace for lane in work.route.paced if lane.pace is not None)]
        for pace in paces:
            pace.correct(closing.amount.tokens - claim.tokens_expected)

    # -- what came back

    def _answered(self, work: Work, attempt: int, closing: Closing) -> None:
        self._room.heard(work.provider)
        cells, work.cells = work.cells, []
        work.stint.resolved += len(cells)
        for cell, (_, reply, share) in zip(cells, closing.replies, strict=True):
            kept = Kept(reply=claims.slim(reply), attempt=attempt, experiment=self._given.experiment.name, cost=share)
            self._room.resolve(cell, kept)
        work.enter(State.DONE)

    async def _after(self, work: Work, failure: Failure) -> None:
        """What follows a failed attempt: another try, a lost cell, a closed provider."""
        room, name = self._room, work.provider
        if failure.cause is Cause.INTERRUPTED:
            raise Ended
        if work.away:  # this try counts for nothing, and the next waits before the breaker
            work.tries.failed += 1
            work.enter(State.MONEY)
            return
        heard, most = room.answered.get(name, 0), work.route.attempts_max
        match work.tries.after(failure, answered=heard, attempts_max=most, rng=self._given.rng):
            case CloseProvider(reason):
                room.close_provider(name, reason)
                raise Ended
            case GiveUp(reason):
                await self._give_up(work, failure, reason)
            case Again(after):
                work.enter(State.BACKOFF)
                now = self._given.clock.now()
                room.progress.backoff(name, now + after, now, room.scrub(says(failure)))
                await room.waits.sleep("backoff", after, work)
                work.enter(State.MONEY)

    async def _give_up(self, work: Work, failure: Failure, reason: str) -> None:
        """The cells are lost; of a batch that was refused as a whole only those that are at fault."""
        if work.size > 1 and failure.cause in (Cause.REJECTED, Cause.TOO_LONG):
            half = work.size // 2
            self._begin(work, work.cells[half:])
            work.cells = work.cells[:half]
            work.enter(State.MONEY)
            return
        cells, work.cells = work.cells, []
        work.stint.resolved += len(cells)
        for cell in cells:
            await self._given.store.lose(cell.request, reason)
            self._room.resolve(cell, Lost(reason))
        work.enter(State.DONE)

    def _begin(self, work: Work, cells: list[Cell]) -> None:
        """Other work of the same kind, of some of its cells."""
        self._start(
            Work(
                cells=cells,
                embed=work.embed,
                rank=cells[0].rank,
                model=work.model,
                route=work.route,
                scopes=work.scopes,
                conditions=work.conditions,
                tries=replace(work.tries),
            )
        )
