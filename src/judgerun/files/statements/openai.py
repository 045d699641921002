"""OpenAI: the usage and the costs API (pages of buckets), and the CSV files of the dashboard, which have the same names.

Sources: the API reference (`organization.usage.completions.result`, `organization.costs.result`) and exports that people have
published. `input_tokens` holds the cached ones. Costs name a model in `line_item` ("gpt-4o-mini-2024-07-18, cached input"), which
is not documented; items that name none (searches, storage) are other charges. That `quantity` counts tokens is general knowledge.
"""

from __future__ import annotations

import re
from typing import Any

from judgerun.files.statements.rows import Row, Sheet
from judgerun.ledger.statement import Charge
from judgerun.model.reply import Usage

PROVIDER = "openai"
_ITEM = re.compile(
    r"(?:(?P<lane>[a-z]+) \| )?(?P<model>[\w./:-]+)(?: [a-z]+)?,\s*(?P<piece>cached input|cache writes|input|output)\w*(?:, .*)?"
)
_BUCKETS = {
    "input": "input_fresh",
    "cached input": "cache_read",
    "cache writes": "cache_write",
    "output": "output_visible",
}


def flat(value: Any) -> list[tuple[str, dict[str, Any]]] | None:
    """The results of pages of buckets, each with its bucket's times; None for another document."""
    pages = value if isinstance(value, list) else [value]
    found: list[tuple[str, dict[str, Any]]] = []
    for page_number, page in enumerate(pages):
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            return None
        for number, bucket in enumerate(page["data"]):
            if not isinstance(bucket, dict) or "start_time" not in bucket:
                return None
            for place, result in enumerate(bucket.get("results") or ()):
                where = f"data[{number}].results[{place}]"
                cells = {**result, "start_time": bucket["start_time"], "end_time": bucket.get("end_time")}
                amount = cells.pop("amount", None)
                if isinstance(amount, dict):
                    cells |= {"amount_value": amount.get("value"), "amount_currency": amount.get("currency")}
                found.append((f"page {page_number + 1} {where}" if len(pages) > 1 else where, cells))
    return found


def is_usage(names: set[str]) -> bool:
    """Whether cells of these names are of the usage export."""
    return {"start_time", "end_time", "input_tokens", "num_model_requests"} <= names


def is_costs(names: set[str]) -> bool:
    """Whether cells of these names are of the costs export."""
    return {"start_time", "end_time", "amount_value"} <= names


def read_usage(sheet: Sheet) -> None:
    """Lines of the usage export: tokens and requests, no money."""
    for row in sheet.rows:
        if not row.has("num_model_requests") and not row.has("input_tokens"):
            continue  # a bucket in which nothing happened
        span = row.between("start_time", "end_time")
        given, cached, out = row.count("input_tokens"), row.count("input_cached_tokens"), row.count("output_tokens")
        if given is not None and (cached or 0) > given:
            row.fault(f"input_cached_tokens is {cached} of {given} input tokens")
        fresh = None if given is None else given - (cached or 0)
        start, end = span or (0.0, 0.0)
        sheet.add(
            row,
            provider=PROVIDER,
            model=row.text("model"),
            start=start,
            end=end,
            usage=Usage(input_fresh=fresh, cache_read=cached, output_visible=out or 0),
            requests=row.count("num_model_requests"),
            kind=Charge.BATCH if str(row.cells.get("batch")).lower() == "true" else Charge.TOKENS,
            key=row.text("api_key_id"),
        )


def read_costs(sheet: Sheet) -> None:
    """Lines of the costs export: money by item, and how many tokens where it says so."""
    for row in sheet.rows:
        if not row.has("amount_value"):
            continue
        start, end = row.between("start_time", "end_time") or (0.0, 0.0)
        item = row.text("line_item")
        named = _ITEM.fullmatch(item) if item else None
        amount = row.amount("amount_value")
        sheet.add(
            row,
            provider=PROVIDER,
            model=named["model"] if named else None,
            start=start,
            end=end,
            currency=(row.text("amount_currency") or "usd").upper(),
            amount=amount,
            usage=_counted(row, named["piece"]) if named else Usage(),
            kind=_kind(item, named),
            key=row.text("api_key_id"),
        )


def _counted(row: Row, piece: str) -> Usage:
    tokens = row.count("quantity") if row.text("quantity_unit") in ("tokens", "token") else None
    return Usage(**{_BUCKETS[piece]: tokens})


def _kind(item: str | None, named: re.Match[str] | None) -> Charge:
    if named is None:
        return Charge.TOKENS if item is None else Charge.OTHER
    if named["lane"] == "batch":
        return Charge.BATCH
    return Charge.CACHE if named["piece"].startswith("cache") else Charge.TOKENS
