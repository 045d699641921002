"""Spend logs reduced to CSV: tokens per call with what they were for, beside a JSON summary with prices and totals."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from judgerun.errors import Problem
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


Tokens = Annotated[int | None, BeforeValidator(lambda text: text or None)]
"""A number in a cell; nothing is None."""


class RunRow(Read):
    """A row of the run."""

    phase: str
    condition: str
    query_id: str
    solver_prompt_tokens: Tokens
    solver_completion_tokens: Tokens
    grader_a_prompt_tokens: Tokens


class OtherRow(Read):
    """A row of the other calls."""

    kind: str
    group: str
    item: str
    input_tokens: Tokens
    output_tokens: Tokens


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
    return tuple(body.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").strip().split(","))


def read(parts: Parts, tables: Mapping[str, bytes], summaries: Mapping[str, Any]) -> None:
    """The calls of the tables, each priced by the summary beside it (or the only one there is), and the totals stated by each."""
    shaped = {file: parts.shaped(Summary, raw, file, "") for file, raw in summaries.items()}
    held = {file: summary for file, summary in shaped.items() if summary is not None}
    priced_by: dict[str, list[str]] = {file: [] for file in held}
    for file, body in tables.items():
        beside = [one for one in held if PurePosixPath(one).parent == PurePosixPath(file).parent] or list(held)
        if len(beside) > 1:
            parts.problems.append(
                Problem(file, "", f"has no one summary: {', '.join(beside)}", "one beside each table")
            )
            continue
        for one in beside:
            priced_by[one].append(file)
        _table(parts, file, body, held[beside[0]] if beside else None)
    for file, summary in held.items():
        for name, usd in summary.header_totals_usd.items():
            source = f"{file}#header_totals_usd.{name}"
            parts.totals.append(Total(source=source, name=name, files=tuple(priced_by[file]), cost=nanos(usd)))


def _table(parts: Parts, file: str, body: bytes, summary: Summary | None) -> None:
    try:
        rows = list(csv.DictReader(io.StringIO(body.decode("utf-8-sig")), restval="(no cell)"))
    except (UnicodeDecodeError, csv.Error) as error:
        parts.problems.append(Problem(file, "", f"no CSV in UTF-8: {error}"))
        return
    for number, raw in enumerate(rows, 2):
        place, source = f"line {number}", f"{file}:{number}"
        if "seq" in raw:
            row = parts.shaped(RunRow, raw, file, place)
            parts.calls += [] if row is None else _run(file, source, row, summary)
        else:
            other = parts.shaped(OtherRow, raw, file, place)
            parts.calls += [] if other is None else [_other(file, source, other, summary)]


def _run(file: str, source: str, row: RunRow, held: Summary | None) -> Iterator[Call]:
    """A solver's call, and its grader's, which answered with one token where its prompt is told."""
    given, made, graded = row.solver_prompt_tokens, row.solver_completion_tokens, row.grader_a_prompt_tokens
    common: dict[str, Any] = {
        "source": source,
        "file": file,
        "condition": row.condition,
        "item": row.query_id,
        "session": row.phase,
    }
    yield Call(role="solver", input=given, output=made, **common, **_of(held, SOLVER, given, made))
    if graded is not None:
        yield Call(role="grader-a", input=graded, output=1, **common, **_of(held, GRADER, graded, 1))


def _other(file: str, source: str, row: OtherRow, held: Summary | None) -> Call:
    kind = row.kind if held is None else held.names.get(row.kind, row.kind)
    note = "" if held is None else held.kind_notes.get(kind, "")
    return Call(
        source=source,
        file=file,
        role=row.kind,
        condition=row.group,
        item=row.item,
        input=row.input_tokens,
        output=row.output_tokens,
        estimated="estimate" in note,
        **_of(held, kind, row.input_tokens, row.output_tokens),
    )


def _of(held: Summary | None, kind: str, given: int | None, made: int | None) -> dict[str, Any]:
    """Model, provider and cost of a kind of call, as far as the summary tells them."""
    if held is None:
        return {}
    model = held.model_by_kind.get(kind)
    provider = next((name for name in held.header_totals_usd if model is not None and model.startswith(name)), None)
    return {"model": model, "provider": provider, "cost": held.cost(kind, given, made)}
