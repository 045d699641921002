"""What a study brings to a report: its questions as functions, the tables in which answers stand, what its paper printed, and
where its text and its program told different things. Frozen values; the functions inside are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgerun.analysis.estimate import Estimate

Columns = Mapping[str, Sequence[Any]]
Tables = Mapping[str, Columns]
"""By stage the columns of its table, as `export` names them, of equal length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One number of a question.

    `coords` say of what it is (embedder, judge, tier ...), `conditions` are the full names of all conditions that it rests on:
    where the gate of one fails, the number is not told; with `bounds`, between which it lies whatever the cells without a value
    would have said, it is told under its banner.
    """

    measure: str
    estimate: Estimate
    coords: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One published number: `ask(tables, seed)` gives its answers. Asked of an experiment that has all stages of `needs`."""

    needs: tuple[str, ...]
    ask: Callable[[Tables, int], Iterable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table of the paper: the answers of a question whose coordinates hold `only`, one line for each combination of `rows`, one
    column for each of `columns`, both coordinates, among which `measure` is one. `figure` draws them too.
    """

    title: str
    question: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    only: Mapping[str, str] = field(default_factory=dict)
    figure: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Where the paper says one thing and its program did another, and which of them this run does."""

    title: str
    paper: str
    pipeline: str
    here: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A number as it was printed, with the place where it stands; `coords` as those of the answer to which it belongs."""

    question: str
    measure: str
    coords: Mapping[str, str]
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study: its questions by name, and what stands around their answers, in the order of the report."""

    name: str
    questions: Mapping[str, Question]
    layouts: tuple[Layout, ...] = ()
    notes: tuple[Note, ...] = ()
    paper: tuple[Published, ...] = ()
