"""The part of a report that a study brings: its answers in the tables of its paper, and where the paper and its program differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judgerun.audit.evidence import Evidence
from judgerun.model.study import Layout, Note, Study
from judgerun.report import plots
from judgerun.report.layout import lay, number
from judgerun.report.page import Block, Section, Table, Text
from judgerun.report.told import Told

NOTES = "Paper against pipeline"
FULL = "Every answer of the study"


@dataclass(frozen=True, slots=True)
class Grid:
    """The answers of one layout by line and column; a line and a column are the values of their coordinates."""

    lines: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    cells: dict[tuple[tuple[str, ...], tuple[str, ...]], Told]


def grid(layout: Layout, tolds: Sequence[Told]) -> Grid:
    """The answers that the layout shows; lines and columns in the order in which the study gave them."""
    held = [told for told in tolds if _belongs(layout, told)]
    cells = {(_of(told, layout.rows), _of(told, layout.columns)): told for told in held}
    lines = tuple(dict.fromkeys(line for line, _ in cells))
    return Grid(lines, tuple(dict.fromkeys(column for _, column in cells)), cells)


def sections(evidence: Evidence, tolds: Sequence[Told]) -> Iterator[Section]:
    """A section for each layout that has answers, then the notes, then every answer in full, folded."""
    study = evidence.study
    if study is None:
        return
    for layout in study.layouts:
        held = grid(layout, tolds)
        if held.cells:
            yield Section(layout.title, tuple(_blocks(layout, held)))
    yield from _notes(evidence, study)
    if full := lay(tolds, {}, sliced=False):
        yield Section(FULL, full, folded=True)


def _belongs(layout: Layout, told: Told) -> bool:
    named = all(name in told.coords for name in (*layout.rows, *layout.columns))
    return told.question == layout.question and named and layout.only.items() <= told.coords.items()


def _of(told: Told, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(told.coords[name] for name in names)


def _blocks(layout: Layout, held: Grid) -> Iterator[Block]:
    yield Text(f"Question: {layout.question}. {'; '.join(_how(held))}.")
    if layout.note:
        yield Text(layout.note)
    header = (*layout.rows, *(", ".join(column) for column in held.columns))
    rows = [(*line, *(_cell(held.cells.get((line, column))) for column in held.columns)) for line in held.lines]
    yield Table(header, tuple(rows))
    for said in dict.fromkeys(told.note for told in held.cells.values() if told.note):
        yield Text(said)
    if layout.figure:
        places = {
            (held.lines.index(line), held.columns.index(column)): told for (line, column), told in held.cells.items()
        }
        names = [[", ".join(words) for words in side] for side in (held.lines, held.columns)]
        yield from plots.bars(names[0], names[1], places, f"{layout.title}: value and interval.")


def _how(held: Grid) -> Iterator[str]:
    """How the numbers of a table were made: each method and convention once, with its level, seeds and n."""
    for method in dict.fromkeys(_method(told) for told in held.cells.values()):
        of = [told for told in held.cells.values() if _method(told) == method]
        sizes = sorted({told.n for told in of})
        yield f"{method}; n {' '.join(map(str, sizes))}"
    yield f"seal {next(iter(held.cells.values())).seal or 'none: a draft'}"


def _method(told: Told) -> str:
    level = "" if told.level is None else f"{100 * told.level:.0f}% interval"
    drawn = "" if told.seed is None or told.level is None else f"seed {told.seed}"
    return ", ".join(filter(None, (told.method or "counts", told.convention, level, drawn)))


def _cell(told: Told | None) -> str:
    if told is None:
        return "-"
    if told.low is None or told.high is None:
        return number(told, told.value)
    return f"{number(told, told.value)} [{number(told, told.low)}, {number(told, told.high)}]"


def _notes(evidence: Evidence, study: Study) -> Iterator[Section]:
    stages = {stage.name for stage in evidence.experiment.stages}
    held = [note for note in study.notes if stages.issuperset(note.needs)]
    if held:
        yield Section(
            NOTES, (Table(("what", "the paper says", "its program did", "this run"), tuple(map(_note, held))),)
        )


def _note(note: Note) -> tuple[str, ...]:
    return (note.title, note.paper, note.pipeline, note.here)
