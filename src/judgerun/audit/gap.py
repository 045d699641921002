"""Gap: by how many requests and tokens a bill and a ledger differ, and what that costs at a price; pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from judgerun.ledger.prices import Price
from judgerun.model.money import TOKENS_PER_MILLION
from judgerun.model.reply import BUCKETS, Usage


class Tokens(NamedTuple):
    """Tokens of a cell; those of caches are inside the input, and None where nothing is told of them."""

    input: int
    output: int
    read: int | None = None
    write: int | None = None
    write_1h: int | None = None


def summed(usages: Iterable[Usage]) -> Tokens | None:
    """The tokens of all; None where input or output is not told of any."""
    held = list(usages)

    def total(name: str) -> int | None:
        told = [value for usage in held if (value := getattr(usage, name)) is not None]
        return sum(told) if told else None

    parts = {name: total(name) for name in BUCKETS}
    fresh, visible = parts["input_fresh"], parts["output_visible"]
    if fresh is None or (visible is None and parts["reasoning"] is None):
        return None
    cached = [parts[name] for name in ("cache_read", "cache_write", "cache_write_1h")]
    given = fresh + sum(value or 0 for value in cached)
    return Tokens(given, (visible or 0) + (parts["reasoning"] or 0), *cached)


@dataclass(frozen=True, slots=True)
class Gap:
    """By how many requests and tokens the statement has more than the settled attempts; None where it does not tell."""

    requests: int | None
    input: int | None = None
    output: int | None = None
    read: int = 0
    write: int = 0
    write_1h: int = 0

    @property
    def told(self) -> bool:
        """Whether tokens are told on both sides."""
        return self.input is not None

    @property
    def volume(self) -> bool:
        """Whether there are other requests, or another sum of tokens."""
        return bool(self.requests) or bool(self.input) or bool(self.output)

    @property
    def cached(self) -> bool:
        """Whether other tokens came from, or went to, a cache."""
        return bool(self.read or self.write or self.write_1h)

    @property
    def own_caches(self) -> bool:
        """Whether the further, or the lacking, calls may themselves have had all that came from, or went to, a cache."""
        sign = 1 if (self.input or 0) >= 0 else -1
        parts = [sign * part for part in (self.read, self.write, self.write_1h)]
        return min(parts) >= 0 and sum(parts) <= sign * (self.input or 0) and self.requests != 0

    def cost(self, price: Price) -> tuple[Fraction, Fraction] | None:
        """What the tokens cost as if none were cached, and what caches change; None where a price hangs on hour or length."""
        rates = price.rates
        if rates.hours or rates.tiers or self.input is None or self.output is None:
            return None
        read = rates.input if rates.cache_read is None else rates.cache_read
        write = rates.input if rates.cache_write is None else rates.cache_write
        hour = rates.input if rates.cache_write_1h is None else rates.cache_write_1h
        share = price.factor / TOKENS_PER_MILLION
        fresh = self.input * rates.input + self.output * rates.output
        caches = (
            self.read * (read - rates.input) + self.write * (write - rates.input) + self.write_1h * (hour - rates.input)
        )
        return fresh * share, caches * share
