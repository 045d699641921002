"""The built-in price sheet: the prices of the genai-prices package, pinned and never renewed by itself, as ours tell them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from judgerun.ledger.prices import Price, PriceSheet
from judgerun.model.experiment import Hours, PriceSpec, Tier
from judgerun.model.money import NANOS_PER_USD

SHEET_DAY = date(2026, 11, 3)
"""The last day on which the notes of the pinned package say that a price was checked: it tells no day for each price."""
BATCH = {"processing": "batch"}
"""How the package calls the batch lane."""

#: The package's names of the rates that our calls have.
_RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
}
#: Rates for what our calls never hold: pictures, sound, film, pages, and searches that nobody asked for.
_FOREIGN = ("audio", "image", "video", "kpages", "web_searches", "storage_searches")
#: Only an embedder has no output to pay for: of any other model an absent rate is unknown, not 0.
_EMBEDDER = re.compile(r"embed|\b(bge|gte|voyage)\b", re.IGNORECASE)
_DATED = re.compile(r"(.+)-20\d{2}-?[01]\d-?[0-3]\d")


class _Untold(Exception):
    """Why a price of the package has no form here."""


class _Sheet(NamedTuple):
    rows: Mapping[str, Sequence[Price]]
    reasons: Mapping[str, str]
    providers: Mapping[str, Any]


@cache
def builtin_sheet() -> PriceSheet:
    """Prices of the genai-prices package by `provider/model id` and by the other exact names that it knows of a model. A name
    that ends in a date is that of the model without it where the package's own rules say so, and no other rule fits.
    Only prices that a `Price` can tell exactly are in it: see `left_out`.
    """
    return PriceSheet(_Package(), _version())


@cache
def left_out() -> Mapping[str, str]:
    """Why a model of the package has no price here, by `provider/model id`."""
    return _built().reasons


def _version() -> str:
    return f"genai-prices {version('genai-prices')}"


class _Package(Mapping[str, Sequence[Price]]):
    """The prices of the package, read when first asked for: where deployments state their own, nobody waits for them."""

    def __getitem__(self, name: str) -> Sequence[Price]:
        sheet = _built()
        if name in sheet.rows:
            return sheet.rows[name]
        place, _, model = name.partition("/")
        dated, provider = _DATED.fullmatch(model), sheet.providers.get(place)
        if dated is None or provider is None:
            raise KeyError(name)
        fitting = [known for known in provider.models if known.is_match(model)]
        plain = sheet.rows[f"{place}/{dated[1]}"]
        if len(fitting) != 1 or sheet.rows.get(f"{place}/{fitting[0].id}") is not plain:
            raise KeyError(name)
        return plain

    def __iter__(self) -> Iterator[str]:
        return iter(_built().rows)

    def __len__(self) -> int:
        return len(_built().rows)


@cache
def _built() -> _Sheet:
    from genai_prices.data import providers

    rows: dict[str, Sequence[Price]] = {}
    reasons: dict[str, str] = {}
    for provider in providers:
        source = f"{_version()}: {', '.join(provider.pricing_urls or ()) or provider.name}"
        for model in provider.models:
            name = f"{provider.id}/{model.id}"
            try:
                prices = tuple(_prices(model, source))
            except _Untold as why:
                reasons.setdefault(name, str(why))
                continue
            rows.setdefault(name, prices)
            for alias in _exact(model.match):
                rows.setdefault(f"{provider.id}/{alias}", prices)
    return _Sheet(rows, reasons, {provider.id: provider for provider in providers})


def _exact(match: Any) -> Iterator[str]:
    """The names that a rule matches exactly. Rules by a beginning or a part of a name are not followed: a model that the
    sheet does not know must stay unpriced.
    """
    if hasattr(match, "equals"):
        yield match.equals
    for clause in getattr(match, "or_", ()):
        yield from _exact(clause)


def _prices(model: Any, source: str) -> Iterator[Price]:
    """The dated prices of a model: a new one on each day on which the package changes something."""
    conditionals = model.prices if isinstance(model.prices, list) else [model]
    batched = [variant for variant in model.price_variants or () if variant.when == BATCH]
    constraints: list[Any] = [getattr(one, "constraint", None) for one in (*conditionals, *batched)]
    starts = sorted({one.start_date for one in constraints if hasattr(one, "start_date")})
    free_output = _EMBEDDER.search(model.id) is not None
    for start, end in zip([None, *starts], [*starts, None], strict=True):
        day = start or date.min
        usual, daily = _in_force(conditionals, day)
        batch = None
        if any(one.constraint is None or one.constraint.start_date <= day for one in batched):
            noon = datetime.combine(day, time(12), UTC)
            batch = PriceSpec(**_scale(model.get_prices(noon, BATCH), free_output=free_output))
        rates = PriceSpec(
            **_scale(usual, free_output=free_output),
            hours=tuple(
                Hours(
                    **_scale(one.prices, free_output=free_output),
                    start=_minute(one.constraint.start_time),
                    end=_minute(one.constraint.end_time),
                )
                for one in daily
            ),
            batch=batch,
        )
        yield Price(rates=rates, source=source, checked=SHEET_DAY, start=start, end=end)


def _in_force(conditionals: Sequence[Any], day: date) -> tuple[Any, list[Any]]:
    """The prices of a day, and those of hours that stand over them. In the package the last that holds wins, and the first
    stands where none does; its hours have no days, so they stand over every earlier price too.
    """
    daily = []
    for one in reversed(conditionals):
        constraint = getattr(one, "constraint", None)
        if hasattr(constraint, "start_time"):
            daily.append(one)
        elif constraint is None or constraint.start_date <= day:
            return one.prices, daily
    return conditionals[0].prices, daily


def _minute(moment: time) -> int:
    if moment.utcoffset():
        raise _Untold("its hours are not in UTC")
    return moment.hour * 60 + moment.minute


def _scale(price: Any, *, free_output: bool) -> dict[str, Any]:
    """The rates and tiers of the package's price, as keywords. As there, a tier holds for the whole call, from one token above
    its start.
    """
    given = {key: value for key, value in vars(price).items() if value is not None and not _foreign(key)}
    others = sorted(given.keys() - set(_RATES.values()))
    if others:
        raise _Untold(f"it has a rate that a price here cannot tell: {', '.join(others)}")
    if "input_mtok" not in given:
        raise _Untold("the package states no price for input tokens")
    if "output_mtok" not in given:
        if not free_output:
            raise _Untold("the package states no price for output tokens")
        given["output_mtok"] = Decimal(0)
    steps = {tier.start for value in given.values() for tier in getattr(value, "tiers", ())}
    base, *tiers = [
        {ours: _nanos(_rate(given[theirs], above)) for ours, theirs in _RATES.items() if theirs in given}
        for above in [-1, *sorted(steps)]
    ]
    return {
        **base,
        "tiers": tuple(Tier(**rates, above=above) for rates, above in zip(tiers, sorted(steps), strict=True)),
    }


def _rate(value: Any, above: int) -> Decimal:
    """The rate of a call with more than so many input tokens, and no more than the next tier needs."""
    held: Decimal = getattr(value, "base", value)
    for tier in getattr(value, "tiers", ()):
        if tier.start <= above:
            held = tier.price
    return held


def _nanos(usd: Decimal) -> int:
    """Nanos, up to the next whole one: some rates there have more decimals than dollars here."""
    return int((usd * NANOS_PER_USD).to_integral_value(ROUND_CEILING))


def _foreign(key: str) -> bool:
    return key.startswith("_") or any(part in key for part in _FOREIGN)
