"""Health: what the ends of calls say of their provider, what the clock says of it and of this machine; what is done about it."""

from __future__ import annotations

from math import inf

from judgerun.dispatch.lane import Route
from judgerun.dispatch.progress import Bearing
from judgerun.dispatch.pulse import Pulse
from judgerun.dispatch.retry import WAIT_MAX_S, says
from judgerun.dispatch.room import Room
from judgerun.dispatch.work import Work
from judgerun.model.experiment import Model
from judgerun.model.profile import Profile
from judgerun.model.reply import Cause, Failure
from judgerun.ports import Answer

ABSENT = frozenset({Cause.NOT_SENT, Cause.TIMED_OUT, Cause.DISCONNECTED, Cause.OVERLOADED})
"""After these in a row a provider is not there."""
BROKEN = 500
"""This status speaks of the request that met it: it uses up a try of its cell, and says of others that somebody is there."""

SLOW_TIMES = 3.0
BACK_TIMES = 2.0
FAILOVER_S = 60.0
"""So long is a provider without an answer before cells of a model with a failover go there."""
LOOK_S = 1.0
SUSPENDED_S = 10.0
"""A sleep that took so much longer than was asked: the machine, or this process, was suspended."""


def answered(room: Room, work: Work, answer: Answer, *, now: float, began: float) -> None:
    """A call was answered: a few comparisons and one append, for it is done for each."""
    route = work.route
    pulse = route.stated.pulse
    pulse.last = now
    seconds = now - began if answer.latency_ms is None else answer.latency_ms / 1000
    pulse.recent.append((seconds, answer.replies[0].usage.output or 0))
    for lane in route.lanes:
        if lane.width.narrow:
            lane.width.answered(now)
    if route.breaker.answered():
        _changed(room, work, "it answers")


def failed(room: Room, work: Work, failure: Failure, *, now: float, began: float) -> bool:
    """A call that began then failed. Whether the provider is away: then the failure counts against no cell."""
    route, breaker = work.route, work.route.breaker
    profile = room.given.providers[work.provider].profile
    if failure.cause is not Cause.TIMED_OUT and failure.cause is not Cause.NOT_SENT:
        route.stated.pulse.last = now
    if _overload(failure, profile):
        route.lanes[0].width.overloaded(now, began=began)
        if (
            failure.retry_after is not None and failure.retry_after < WAIT_MAX_S
        ):  # beyond that it is no hint but a fault
            route.stated.hold(failure.retry_after)
    if failure.cause not in ABSENT:
        if failure.cause is not Cause.INTERRUPTED and breaker.answered():
            _changed(room, work, "it answers")
        return False
    if failure.status == BROKEN and breaker.state == "ok":
        return False
    waited = breaker.lasted
    if breaker.failed(work, began=began):
        _changed(room, work, says(failure))
    if breaker.state == "ok":
        return False
    room.progress.backoff(work.provider, max(breaker.next_at, now), now, room.scrub(says(failure)))
    if waited >= WAIT_MAX_S and began >= breaker.since:
        room.close_provider(work.provider, f"{says(failure)}, for {waited:.0f} s")
    return True


def _overload(failure: Failure, profile: Profile) -> bool:
    """Whether a provider says that it is given too much: by its status, or in the words of a body under a good one."""
    if failure.cause is Cause.RATE_LIMITED:
        return True
    status = failure.status
    return failure.cause is Cause.OVERLOADED and (status is None or status < 400 or status in profile.overload)


def _changed(room: Room, work: Work, why: str) -> None:
    """A breaker changed."""
    told = {
        "open": f"no answer to call after call, the last: {why}; nothing is sent but a probe now and then",
        "half-open": f"{why} again: a few calls are sent",
        "ok": "it answers again: calls are sent at a rising rate",
    }
    state = work.route.breaker.state
    room.tell("open", work.provider, told[state])
    if state == "ok":
        room.progress.trouble.pop(work.provider, None)
    for (provider, _), route in room.lanes.routes.items():
        if (
            provider == work.provider and state != "half-open"
        ):  # who has passed the breaker, and not been sent, comes back to it
            route.stated.restart()


class Vigil:
    """What is seen by the clock: slow and silent providers, and a machine that was asleep."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._looked = room.given.clock.now()
        self._uncounted = 0.0  # seconds of the last sleep that the clock did not count
        self._stopped = 0.0  # and that it did, beyond what was asked

    async def sleep(self, seconds: float) -> None:
        """Sleep on the run's clock, and see how long it took."""
        clock = self._room.given.clock
        now, wall = clock.now(), clock.wall()
        await clock.sleep(seconds)
        counted = clock.now() - now
        self._stopped = max(0.0, counted - seconds)
        self._uncounted = max(0.0, clock.wall() - wall - counted)

    async def look(self) -> None:
        """Act on what is seen, and put on record what was told since."""
        room, now = self._room, self._room.given.clock.now()
        if (asleep := self._stopped + self._uncounted) > SUSPENDED_S:
            self._wake(asleep, now)
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        bearings: dict[str, Bearing] = {}
        for (provider, name), route in room.lanes.routes.items():
            if provider not in room.closed and name not in room.left:
                self._watch(route, room.given.models[name], now)
            outer, other = route.lanes[-1], bearings.get(provider)
            bearings[provider] = Bearing(
                width=outer.slots.size,
                ceiling=outer.width.ceiling,
                breaker=route.breaker.state,
                slow=max(route.stated.pulse.slow(), 1.0 if other is None else other.slow),
            )
        room.progress.bearings = bearings
        await room.keep()

    def _wake(self, asleep: float, now: float) -> None:
        """The machine was asleep: what is ours begins anew. Calls in flight get the time that passed, or end as timed out."""
        room = self._room
        room.lanes.forgive(uncounted=self._uncounted, stopped=self._stopped)
        for provider in room.given.providers.values():
            provider.reset(self._stopped)
        for route in room.lanes.routes.values():
            route.stated.pulse.reset(now)
        room.lanes.restart()
        room.tell("suspend", room.given.experiment.name, f"the machine was asleep for {asleep:.0f} s")
        self._uncounted = self._stopped = 0.0

    def _watch(self, route: Route, model: Model, now: float) -> None:
        breaker, pulse = route.breaker, route.stated.pulse
        if breaker.state == "ok":
            self._slow(route, pulse, model)
            self._stall(route, pulse, model, now)
        elif breaker.lasted > FAILOVER_S and model.failover is not None:
            self._room.leave(model.name, f"{model.provider.name} does not answer for {breaker.lasted:.0f} s")

    def _slow(self, route: Route, pulse: Pulse, model: Model) -> None:
        """Cut the width when a model has become slow, and again each time it has become twice as slow as then."""
        times, width = pulse.slow(), route.lanes[0].width
        if times >= max(SLOW_TIMES, 2 * pulse.worst):
            pulse.worst, width.held = times, True
            width.cut(self._looked)
            told = f"{model.name} answers {times:.1f} times slower than at its start: at most {width.slots.size} calls at once"
        elif pulse.worst and times < BACK_TIMES:
            pulse.worst, width.held = 0.0, False
            told = f"{model.name} is no longer slow: {times:.1f} times its start"
        else:
            return
        self._room.tell("slow", model.provider.name, told)

    def _stall(self, route: Route, pulse: Pulse, model: Model, now: float) -> None:
        """Cut the width when answers no longer come; go to the failover, or after a while give the provider up."""
        room, provider = self._room, model.provider.name
        silence, patience = pulse.silence(now), pulse.patience
        if silence <= min(patience, route.timeout_s) or patience == inf:
            if pulse.stalled:
                pulse.stalled = False
                room.tell("stall", provider, f"{model.name} answers again")
            return
        why = f"{model.name}: no answer for {silence:.0f} s to {pulse.in_flight} calls in flight"
        if not pulse.stalled:
            pulse.stalled = True
            route.lanes[0].width.cut(now)
            room.tell("stall", provider, f"{why}: at most {route.lanes[0].slots.size} calls at once")
            if model.failover is not None:
                room.leave(model.name, why)
        elif silence > max(WAIT_MAX_S, patience):
            room.close_provider(provider, why)
