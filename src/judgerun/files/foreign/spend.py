"""Spend logs that are one JSON document: totals by provider, and a list of calls with tokens, cost and a note; or that list."""

from __future__ import annotations

import re
from typing import Any

from judgerun.files.foreign.parts import Parts, Read, nanos
from judgerun.model.foreign import TOTAL, Call, Total

NAME = "spend-json"
ESTIMATED = re.compile(r"\best(imate[ds]?)?\b|chars?\s*/\s*4|\bapprox", re.IGNORECASE)
"""Words of a note by which its row is an estimate."""
_NOTE = re.compile(r"(?P<role>\S.*?) (?P<condition>[^\s/]+)/(?P<item>\S+)$")


class Row(Read):
    """One call."""

    ts: float | None = None
    model: str
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    note: str = ""


def fits(raw: Any) -> bool:
    """Whether a JSON document is such a log."""
    if isinstance(raw, list):
        return bool(raw) and isinstance(raw[0], dict) and {"model", "cost", "input_tokens"} <= raw[0].keys()
    return isinstance(raw, dict) and isinstance(raw.get("calls"), list)


def read(parts: Parts, file: str, raw: Any) -> None:
    """The calls, with role, condition and item from their notes (`solver none/ID`), and the totals that the head states: those
    under the name of a provider of the rows, or `total`; other numbers of a head may be anything.
    """
    head, rows, name = (raw, raw["calls"], "calls") if isinstance(raw, dict) else ({}, raw, "")
    providers = {TOTAL}
    for number, one in enumerate(rows):
        row = parts.shaped(Row, one, file, f"{name}[{number}]")
        if row is None:
            continue
        providers |= {row.provider} if row.provider else set()
        told = _NOTE.match(row.note)
        parts.calls.append(
            Call(
                source=f"{file}#{name}[{number}]",
                file=file,
                role=told["role"] if told else row.note or "call",
                condition=told["condition"] if told else "",
                item=told["item"] if told else "",
                model=row.model,
                provider=row.provider,
                at=row.ts,
                input=row.input_tokens,
                output=row.output_tokens,
                cost=nanos(row.cost),
                estimated=ESTIMATED.search(row.note) is not None,
            )
        )
    for name, value in head.items():
        if name in providers and isinstance(value, int | float) and not isinstance(value, bool):
            parts.totals.append(Total(source=f"{file}#{name}", name=name, files=(file,), cost=nanos(value)))
