"""Lanes: the slots and the pace of one provider, or of one model inside it; and the route of a cell through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from judgerun.dispatch.pace import Pace
from judgerun.dispatch.slots import Slots
from judgerun.dispatch.waits import Waits
from judgerun.model.lane import LaneSpec
from judgerun.ports import Clock, Window

_DEFAULT = LaneSpec(name="")
_UNWRITTEN: dict[str, Any] = {field.name: getattr(_DEFAULT, field.name) for field in fields(LaneSpec)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One pool of slots with its pace (None: no rate of ours) and the window that the cache keeps for it."""

    spec: LaneSpec
    slots: Slots
    pace: Pace | None
    window: Window | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a call to one model passes: the model's own lane where there is one, then the provider's."""

    lanes: tuple[Lane, ...]
    windows: tuple[Window, ...]
    paced: tuple[Lane, ...]
    timeout_s: float
    attempts_max: int
    batch_size: int


class Lanes:
    """All lanes of a run, made when first asked for."""

    def __init__(self, specs: Mapping[str, LaneSpec], *, clock: Clock, waits: Waits) -> None:
        self._specs = specs
        self._clock = clock
        self._waits = waits
        self._lanes: dict[str, Lane] = {}
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
        return Route(
            lanes=lanes,
            windows=tuple(lane.window for lane in lanes if lane.window is not None),
            paced=tuple(lane for lane in lanes if lane.pace is not None),
            timeout_s=_written(lanes, "timeout_s"),
            attempts_max=_written(lanes, "attempts_max"),
            batch_size=_written(lanes, "batch_size"),
        )

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
