"""Questions as written -> Question: what is compared, by which test; and whether the rows can answer it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from judgerun.files.checks import Bench, check_expression
from judgerun.files.faults import Faults, hint
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import twice
from judgerun.files.schema import QuestionShape
from judgerun.model.experiment import Question
from judgerun.table.conditions import locate


def read_questions(
    faults: Faults, written: Sequence[Any], tables: Collection[str], conditions: Mapping[str, str]
) -> tuple[Question, ...]:
    """The questions whose tables of keys are right; `conditions` are the fields that data tables name as theirs."""
    questions = []
    for number, raw in enumerate(written):
        path: KeyPath = ("question", number)
        shape = faults.read(QuestionShape, raw, path, mend=True)
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


def check_question(bench: Bench, path: KeyPath, question: Question) -> None:
    """Note every problem of a question whose table is known."""
    for branch in bench.known.get(question.feed, ()):
        check_expression(bench, (*path, "value"), question.value, branch, branch.near)
        if question.against is not None:
            check_expression(bench, (*path, "against"), question.against, branch, branch.near, what="field")
        if question.test == "mcnemar" and any(count > 1 for count in branch.draws.values()):
            bench.faults.add((*path, "test"), "mcnemar wants one draw", 'a fold over = "draw" before it')
    if question.compare is not None and bench.known.get(question.feed):
        _check_compare(bench, path, question)


def _check_compare(bench: Bench, path: KeyPath, question: Question) -> None:
    name, values = question.compare or ("", ())
    conditions = [condition for branch in bench.known[question.feed] for condition in branch.conditions]
    if name == "conditions":
        known = {condition.name for condition in conditions}
    else:
        table = locate(name, conditions)
        if table is None:
            wrong = f"{name!r} is no coordinate of these rows"
            held = frozenset[str]().union(*(branch.coordinates for branch in bench.known[question.feed]))
            bench.faults.add((*path, "compare", name), wrong, hint(name.rpartition(".")[2], held))
            return
        bare = name.rpartition(".")[2]
        known = {value for value in (c.get(bare, table) for c in conditions) if value is not None}
    for value in values:
        if value not in known:
            bench.faults.add((*path, "compare"), f"{name} has no value {value!r}", hint(value, known))
