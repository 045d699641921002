"""Readings: tables of what a person read off real bodies, two lines for each, and how a reply is held against its row."""

from __future__ import annotations

import ast

from fakes.recorded import DATA
from judgerun.model.reply import BUCKETS, Finish, Reply, Usage


def rows(table: str) -> list[tuple[str, ...]]:
    """The rows: the name of a body, and below it cells apart by ` | `."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [(name, *rest.split(" | ")) for name, rest in zip(lines[::2], lines[1::2], strict=True)]


def files(*patterns: str) -> set[str]:
    """The names of all bodies whose files fit one of the patterns."""
    return {f"{path.parent.name}/{path.stem}" for pattern in patterns for path in DATA.glob(f"{pattern}.json")}


def check(reply: Reply, row: tuple[str, ...]) -> None:
    """A reply is what its row says: finish and raw word; the six buckets, - where the body is silent; served model; the
    provider's total; reported nanos; how the text begins (nothing: it is empty).
    """
    _, finish, tokens, model, total, nanos, begins = row
    word, raw = finish.split()
    assert (reply.finish, reply.finish_raw) == (Finish(word), raw)
    assert reply.usage == Usage(**dict(zip(BUCKETS, map(_number, tokens.split()), strict=True)))
    assert reply.served_model == (None if model == "-" else model)
    assert (reply.reported_tokens, reply.reported_cost) == (_number(total), _number(nanos))
    text = ast.literal_eval(begins)
    assert reply.text.startswith(text)
    assert bool(reply.text) == bool(text)
    assert reply.thoughts == ""


def _number(cell: str) -> int | None:
    return None if cell == "-" else int(cell)
