"""DeepInfra: what it charged by model and kind of unit, as CSV.

No export is documented. The columns are an assumption from general knowledge of its billing page and its `/payment/usage`
answer: `date` (or `start` and `end`), `model`, `pricing_type` (`input_tokens`, `output_tokens`, `tokens`, `time`), `units`,
`rate`, `cost` in dollars. A file that differs is read by a mapping file.
"""

from __future__ import annotations

from judgerun.files.statements.rows import Sheet
from judgerun.ledger.statement import Charge
from judgerun.model.reply import Usage

PROVIDER = "deepinfra"
_BUCKETS = {"input_tokens": "input_fresh", "cached_tokens": "cache_read", "output_tokens": "output_visible"}


def is_usage(names: set[str]) -> bool:
    """Whether a CSV file of these columns is this one."""
    return {"model", "pricing_type", "units", "rate", "cost"} <= names and (
        "date" in names or {"start", "end"} <= names
    )


def read_usage(sheet: Sheet) -> None:
    """Lines of money, with tokens where the unit is one."""
    sheet.rounded(str(row.cells.get("cost", "")) for row in sheet.rows)
    for row in sheet.rows:
        span = row.span("date") if "date" in row.cells else row.between("start", "end", inclusive=True)
        unit = row.text("pricing_type") or ""
        start, end = span or (0.0, 0.0)
        sheet.add(
            row,
            provider=PROVIDER,
            model=row.text("model"),
            start=start,
            end=end,
            amount=row.amount("cost"),
            usage=Usage(**{_BUCKETS[unit]: row.count("units")}) if unit in _BUCKETS else Usage(),
            kind=Charge.OTHER if unit == "time" else Charge.TOKENS,
        )
