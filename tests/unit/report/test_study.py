"""What a study brings to a report: its questions, told under the gates, in the tables of its paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fakes.evidence import TRUNCATED, Ending, chat, evidence, plain
from judgerun.analysis.intervals import proportion
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.model.study import Answer, Layout, Note, Question, Study, Tables
from judgerun.report.build import report


def share(tables: Tables, seed: int) -> Iterator[Answer]:
    """The share of yes, by model."""
    held = tables["pick"]
    for model in sorted(set(held["at.model"])):
        own = [n for n, name in enumerate(held["at.model"]) if name == model]
        yes = sum(held["pick.value"][n] == "yes" and held["pick.finish"][n] == "stop" for n in own)
        yield Answer(
            measure="yes",
            coords={"model": model},
            estimate=proportion(yes, len(own)),
            conditions=tuple({held["condition"][n] for n in own}),
            bounds=(yes / len(own), 1.0),
        )


def bare(tables: Tables, seed: int) -> Iterator[Answer]:
    """The same without bounds."""
    for answer in share(tables, seed):
        yield replace(answer, bounds=None)


STUDY = Study(
    name="small",
    questions={
        "share": Question(needs=("pick",), ask=share),
        "bare": Question(needs=("pick",), ask=bare),
        "other": Question(needs=("pick", "grade"), ask=lambda tables, seed: 1 / 0),  # pyright: ignore
    },
    layouts=(
        Layout(
            title="Table 1",
            question="share",
            rows=("model",),
            columns=("measure",),
            only={"measure": "yes"},
            figure=True,
        ),
        Layout(title="Table 2", question="other", rows=("model",), columns=("measure",)),
    ),
    notes=(
        Note(title="ties", paper="by id", pipeline="by chance", here="by id", needs=("pick",)),
        Note(title="grades", paper="two", pipeline="one", here="two", needs=("grade",)),
    ),
)


def studied(cut: bool) -> Evidence:
    """Two judges; bob is cut in 8 of 40 where `cut`."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        return TRUNCATED if cut and model == "bob" and id_ < "q008" else plain(model, id_, draw)

    return replace(evidence(rule, stage=chat()), study=STUDY)


def lines(given: Evidence) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The answers of the study by question, model and measure."""
    found = json.loads(report(given, audit(given))["estimates.json"])
    return {
        (one["question"], one["coords"]["model"], one["coords"]["measure"]): one
        for one in found
        if one["question"] in STUDY.questions
    }


def test_questions_are_asked_where_the_experiment_has_their_stages() -> None:
    """A question whose stages are not all there is not asked, its table and its note are not shown."""
    given = studied(cut=False)
    page = report(given, audit(given))["report.md"].decode()
    assert {question for question, _, _ in lines(given)} == {"share", "bare"}
    assert "## Table 1" in page
    assert "## Table 2" not in page
    assert "| ties | by id | by chance | by id |" in page
    assert "grades" not in page
    assert "| ann | 0.9 [" in page


def test_an_answer_is_told_under_its_gate_with_bounds_or_not_at_all() -> None:
    """Where a gate of its conditions fails, an answer with bounds stands under the banner beside them; one without is withheld."""
    found = lines(studied(cut=True))
    assert found["share", "bob", "yes"]["value"] is not None
    assert "GATE FAILED" in found["share", "bob", "yes"]["note"]
    assert found["share", "bob", "yes, bounds"]["high"] == 1.0
    assert found["share", "bob", "yes, bounds"]["level"] is None
    assert found["bare", "bob", "yes"]["value"] is None
    assert found["bare", "bob", "yes"]["note"].startswith("not told")
    assert found["bare", "ann", "yes"]["value"] is not None
    assert ("share", "ann", "yes, bounds") not in found


def test_a_table_says_how_its_numbers_were_made() -> None:
    """Question, method, level, n and seal stand above the table; the page of a table with a figure draws it."""
    given = studied(cut=False)
    files = report(given, audit(given))
    assert f"Question: share. wilson, 95% interval; n 40; seal {given.seal}." in files["report.md"].decode()
    assert files["report.html"].decode().count("Table 1: value and interval.") == 1
