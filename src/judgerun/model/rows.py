"""The data that an experiment reads, as the core sees it: tables of rows, golds, and user functions already loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from judgerun.model.study import Study

Fields = Mapping[str, Any]


class Table(Protocol):
    """A data table. Rows may live on disk: `fields` reads one when asked, nothing holds all of them."""

    name: str
    ids: Sequence[str]  # unique within one value of `condition`; in file order, after `only` and `sample`

    def __len__(self) -> int: ...

    def fields(self, row: int) -> Fields:
        """The fields of row number `row`, renamed by `columns`, without the id."""
        ...

    def block(self, row: int) -> str:
        """The unit of pairing and ordering to which the row belongs (default: its id)."""
        ...

    def condition(self, row: int) -> str | None:
        """The value of the `condition` field; None for a table without one."""
        ...

    def conditions(self) -> Sequence[str]:
        """All values of the `condition` field in order of appearance; empty for a table without one."""
        ...

    def find(self, field_name: str, value: str) -> Sequence[int]:
        """The row numbers whose field (or `id`) equals `value`, compared as text."""
        ...


@dataclass(frozen=True, slots=True)
class Gold:
    """Relevance judgments: `grades[query id][document id]` is a whole number; absent is unjudged."""

    name: str
    grades: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything that files read for one experiment."""

    tables: Mapping[str, Table]
    golds: Mapping[str, Gold] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # by the `call` string of a map stage
    study: Study | None = None  # what the experiment's `study` brings
    digests: Mapping[str, str] = field(default_factory=dict)  # file as written in the experiment -> hex sha256
