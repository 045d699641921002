"""Statement: what a provider says that it served and charged, line by line, in its own words; and money of other currencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from enum import StrEnum

from judgerun.model.money import NANOS_PER_USD, Nanos
from judgerun.model.reply import Usage

USD = "USD"
NANO = Decimal("1e-9")
CENT = Decimal("0.01")


class Charge(StrEnum):
    """What a line charges for."""

    TOKENS = "tokens"
    BATCH = "batch"  # tokens of the batch lane
    CACHE = "cache"  # input read from a cache, or written to one
    OTHER = "other"  # searches, storage, taxes, credits: no tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. What it does not tell is None. In `usage`, `input_fresh` is all of the input where nothing is told of caches, and
    `output_visible` all of the output where nothing is told of reasoning.
    """

    file: str
    where: str  # the line, or the record, of the file
    provider: str
    model: str | None = None  # as the provider names it
    start: datetime
    end: datetime  # exclusive; equal to `start` for a single moment
    currency: str = USD
    amount: Decimal | None = None
    usage: Usage = field(default_factory=Usage)
    requests: int | None = None
    kind: Charge = Charge.TOKENS
    key: str | None = None  # the name or id of the API key, never the key
    call: str | None = None  # the provider's id of the one call that the line is of
    attempt: int | None = None  # our number of that call, where the provider recorded it

    @property
    def place(self) -> str:
        """Where it stands, as evidence."""
        return f"{self.file}: {self.where}"

    @property
    def single(self) -> bool:
        """Whether it is of one call, which it names."""
        return self.call is not None or self.attempt is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a statement: hex sha256 of its bytes, how it was read, in which time zone its bare dates are, and the last
    decimal place to which it tells amounts.
    """

    name: str
    digest: str
    format: str
    zone: str
    unit: Decimal = NANO


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The lines of one or several files, in file order."""

    files: tuple[File, ...]
    lines: tuple[Line, ...]

    def cited(self, line: Line) -> str:
        """A line as an adjust cites it: file, digest, place."""
        return f"{line.file} sha256:{self.of(line).digest} {line.where}"

    def of(self, line: Line) -> File:
        """The file in which a line stands."""
        return next(file for file in self.files if file.name == line.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many US dollars one unit of a currency was worth on a day."""

    currency: str
    usd: Decimal
    day: date

    def __str__(self) -> str:
        return f"{self.currency}={self.usd}@{self.day}"


def parse_rate(text: str) -> Rate:
    """`EUR=1.08@2026-11-30`. ValueError for anything else."""
    currency, _, rest = text.partition("=")
    worth, _, day = rest.partition("@")
    try:
        rate = Rate(currency=currency.strip().upper(), usd=Decimal(worth.strip()), day=date.fromisoformat(day.strip()))
    except (ArithmeticError, ValueError):
        raise ValueError(f"{text!r} is no dated rate") from None
    if not rate.currency.isalpha() or not rate.usd.is_finite() or rate.usd <= 0:
        raise ValueError(f"{text!r} is no dated rate")
    return rate


def rate_of(line: Line, rates: Sequence[Rate]) -> Decimal | None:
    """Dollars for a unit of the line's currency: the latest rate up to its day, else the first later one; None without any."""
    if line.currency == USD:
        return Decimal(1)
    day = line.start.astimezone(UTC).date()
    held = sorted((rate for rate in rates if rate.currency == line.currency), key=lambda rate: rate.day)
    past = [rate for rate in held if rate.day <= day]
    return past[-1].usd if past else held[0].usd if held else None


def nanos(line: Line, rates: Sequence[Rate]) -> Nanos:
    """The amount of a line in nano-dollars, to the nearest; 0 where it tells none. KeyError without a rate for its currency."""
    if line.amount is None:
        return 0
    worth = rate_of(line, rates)
    if worth is None:
        raise KeyError(line.currency)
    return int((line.amount * worth * NANOS_PER_USD).to_integral_value(ROUND_HALF_EVEN))


def slack(line: Line, unit: Decimal, rates: Sequence[Rate]) -> Nanos:
    """By how much the amount of a line may be off through rounding: one unit of its last place, and never more than a cent."""
    if line.amount is None:
        return 0
    worth = rate_of(line, rates) or Decimal(1)
    return int((max(min(unit, CENT), NANO) * worth * NANOS_PER_USD).to_integral_value(ROUND_CEILING))


ZONES: Mapping[str, str] = {
    "anthropic": "UTC",
    "deepinfra": "UTC",
    "deepseek": "UTC",
    "google": "America/Los_Angeles",
    "openai": "UTC",
    "openrouter": "UTC",
}
"""The billing day of each provider, for dates that tell no offset. Google's is documented as US Pacific time, daylight saving
included; OpenAI, Anthropic and OpenRouter say UTC, and so do DeepSeek's older exports (`utc_date`; newer ones carry their offset).
DeepInfra's is an assumption.
"""
