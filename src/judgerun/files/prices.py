"""The price sheet: the built-in prices of the genai-prices package, and budgets/prices.toml over them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import Field

from judgerun.files.deployments import price_spec
from judgerun.files.faults import Faults, settle
from judgerun.files.lines import Path as KeyPath
from judgerun.files.schema import RatesShape
from judgerun.files.toml import read_toml
from judgerun.files.written import Day
from judgerun.ledger.prices import Price, PriceSheet
from judgerun.model.experiment import PriceSpec
from judgerun.model.money import parse_usd

_TEXT = frozenset({"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"})
#: Rates for what our calls never hold: pictures, sound, film, pages, and searches that nobody asked for.
_FOREIGN = ("audio", "image", "video", "kpages", "web_searches", "storage_searches")
#: Only an embedder has no output to pay for: of any other model an absent rate is unknown, not 0.
_EMBEDDER = re.compile(r"embed|\b(bge|gte|voyage)\b", re.IGNORECASE)


class PriceShape(RatesShape):
    """One price of `budgets/prices.toml`"""

    source: str
    checked: Day
    from_: Day | None = Field(default=None, alias="from")
    to: Day | None = None


@cache
def builtin_sheet() -> PriceSheet:
    """Prices of the genai-prices package by `provider/model id` and by the other exact names that it knows of a model.
    Only prices that a `Price` can tell exactly are in it: see `left_out`.
    """
    return PriceSheet(_Package(), _version())


@cache
def left_out() -> Mapping[str, str]:
    """Why a model of the package has no price here, by `provider/model id`."""
    return _built()[1]


def load_prices(workspace: Path, sheet: PriceSheet) -> PriceSheet:
    """`budgets/prices.toml` over `sheet`: inside its window of days a written price stands in the place of the sheet's.
    The sheet itself where there is no such file. Raises Refused with every problem at once.
    """
    path = workspace / "budgets" / "prices.toml"
    if not path.is_file():
        return sheet
    faults, digest = read_toml(path)
    written = {name: _read(faults, name, raw) for name, raw in faults.raw.items()}
    settle(faults)
    rows = dict(sheet.rows)
    for name, prices in written.items():
        rows[name] = (*prices, *_around(sheet.rows.get(name, ()), prices))
    return PriceSheet(rows, f"{sheet.version} + prices.toml {digest[:12]}")


def _read(faults: Faults, name: str, raw: object) -> tuple[Price, ...]:
    """The prices of one name: a table, or an array of tables with windows that do not overlap."""
    if name.count("/") < 1:
        faults.add((name,), f"{name!r} names no model", '["provider/model"], with the provider\'s own id')
    several = isinstance(raw, list)
    prices: list[Price] = []
    for number, one in enumerate(raw if isinstance(raw, list) else [raw]):
        path: KeyPath = (name, number) if several else (name,)
        shape = faults.read(PriceShape, one, path)
        if shape is None:
            continue
        price = Price(
            rates=price_spec(shape), source=shape.source, checked=shape.checked, start=shape.from_, end=shape.to
        )
        if price.start is not None and price.end is not None and price.start >= price.end:
            faults.add(
                (*path, "to"), f"the price ends on {price.end}, before it starts", "to is the first day without it"
            )
        elif any(_overlap(price, other) for other in prices):
            faults.add(path, "two prices hold on one day", "from and to that do not overlap")
        prices.append(price)
    return tuple(prices)


def _overlap(one: Price, two: Price) -> bool:
    return (one.start or date.min) < (two.end or date.max) and (two.start or date.min) < (one.end or date.max)


def _around(prices: Sequence[Price], over: Sequence[Price]) -> Iterator[Price]:
    """What is left of `prices` outside the windows of `over`."""
    for price in prices:
        pieces = [price]
        for window in over:
            pieces = [piece for old in pieces for piece in _outside(old, window)]
        yield from pieces


def _outside(price: Price, window: Price) -> Iterator[Price]:
    if not _overlap(price, window):
        yield price
        return
    if window.start is not None and (price.start is None or price.start < window.start):
        yield replace(price, end=window.start)
    if window.end is not None and (price.end is None or window.end < price.end):
        yield replace(price, start=window.end)


# --- the package -----------------------------------------------------------------------------------------------------


def _version() -> str:
    return f"genai-prices {version('genai-prices')}"


class _Package(Mapping[str, Sequence[Price]]):
    """The prices of the package, read when first asked for: where deployments state their own, nobody waits for them."""

    def __getitem__(self, name: str) -> Sequence[Price]:
        return _built()[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(_built()[0])

    def __len__(self) -> int:
        return len(_built()[0])


@cache
def _built() -> tuple[Mapping[str, Sequence[Price]], Mapping[str, str]]:
    from genai_prices.data import providers

    rows: dict[str, Sequence[Price]] = {}
    reasons: dict[str, str] = {}
    for provider in providers:
        source = f"{_version()}: {', '.join(provider.pricing_urls or ()) or provider.name}"
        for model in provider.models:
            name = f"{provider.id}/{model.id}"
            prices = _prices(model, source)
            if isinstance(prices, str):
                reasons.setdefault(name, prices)
                continue
            rows.setdefault(name, prices)
            for alias in _exact(model.match):
                rows.setdefault(f"{provider.id}/{alias}", prices)
    return rows, reasons


def _exact(match: Any) -> Iterator[str]:
    """The names that a rule matches exactly. Rules by a beginning or a part of a name are not followed: a model that the
    sheet does not know must stay unpriced.
    """
    if hasattr(match, "equals"):
        yield match.equals
    for clause in getattr(match, "or_", ()):
        yield from _exact(clause)


def _prices(model: Any, source: str) -> tuple[Price, ...] | str:
    """The dated prices of a model, or why they cannot be told exactly."""
    embedder = _EMBEDDER.search(model.id) is not None
    if not isinstance(model.prices, list):
        rates = _rates(model.prices, embedder=embedder)
        return rates if isinstance(rates, str) else (Price(rates=rates, source=source),)
    dated: list[tuple[date | None, PriceSpec]] = []
    for conditional in model.prices:
        rates = _rates(conditional.prices, embedder=embedder)
        if isinstance(rates, str):
            return rates
        constraint = conditional.constraint
        if constraint is not None and not hasattr(constraint, "start_date"):
            return "its price hangs on the time of day"
        dated.append((None if constraint is None else constraint.start_date, rates))
    return _windows(dated, source)


def _windows(dated: Sequence[tuple[date | None, PriceSpec]], source: str) -> tuple[Price, ...] | str:
    """Each price until the next one starts."""
    starts = [start or date.min for start, _ in dated]
    if starts != sorted(set(starts)):
        return "its prices are not in the order of their days"
    ends = [start for start, _ in dated[1:]] + [None]
    return tuple(
        Price(rates=rates, source=source, start=start, end=end) for (start, rates), end in zip(dated, ends, strict=True)
    )


def _rates(price: Any, *, embedder: bool) -> PriceSpec | str:
    rates = {key: value for key, value in vars(price).items() if value is not None and not key.startswith("_")}
    others = [key for key in rates if key not in _TEXT and key != "output_reasoning_mtok" and not _foreign(key)]
    if others:
        return f"it has a rate that a price here cannot tell: {', '.join(sorted(others))}"
    tiers = sorted(key for key, value in rates.items() if not isinstance(value, Decimal) and not _foreign(key))
    if tiers:
        return f"its price has tiers: {', '.join(tiers)}"
    if "input_mtok" not in rates:
        return "the package states no price for input tokens"
    if "output_mtok" not in rates and not embedder:
        return "the package states no price for output tokens"
    try:
        amounts = {key: parse_usd(str(value)) for key, value in rates.items() if not _foreign(key)}
    except ValueError as error:
        return str(error)
    return PriceSpec(
        input=amounts["input_mtok"],
        output=amounts.get("output_mtok", 0),
        cache_read=amounts.get("cache_read_mtok"),
        cache_write=amounts.get("cache_write_mtok"),
        reasoning=amounts.get("output_reasoning_mtok"),
    )


def _foreign(key: str) -> bool:
    return any(part in key for part in _FOREIGN)
