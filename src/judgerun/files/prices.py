"""budgets/prices.toml over the price sheet: what people write about prices, and where it stands in the sheet's place."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import cast

from pydantic import Field

from judgerun.files.deployments import sheet_name
from judgerun.files.faults import Faults, settle
from judgerun.files.lines import Path as KeyPath
from judgerun.files.tariff import TariffShape, price_spec
from judgerun.files.toml import read_toml
from judgerun.files.written import Day
from judgerun.ledger.prices import Price, PriceSheet


class PriceShape(TariffShape):
    """One price of `budgets/prices.toml`"""

    source: str
    checked: Day
    from_: Day | None = Field(default=None, alias="from")
    to: Day | None = None


def load_prices(workspace: Path, sheet: PriceSheet) -> PriceSheet:
    """`budgets/prices.toml` over `sheet`: inside its window of days a written price stands in the place of the sheet's.
    The sheet itself where there is no such file. Raises Refused with every problem at once.
    """
    path = workspace / "budgets" / "prices.toml"
    if not path.is_file():
        return sheet
    faults, digest = read_toml(path)
    written: dict[str, tuple[Price, ...]] = {}
    for name, raw in faults.raw.items():
        if sheet_name(name) in written:
            faults.add((name,), "the same model stands here under another name", f"one name, for example {name!r}")
        written[sheet_name(name)] = _read(faults, name, raw)
    settle(faults)
    over = {name: (*prices, *_around(sheet.rows.get(name, ()), prices)) for name, prices in written.items()}
    below = cast("MutableMapping[str, Sequence[Price]]", sheet.rows)  # a ChainMap writes into its first map alone
    return PriceSheet(ChainMap(dict[str, Sequence[Price]](over), below), f"{sheet.version} + prices.toml {digest[:12]}")


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
            rates=price_spec(faults, path, shape),
            source=shape.source,
            checked=shape.checked,
            start=shape.from_,
            end=shape.to,
            written=True,
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
