"""Questions as written -> Question: what is compared, by which test."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from judgerun.files.faults import Faults
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import twice
from judgerun.files.schema import QuestionShape
from judgerun.model.experiment import Question


def read_questions(
    faults: Faults, written: Sequence[Any], tables: Collection[str], conditions: Mapping[str, str]
) -> tuple[Question, ...]:
    """The questions whose tables of keys are right; `conditions` are the fields that data tables name as theirs."""
    questions = []
    for number, raw in enumerate(written):
        path: KeyPath = ("question", number)
        shape = faults.read(QuestionShape, raw, path)
        if shape is None:
            continue
        if shape.from_ not in tables:
            faults.unknown((*path, "from"), "table", shape.from_, tables)
        compare, against = _compared(faults, path, shape, conditions)
        if shape.test is not None and compare is None and against is None:
            faults.add((*path, "test"), f"{shape.test} compares, but nothing is compared", "compare or against")
        questions.append(
            Question(
                name=shape.name,
                feed=shape.from_,
                value=shape.value,
                compare=compare,
                against=against,
                test=shape.test,
                only=tuple(shape.only),
                unconcluded=shape.unconcluded,
            )
        )
    names = [question.name for question in questions]
    for name in twice(names):
        last = len(names) - 1 - names[::-1].index(name)
        faults.add(("question", last, "name"), f"two questions have the name {name!r}", "each its own")
    return tuple(questions)


def _compared(
    faults: Faults, path: KeyPath, shape: QuestionShape, conditions: Mapping[str, str]
) -> tuple[tuple[str, tuple[str, ...]] | None, str | None]:
    """The coordinate and its values, and the field compared with. `against` may stand inside `compare` too."""
    compare = dict(shape.compare or {})
    against = shape.against
    if "against" in compare:
        inside = compare.pop("against")
        against = inside if isinstance(inside, str) else None
        if against is None:
            faults.add((*path, "compare", "against"), f"{inside!r} is no field", 'against = "human_score"')
    if shape.conditions is not None:
        compare["conditions"] = shape.conditions
    if not compare:
        if shape.compare is not None and against is None:
            faults.add((*path, "compare"), "nothing is compared", '{ variant = ["none", "gold"] }')
        return None, against
    if len(compare) > 1 or against is not None:
        faults.add((*path, "compare"), "one thing is compared at a time", '{ variant = ["none", "gold"] }')
        return None, against
    ((name, values),) = compare.items()
    if not isinstance(values, list) or len(values) < 2 or not all(isinstance(value, str) for value in values):
        faults.add((*path, "compare", name), f"{name} needs two values or more", f'{name} = ["...", "..."]')
        return None, against
    for value in twice(values):
        faults.add((*path, "compare", name), f"the value {value!r} stands twice", "each once")
    return ("condition" if name in conditions else name, tuple(values)), against
