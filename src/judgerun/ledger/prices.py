"""Price and PriceSheet: the worst case before a call, the cost after it; each rounded up once.

What may live here: what tokens cost, and when. A row's own time is told by two moments. The *day of its reservation* chooses
among dated prices: that price was promised when the hold was taken, and a price that starts while a call is in flight could
pass the hold. The *moment of its answer* chooses among the hours of that price: DeepSeek, whose prices hang on the hour,
documents that the time of completion decides. A bound covers every hour, so the hold is enough whenever the answer comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction

from judgerun.model.experiment import Hours, PriceSpec, Rates, Scale
from judgerun.model.money import WHOLE, Nanos, round_up
from judgerun.model.reply import Usage

STALE_DAYS = 90
"""Days after which a price that nobody has checked again is doubtful."""
SERVICES = ("service_tier", "speed")
"""Body fields that ask for a dearer or a cheaper service: the sheet's prices are those of the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price with its source and date; valid from `start` (inclusive) until `end` (exclusive)."""

    rates: PriceSpec
    source: str
    checked: date | None = None
    start: date | None = None
    end: date | None = None
    written: bool = False  # a person wrote it, in prices.toml
    factor: Fraction = WHOLE  # the share of every rate that is charged

    def bound(self, input_tokens: int, output_tokens: int) -> Nanos:
        """The most that a call of at most so many tokens can cost: at any hour, in any tier that it can reach."""
        rates = self.rates
        if not rates.hours and not rates.tiers:  # as almost all: asked several times a call
            return round_up(_dearest(rates, input_tokens, output_tokens), self.factor)
        dearest = max(
            _dearest(reached, input_tokens, output_tokens)
            for scale in (rates, *rates.hours)
            for reached in _reached(scale, input_tokens)
        )
        return round_up(dearest, self.factor)

    def cost(self, usage: Usage, *, at: datetime | None = None) -> Nanos | None:
        """What a call that was answered at `at` cost; of an unknown time, at its dearest hour. None when the tokens, or their
        rate, are not known well enough to say.
        """
        tokens = usage.input
        if tokens is None or usage.output is None:
            return None
        scales = (self.rates, *self.rates.hours) if at is None else (self._scale(at),)
        totals = [_total(_exact(scale, tokens), usage) for scale in scales]
        known = [total for total in totals if total is not None]
        return round_up(max(known), self.factor) if len(known) == len(totals) else None

    def batched(self, factor: str | None) -> Price | None:
        """This price in the batch lane: at its own batch factor or batch rates, else at the provider's usual `factor`. None
        when nobody says what a token in the batch lane costs.
        """
        share = self.rates.batch_factor
        if share is None and self.rates.batch is not None:
            return replace(self, rates=self.rates.batch)
        share = share or factor
        return None if share is None else replace(self, factor=Fraction(share))

    def holds(self, day: date) -> bool:
        """Whether this price is in force on that day."""
        return (self.start is None or self.start <= day) and (self.end is None or day < self.end)

    def age(self, today: date) -> int | None:
        """Days since it was checked; None when it does not say when that was."""
        return None if self.checked is None else (today - self.checked).days

    def stale(self, today: date) -> bool:
        """Whether it was checked too long ago to be trusted unseen, or on a day that has not come anywhere: a slip of the pen."""
        age = self.age(today)
        return age is not None and not -1 <= age <= STALE_DAYS

    def _scale(self, at: datetime) -> Scale:
        if not self.rates.hours:
            return self.rates
        moment = at.astimezone(UTC)
        minute = moment.hour * 60 + moment.minute
        return next((hours for hours in self.rates.hours if _within(hours, minute)), self.rates)


def _within(hours: Hours, minute: int) -> bool:
    if hours.start < hours.end:
        return hours.start <= minute < hours.end
    return minute >= hours.start or minute < hours.end


def _dearest(rates: Rates, input_tokens: int, output_tokens: int) -> int:
    """Tokens x the highest rate at which each kind of them may be charged."""
    given = max(rates.input, rates.cache_read or 0, rates.cache_write or 0, rates.cache_write_1h or 0)
    return input_tokens * given + output_tokens * max(rates.output, rates.reasoning or 0)


def _reached(scale: Scale, tokens: int) -> Iterator[Rates]:
    """The rates of all calls with up to so many input tokens."""
    yield scale
    for tier in scale.tiers:
        if tokens > tier.above:
            yield tier


def _exact(scale: Scale, tokens: int) -> Rates:
    """The rates of a call with exactly so many."""
    return next((tier for tier in reversed(scale.tiers) if tokens > tier.above), scale)


def _total(rates: Rates, usage: Usage) -> int | None:
    """Tokens x rates; None for writes to an hour's cache where only those for five minutes have a rate."""
    read = rates.input if rates.cache_read is None else rates.cache_read
    write = rates.input if rates.cache_write is None else rates.cache_write
    reasoning = rates.output if rates.reasoning is None else rates.reasoning
    hour = rates.cache_write_1h
    if hour is None:
        if rates.cache_write is not None and usage.cache_write_1h:
            return None
        hour = rates.input
    return (
        (usage.input_fresh or 0) * rates.input
        + (usage.cache_read or 0) * read
        + (usage.cache_write or 0) * write
        + (usage.cache_write_1h or 0) * hour
        + (usage.output_visible or 0) * rates.output
        + (usage.reasoning or 0) * reasoning
    )


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """Prices by `provider/model`, each a list of dated prices. Unknown is None, never 0."""

    rows: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    version: str = ""  # of the sheet and of the file over it; stands in quotes and seals

    def find(self, name: str, day: date) -> Price | None:
        """The price in force on `day`, the latest to start when several are."""
        held = [price for price in self.rows.get(name, ()) if price.holds(day)]
        return max(held, key=lambda price: price.start or date.min) if held else None
