"""Main: the values behind the experiment's main number, the first that its first question asks for; what forecasts rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgerun.audit.evidence import Evidence
from judgerun.model.experiment import Question
from judgerun.report.compare import paired
from judgerun.report.questions import Group, groups
from judgerun.report.sample import Sample, samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Main:
    """What the number is, its value for each id, the block of each, and the blocks that are still to be completed. Without values
    `why` says why there are none.
    """

    question: str
    coords: Mapping[str, str] = field(default_factory=dict)
    measure: str = ""
    values: tuple[float, ...] = ()
    blocks: tuple[str, ...] = ()
    left: int = 0
    binary: bool = False  # a share: each value 0 or 1, in a block of its own
    conditions: tuple[str, ...] = ()
    why: str = ""


def main_number(evidence: Evidence) -> Main | None:
    """The first pair of the first question, or its first condition where it compares none. None without a question."""
    if not evidence.experiment.questions:
        return None
    question = evidence.experiment.questions[0]
    false = question.unconcluded == "false"
    rows = evidence.rows.get(question.feed, ())
    found = samples(rows, question.value, evidence.scopes().near, place=f"question {question.name}", false=false)
    grouped, lacking = groups(question, found)
    if not grouped or not grouped[0].arms:
        return Main(question=question.name, why=lacking[0] if lacking else f"{question.feed} has no rows")
    return _of(question, grouped[0])


def _of(question: Question, group: Group) -> Main:
    (one, first), *others = group.arms
    if not first.numeric:
        return Main(question=question.name, coords=group.coords, why="values are labels: they have no mean")
    if not others:
        return _mean(question, group, one, first)
    two, second = others[0]
    coordinate = question.compare[0] if question.compare is not None else ""
    pairs = paired(first, second)
    a, b = pairs.means()
    return Main(
        question=question.name,
        coords={**group.coords, coordinate: f"{one} -> {two}"},
        measure="difference",
        values=tuple(y - x for x, y in zip(a, b, strict=True)),
        blocks=tuple(first.blocks[id_] for id_ in pairs.ids),
        left=len(first.partial | second.partial),
        conditions=(first.condition.name, second.condition.name),
    )


def _mean(question: Question, group: Group, value: str, sample: Sample) -> Main:
    coordinate = question.compare[0] if question.compare is not None else ""
    ids = sorted(sample.values)
    blocks = tuple(sample.blocks[id_] for id_ in ids)
    return Main(
        question=question.name,
        coords={**group.coords, **({coordinate: value} if coordinate else {})},
        measure="mean",
        values=tuple(sample.mean(id_) for id_ in ids),
        blocks=blocks,
        left=len(sample.partial),
        binary=sample.binary and sample.draws == 1 and len(set(blocks)) == len(ids),
        conditions=(sample.condition.name,),
    )
