"""The questions of the experiment file, answered: once for each combination of the other coordinates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from judgerun.analysis.paired import holm
from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.model.condition import Condition, matches
from judgerun.model.experiment import Question
from judgerun.report.columns import conditions_of
from judgerun.report.compare import of_test, paired, refused
from judgerun.report.gates import banner, bounds, left_out, span_of, worst_difference
from judgerun.report.sample import Sample, Scope, names, samples
from judgerun.report.told import Told
from judgerun.report.verdicts import Teller
from judgerun.table.conditions import coordinates, locate
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row

DROPPED = "rows that did not conclude are left out"
FALSE = "rows that did not conclude count as false"


@dataclass(frozen=True, slots=True)
class Group:
    """One combination of the other coordinates: what it is, and its samples by compared value, in the question's order."""

    coords: Mapping[str, str]
    arms: tuple[tuple[str, Sample], ...]


def questions(teller: Teller) -> Iterator[Told]:
    """All questions, in file order."""
    for question in teller.evidence.experiment.questions:
        yield from answer(teller, question)


def answer(teller: Teller, question: Question) -> Iterator[Told]:
    """One question: the mean of each compared condition, then each pair's difference and test, for each of `only`."""
    rows = teller.evidence.rows.get(question.feed, ())
    place = f"question {question.name}"
    false = question.unconcluded == "false"
    found = samples(rows, question.value, teller.evidence.scopes().near, place=place, false=false)
    if not found:
        yield _nothing(teller, question, f"{question.feed} has no rows")
        return
    if question.against is not None:
        yield from _against(teller, question, rows, found)
        return
    grouped, lacking = groups(question, found)
    for why in lacking:
        yield _nothing(teller, question, why)
    for group in grouped:
        for only in question.only:
            yield from _answer(teller, question, group, only)


def _nothing(teller: Teller, question: Question, why: str) -> Told:
    estimate = refused(why, n=0, method=question.test or "mean")
    return teller.told(question.name, {"stage": question.feed, "measure": question.test or "mean"}, estimate, "")


def groups(question: Question, found: Sequence[Sample]) -> tuple[list[Group], list[str]]:
    """The groups of samples that a question compares, and why some cannot be made."""
    conditions = [sample.condition for sample in found]
    named = names(conditions)
    if question.compare is None:
        return [Group(_coords(sample.condition, named), (("", sample),)) for sample in found], []
    coordinate, values = question.compare
    if coordinate == "conditions":
        return _of_conditions(values, found)
    table = locate(coordinate, conditions)
    bare = coordinate.rpartition(".")[2]
    if table is None:
        return [], [f"no condition of {question.feed} has the coordinate {coordinate!r}"]
    held: dict[tuple[Any, ...], dict[str, Sample]] = defaultdict(dict)
    for sample in found:
        own = coordinates(sample.condition)
        value = own.pop((table, bare), None)
        if value in values:
            tables = tuple(segment.table for segment in sample.condition.segments)
            held[tables, tuple(sorted(own.items()))][value] = sample
    made, lacking = [], []
    for key in sorted(held):
        arms = held[key]
        whole = _coords(next(iter(arms.values())).condition, named)
        rest = {name: v for name, v in whole.items() if name not in (bare, f"{table}.{bare}", "condition")}
        lacking += [f"no condition has {coordinate} {value} where {rest}" for value in values if value not in arms]
        made.append(Group(rest, tuple((value, arms[value]) for value in values if value in arms)))
    return made, lacking or ([] if made else [f"no condition has {coordinate} among {', '.join(values)}"])


def _of_conditions(keys: Sequence[str], found: Sequence[Sample]) -> tuple[list[Group], list[str]]:
    arms: list[tuple[str, Sample]] = []
    lacking: list[str] = []
    for key in keys:
        held = [sample for sample in found if matches(key, sample.condition.name)]
        if len(held) == 1:
            arms.append((key, held[0]))
        else:
            lacking.append(f"{key!r} names {len(held)} conditions, not one")
    return [Group({}, tuple(arms))] if arms else [], lacking


def _coords(condition: Condition, named: Any) -> dict[str, str]:
    return {"stage": condition.stage, "condition": condition.name, **named(condition)}


def _answer(teller: Teller, question: Question, group: Group, only: str) -> Iterator[Told]:
    ids = frozenset.intersection(*(sample.complete for _, sample in group.arms)) if only == "complete" else None
    coordinate = question.compare[0] if question.compare is not None else ""
    convention = FALSE if question.unconcluded == "false" else DROPPED
    if only == "complete":
        convention = "ids that concluded in every compared condition"
    coords = {**group.coords, "stage": question.feed, "only": only}
    for value, sample in group.arms:
        at = {**coords, **({coordinate: value} if coordinate else {}), "condition": sample.condition.name}
        yield from _mean(teller, question, sample, ids, at, convention)
    if question.compare is None:
        return
    pairs = list(combinations(group.arms, 2))
    told = [list(_pair(teller, question, pair, coords, convention, ids)) for pair in pairs]
    for lines in _adjusted(told):
        yield from lines


def _restricted(sample: Sample, ids: frozenset[str] | None) -> Sample:
    """The sample on some ids only."""
    if ids is None:
        return sample
    values = {id_: held for id_, held in sample.values.items() if id_ in ids}
    return replace(
        sample, values=values, open={}, assumed={}, missing=frozenset(), waiting=frozenset(), hidden=0, planned=len(ids)
    )


def _mean(
    teller: Teller,
    question: Question,
    sample: Sample,
    ids: frozenset[str] | None,
    coords: Mapping[str, str],
    convention: str,
) -> Iterator[Told]:
    if sample.numeric:
        part = _restricted(sample, ids)
        yield from teller.mean(question.name, part, coords, convention=convention, whole=sample)
    elif question.test not in ("kappa", "tau"):
        why = refused(
            "values are labels: ask for one of them, as in `value == 'x'`", n=len(sample.values), method="mean"
        )
        yield teller.told(question.name, {**coords, "measure": "mean"}, why, "")


def _pair(
    teller: Teller,
    question: Question,
    pair: tuple[tuple[str, Sample], tuple[str, Sample]],
    coords: Mapping[str, str],
    convention: str,
    ids: frozenset[str] | None,
) -> Iterator[Told]:
    (one, first), (two, second) = pair
    coordinate = question.compare[0] if question.compare is not None else "against"
    at = {**coords, coordinate: f"{one} -> {two}"}
    gate = banner(teller.audit, [first.condition.name, second.condition.name])
    out = left_out(teller.evidence, [first.condition.name, second.condition.name])
    both = f"{one}: {_restricted(first, ids).said()}; {two}: {_restricted(second, ids).said()}"
    matched = paired(first, second, ids)
    cut = f"{matched.cut} pairs in blocks that are not complete are left out" if matched.cut else ""
    note = "; ".join(filter(None, (out, gate, both, cut)))
    for measure, estimate in of_test(matched, question.test, seed=teller.seed(question.name)):
        said = replace(estimate, convention="; ".join(filter(None, (estimate.convention, convention))))
        span = span_of(first) if span_of(first) == span_of(second) else None
        if not (gate or out) or estimate.value is None:
            yield teller.told(question.name, {**at, "measure": measure}, said, note)
        elif measure == "difference" and span is not None and not out:
            yield teller.told(question.name, {**at, "measure": measure}, said, note)
            held, n = worst_difference(first, second, span)
            if first.lost or second.lost:
                yield teller.told(question.name, {**at, "measure": "bounds"}, bounds(said.value, held, n), note)
        else:
            withheld = replace(said, value=None, low=None, high=None)
            yield teller.told(question.name, {**at, "measure": measure}, withheld, f"not told. {note}")


def _adjusted(told: Sequence[Sequence[Told]]) -> Iterator[list[Told]]:
    """The lines of all pairs; where several have a p-value, each with its Holm adjustment after it."""
    ps = [line.value for lines in told for line in lines if line.coords["measure"] == "p" and line.value is not None]
    held = iter(holm([float(p) for p in ps]) if len(ps) > 1 else [])
    for lines in told:
        more: list[Told] = []
        for line in lines:
            more.append(line)
            if len(ps) > 1 and line.coords["measure"] == "p" and line.value is not None:
                coords = {**line.coords, "measure": "p Holm"}
                more.append(
                    replace(line, coords=coords, value=next(held), method=f"{line.method}, Holm over {len(ps)}")
                )
        yield more


def _against(teller: Teller, question: Question, rows: Sequence[Row], found: Sequence[Sample]) -> Iterator[Told]:
    """Each condition's values beside a field of the same rows."""
    field = question.against or ""
    named = names(conditions_of(rows))
    truths = _fields(rows, Expression(field), teller.evidence.scopes().near, question.name)
    convention = FALSE if question.unconcluded == "false" else DROPPED
    for sample in found:
        held = truths.get(sample.condition.name, {})
        other = Sample(condition=sample.condition, values=held, blocks=sample.blocks, planned=sample.planned)
        coords = _coords(sample.condition, named)
        for only in question.only:
            ids = sample.complete if only == "complete" else None
            pair = ((question.value, sample), (field, other))
            yield from _pair(teller, question, pair, {**coords, "only": only}, convention, ids)


def _fields(
    rows: Sequence[Row], field: Expression, scope: Scope, question: str
) -> dict[str, dict[str, tuple[Any, ...]]]:
    """The field by condition and id; a text that writes a number is that number. Refused when draws of one id differ in it."""
    told: dict[str, dict[str, tuple[Any, ...]]] = {}
    for row in rows:
        value = None if row.anonymous else _of(field, scope(row))
        if value is None:
            continue
        held = (_typed(value),)
        if told.setdefault(row.condition.name, {}).setdefault(row.id, held) != held:
            wrong = f"{field.text!r} has several values for row {row.id} of {row.condition.name}"
            raise Refused(Problem(EXPERIMENT, f"question {question}: against", wrong, "fold the draws first"))
    return told


def _of(field: Expression, scope: Mapping[str, Any]) -> Any:
    """The field of a row; None where it has none, as rows that never came so far."""
    try:
        return field.evaluate(scope)
    except ExpressionError:
        return None


def _typed(value: Any) -> Any:
    """A field as a value: text that writes a number or a truth value is one."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text
