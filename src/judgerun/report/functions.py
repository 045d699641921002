"""Questions that are Python: those of the experiment's study, and of questions.py beside it, one function for each number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from judgerun.analysis.estimate import Estimate
from judgerun.errors import Problem, Refused
from judgerun.model.study import Answer, Tables
from judgerun.report.columns import columns, records
from judgerun.report.gates import banner, bounds, left_out
from judgerun.report.told import Told
from judgerun.report.verdicts import Teller

OWN = "questions.py"


def functions(teller: Teller) -> Iterator[Told]:
    """Each function of `Evidence.questions`, by name. It is called as `question(tables, seed)`: `tables` gives for each stage
    its columns (as `export` names them), lists of equal length; `seed` is the question's own. It returns an Estimate, several
    by name, or Answers; a seed that it leaves out is filled in. Refused when it raises or returns something else.
    """
    asked = teller.evidence.questions
    tables = _tables(teller) if asked else {}
    for name in sorted(asked):
        yield from _told(teller, name, _called(name, asked[name], tables, teller.seed(name)))


def studied(teller: Teller) -> Iterator[Told]:
    """The questions of the experiment's study whose stages it has, in the study's order."""
    study = teller.evidence.study
    if study is None:
        return
    stages = {stage.name for stage in teller.evidence.experiment.stages}
    asked = {name: question for name, question in study.questions.items() if stages.issuperset(question.needs)}
    tables = _tables(teller) if asked else {}
    for name, question in asked.items():
        yield from _told(teller, name, question.ask(tables, teller.seed(name)))


def _tables(teller: Teller) -> Tables:
    evidence = teller.evidence
    return {stage.name: columns(records(evidence.rows.get(stage.name, ()))) for stage in evidence.experiment.stages}


def _told(teller: Teller, name: str, answers: Iterable[Answer]) -> Iterator[Told]:
    """The answers of one question, as far as gates and exclusions let them be told."""
    for answer in answers:
        estimate = answer.estimate
        coords = {**answer.coords, "measure": answer.measure}
        gate, out = banner(teller.audit, answer.conditions), left_out(teller.evidence, answer.conditions)
        note = "; ".join(filter(None, (out, gate)))
        if out or (gate and answer.bounds is None and estimate.value is not None):
            estimate = replace(estimate, value=None, low=None, high=None)
            note = f"not told. {note}"
        yield teller.told(name, coords, estimate, note)
        if gate and not out and answer.bounds is not None:
            held = bounds(estimate.value, answer.bounds, estimate.n)
            yield teller.told(name, {**coords, "measure": f"{answer.measure}, bounds"}, held, gate)


def _called(name: str, function: Any, tables: Tables, seed: int) -> list[Answer]:
    try:
        found = function(tables, seed)
        if isinstance(found, Mapping):
            held = [Answer(measure=str(measure), estimate=found[measure]) for measure in sorted(found)]
        elif isinstance(found, Iterable):
            held = list(found)
        else:
            held = [Answer(measure="value", estimate=found)]
    except Exception as error:  # a person's own code may raise anything
        raise Refused(Problem(OWN, name, f"raised {type(error).__name__}: {error}")) from error
    for one in held:
        if not isinstance(one, Answer) or not isinstance(one.estimate, Estimate):
            kind = type(one.estimate if isinstance(one, Answer) else one).__name__
            raise Refused(Problem(OWN, name, f"returned a {kind}", "return an Estimate"))
    return [
        replace(one, estimate=replace(one.estimate, seed=seed if one.estimate.seed is None else one.estimate.seed))
        for one in held
    ]
