"""How estimates stand on a page: by question, then by what was measured and how; tables of what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from judgerun.audit.words import percent
from judgerun.model.money import format_usd
from judgerun.report import plots
from judgerun.report.page import Block, Head, Table, Text
from judgerun.report.told import Told

LABELS_MAX = 12
"""A table of shares with more labels than this is no longer read across."""
HIDDEN = ("unit", "scope", "limit_nanos", "measure")
"""Coordinates that are told by other means."""


def lay(tolds: Sequence[Told], names: Mapping[str, str], *, sliced: bool) -> tuple[Block, ...]:
    """The blocks of one section: a headline for each question; under it, for each measure and method, what they are, and a
    table. Only lines of slices, or only the others; empty when there are none. `names`: conditions as they are to be read.
    """
    wanted = [told for told in tolds if sliced == any(name.startswith("slice.") for name in told.coords)]
    return tuple(
        block for question, held in _grouped(wanted, _question) for block in _blocks(question, held, names, sliced)
    )


def _blocks(question: str, held: Sequence[Told], names: Mapping[str, str], sliced: bool) -> Iterator[Block]:
    yield Head(question)
    for (measure, how), lines in _grouped(held, _measured):
        common = _common(lines)
        where = "" if not common else f"; {', '.join(f'{name} {value}' for name, value in common)}"
        yield Text(f"{measure}: {how}{where}" if measure != question else f"{how}{where}")
        labels = dict.fromkeys(told.coords.get("value", "") for told in lines)
        if "" not in labels and 1 < len(labels) <= LABELS_MAX:
            yield _across(lines, list(labels), names, common)
            continue
        yield _down(lines, names, common)
        if not sliced and lines[0].level is not None:
            words = [_where(told, names, common) for told in lines]
            yield from plots.intervals(lines, f"{question}, {measure}: value and interval.", words)


def _grouped(tolds: Iterable[Told], key: Callable[[Told], Any]) -> list[tuple[Any, list[Told]]]:
    """Lines of equal key together, in the order in which each key is first seen."""
    groups: dict[Any, list[Told]] = {}
    for told in tolds:
        groups.setdefault(key(told), []).append(told)
    return list(groups.items())


def _question(told: Told) -> str:
    return told.question


def _measured(told: Told) -> tuple[str, str]:
    level = "" if told.level is None else f"{100 * told.level:.0f}% interval"
    drawn = "" if told.seed is None else f"seed {told.seed}"
    return told.coords.get("measure", ""), "; ".join(filter(None, (told.method, told.convention, level, drawn)))


def _common(lines: Sequence[Told]) -> tuple[tuple[str, str], ...]:
    """The coordinates that all of several lines share; they are told once. Conditions stay where they are."""
    if len(lines) == 1:
        return ()
    first, *others = [dict(_shown(told)) for told in lines]
    return tuple(
        item for item in first.items() if item[0] != "condition" and all(item in other.items() for other in others)
    )


def _shown(told: Told) -> Iterator[tuple[str, str]]:
    """The coordinates to be read. A full condition name makes the coordinates inside it superfluous."""
    named = "condition" in told.coords and "scope" not in told.coords
    for name, value in sorted(told.coords.items()):
        kept = not named or name in ("condition", "value", "only") or name.startswith("slice.")
        if kept and name not in HIDDEN and (name, value) != ("only", "all"):
            yield name, value


def _where(told: Told, names: Mapping[str, str], common: Sequence[tuple[str, str]], *, label: bool = True) -> str:
    held = [item for item in _shown(told) if item not in common and (label or item[0] != "value")]
    words = [
        names.get(value, value) if name == "condition" else f"{name.removeprefix('slice.')} {value}"
        for name, value in held
    ]
    limit = told.coords.get("limit_nanos")
    return ", ".join([*words, *([f"of {format_usd(int(limit))} USD"] if limit is not None else [])]) or "all"


def _down(lines: Sequence[Told], names: Mapping[str, str], common: Sequence[tuple[str, str]]) -> Table:
    """One line for each estimate; columns that nothing fills are left out."""
    header = ("of", "value", "interval", "n", "note")
    cells = [
        (_where(told, names, common), number(told, told.value), _interval(told), str(told.n), told.note)
        for told in lines
    ]
    kept = [n for n in range(len(header)) if any(row[n] for row in cells)]
    return Table(tuple(header[n] for n in kept), tuple(tuple(row[n] for n in kept) for row in cells))


def _across(
    lines: Sequence[Told], labels: Sequence[str], names: Mapping[str, str], common: Sequence[tuple[str, str]]
) -> Table:
    """One line for each condition, one column for each label or score: count (share [interval])."""
    rows = []
    for where, held in _grouped(lines, lambda told: _where(told, names, common, label=False)):
        cells = {told.coords["value"]: _counted(told) for told in held}
        rows.append((where, str(held[0].n), *(cells.get(label, "-") for label in labels), _plain(held[0].note)))
    return Table(("of", "n", *labels, "note"), tuple(rows))


def _plain(note: str) -> str:
    """A note without the count of one label: each cell has its own."""
    return "; ".join(part for part in note.split("; ") if not part.endswith(" true"))


def _counted(told: Told) -> str:
    """A share with its count, where it is a count: shares of averaged draws are not."""
    if told.value is None or told.low is None or told.high is None:
        return number(told, told.value)
    share, interval = percent(told.value), f"[{percent(told.low)}, {percent(told.high)}]"
    return f"{round(told.value * told.n)} ({share}) {interval}" if told.method == "wilson" else f"{share} {interval}"


def _interval(told: Told) -> str:
    return "" if told.low is None else f"[{number(told, told.low)}, {number(told, told.high)}]"


def number(told: Told, value: float | int | None) -> str:
    """A value as it is read: money in dollars, p-values with two digits, others with four."""
    if value is None:
        return "not told"
    if told.coords.get("unit") == "nanos":
        return f"{format_usd(int(value))} USD"
    return f"{value:.2g}" if told.coords.get("measure", "").startswith("p") else f"{value:.4g}"
