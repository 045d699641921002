"""A price as people write it, in prices.toml or on a provider: rates, tiers, hours, batch factor -> PriceSpec."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

from pydantic import Field

from judgerun.files.faults import Faults
from judgerun.files.lines import Path as KeyPath
from judgerun.files.written import Count, Factor, Minute, Usd, Written
from judgerun.model.experiment import Hours, PriceSpec, Tier


class RatesShape(Written):
    """Dollars per million tokens."""

    input: Usd
    output: Usd
    cache_read: Usd | None = None
    cache_write: Usd | None = None
    cache_write_1h: Usd | None = None
    reasoning: Usd | None = None

    def rates(self) -> dict[str, Any]:
        """The rates that are given, in nanos."""
        return {name: rate for name in RatesShape.model_fields if (rate := getattr(self, name)) is not None}


class TierShape(RatesShape):
    """One of `tiers`: the rates of calls with more than `above` input tokens"""

    above: Count


class ScaleShape(RatesShape):
    """Rates, and those of longer calls."""

    tiers: list[TierShape] = Field(default_factory=list)


class HoursShape(ScaleShape):
    """One of `hours`: the rates of a part of each day, in UTC"""

    from_: Minute = Field(alias="from")
    to: Minute


class TariffShape(ScaleShape):
    """A price: rates, and when others hold."""

    hours: list[HoursShape] = Field(default_factory=list)
    batch_factor: Factor | None = None


def price_spec(faults: Faults, path: KeyPath, shape: TariffShape) -> PriceSpec:
    """The price as the core holds it. Notes what cannot be meant: tiers out of order, hours that overlap, a rate that a tier or
    an hour forgets.
    """
    for n, hours in enumerate(shape.hours):
        here = (*path, "hours", n)
        _same_rates(faults, here, hours, shape)
        if hours.from_ == hours.to:
            faults.add((*here, "to"), "these hours end when they start", "hours for the whole day are the price itself")
    if any(_minutes(one) & _minutes(two) for one, two in combinations(shape.hours, 2)):
        faults.add((*path, "hours"), "two of the hours hold at one moment", "from (with it) and to (without it)")
    return PriceSpec(
        **shape.rates(),
        tiers=_tiers(faults, path, shape),
        hours=tuple(
            Hours(**hours.rates(), tiers=_tiers(faults, (*path, "hours", n), hours), start=hours.from_, end=hours.to)
            for n, hours in enumerate(shape.hours)
        ),
        batch_factor=shape.batch_factor,
    )


def _tiers(faults: Faults, path: KeyPath, scale: ScaleShape) -> tuple[Tier, ...]:
    for n, tier in enumerate(scale.tiers):
        _same_rates(faults, (*path, "tiers", n), tier, scale)
    if any(one.above >= two.above for one, two in pairwise(scale.tiers)):
        faults.add(
            (*path, "tiers"), "the tiers do not rise", "each with an `above` greater than that of the one before"
        )
    return tuple(Tier(**tier.rates(), above=tier.above) for tier in scale.tiers)


def _same_rates(faults: Faults, path: KeyPath, part: RatesShape, whole: RatesShape) -> None:
    """A rate left out could mean the usual one or none of its own: it is not guessed."""
    for name in whole.rates().keys() ^ part.rates().keys():
        here, there = ("it", "the price") if name in part.rates() else ("the price", "it")
        faults.add((*path, name), f"{here} has a rate for {name}, {there} has none", "the same rates in both")


def _minutes(hours: HoursShape) -> frozenset[int]:
    """The minutes of the day in which they hold."""
    last = hours.to if hours.from_ < hours.to else hours.to + 24 * 60
    return frozenset(minute % (24 * 60) for minute in range(hours.from_, last))
