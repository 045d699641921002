"""Caches of answers as JSON lines, one a cell: those of judges, with what was chosen, and those of solvers with their grades."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from judgerun.files.foreign.parts import Parts, Read, nanos
from judgerun.model.foreign import Call

JUDGES, SOLVERS = "judge-cache", "solver-cache"


class Judged(Read):
    """One line of a judge's cache."""

    query_id: str
    raw_response: str | None
    choice_idx: int | None = None
    chosen_id: str | None = None
    backend: str | None = None
    judge: str | None = None
    embedder: str | None = None
    completion_tokens: int | None = None
    stop_reason: str | None = None
    capped: bool | None = None


class Solved(Read):
    """One line of a solver's cache, with the grades of its answer."""

    condition: str
    query_id: str
    solution: str | None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    capped: bool | None = None
    solver_cost: float | None = None
    grader_a_cost: float | None = None
    score_a: int | None = None
    score_b: int | None = None
    raw_a: str | None = None
    raw_b: str | None = None
    correct_a: bool | None = None
    correct_b: bool | None = None


def fits(first: Any) -> str | None:
    """The kind of cache to which a line belongs; None where to none."""
    if not isinstance(first, dict) or "query_id" not in first:
        return None
    if {"condition", "solution"} <= first.keys():
        return SOLVERS
    return JUDGES if "raw_response" in first else None


def read(parts: Parts, file: str, body: bytes) -> None:
    """The calls of each line: one of a judge, or a solver's with its two graders'."""
    for place, raw in parts.lines(file, body):
        if fits(raw) == SOLVERS:
            _solved(parts, file, place, raw)
        else:
            _judged(parts, file, place, raw)


def _judged(parts: Parts, file: str, place: str, raw: Any) -> None:
    row = parts.shaped(Judged, raw, file, f"line {place.rpartition(':')[2]}")
    if row is None:
        return
    told = [part for part in (row.embedder, row.judge or row.backend) if part]
    parts.calls.append(
        Call(
            source=place,
            file=file,
            role="judge",
            condition="/".join(told) or PurePath(file).stem,
            item=row.query_id,
            model=row.judge or row.backend,
            output=row.completion_tokens,
            finish=row.stop_reason or ("length" if row.capped else None),
            text=row.raw_response or "",
            value=None if row.choice_idx is None else str(row.choice_idx),
        )
    )


def _solved(parts: Parts, file: str, place: str, raw: Mapping[str, Any]) -> None:
    row = parts.shaped(Solved, raw, file, f"line {place.rpartition(':')[2]}")
    if row is None:
        return
    parts.calls.append(
        Call(
            source=place,
            file=file,
            role="solver",
            condition=row.condition,
            item=row.query_id,
            output=row.completion_tokens,
            finish=row.finish_reason or ("length" if row.capped else None),
            cost=nanos(row.solver_cost),
            text=row.solution or "",
        )
    )
    grades = (
        ("grader-a", row.raw_a, row.score_a, row.correct_a, row.grader_a_cost),
        ("grader-b", row.raw_b, row.score_b, row.correct_b, None),
    )
    for role, text, score, correct, cost in grades:
        if text is not None or score is not None:
            parts.calls.append(
                Call(
                    source=place,
                    file=file,
                    role=role,
                    condition=row.condition,
                    item=row.query_id,
                    cost=nanos(cost),
                    text=text,
                    value=None if score is None else str(score),
                    extra={"correct": correct},
                )
            )
