"""A file of claims -> what was claimed: percentages, sums, changes, lists that are the same, numbers of runs, equal runs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from judgerun.files.faults import Faults, settle
from judgerun.files.toml import read_text, read_toml
from judgerun.files.written import Written, many, wrong


def _decimal(value: Any) -> str:
    """A number as it is printed: a text keeps its zeros."""
    text = value.strip().removesuffix("%") if isinstance(value, str) else repr(value)
    try:
        float(text)
    except ValueError:
        raise wrong(f"{value!r} is no number", 'a number as it is printed, such as "9.30"') from None
    if isinstance(value, bool):
        raise wrong(f"{value!r} is no number")
    return text


Printed = Annotated[str, BeforeValidator(_decimal)]
Listed = Annotated[list[str], BeforeValidator(many)]


class Percent(Written):
    """`[[percent]]`: percentages of `of` items; or a column of a CSV `file`, whose items another column has."""

    name: str
    values: dict[str, Printed] = Field(default_factory=dict)
    of: int | str
    file: str | None = None
    column: Listed = Field(default_factory=list)


class Sum(Written):
    """`[[sum]]`"""

    name: str
    parts: list[Printed]
    total: Printed


class Change(Written):
    """`[[change]]`"""

    name: str
    before: Printed
    after: Printed
    change: Printed


class Same(Written):
    """`[[same]]`: two lists of ids, each written out or a file with one a line."""

    name: str
    a: list[str] | str
    b: list[str] | str


class Number(Written):
    """`[[number]]`: a number of estimates.json, of an experiment (`run`) or of a `file`, or of any JSON file the one to which the
    keys and places `at` lead; times `times`.
    """

    name: str
    value: Printed
    run: str | None = None
    file: str | None = None
    question: str | None = None
    at: list[str | int] = Field(default_factory=list)
    coords: dict[str, str] = Field(default_factory=dict)
    part: Annotated[str, Field(pattern="^(value|low|high|n)$")] = "value"
    times: float | int = 1


class Equal(Written):
    """`[[equal]]`: two experiments differ in these keys alone."""

    name: str
    runs: tuple[str, str] = Field(strict=False)
    but: Listed = Field(default_factory=list)


class Shape(Written):
    """A file of claims."""

    percent: list[Percent] = Field(default_factory=list)
    sum: list[Sum] = Field(default_factory=list)
    change: list[Change] = Field(default_factory=list)
    same: list[Same] = Field(default_factory=list)
    number: list[Number] = Field(default_factory=list)
    equal: list[Equal] = Field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentage:
    """One printed percentage of n items, with its place."""

    place: str
    printed: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Everything that a file claims."""

    percentages: tuple[Percentage, ...]
    lists: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]  # name, a, b
    shape: Shape


def load_claims(path: Path) -> Claims:
    """The claims of a TOML file; files that it names are beside it. Raises Refused with every problem at once."""
    faults, _ = read_toml(path)
    shape = faults.read(Shape, faults.raw) or Shape()
    percentages = [
        one for number, claim in enumerate(shape.percent) for one in _percentages(faults, path, number, claim)
    ]
    lists = tuple((claim.name, _ids(path, claim.a), _ids(path, claim.b)) for claim in shape.same)
    settle(faults)
    return Claims(percentages=tuple(percentages), lists=lists, shape=shape)


def _ids(path: Path, written: list[str] | str) -> tuple[str, ...]:
    """A list, or the lines of a file."""
    if isinstance(written, list):
        return tuple(written)
    text, _ = read_text(path.parent / written)
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _percentages(faults: Faults, path: Path, number: int, claim: Percent) -> Iterator[Percentage]:
    if claim.file is None:
        if not isinstance(claim.of, int):
            faults.add(("percent", number, "of"), f"{claim.of!r} is no number of items", "of = 118")
            return
        for name, printed in claim.values.items():
            yield Percentage(place=f"{claim.name}: {name}", printed=printed, n=claim.of)
        return
    text, _ = read_text(path.parent / claim.file)
    rows = list(csv.DictReader(text.splitlines()))
    lacking = _lacking(rows, [*claim.column, *([claim.of] if isinstance(claim.of, str) else [])])
    if lacking or not claim.column:
        right = f"there are {', '.join(rows[0])}" if rows else "a CSV file with a head"
        faults.add(("percent", number, "column"), f"{claim.file} has no column {', '.join(lacking) or 'named'}", right)
        return
    for line, row in enumerate(rows, 2):
        yield from _of_row(faults, number, claim, row, line)


def _lacking(rows: Sequence[dict[str, str]], wanted: Sequence[str]) -> list[str]:
    return [name for name in wanted if not rows or name not in rows[0]]


def _of_row(faults: Faults, number: int, claim: Percent, row: dict[str, str], line: int) -> Iterator[Percentage]:
    for column in claim.column:
        if not row[column].strip():
            continue
        try:
            n = claim.of if isinstance(claim.of, int) else int(row[claim.of])
            printed = _decimal(row[column])
        except ValueError:
            faults.add(
                ("percent", number, "file"), f"{claim.file} line {line}: {row[column]!r} of {claim.of} is no share"
            )
            continue
        yield Percentage(place=f"{claim.name}: {claim.file} line {line} {column}", printed=printed, n=n)
