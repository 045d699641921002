"""Lanes: slots, width and pace of one provider, or of one model inside it; what a provider states; and the route through them."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from judgerun.dispatch.breaker import Breaker
from judgerun.dispatch.pace import MINUTE_S, Pace
from judgerun.dispatch.pulse import Pulse
from judgerun.dispatch.slots import Slots
from judgerun.dispatch.waits import Waits
from judgerun.dispatch.width import Width
from judgerun.model.lane import LaneSpec, Limit, lanes_in_force, passed
from judgerun.model.setting import Setting
from judgerun.ports import Clock, Window

_DEFAULT = LaneSpec(name="")
_UNWRITTEN: dict[str, Any] = {field.name: getattr(_DEFAULT, field.name) for field in fields(LaneSpec)}

_PACED: Mapping[str, str] = {"requests": "requests", "tokens": "tokens", "input tokens": "tokens"}
"""What is paced by which stated limit: whoever sends no more tokens than input tokens are allowed keeps to both."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """One pool of slots with its pace (None: no rate of ours) and the window that the cache keeps for it."""

    spec: LaneSpec
    slots: Slots
    width: Width
    pace: Pace | None
    window: Window | None

    def bounds(self) -> tuple[int, int]:
        """How many slots it has as written, and how many of them may be used now."""
        return self.width.ceiling, self.slots.size


class Stated:
    """What a provider's answers state of its limits for one of its models.

    It stands apart from the lanes that a person wrote: providers count per model, so what one model is told must not hold up
    the others of its provider, and two names of one model share what is left. It only ever adds a wait: nothing that is
    written is raised by it.
    """

    def __init__(self, name: str, pace: Pace) -> None:
        self.name = name
        self.pace = pace
        self.pulse = Pulse()
        self.version = 0  # raised when a turn that was given before is none any more
        self._slots = 0  # of the widest route
        self._written: list[Mapping[str, int | None]] = []  # of each route that passes
        self._rates: dict[str, int] = {}
        self._told: set[str] = set()

    def serve(self, specs: Collection[LaneSpec]) -> None:
        """Stand on a route through lanes that are written so."""
        requests = [spec.requests_per_minute for spec in specs if spec.requests_per_minute]
        tokens = [spec.tokens_per_minute for spec in specs if spec.tokens_per_minute]
        self._slots = max(self._slots, min(spec.concurrency for spec in specs))
        self._written.append({"requests": min(requests, default=None), "tokens": min(tokens, default=None)})

    def clear(self) -> None:
        """No route passes: they are told anew."""
        self._slots = 0
        self._written.clear()

    def learn(self, limits: Iterable[Limit]) -> list[str]:
        """Take in the limits of an answer; what is new in them, in words for people.

        A limit that is used up is waited for until it comes back. One that is lower than what was written, or stands where
        nothing was, becomes the pace.
        """
        stated: dict[str, int] = {}
        for limit in limits:
            if limit.remaining == 0 and limit.reset_s is not None:
                self.pace.postpone(
                    _until_one(limit, limit.reset_s), "token limit" if "tokens" in limit.unit else "rate limit"
                )
                self.version += 1
            unit, rate = _PACED.get(limit.unit), _per_minute(limit)
            if unit is not None and rate is not None:
                stated[unit] = min(rate, stated.get(unit, rate))
        kept = {unit: rate for unit, rate in (self._rates | stated).items() if self._binds(unit, rate)}
        if kept == self._rates:
            return []
        self._rates = kept
        self.version += 1
        self.pace.keep(requests_per_minute=kept.get("requests"), tokens_per_minute=kept.get("tokens"))
        new = sorted(kept.keys() - self._told)
        self._told |= kept.keys()
        return [f"{self.name}: the provider states {kept[unit]:,} {unit} a minute; no more are sent" for unit in new]

    def hold(self, seconds: float) -> None:
        """An answer asked for patience: nothing is sent to the model for so long, and then at a rising rate."""
        self.pace.postpone(seconds, "backoff")
        self.restart()

    def restart(self) -> None:
        """Begin at a rising rate; a turn that was given before is none any more."""
        self.version += 1
        self.pace.restart(self._slots)

    def _binds(self, unit: str, rate: int) -> bool:
        """Whether a rate is lower than what is written for any of the routes, or nothing is."""
        return any((told := written[unit]) is None or rate < told for written in self._written)


def _until_one(limit: Limit, reset_s: float) -> float:
    """Seconds until a limit that is used up lets something pass. One of more than a minute fills up evenly, so that a single
    request of a day's is back long before all are; any other is waited for whole.
    """
    if limit.window_s is None or limit.window_s <= MINUTE_S or not limit.limit:
        return reset_s
    return min(reset_s, limit.window_s / limit.limit)


def _per_minute(limit: Limit) -> int | None:
    """A limit as a pace; None for one over an unknown time, and for one of a day: spread evenly it would slow down a run that
    never comes near it.
    """
    if limit.window_s is None or limit.window_s > MINUTE_S or not limit.limit:
        return None
    return int(limit.limit * MINUTE_S / limit.window_s)


@dataclass(slots=True, kw_only=True)
class Route:
    """What a call to one model passes: its provider's breaker, what that states, the model's own lane where there is one, the
    provider's lane.
    """

    breaker: Breaker
    stated: Stated
    lanes: tuple[Lane, ...]
    windows: tuple[Window, ...] = ()
    paced: tuple[Lane, ...] = ()
    timeout_s: float = 0.0
    attempts_max: int = 0
    batch_size: int = 0

    def __post_init__(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Go by the lanes as they are now."""
        lanes = self.lanes
        self.stated.serve([lane.spec for lane in lanes])
        self.windows = tuple(lane.window for lane in lanes if lane.window is not None)
        self.paced = tuple(lane for lane in lanes if lane.pace is not None)
        self.timeout_s = _written(lanes, "timeout_s")
        self.attempts_max = _written(lanes, "attempts_max")
        self.batch_size = _written(lanes, "batch_size")


class Lanes:
    """All lanes of a run, made when first asked for. `ids` are the providers' names of the experiment's models."""

    def __init__(
        self,
        specs: Mapping[str, LaneSpec],
        *,
        clock: Clock,
        waits: Waits,
        ids: Mapping[str, str],
        rng: random.Random,
    ) -> None:
        self._specs = specs
        self._ids = ids
        self._clock = clock
        self._waits = waits
        self._rng = rng
        self._rising = False
        self._breakers: dict[str, Breaker] = {}
        self._lanes: dict[str, Lane] = {}
        self._stated: dict[tuple[str, str], Stated] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    def route(self, provider: str, model: str) -> Route:
        """The route of a model; the same lanes are shared by all routes that pass them."""
        if (route := self._routes.get((provider, model))) is None:
            route = self._routes[provider, model] = self._route(provider, model)
        return route

    def _route(self, provider: str, model: str) -> Route:
        names = passed(provider, model, self._specs)
        lanes = tuple(self._lane(name, provider, None if name == provider else model) for name in names)
        route = Route(breaker=self._breaker(provider), stated=self._state(provider, model), lanes=lanes)
        if self._rising:
            route.stated.restart()
        return route

    def _state(self, provider: str, model: str) -> Stated:
        place = provider, self._ids[model]
        if (stated := self._stated.get(place)) is None:
            pace = Pace(clock=self._clock, waits=self._waits, rng=self._rng)
            stated = self._stated[place] = Stated(f"{provider}/{model}", pace)
        return stated

    def _breaker(self, provider: str) -> Breaker:
        if (breaker := self._breakers.get(provider)) is None:
            breaker = self._breakers[provider] = Breaker(clock=self._clock, waits=self._waits, rng=self._rng)
        return breaker

    def _lane(self, name: str, provider: str, model: str | None) -> Lane:
        if (lane := self._lanes.get(name)) is None:
            spec = self._specs.get(name) or LaneSpec(name=name)
            slots = Slots(spec.concurrency, self._waits)
            lane = self._lanes[name] = Lane(
                spec=spec,
                slots=slots,
                width=Width(slots),
                pace=self._pace(spec),
                window=_window(spec, provider, model),
            )
        return lane

    def _pace(self, spec: LaneSpec) -> Pace | None:
        if spec.requests_per_minute is None and spec.tokens_per_minute is None:
            return None
        return Pace(
            clock=self._clock,
            waits=self._waits,
            rng=self._rng,
            requests_per_minute=spec.requests_per_minute,
            tokens_per_minute=spec.tokens_per_minute,
        )

    def amend(self, settings: Iterable[Setting], *, since: int | None) -> list[str]:
        """Go by what was set from now on; the names of the lanes that changed. What is under way keeps its slot and its turn."""
        before, self._specs = self._specs, lanes_in_force(self._specs, settings, since=since)
        changed = [name for name, spec in self._specs.items() if spec != before.get(name, LaneSpec(name=name))]
        for name in changed:
            if (lane := self._lanes.get(name)) is not None:
                self._resettle(lane, self._specs[name])
        if changed:
            for stated in self._stated.values():
                stated.clear()
            for route in self._routes.values():
                route.settle()
        return changed

    def _resettle(self, lane: Lane, spec: LaneSpec) -> None:
        provider, _, model = spec.name.partition("/")
        lane.spec = spec
        lane.width.limit(spec.concurrency)
        lane.window = _window(spec, provider, model or None)
        if lane.pace is None:
            lane.pace = self._pace(spec)
        else:
            lane.pace.keep(requests_per_minute=spec.requests_per_minute, tokens_per_minute=spec.tokens_per_minute)

    def restart(self) -> None:
        """Begin at a rising rate: a run starts, or nothing has been sent for a while."""
        self._rising = True
        for stated in self._stated.values():
            stated.restart()

    def forgive(self, *, uncounted: float, stopped: float) -> None:
        """The machine was asleep for so many seconds that its clock did not count, and so many that it did: paces are further by
        the first, and no outage is longer for the second.
        """
        for stated in self._stated.values():
            stated.pace.forgive(uncounted)
        for lane in self._lanes.values():
            if lane.pace is not None:
                lane.pace.forgive(uncounted)
        for breaker in self._breakers.values():
            breaker.forgive(stopped)

    @property
    def routes(self) -> Mapping[tuple[str, str], Route]:
        """Those in use, by provider and model."""
        return self._routes

    def width(self, models: Iterable[tuple[str, str]]) -> int:
        """The most calls that can be in flight at once, over these (provider, model) pairs."""
        return width(self._specs, models)

    async def aclose(self) -> None:
        """Stop all paces and breakers."""
        for breaker in self._breakers.values():
            await breaker.aclose()
        for stated in self._stated.values():
            await stated.pace.aclose()
        for lane in self._lanes.values():
            if lane.pace is not None:
                await lane.pace.aclose()


def width(specs: Mapping[str, LaneSpec], models: Iterable[tuple[str, str]]) -> int:
    """The most calls that can be in flight at once through lanes written so, over these (provider, model) pairs."""
    by_provider: dict[str, set[str]] = {}
    for provider, model in models:
        by_provider.setdefault(provider, set()).add(model)
    total = 0
    for provider, names in by_provider.items():
        outer = specs.get(provider, _DEFAULT).concurrency
        inner = [specs.get(f"{provider}/{name}") for name in sorted(names)]
        total += min(outer, sum(outer if spec is None else spec.concurrency for spec in inner))
    return total


def _window(spec: LaneSpec, provider: str, model: str | None) -> Window | None:
    if spec.requests_per_minute is None and spec.tokens_per_minute is None and spec.requests_per_day is None:
        return None
    return Window(
        provider=provider,
        model=model,
        requests_per_minute=spec.requests_per_minute,
        tokens_per_minute=spec.tokens_per_minute,
        requests_per_day=spec.requests_per_day,
    )


def _written(lanes: tuple[Lane, ...], name: str) -> Any:
    """A setting of the innermost lane that differs from the default: what is not written there is the outer lane's."""
    values = [getattr(lane.spec, name) for lane in lanes]
    return next((value for value in values if value != _UNWRITTEN[name]), _UNWRITTEN[name])
