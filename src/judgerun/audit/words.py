"""Numbers and Markdown as people read them; the one place where a table becomes text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from judgerun.audit.finding import Rate

EVIDENCE_MAX = 10
"""So many names of what is wrong stand in a finding."""


def percent(share: float | None) -> str:
    """A share with one decimal; "-" where nothing is known."""
    return "-" if share is None else f"{100 * share:.1f}%"


def rate(value: Rate) -> str:
    """`3 (10.0%) [3.5%, 25.6%]`; "-" over no cells."""
    if value.interval is None:
        return "-"
    low, high = value.interval
    return f"{value.count} ({percent(value.share)}) [{percent(low)}, {percent(high)}]"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; what would break a cell is escaped."""
    lines = [_line([escape(cell) for cell in header]), _line(["---"] * len(header))]
    lines.extend(_line([escape(cell) for cell in row]) for row in rows)
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escape(text: str) -> str:
    """Text that stays in one Markdown cell and brings no markup of its own."""
    for sign in "\\|`*":
        text = text.replace(sign, "\\" + sign)
    text = text.replace("<", "&lt;").replace("](", "]\\(")
    return " ".join(text.split())


def plural(count: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def few(names: Iterable[str]) -> tuple[str, ...]:
    """At most EVIDENCE_MAX names, and how many more there are."""
    held = list(names)
    more = len(held) - EVIDENCE_MAX
    return (*held[:EVIDENCE_MAX], f"and {more} more") if more > 0 else tuple(held)
