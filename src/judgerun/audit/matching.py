"""Matching: which attempts of the ledger a provider's lines are of, at the finest grain that both have; pure, over columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from judgerun.ledger.prices import Price
from judgerun.ledger.statement import Charge, Line
from judgerun.model.money import Nanos
from judgerun.model.reply import Usage

_DATE = re.compile(r"[-@](20\d\d-?[01]\d-?[0-3]\d)$")
_IDLE = frozenset({"", "preview", "latest"})
DAY_S = 86_400.0
CALL_S = 600.0
Group = tuple[tuple[str, ...], bool]
"""A model's name, and whether it is the batch lane."""


class State(StrEnum):
    """How the ledger has an attempt."""

    SETTLED = "settled"
    FORFEITED = "forfeited"
    VOID = "void"
    OPEN = "open"
    CLEARED = "cleared"  # a document said that it was not charged


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """One attempt as the ledger has it, before what these very statements adjusted."""

    attempt: int
    providers: frozenset[str]  # the names under which a statement may bill it
    models: frozenset[str]  # the names of its model: as it was asked for, and as it was served
    at: float  # Unix time at which its provider counts it, as well as we know
    state: State
    settled: Nanos = 0
    doubt: Nanos = 0  # forfeited, or held
    usage: Usage | None = None  # of a settled one, where it is known
    ids: frozenset[str] = frozenset()  # the provider's own names of the call
    job: bool = False
    usual: Price | None = None  # in force for it, outside of the batch lane
    batch: Price | None = None  # in the batch lane
    answered: datetime | None = None
    experiment: str = ""
    budget: str = ""
    resolved: bool = False  # a line of these very statements resolved it already

    @property
    def price(self) -> Price | None:
        """The price of its lane."""
        return self.batch if self.job else self.usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Lines and attempts that belong together. `certain`: each line names its call, and this is that call."""

    label: str
    lines: tuple[Line, ...] = ()
    booked: tuple[Booked, ...] = ()
    certain: bool = False
    foreign: bool = False  # a model, or a key, that the ledger never used
    series: tuple[object, ...] = ()  # of which it is one interval, where it is of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """All lines in cells, with the attempts that they may be of, and the attempts of which the statement says nothing."""

    cells: tuple[Cell, ...]
    outside: tuple[Booked, ...] = ()
    grains: Mapping[str, str] = field(default_factory=dict)  # provider -> the grain


class Period(NamedTuple):
    """From, until: what is compared, in Unix seconds; None where the statement itself says."""

    since: float | None = None
    until: float | None = None


ALL = Period()


@cache
def name_of(model: str) -> tuple[str, ...]:
    """A model's name as far as statements and requests agree on it: its words in any order, without maker, date and `preview`."""
    text = _DATE.sub("", model.lower().rsplit("/", 1)[-1])
    return tuple(sorted(word for word in re.split(r"[^a-z0-9]+", text) if word not in _IDLE))


def match(
    lines: Sequence[Line],
    booked: Sequence[Booked],
    *,
    period: Period = ALL,
    keys: Sequence[str] = (),
    shift: float = 0.0,
) -> Matched:
    """Lines and attempts in cells. Lines of single calls go to the attempt that they name; those whose call nobody knows, and all
    others, to the attempts of their model in their interval. `keys`: lines of other API keys are foreign. `shift` moves the
    intervals, in seconds.
    """
    by = timedelta(seconds=shift)
    moved = [replace(line, start=line.start + by, end=line.end + by) for line in lines] if shift else list(lines)
    by_provider: dict[str, list[Line]] = defaultdict(list)
    for line in moved:
        by_provider[line.provider].append(line)
    cells: list[Cell] = []
    outside: list[Booked] = []
    grains: dict[str, str] = {}
    for provider, held in by_provider.items():
        ours = [one for one in booked if provider in one.providers]
        found, beyond, grains[provider] = _provider(provider, held, ours, period, frozenset(keys))
        cells += found
        outside += beyond
    return Matched(cells=tuple(cells), outside=tuple(outside), grains=grains)


def _provider(
    provider: str, lines: Sequence[Line], booked: Sequence[Booked], period: Period, keys: frozenset[str]
) -> tuple[list[Cell], list[Booked], str]:
    since, until = _covered(lines, period)
    inside = [one for one in booked if since <= one.at < until]
    known = {name_of(model) for one in booked for model in one.models}
    cells: list[Cell] = []
    rest: list[Line] = []
    for line in lines:
        if not _within(line, since, until):
            continue
        if line.kind is Charge.OTHER:
            cells.append(Cell(label=f"{provider} other charges", lines=(line,)))
        elif keys and line.key is not None and line.key not in keys:
            cells.append(Cell(label=f"{provider} key {line.key}", lines=(line,), foreign=True))
        elif line.model is not None and name_of(line.model) not in known:
            cells.append(Cell(label=f"{provider} {line.model}", lines=(line,), foreign=True))
        else:
            rest.append(line)
    single, left, free = _singles(provider, rest, inside)
    cells += single
    numbered = any(line.attempt is not None for line in rest)
    if single and (numbered or not left):
        cells += [Cell(label=_label(provider, [line]), lines=(line,), certain=True) for line in left]
        cells += [Cell(label=f"{provider} attempt {one.attempt}", booked=(one,), certain=True) for one in free]
        grain = "call"
    else:
        named = [one for one in free if single and one.ids]
        cells += [Cell(label=f"{provider} attempt {one.attempt}", booked=(one,), certain=True) for one in named]
        cells += _intervals(provider, left, [one for one in free if not (single and one.ids)])
        grain = "call" if single else _grain(left)
    return cells, [one for one in booked if not since <= one.at < until], grain


def _within(line: Line, since: float, until: float) -> bool:
    start, end = line.start.timestamp(), line.end.timestamp()
    return start < until and (end > since if end > start else start >= since)


def _covered(lines: Sequence[Line], period: Period) -> tuple[float, float]:
    """What the statement covers: from its first line to its last; around moments, whole days (UTC)."""
    since, until = min(map(_from, lines)), max(map(_until, lines))
    return since if period.since is None else period.since, until if period.until is None else period.until


def _singles(
    provider: str, lines: Sequence[Line], booked: Sequence[Booked]
) -> tuple[list[Cell], list[Line], list[Booked]]:
    """Cells of calls that lines name, the lines that name none that we know, and the attempts that no line names."""
    numbers = {one.attempt: one for one in booked}
    ids = {id_: one for one in booked for id_ in one.ids}
    found: dict[int, list[Line]] = defaultdict(list)
    left: list[Line] = []
    for line in lines:
        one = numbers.get(line.attempt) if line.attempt is not None else ids.get(line.call or "")
        (found[one.attempt] if one is not None else left).append(line)
    cells = [
        Cell(label=f"{provider} attempt {number}", lines=tuple(held), booked=(numbers[number],), certain=True)
        for number, held in found.items()
    ]
    return cells, left, [one for one in booked if one.attempt not in found]


def _grain(lines: Sequence[Line]) -> str:
    length = min(((line.end - line.start).total_seconds() for line in lines if line.amount is not None), default=DAY_S)
    by = "day" if 82_000 < length < 91_000 else "hour" if 0 < length < 82_000 else "day" if length == 0 else "period"
    return f"model and {by}" if any(line.model for line in lines if line.amount is not None) else by


def _intervals(provider: str, lines: Sequence[Line], booked: Sequence[Booked]) -> Iterator[Cell]:
    """Lines whose intervals overlap, with the attempts in them: model by model, and by lane, where the lines tell these."""
    merged = any(line.model is None and line.amount is not None for line in lines)
    lanes = any(line.kind is Charge.BATCH for line in lines)
    spans: dict[Group, list[_Span]] = defaultdict(list)
    for line in sorted(lines, key=_from):
        name = () if merged or line.model is None else name_of(line.model)
        held = spans[name, lanes and line.kind is Charge.BATCH]
        if not held or _from(line) >= held[-1].until:
            held.append(_Span(_from(line)))
        held[-1].add(line)
    homeless: dict[str, list[Booked]] = defaultdict(list)
    for one in booked:
        names = [()] if merged else [name_of(model) for model in sorted(one.models)]
        near = (_holding(spans.get((name, lanes and one.job), ()), one.at) for name in names)
        span = next((span for span in near if span is not None), None)
        (homeless[min(one.models, default="")] if span is None else span.booked).append(one)
    for key, found in spans.items():
        for span in found:
            label, series = _label(provider, span.lines), (provider, *key)
            yield Cell(label=label, lines=tuple(span.lines), booked=tuple(span.booked), series=series)
    for model, ours in homeless.items():
        yield Cell(label=f"{provider} {model}", booked=tuple(ours))


class _Span:
    """Lines whose intervals overlap, and the attempts in their time."""

    __slots__ = ("booked", "lines", "since", "until")

    def __init__(self, since: float) -> None:
        self.since = self.until = since
        self.lines: list[Line] = []
        self.booked: list[Booked] = []

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.until = max(self.until, _until(line))


def _holding(spans: Sequence[_Span], at: float) -> _Span | None:
    """The one of spans, in order, that holds a moment, or else begins or ends within the time that a call may last."""
    place = bisect_right(spans, at, key=lambda span: span.since)
    near = [span for span in spans[max(place - 1, 0) : place + 1] if span.since - CALL_S <= at < span.until + CALL_S]
    return min(near, key=lambda span: max(span.since - at, at - span.until), default=None)


def _from(line: Line) -> float:
    """Where the interval of a line begins: for one of a moment, its day (UTC)."""
    start = line.start.timestamp()
    return start if line.end > line.start else start // DAY_S * DAY_S


def _until(line: Line) -> float:
    return line.end.timestamp() if line.end > line.start else _from(line) + DAY_S


def _label(provider: str, lines: Iterable[Line]) -> str:
    held = list(lines)
    day = min(line.start for line in held).astimezone(UTC)
    models = sorted({line.model for line in held if line.model is not None})
    return " ".join(
        [provider, *models[:1], day.strftime("%Y-%m-%d" if day.hour == day.minute == 0 else "%Y-%m-%dT%H:%M")]
    )
