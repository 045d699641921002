"""Questions that a person wrote in Python: questions.py beside the experiment, one function for each published number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from judgerun.analysis.estimate import Estimate
from judgerun.errors import Problem, Refused
from judgerun.report.columns import columns, records
from judgerun.report.told import Told
from judgerun.report.verdicts import Teller


def functions(teller: Teller) -> Iterator[Told]:
    """Each function of `Evidence.questions`, by name. It is called as `question(tables, seed)`: `tables` gives for each stage
    its columns (as `export` names them), lists of equal length; `seed` is the question's own. It returns an Estimate, or
    several by name; a seed that it leaves out is filled in. Refused when it raises or returns something else.
    """
    evidence = teller.evidence
    if not evidence.questions:
        return
    tables = {stage.name: columns(records(evidence.rows.get(stage.name, ()))) for stage in evidence.experiment.stages}
    for name in sorted(evidence.questions):
        seed = teller.seed(name)
        for measure, estimate in _called(name, evidence.questions[name], tables, seed):
            held = estimate if estimate.seed is not None else replace(estimate, seed=seed)
            yield teller.told(name, {"measure": measure}, held, "")


def _called(name: str, function: Any, tables: Mapping[str, Any], seed: int) -> Iterator[tuple[str, Estimate]]:
    try:
        found = function(tables, seed)
    except Exception as error:  # a person's own code may raise anything
        raise Refused(Problem("questions.py", name, f"raised {type(error).__name__}: {error}")) from error
    held = found if isinstance(found, Mapping) else {"value": found}
    for measure in sorted(held):
        if not isinstance(held[measure], Estimate):
            raise Refused(
                Problem("questions.py", name, f"returned a {type(held[measure]).__name__}", "return an Estimate")
            )
        yield str(measure), held[measure]
