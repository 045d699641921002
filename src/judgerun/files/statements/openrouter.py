"""OpenRouter: rows of single calls (the activity log as CSV, `/api/v1/generation` as JSON), and activity by day (CSV and JSON).

Sources: the API reference, and exports that people have published. A generation's `total_cost` is what was charged, its cache
discount already off. Native token counts are the billed ones; the CSV log has one count alone. That completion tokens hold the
reasoning is documented. Days are UTC. What is spent at a provider through one's own key is not charged here, and is left out.
"""

from __future__ import annotations

from typing import Any

from judgerun.files.statements.rows import Row, Sheet
from judgerun.model.reply import Usage

PROVIDER = "openrouter"


def flat(value: Any) -> list[tuple[str, dict[str, Any]]] | None:
    """Generations, or days of activity: `{"data": ...}`, or a list of such or of bare records; None for another document."""
    held = value["data"] if isinstance(value, dict) and "data" in value else value
    records = held if isinstance(held, list) else [held]
    inner = [one["data"] if isinstance(one, dict) and isinstance(one.get("data"), dict) else one for one in records]
    if not inner or not all(isinstance(one, dict) for one in inner):
        return None
    return [(f"record {number}", one) for number, one in enumerate(inner, start=1)]


def is_generation(names: set[str]) -> bool:
    """Whether cells of these names are of `/api/v1/generation`."""
    return {"id", "created_at", "model", "total_cost"} <= names


def is_log(names: set[str]) -> bool:
    """Whether a CSV file of these columns is the log of calls."""
    return {"generation_id", "created_at", "cost_total", "model_permaslug"} <= names


def is_activity(names: set[str]) -> bool:
    """Whether cells of these names are days of the activity API."""
    return {"date", "model", "usage", "requests", "prompt_tokens"} <= names


def is_activity_csv(names: set[str]) -> bool:
    """Whether a CSV file of these columns is activity by day."""
    return {"Date", "Slug", "Usage", "Requests", "Prompt Tokens"} <= names


def read_generations(sheet: Sheet) -> None:
    """Lines of single calls, from `/api/v1/generation`."""
    for row in sheet.rows:
        given = "native_tokens_prompt" if row.has("native_tokens_prompt") else "tokens_prompt"
        out = "native_tokens_completion" if row.has("native_tokens_completion") else "tokens_completion"
        usage = _usage(row, given, out, "native_tokens_cached", "native_tokens_reasoning")
        _call(sheet, row, "id", "model", "total_cost", usage)


def read_log(sheet: Sheet) -> None:
    """Lines of single calls, from the CSV log."""
    for row in sheet.rows:
        usage = _usage(row, "tokens_prompt", "tokens_completion", "tokens_cached", "tokens_reasoning")
        _call(sheet, row, "generation_id", "model_permaslug", "cost_total", usage)


def _call(sheet: Sheet, row: Row, id_: str, model: str, cost: str, usage: Usage) -> None:
    at = row.moment("created_at") or 0.0
    call = row.text(id_)
    if call is None:
        row.fault(f"{id_} is empty")
    sheet.add(
        row,
        provider=PROVIDER,
        model=row.text(model),
        start=at,
        end=at,
        amount=row.amount(cost),
        usage=usage,
        requests=1,
        call=call,
        key=row.text("api_key_name"),
    )


def _usage(row: Row, given: str, out: str, cached: str, reasoning: str) -> Usage:
    """Tokens in disjoint buckets."""
    whole, read, total, hidden = row.count(given), row.count(cached), row.count(out), row.count(reasoning)
    fresh = None if whole is None else whole - (read or 0)
    if fresh is not None and fresh < 0:
        row.fault(f"{cached} is {read} of {whole} input tokens")
    visible = None if total is None else max(total - (hidden or 0), 0)
    return Usage(input_fresh=fresh, cache_read=read, output_visible=visible, reasoning=hidden)


def read_activity(sheet: Sheet) -> None:
    """Lines of days, from the activity API."""
    names = ("date", "model_permaslug", "usage", "requests", "prompt_tokens", "completion_tokens", "reasoning_tokens")
    _days(sheet, names, "model")


def read_activity_csv(sheet: Sheet) -> None:
    """Lines of days, from the CSV file."""
    names = ("Date", "Slug", "Usage", "Requests", "Prompt Tokens", "Completion Tokens", "Reasoning Tokens")
    sheet.rounded(str(row.cells.get("Usage", "")) for row in sheet.rows)
    _days(sheet, names, "Slug")


def _days(sheet: Sheet, names: tuple[str, ...], other: str) -> None:
    day, slug, cost, requests, given, out, reasoning = names
    for row in sheet.rows:
        start, end = row.span(day) or (0.0, 0.0)
        sheet.add(
            row,
            provider=PROVIDER,
            model=row.text(slug) or row.text(other),
            start=start,
            end=end,
            amount=row.amount(cost),
            usage=_usage(row, given, out, "cached_tokens", reasoning),
            requests=row.count(requests),
        )
