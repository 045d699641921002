"""Two runs side by side, or a run and the numbers that its study's paper printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from judgerun.api.evidence import gather
from judgerun.api.offline import view
from judgerun.api.project import Project, Workspace
from judgerun.audit.checks import audit
from judgerun.errors import Problem, Refused
from judgerun.files.toml import read_text
from judgerun.report.beside import Comparison, Line, beside, printed
from judgerun.report.build import estimates

PAPER = "paper"
"""The word that stands for what the paper of the other side's study printed."""


class LineShape(BaseModel):
    """A line of estimates.json that somebody else may have written."""

    model_config = ConfigDict(strict=True)

    question: str
    coords: dict[str, str]
    value: int | float | None
    low: int | float | None
    high: int | float | None
    n: int | None
    seal: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side: what it is, in words, and its lines."""

    name: str
    lines: Sequence[Line]


def compare(workspace: Workspace, first: str, second: str) -> tuple[Side, Side, Comparison]:
    """Both sides and what they have in common. A side is an experiment (its numbers as the cache stands now), an
    estimates.json file, or `paper`. Refused where one is none of these, and where nothing is common to both.
    """
    if first == second == PAPER:
        raise Refused(Problem(PAPER, "", "the paper is compared with itself", "an experiment on the other side"))
    one, other = (_side(workspace, word, opposite) for word, opposite in ((first, second), (second, first)))
    held = beside(one.lines, other.lines)
    if not held.both:
        wrong = f"{one.name} and {other.name} have no number of the same question and coordinates"
        raise Refused(Problem(second, "", wrong, "two runs of one experiment, or of one study"))
    return one, other, held


def _side(workspace: Workspace, word: str, opposite: str) -> Side:
    if word == PAPER:
        return _paper(workspace, opposite)
    if word.endswith(".json"):
        return _file(Path(word))
    project = workspace.open(word)
    return Side(name=project.name, lines=_lines(project))


def _lines(project: Project) -> list[Line]:
    """The estimates of an experiment as its cache stands."""
    with view(project) as held:
        evidence = gather(project, held, present=True).evidence
        found: list[Line] = orjson.loads(estimates(evidence, audit(evidence)))
    return found


def _file(path: Path) -> Side:
    text, _ = read_text(path)
    try:
        lines = TypeAdapter(list[LineShape]).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Refused(
            Problem(str(path), place, first["msg"], "estimates.json as `judgerun report` writes it")
        ) from None
    return Side(name=str(path), lines=[line.model_dump() for line in lines])


def _paper(workspace: Workspace, opposite: str) -> Side:
    if opposite.endswith(".json"):
        raise Refused(Problem(PAPER, "", "a file of estimates names no study", "an experiment on the other side"))
    study = workspace.open(opposite).loaded.inputs.study
    if study is None or not study.paper:
        wrong = f"{opposite} has no study whose printed numbers are known"
        raise Refused(Problem(PAPER, "", wrong, 'study = "..." in its experiment file'))
    return Side(name=f"the paper of {study.name}", lines=printed(study.paper))
