"""Google Cloud: the cost table and the reports of the billing console as CSV, and rows of the detailed export out of BigQuery.

Sources: the billing documentation and exports that people have published. A SKU's description names the model and the kind of
tokens in words ("Generate content output token count gemini 2.5 flash short input text"); that it does so in these words is
observed, not documented. Rows of other services, and sums, are left out. Days are US Pacific time. Nothing counts requests.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from judgerun.files.statements.rows import Row, Sheet
from judgerun.ledger.statement import Charge
from judgerun.model.reply import Usage

PROVIDER = "google"
_SERVICES = ("gemini api", "vertex ai", "generative language", "agent platform")
_COSTS = re.compile(r"(unrounded |)(cost|subtotal) \((.+)\)", re.IGNORECASE)
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_PARTS = {"pro", "flash", "lite", "ultra", "nano", "preview", "embedding", "live"}
_NUMBER = re.compile(r"\d+(\.\d+)?")


def is_console(names: set[str]) -> bool:
    """Whether a CSV file of these columns is a cost table or a report of the console."""
    return {"Service description", "SKU description"} <= names and any(map(_COSTS.fullmatch, names))


def is_detailed(names: set[str]) -> bool:
    """Whether a CSV file of these columns is of the detailed export."""
    return any(
        {f"service{dot}description", f"sku{dot}description", "usage_start_time", "cost"} <= names for dot in "._"
    )


def read_console(sheet: Sheet) -> None:
    """Lines of a cost table or a report."""
    found = sorted((_COSTS.fullmatch(name) for name in sheet.header), key=lambda held: not (held and held[1]))
    column = next(held for held in found if held)
    currency = sheet.preamble.get("Currency") or _SIGNS.get(column[3], column[3])
    sheet.rounded(str(row.cells.get(column[0], "")) for row in sheet.rows)
    for row in sheet.rows:
        if row.has("SKU description") and _ours(row.text("Service description")):
            dated = "Date" in row.cells
            span = row.span("Date") if dated else row.between("Usage start date", "Usage end date", inclusive=True)
            _line(sheet, row, "SKU description", span, row.amount(column[0]), currency, "Usage amount", "Usage unit")


def read_detailed(sheet: Sheet) -> None:
    """Lines of the detailed export, their credits taken off."""
    dot = "." if "sku.description" in sheet.header else "_"
    for row in sheet.rows:
        if _ours(row.text(f"service{dot}description")):
            span = row.between("usage_start_time", "usage_end_time")
            cost = row.amount("cost")
            amount = None if cost is None else cost + _credits(row)
            currency = row.text("currency") or "USD"
            _line(sheet, row, f"sku{dot}description", span, amount, currency, f"usage{dot}amount", f"usage{dot}unit")


def _ours(service: str | None) -> bool:
    return any(name in (service or "").lower() for name in _SERVICES)


def _line(
    sheet: Sheet,
    row: Row,
    sku: str,
    span: tuple[float, float] | None,
    amount: Decimal | None,
    currency: str,
    counted: str,
    unit: str,
) -> None:
    words = (row.text(sku) or "").lower().replace("_", " ")
    model, bucket = model_of(words), _bucket(words)
    tokens = row.count(counted) if row.text(unit) in ("count", "token", "tokens") else None
    kind = Charge.BATCH if re.search(r"\bbatch\b", words) else Charge.CACHE if "cach" in words else Charge.TOKENS
    start, end = span or (0.0, 0.0)
    sheet.add(
        row,
        provider=PROVIDER,
        model=model,
        start=start,
        end=end,
        currency=currency,
        amount=amount,
        usage=Usage(**{bucket: tokens}) if bucket else Usage(),
        kind=kind if model and bucket else Charge.OTHER,
    )


def model_of(sku: str) -> str | None:
    """`gemini-2.5-flash` in a SKU's description; None where none is named."""
    words = re.split(r"[\s-]+", sku.lower())
    if "gemini" not in words:
        return None
    parts = ["gemini"]
    for word in words[words.index("gemini") + 1 :]:
        if word not in _PARTS and not _NUMBER.fullmatch(word):
            break
        parts.append(word)
    return "-".join(parts)


def _bucket(sku: str) -> str | None:
    """The bucket of tokens that a SKU counts."""
    if "storage" in sku:
        return None
    if "cach" in sku:
        return "cache_read"
    counted = re.search(r"(input|output) token", sku) or re.search(r"\b(?:text|image|audio) (input|output)\b", sku)
    return {"input": "input_fresh", "output": "output_visible"}[counted[1]] if counted else None


def _credits(row: Row) -> Decimal:
    """The sum of a row's credits, which are negative."""
    held: Any = row.cells.get("credits") or []
    try:
        credits = json.loads(held, parse_float=Decimal) if isinstance(held, str) else held
        return sum((Decimal(str(credit["amount"])) for credit in credits), Decimal(0))
    except (ValueError, TypeError, KeyError, ArithmeticError):
        row.fault("credits cannot be read", '[{"amount": -0.5}]')
        return Decimal(0)
