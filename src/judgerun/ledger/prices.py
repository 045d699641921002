"""Price and PriceSheet: the worst case before a call, the cost after it; each rounded up once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from judgerun.model.experiment import PriceSpec
from judgerun.model.money import Nanos, round_up
from judgerun.model.reply import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price with its source and date; valid from `start` (inclusive) until `end` (exclusive)."""

    rates: PriceSpec
    source: str
    checked: date | None = None
    start: date | None = None
    end: date | None = None

    @property
    def written(self) -> bool:
        """Whether a person wrote it: a row of prices.toml must say when it was checked, the package's prices do not."""
        return self.checked is not None

    def bound(self, input_tokens: int, output_tokens: int) -> Nanos:
        """The most that a call of at most so many tokens can cost."""
        rates = self.rates
        dearest_in = max(rates.input, rates.cache_read or 0, rates.cache_write or 0)
        dearest_out = max(rates.output, rates.reasoning or 0)
        return round_up(input_tokens * dearest_in + output_tokens * dearest_out)

    def cost(self, usage: Usage) -> Nanos | None:
        """What a call cost; None when the tokens are not known well enough to say."""
        if usage.input_fresh is None or usage.output is None:
            return None
        rates = self.rates
        read = rates.input if rates.cache_read is None else rates.cache_read
        write = rates.input if rates.cache_write is None else rates.cache_write
        reasoning = rates.output if rates.reasoning is None else rates.reasoning
        return round_up(
            usage.input_fresh * rates.input
            + (usage.cache_read or 0) * read
            + (usage.cache_write or 0) * write
            + (usage.output_visible or 0) * rates.output
            + (usage.reasoning or 0) * reasoning
        )

    def holds(self, day: date) -> bool:
        """Whether this price is in force on that day."""
        return (self.start is None or self.start <= day) and (self.end is None or day < self.end)


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """Prices by `provider/model`, each a list of dated prices. Unknown is None, never 0."""

    rows: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    version: str = ""  # of the sheet and of the file over it; stands in quotes and seals

    def find(self, name: str, day: date) -> Price | None:
        """The price in force on `day`, the latest to start when several are."""
        held = [price for price in self.rows.get(name, ()) if price.holds(day)]
        return max(held, key=lambda price: price.start or date.min) if held else None
