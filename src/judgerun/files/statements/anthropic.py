"""Anthropic: the usage report of messages and the cost report (pages of buckets), and the two CSV files of the console.

Sources: the admin API reference, by which `amount` of a cost report is a decimal string of cents, and exports that people have
published. Neither report counts requests. In the CSV files `usage_date_utc` is a day, or an hour as `2026-03-31 02:00`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from judgerun.files.statements.rows import Row, Sheet
from judgerun.ledger.statement import CENT, Charge
from judgerun.model.reply import Usage

PROVIDER = "anthropic"


def flat(value: Any) -> list[tuple[str, dict[str, Any]]] | None:
    """The results of pages of buckets, each with its bucket's times; None for another document."""
    pages = value if isinstance(value, list) else [value]
    found: list[tuple[str, dict[str, Any]]] = []
    for page_number, page in enumerate(pages):
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            return None
        for number, bucket in enumerate(page["data"]):
            if (
                not isinstance(bucket, dict)
                or not isinstance(bucket.get("results"), list)
                or "starting_at" not in bucket
            ):
                return None
            for place, result in enumerate(bucket["results"]):
                where = f"data[{number}].results[{place}]"
                times = {"starting_at": bucket["starting_at"], "ending_at": bucket.get("ending_at")}
                written = result.get("cache_creation") or {}
                found.append(
                    (f"page {page_number + 1} {where}" if len(pages) > 1 else where, {**result, **written, **times})
                )
    return found


def is_usage(names: set[str]) -> bool:
    """Whether cells of these names are of a usage report."""
    return {"starting_at", "uncached_input_tokens"} <= names


def is_costs(names: set[str]) -> bool:
    """Whether cells of these names are of a cost report."""
    return {"starting_at", "amount", "currency"} <= names


def is_usage_csv(names: set[str]) -> bool:
    """Whether a CSV file of these columns is the console's export of tokens."""
    return {"usage_date_utc", "model_version", "usage_input_tokens_no_cache"} <= names


def is_costs_csv(names: set[str]) -> bool:
    """Whether a CSV file of these columns is the console's export of costs."""
    return {"usage_date_utc", "model", "cost_usd"} <= names


def read_usage(sheet: Sheet) -> None:
    """Lines of a usage report: tokens, no money, no requests."""
    names = (
        "uncached_input_tokens",
        "cache_read_input_tokens",
        "ephemeral_5m_input_tokens",
        "ephemeral_1h_input_tokens",
    )
    for row in sheet.rows:
        start, end = row.between("starting_at", "ending_at") or (0.0, 0.0)
        _tokens(
            sheet, row, (start, end), (*names, "output_tokens"), model="model", lane="service_tier", key="api_key_id"
        )


def read_usage_csv(sheet: Sheet) -> None:
    """Lines of the console's export of tokens."""
    names = ("no_cache", "cache_read", "cache_write_5m", "cache_write_1h")
    columns = (*(f"usage_input_tokens_{name}" for name in names), "usage_output_tokens")
    for row in sheet.rows:
        span = row.span("usage_date_utc") or (0.0, 0.0)
        _tokens(sheet, row, span, columns, model="model_version", lane="usage_type", key="api_key")


def _tokens(
    sheet: Sheet, row: Row, span: tuple[float, float], columns: tuple[str, ...], *, model: str, lane: str, key: str
) -> None:
    buckets = ("input_fresh", "cache_read", "cache_write", "cache_write_1h", "output_visible")
    usage = Usage(**{bucket: row.count(column) or 0 for bucket, column in zip(buckets, columns, strict=True)})
    kind = Charge.BATCH if row.text(lane) == "batch" else Charge.TOKENS
    sheet.add(
        row,
        provider=PROVIDER,
        model=row.text(model),
        start=span[0],
        end=span[1],
        usage=usage,
        kind=kind,
        key=row.text(key),
    )


def read_costs(sheet: Sheet) -> None:
    """Lines of a cost report: money, in cents."""
    for row in sheet.rows:
        span = row.between("starting_at", "ending_at") or (0.0, 0.0)
        amount = row.amount("amount")
        _money(sheet, row, span, None if amount is None else amount * CENT, row.text("currency") or "USD")


def read_costs_csv(sheet: Sheet) -> None:
    """Lines of the console's export of costs."""
    sheet.rounded(str(row.cells.get("cost_usd", "")) for row in sheet.rows)
    for row in sheet.rows:
        _money(sheet, row, row.span("usage_date_utc") or (0.0, 0.0), row.amount("cost_usd"), "USD")


def _money(sheet: Sheet, row: Row, span: tuple[float, float], amount: Decimal | None, currency: str) -> None:
    tokens = row.text("cost_type") in (None, "tokens", "token")
    lane = row.text("service_tier") or row.text("usage_type")
    cached = "cache" in (row.text("token_type") or "").replace("no_cache", "").replace("uncached", "")
    kind = (
        Charge.OTHER if not tokens else Charge.BATCH if lane == "batch" else Charge.CACHE if cached else Charge.TOKENS
    )
    sheet.add(
        row,
        provider=PROVIDER,
        model=row.text("model"),
        start=span[0],
        end=span[1],
        currency=currency.upper(),
        amount=amount,
        kind=kind,
        key=row.text("api_key"),
    )
