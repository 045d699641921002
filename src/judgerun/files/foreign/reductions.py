"""Spend logs reduced to CSV: tokens per call with what they were for, beside a JSON summary with prices and totals."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from judgerun.files.foreign.parts import Parts, Read, nanos, priced
from judgerun.model.foreign import Call, Total

NAME = "spend-csv"
RUN = (
    "seq",
    "phase",
    "condition",
    "query_id",
    "solver_prompt_tokens",
    "solver_completion_tokens",
    "grader_a_prompt_tokens",
)
OTHER = ("kind", "group", "item", "input_tokens", "output_tokens")
SOLVER, GRADER = "solver_utility_run", "grader_a_utility_run"
"""What the summary calls the two kinds of calls in a row of the run."""


class Summary(Read):
    """The JSON document beside the tables."""

    header_totals_usd: dict[str, float]
    pricing_usd_per_1m: dict[str, tuple[float, float]]
    model_by_kind: dict[str, str]
    kind_abbreviations_in_spend_other_calls_csv: dict[str, str] = Field(default_factory=dict)
    kind_notes: dict[str, str] = Field(default_factory=dict)

    @property
    def names(self) -> Mapping[str, str]:
        """The kind of an abbreviation."""
        return {short: name for name, short in self.kind_abbreviations_in_spend_other_calls_csv.items()}

    def cost(self, kind: str, given: int | None, made: int | None) -> int | None:
        """What a call of a kind cost at the prices of the summary; None where something of it is not known."""
        rates = self.pricing_usd_per_1m.get(self.model_by_kind.get(kind, ""))
        if rates is None or given is None or made is None:
            return None
        return priced({"input": given, "output": made}, rates)


def fits(raw: Any) -> bool:
    """Whether a JSON document is such a summary."""
    return isinstance(raw, dict) and {"header_totals_usd", "pricing_usd_per_1m", "model_by_kind"} <= raw.keys()


def columns(body: bytes) -> tuple[str, ...]:
    """The head of a CSV."""
    return tuple(body.split(b"\n", 1)[0].decode(errors="replace").strip().split(","))


def read(parts: Parts, tables: Mapping[str, bytes], summary: tuple[str, Any] | None) -> None:
    """The calls of the tables, priced by the summary where there is one, and the totals that it states."""
    held = None if summary is None else parts.shaped(Summary, summary[1], summary[0], "")
    for file, body in tables.items():
        rows = csv.DictReader(io.StringIO(body.decode("utf-8-sig")))
        for number, row in enumerate(rows, 2):
            if tuple(row) == RUN:
                _run(parts, f"{file}:{number}", row, held)
            else:
                _other(parts, f"{file}:{number}", row, held)
    if held is not None and summary is not None:
        for name, usd in held.header_totals_usd.items():
            parts.totals.append(Total(source=f"{summary[0]}#header_totals_usd.{name}", name=name, cost=nanos(usd)))


def _run(parts: Parts, source: str, row: Mapping[str, str], held: Summary | None) -> None:
    """A solver's call, and its grader's, which answered with one token where its prompt is told."""
    given, made, graded = (_whole(row[name]) for name in RUN[4:])
    common: dict[str, Any] = {
        "source": source,
        "condition": row["condition"],
        "item": row["query_id"],
        "session": row["phase"],
    }
    parts.calls.append(Call(role="solver", input=given, output=made, **common, **_of(held, SOLVER, given, made)))
    if graded is not None:
        parts.calls.append(Call(role="grader-a", input=graded, output=1, **common, **_of(held, GRADER, graded, 1)))


def _other(parts: Parts, source: str, row: Mapping[str, str], held: Summary | None) -> None:
    kind = row["kind"] if held is None else held.names.get(row["kind"], row["kind"])
    given, made = _whole(row["input_tokens"]), _whole(row["output_tokens"])
    note = "" if held is None else held.kind_notes.get(kind, "")
    parts.calls.append(
        Call(
            source=source,
            role=row["kind"],
            condition=row["group"],
            item=row["item"],
            input=given,
            output=made,
            estimated="estimate" in note,
            **_of(held, kind, given, made),
        )
    )


def _of(held: Summary | None, kind: str, given: int | None, made: int | None) -> dict[str, Any]:
    """Model, provider and cost of a kind of call, as far as the summary tells them."""
    if held is None:
        return {}
    model = held.model_by_kind.get(kind)
    provider = next((name for name in held.header_totals_usd if model is not None and model.startswith(name)), None)
    return {"model": model, "provider": provider, "cost": held.cost(kind, given, made)}


def _whole(text: str) -> int | None:
    return int(text) if text.strip() else None
