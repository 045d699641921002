"""Rows of a provider's export, and what their cells say: amounts, counts, moments, days; what is wrong is gathered, all at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from judgerun.errors import Problem
from judgerun.ledger.statement import NANO, Line

_COMPACT = re.compile(r"\d{8}")
_MONEY = re.compile(r"[^\d.eE+-]")
DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_S = 3600.0


@dataclass(slots=True)
class Sheet:
    """One file while it is read. `preamble`: name-value lines above the head of a CSV file. Not frozen: it gathers."""

    file: str
    zone: ZoneInfo
    header: tuple[str, ...] = ()
    preamble: Mapping[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unit: Decimal = NANO

    def add(self, row: Row, *, start: float, end: float, **values: Any) -> None:
        """A line from a row, over an interval in Unix seconds, unless something in the row was wrong."""
        if not row.wrong:
            first, last = EPOCH + timedelta(seconds=start), EPOCH + timedelta(seconds=end)
            self.lines.append(Line(file=self.file, where=row.where, start=first, end=last, **values))

    def rounded(self, texts: Iterable[str]) -> None:
        """The amounts of the file are told to the last decimal place that any of these texts has."""
        places = [len(text.partition(".")[2].rstrip()) for text in texts]
        self.unit = Decimal(1).scaleb(-max(places)) if places else NANO


@dataclass(slots=True)
class Row:
    """One row. A cell that cannot be read is noted as a problem, and reads as nothing."""

    sheet: Sheet
    where: str
    cells: Mapping[str, Any]
    wrong: bool = False

    def fault(self, wrong: str, right: str = "") -> None:
        """Note what is wrong with the row."""
        self.wrong = True
        self.sheet.problems.append(Problem(self.sheet.file, self.where, wrong, right))

    def has(self, name: str) -> bool:
        """Whether the cell is there and not empty."""
        value = self.cells.get(name)
        return value is not None and value != ""

    def text(self, name: str) -> str | None:
        """The text of a cell; None where it is empty."""
        return str(self.cells[name]).strip() or None if self.has(name) else None

    def amount(self, name: str, *, needed: bool = True) -> Decimal | None:
        """A decimal number, `$1,234.50` included; None where it is empty, which is wrong where it is `needed`."""
        if not self.has(name):
            if needed:
                self.fault(f"{name} is empty")
            return None
        held = self.cells[name]
        try:
            if isinstance(held, bool):
                raise ArithmeticError
            value = held if isinstance(held, Decimal) else Decimal(_MONEY.sub("", str(held)))
        except ArithmeticError:
            value = Decimal("NaN")
        if not value.is_finite():
            self.fault(f"{name} is {str(held)[:40]!r}, no number")
            return None
        return value

    def count(self, name: str) -> int | None:
        """A whole number that is not negative; None where the cell is empty."""
        value = self.amount(name, needed=False)
        if value is None:
            return None
        if value < 0 or value != value.to_integral_value():
            self.fault(f"{name} is {value}, no count")
            return None
        return int(value)

    def moment(self, name: str) -> float | None:
        """A moment in Unix seconds, from those or from ISO text; without an offset it is in the zone of the file."""
        found = self._time(name)
        return None if found is None else found[0].timestamp()

    def span(self, name: str) -> tuple[float, float] | None:
        """The day, or the hour where one is told, that a cell names: from, until."""
        found = self._time(name)
        if found is None:
            return None
        start, whole = found
        return start.timestamp(), _midnight(start + DAY, start) if whole else start.timestamp() + HOUR_S

    def between(self, first: str, last: str, *, inclusive: bool = False) -> tuple[float, float] | None:
        """The interval from one cell to another; `inclusive`: the last names a day that is still in it."""
        one, other = self._time(first), self._time(last)
        if one is None or other is None:
            return None
        start = one[0].timestamp()
        end = _midnight(other[0] + DAY, other[0]) if inclusive and other[1] else other[0].timestamp()
        if end < start:
            self.fault(f"{last} is before {first}")
            return None
        return start, end

    def _time(self, name: str) -> tuple[datetime, bool] | None:
        """A cell as a moment, and whether it names a whole day."""
        if not self.has(name):
            self.fault(f"{name} is empty")
            return None
        text = str(self.cells[name]).strip()
        try:
            if _COMPACT.fullmatch(text):
                return datetime.strptime(text, "%Y%m%d").replace(tzinfo=self.sheet.zone), True
            if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
                return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(Decimal(text) * 1_000_000)), False
            read = datetime.fromisoformat(text.removesuffix(" UTC"))
        except ValueError:
            self.fault(f"{name} is {text[:40]!r}, no time", "2026-11-30, 2026-11-30T08:00:00Z, or Unix seconds")
            return None
        whole = len(text) == len("2026-11-30") or text.endswith(" 00:00:00")
        zone = UTC if text.endswith(" UTC") else self.sheet.zone
        return (read if read.tzinfo else read.replace(tzinfo=zone)), whole


def _midnight(end: datetime, start: datetime) -> float:
    """The midnight that `end`, a day after the midnight `start` on the wall clock, is: a day may have 23 or 25 hours."""
    day = date(end.year, end.month, end.day)
    return datetime(day.year, day.month, day.day, tzinfo=start.tzinfo).timestamp()
