"""Records of solvers' calls without their texts, one JSON document each: a list, or lists by the solver's name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from judgerun.files.foreign.parts import Parts, Read, nanos
from judgerun.model.foreign import Call

NAME = "solver-records"


class Record(Read):
    """One call."""

    condition: str
    query_id: str
    completion_tokens: int
    prompt_tokens: int | None = None
    finish_reason: str | None = None
    capped: bool | None = None
    cost: float | None = None


def fits(raw: Any) -> bool:
    """Whether a JSON document is one of these."""
    lists = list(raw.values()) if isinstance(raw, dict) else [raw]
    known = {"condition", "query_id", "completion_tokens"}
    return bool(lists) and all(
        isinstance(held, list) and held and isinstance(held[0], dict) and known <= held[0].keys() for held in lists
    )


def read(parts: Parts, file: str, raw: Any) -> None:
    """The calls: the condition of each stands under its solver's name, or that of the file."""
    for solver, place, one in _records(file, raw):
        row = parts.shaped(Record, one, file, place)
        if row is None:
            continue
        parts.calls.append(
            Call(
                source=f"{file}#{place}",
                file=file,
                role="solver",
                condition=f"{solver}/{row.condition}",
                item=row.query_id,
                model=solver,
                input=row.prompt_tokens,
                output=row.completion_tokens,
                finish=row.finish_reason or ("length" if row.capped else None),
                cost=nanos(row.cost),
            )
        )


def _records(file: str, raw: Any) -> Iterator[tuple[str, str, Any]]:
    """(solver, place, record)."""
    if isinstance(raw, list):
        yield from ((PurePath(file).stem, f"[{number}]", one) for number, one in enumerate(raw))
    else:
        for solver, held in raw.items():
            yield from ((solver, f"{solver}[{number}]", one) for number, one in enumerate(held))
