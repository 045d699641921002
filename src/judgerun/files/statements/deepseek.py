"""DeepSeek: the two CSV files of a month's export, `amount-*.csv` (tokens and requests) and `cost-*.csv` (money).

Sources: exports that people have published. The amount file has one row for each day, model, key and type, with a price but no
currency, so its money is not read: give the cost file too. Older exports name the day (`utc_date`), newer ones its ends with
their offset.
"""

from __future__ import annotations

from judgerun.files.statements.rows import Row, Sheet
from judgerun.model.reply import Usage

PROVIDER = "deepseek"
_BUCKETS = {
    "input_cache_miss_tokens": "input_fresh",
    "input_tokens": "input_fresh",
    "input_cache_hit_tokens": "cache_read",
    "output_tokens": "output_visible",
}
_REQUESTS = "request_count"


def is_amount(names: set[str]) -> bool:
    """Whether a CSV file of these columns is the amount file."""
    return {"model", "type", "price", "amount"} <= names and _dated(names)


def is_cost(names: set[str]) -> bool:
    """Whether a CSV file of these columns is the cost file."""
    return {"model", "wallet_type", "cost", "currency"} <= names and _dated(names)


def _dated(names: set[str]) -> bool:
    return "utc_date" in names or {"start_time_iso", "end_time_iso"} <= names


def _span(row: Row) -> tuple[float, float]:
    found = row.span("utc_date") if "utc_date" in row.cells else row.between("start_time_iso", "end_time_iso")
    return found or (0.0, 0.0)


def read_amount(sheet: Sheet) -> None:
    """Lines of the amount file: tokens and requests, no money."""
    for row in sheet.rows:
        kind, counted = row.text("type") or "", row.count("amount")
        if kind != _REQUESTS and kind not in _BUCKETS:
            row.fault(f"type is {kind[:40]!r}", f"one of {', '.join(_BUCKETS)}, {_REQUESTS}")
        start, end = _span(row)
        sheet.add(
            row,
            provider=PROVIDER,
            model=row.text("model"),
            start=start,
            end=end,
            usage=Usage(**{_BUCKETS[kind]: counted}) if kind in _BUCKETS else Usage(),
            requests=counted if kind == _REQUESTS else None,
            key=row.text("api_key_name"),
        )


def read_cost(sheet: Sheet) -> None:
    """Lines of the cost file: money."""
    sheet.rounded(str(row.cells.get("cost", "")).rstrip("0") for row in sheet.rows)
    for row in sheet.rows:
        start, end = _span(row)
        sheet.add(
            row,
            provider=PROVIDER,
            model=row.text("model"),
            start=start,
            end=end,
            currency=(row.text("currency") or "USD").upper(),
            amount=row.amount("cost"),
        )
