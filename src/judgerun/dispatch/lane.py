"""Lanes: the slots and the pace of one provider, or of one model inside it; what a provider states; and the route through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from judgerun.dispatch.pace import MINUTE_S, Pace
from judgerun.dispatch.slots import Slots
from judgerun.dispatch.waits import Waits
from judgerun.model.lane import LaneSpec, Limit
from judgerun.ports import Clock, Window

_DEFAULT = LaneSpec(name="")
_UNWRITTEN: dict[str, Any] = {field.name: getattr(_DEFAULT, field.name) for field in fields(LaneSpec)}

_PACED: Mapping[str, str] = {"requests": "requests", "tokens": "tokens", "input tokens": "tokens"}
"""What is paced by which stated limit: whoever sends no more tokens than input tokens are allowed keeps to both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One pool of slots with its pace (None: no rate of ours) and the window that the cache keeps for it."""

    spec: LaneSpec
    slots: Slots
    pace: Pace | None
    window: Window | None


class Stated:
    """What a provider's answers state of its limits for one of its models.

    It stands apart from the lanes that a person wrote: providers count per model, so what one model is told must not hold up
    the others of its provider, and two names of one model share what is left. It only ever adds a wait: nothing that is
    written is raised by it.
    """

    def __init__(self, name: str, pace: Pace) -> None:
        self.pace = pace
        self.version = 0  # raised when a turn that was given before is none any more
        self._name = name
        self._written: list[Mapping[str, int | None]] = []  # of each route that passes
        self._rates: dict[str, int] = {}
        self._told: set[str] = set()

    def serve(self, specs: Iterable[LaneSpec]) -> None:
        """Stand on a route through lanes that are written so."""
        requests = [spec.requests_per_minute for spec in specs if spec.requests_per_minute]
        tokens = [spec.tokens_per_minute for spec in specs if spec.tokens_per_minute]
        self._written.append({"requests": min(requests, default=None), "tokens": min(tokens, default=None)})

    def learn(self, limits: Iterable[Limit]) -> list[str]:
        """Take in the limits of an answer; what is new in them, in words for people.

        A limit that is used up is waited for until it comes back. One that is lower than what was written, or stands where
        nothing was, becomes the pace.
        """
        stated: dict[str, int] = {}
        for limit in limits:
            if limit.remaining == 0 and limit.reset_s is not None:
                self.pace.postpone(_until_one(limit, limit.reset_s))
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
        return [f"{self._name}: the provider states {kept[unit]:,} {unit} a minute; no more are sent" for unit in new]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a call to one model passes: what its provider states, the model's own lane where there is one, the provider's lane."""

    stated: Stated
    lanes: tuple[Lane, ...]
    windows: tuple[Window, ...]
    paced: tuple[Lane, ...]
    timeout_s: float
    attempts_max: int
    batch_size: int


class Lanes:
    """All lanes of a run, made when first asked for. `ids` are the providers' names of the experiment's models."""

    def __init__(self, specs: Mapping[str, LaneSpec], *, clock: Clock, waits: Waits, ids: Mapping[str, str]) -> None:
        self._specs = specs
        self._ids = ids
        self._clock = clock
        self._waits = waits
        self._lanes: dict[str, Lane] = {}
        self._stated: dict[tuple[str, str], Stated] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    def route(self, provider: str, model: str) -> Route:
        """The route of a model; the same lanes are shared by all routes that pass them."""
        if (route := self._routes.get((provider, model))) is None:
            route = self._routes[provider, model] = self._route(provider, model)
        return route

    def _route(self, provider: str, model: str) -> Route:
        outer = self._lane(provider, provider, None)
        own = f"{provider}/{model}"
        lanes = (self._lane(own, provider, model), outer) if own in self._specs else (outer,)
        stated = self._state(provider, model)
        stated.serve([lane.spec for lane in lanes])
        return Route(
            stated=stated,
            lanes=lanes,
            windows=tuple(lane.window for lane in lanes if lane.window is not None),
            paced=tuple(lane for lane in lanes if lane.pace is not None),
            timeout_s=_written(lanes, "timeout_s"),
            attempts_max=_written(lanes, "attempts_max"),
            batch_size=_written(lanes, "batch_size"),
        )

    def _state(self, provider: str, model: str) -> Stated:
        place = provider, self._ids[model]
        if (stated := self._stated.get(place)) is None:
            pace = Pace(clock=self._clock, waits=self._waits)
            stated = self._stated[place] = Stated(f"{provider}/{model}", pace)
        return stated

    def _lane(self, name: str, provider: str, model: str | None) -> Lane:
        if (lane := self._lanes.get(name)) is None:
            spec = self._specs.get(name) or LaneSpec(name=name)
            lane = self._lanes[name] = Lane(
                spec=spec,
                slots=Slots(spec.concurrency, self._waits),
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
            requests_per_minute=spec.requests_per_minute,
            tokens_per_minute=spec.tokens_per_minute,
        )

    def width(self, models: Iterable[tuple[str, str]]) -> int:
        """The most calls that can be in flight at once, over these (provider, model) pairs."""
        by_provider: dict[str, set[str]] = {}
        for provider, model in models:
            by_provider.setdefault(provider, set()).add(model)
        total = 0
        for provider, names in by_provider.items():
            outer = self._specs.get(provider, _DEFAULT).concurrency
            inner = [self._specs.get(f"{provider}/{name}") for name in sorted(names)]
            total += min(outer, sum(outer if spec is None else spec.concurrency for spec in inner))
        return total

    async def aclose(self) -> None:
        """Stop all paces."""
        for stated in self._stated.values():
            await stated.pace.aclose()
        for lane in self._lanes.values():
            if lane.pace is not None:
                await lane.pace.aclose()


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
