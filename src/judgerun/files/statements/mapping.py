"""Mapping: a TOML file that says what the columns of somebody's own export mean."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from judgerun.files.faults import settle
from judgerun.files.statements.rows import Row, Sheet
from judgerun.files.toml import read_toml
from judgerun.files.written import Written
from judgerun.ledger.statement import USD, Charge
from judgerun.model.reply import Usage


class ColumnsShape(Written):
    """`[columns]`: which column holds what. A time is given as `time`, as `day`, or as `start` and `end`."""

    amount: str
    time: str | None = None
    day: str | None = None
    start: str | None = None
    end: str | None = None
    model: str | None = None
    currency: str | None = None
    requests: str | None = None
    input: str | None = None  # all of it, cached too
    cache_read: str | None = None
    cache_write: str | None = None
    cache_write_1h: str | None = None
    output: str | None = None  # all of it, reasoning too
    reasoning: str | None = None
    call: str | None = None  # the provider's id of the call
    attempt: str | None = None  # the value of our header `x-judgerun-attempt`
    key: str | None = None
    batch: str | None = None  # filled, and not "false", for tokens of the batch lane


class MappingShape(Written):
    """A mapping file."""

    provider: str = Field(min_length=1)
    timezone: str = "UTC"
    currency: str = USD
    unit: str = "1"  # what 1 in the amount column is worth in the currency: "0.01" for cents
    decimals: int | None = Field(default=None, ge=0, le=9)  # of the amounts in the currency, where they are rounded
    calls: bool = False  # each row is one call
    columns: ColumnsShape
    only: dict[str, str | bool | int] = Field(default_factory=dict)  # rows that count have these values


def load_mapping(path: Path) -> MappingShape:
    """A mapping file. Refused with every problem at once.

    provider = "lab"             # the deployment's name in the experiment file
    timezone = "Europe/Berlin"   # of times without an offset; currency = "EUR"; unit = "0.01" for cents; decimals = 2
    calls = true                 # each row is one call
    [columns]
    time = "at"                  # or day, or start and end
    model = "model"
    amount = "cost"              # requests, input, cache_read, output, reasoning, call, attempt, key, batch, ...
    [only]
    billed = true                # rows with another value are left out
    """
    faults, _ = read_toml(path)
    shape = faults.read(MappingShape, faults.raw)
    if shape is not None:
        columns = shape.columns
        given = [bool(columns.time), bool(columns.day), bool(columns.start and columns.end)]
        if sum(given) != 1:
            faults.add(("columns",), "exactly one of `time`, `day`, `start` with `end` says when", 'time = "..."')
        try:
            ZoneInfo(shape.timezone)
        except (ZoneInfoNotFoundError, ValueError):
            faults.add(("timezone",), f"there is no time zone {shape.timezone!r}", '"UTC", "Europe/Berlin"')
        try:
            if not Decimal(shape.unit) > 0:
                raise ArithmeticError
        except ArithmeticError:
            faults.add(("unit",), f"{shape.unit!r} is no positive decimal number", '"1", "0.01", "0.000000001"')
    settle(faults)
    assert shape is not None
    return shape


def read(sheet: Sheet, shape: MappingShape) -> None:
    """Lines as the mapping says."""
    columns, unit = shape.columns, Decimal(shape.unit)
    if shape.decimals is not None:
        sheet.unit = Decimal(1).scaleb(-shape.decimals)
    for row in sheet.rows:
        if any(not _same(row.cells.get(name), value) for name, value in shape.only.items()):
            continue
        start, end = _span(row, columns) or (0.0, 0.0)
        amount = row.amount(columns.amount)
        counted = row.count(columns.requests) if columns.requests else 1 if shape.calls else None
        attempt = row.count(columns.attempt) if columns.attempt else None
        sheet.add(
            row,
            provider=shape.provider,
            model=_text(row, columns.model),
            start=start,
            end=end,
            currency=(_text(row, columns.currency) or shape.currency).upper(),
            amount=None if amount is None else amount * unit,
            usage=_usage(row, columns),
            requests=counted,
            kind=Charge.BATCH if (_text(row, columns.batch) or "false").lower() != "false" else Charge.TOKENS,
            key=_text(row, columns.key),
            call=_text(row, columns.call),
            attempt=attempt,
        )


def _same(held: Any, wanted: str | bool | int) -> bool:
    return str(held).lower() == str(wanted).lower()


def _text(row: Row, column: str | None) -> str | None:
    return None if column is None else row.text(column)


def _span(row: Row, columns: ColumnsShape) -> tuple[float, float] | None:
    if columns.day:
        return row.span(columns.day)
    if columns.time:
        at = row.moment(columns.time)
        return None if at is None else (at, at)
    return row.between(columns.start or "", columns.end or "")


def _usage(row: Row, columns: ColumnsShape) -> Usage:
    """Tokens in disjoint buckets, from columns of which those of input and output are sums."""

    def count(name: str | None) -> int | None:
        return None if name is None else row.count(name)

    given, out, hidden = count(columns.input), count(columns.output), count(columns.reasoning)
    parts = {name: count(getattr(columns, name)) for name in ("cache_read", "cache_write", "cache_write_1h")}
    fresh = None if given is None else given - sum(value or 0 for value in parts.values())
    visible = None if out is None else out - (hidden or 0)
    if min(fresh or 0, visible or 0) < 0:
        row.fault(
            "the parts of its tokens are more than the whole", "input and output hold cached and reasoning tokens"
        )
    return Usage(input_fresh=fresh, output_visible=visible, reasoning=hidden, **parts)
