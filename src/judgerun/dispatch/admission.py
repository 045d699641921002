"""Admission: the way of a try to its turn, through the line for money, what is stated, slots and rate turns; and back in line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from judgerun.dispatch.breaker import Breaker
from judgerun.dispatch.hours import Stint
from judgerun.dispatch.lane import Lane, Route
from judgerun.dispatch.pace import Pace
from judgerun.dispatch.room import Room
from judgerun.dispatch.work import State, Work


@dataclass(slots=True)
class Held:
    """What a try owns: given back in `release`, in the order in which others may use it."""

    stint: Stint
    slots: list[Lane] = field(default_factory=list)
    turns: list[Pace] = field(default_factory=list)
    stated: int = 0  # the version of what the provider states at which its turn was given
    probe: tuple[Breaker, asyncio.Future[None]] | None = None  # by which it was let through to a provider in doubt

    def stale(self, route: Route) -> bool:
        """Whether what was owned when it was let through is none any more."""
        return route.stated.version != self.stated or (self.probe is None and route.breaker.state != "ok")

    def release(self, tokens: int) -> None:
        if self.probe is not None:
            self.probe[0].back(self.probe[1])
        for pace in self.turns:
            pace.back(tokens)
        self.stint.holds = 0
        for lane in self.slots:
            lane.slots.release()


class Admission:
    """Lets work in, in plan order. Each method that waits raises Ended when the work lost its purpose."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def queue(self, work: Work) -> None:
        """Stand in line for money behind whoever is earlier in plan order, if anybody waits."""
        if work.called is None and (scope := self._room.money.blocked(work.scopes, work.rank)) is not None:
            await self._room.money.join(scope, work.rank, work)
            work.called = scope
        work.enter(State.SLOT)

    async def admit(self, work: Work, held: Held, tokens: int) -> None:
        """Be let through by the provider's breaker; own a turn of what it states, and a slot and a rate turn of every lane on the
        route, lane by lane: who waits for a model's turn must not own a slot that the provider's other models could use.
        """
        work.enter(State.TURN)
        breaker = work.route.breaker
        if (probe := await breaker.turn(work)) is not None:
            held.probe = breaker, probe
        stated = work.route.stated
        if await stated.pace.turn(work.rank, tokens, work):
            held.turns.append(stated.pace)
        held.stated = stated.version
        for lane in work.route.lanes:
            work.enter(State.SLOT)
            await lane.slots.acquire(work.rank, work)
            held.slots.append(lane)
            work.stint.holds = len(held.slots)
            work.enter(State.TURN)
            if lane.pace is not None:
                await lane.pace.turn(work.rank, tokens, work)
                held.turns.append(lane.pace)

    async def wait_for_window(self, work: Work, delay: float, held: Held, tokens: int) -> None:
        """A window of the cache is full, by this run or by others."""
        now = self._room.given.clock.now()
        self._room.progress.backoff(work.provider, now + delay, now, "its rate window is full")
        paced = work.route.paced
        if paced and paced[0].pace is not None:
            # Only the innermost: if it is the provider's window that is full, its other models learn it for themselves.
            paced[0].pace.postpone(delay)
        else:  # a window of the day, for which no pace of ours stands
            held.release(tokens)
            held.slots.clear()
            await self._room.waits.sleep("rate", delay, work)
        work.enter(State.MONEY)

    async def wait_for_money(self, work: Work, scope: str) -> None:
        """Stand in the line of the scope that is short, without slot and turn."""
        money, mine = self._room.money, work.called
        if mine is not None:
            work.called = None
            money.done(mine, wake=mine != scope)  # nothing came back: calling the next in this line would be in vain
        await money.join(scope, work.rank, work)
        work.called = scope
        work.enter(State.MONEY)

    def called(self, work: Work) -> None:
        """The head of a money queue has had its try: the next is called."""
        if (scope := work.called) is not None:
            work.called = None
            self._room.money.done(scope)
