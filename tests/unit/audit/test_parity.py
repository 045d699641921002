"""Conditions that should differ in one thing alone, with another difference planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakes.evidence import Ending, chat, evidence
from judgerun.audit.checks import audit
from judgerun.audit.drift import said
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.model.experiment import Arm, ParseRule
from judgerun.model.request import RequestKey
from judgerun.table.row import Candidate, Outcome

DOCUMENTS = ("the red fox jumps", "a lazy dog sleeps", "the moon is full")
SHOWN = "Pick one.\n" + "\n\n".join(f"{n}. {text}" for n, text in enumerate(DOCUMENTS, 1))


def asked(
    prompts: Mapping[str, str] | None = None, *, change: Callable[[Arm], Arm] | None = None, adapter: str = "openai/1"
) -> Evidence:
    """Two judges of five items, asked with the same prompt; `prompts` and `change` are what bob has of his own."""
    stage = chat()
    if change is not None:
        stage = replace(stage, arms=tuple(change(arm) if arm.model.name == "bob" else arm for arm in stage.arms))
    given = evidence(n=5, stage=stage)
    ranking = Outcome(candidates=tuple(Candidate(f"d{n}", 1.0, n, {"text": text}) for n, text in enumerate(DOCUMENTS)))
    rows = [replace(row, stages={"top": ranking, **row.stages}) for row in given.rows["pick"]]
    texts: dict[RequestKey, Mapping[str, Any]] = {}
    for row in rows:
        model = row.condition.get("model")
        own = (prompts or {}).get(row.id, SHOWN) if model == "bob" else SHOWN
        assert row.outcome is not None
        assert row.outcome.key is not None
        payload = {"messages": [{"role": "user", "content": own}]}
        texts[row.outcome.key] = {"payload": payload, "adapter": adapter, "deployment": "openai x"}
    return replace(given, rows={"pick": rows}, request=texts.get)


def parity(given: Evidence) -> list[Finding]:
    """The findings of the parity audit."""
    return [finding for finding in audit(given).findings if finding.check.startswith("parity")]


def test_conditions_that_differ_in_their_model_alone_are_equal() -> None:
    """The same prompt, cap, rule and parameters: nothing is said, and the table shows both side by side."""
    assert parity(asked()) == []
    (table,) = [table for table in audit(asked()).tables if table.name == "parity"]
    assert [row[0] for row in table.rows] == ["pick/ann/terse@items", "pick/bob/terse@items"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cap", lambda arm: replace(arm, model=replace(arm.model, max_output_tokens=4096))),
        ("temperature", lambda arm: replace(arm, model=replace(arm.model, temperature=0.7))),
        ("thinking", lambda arm: replace(arm, model=replace(arm.model, thinking="high"))),
        ("parameters", lambda arm: replace(arm, model=replace(arm.model, extra={"top_p": "0.9"}))),
        (
            "parse",
            lambda arm: replace(
                arm, settings=replace(arm.settings, parse=ParseRule(kind="label", values=("no", "yes")))
            ),
        ),
        ("admit", lambda arm: replace(arm, settings=replace(arm.settings, admit=("stop", "length")))),
        ("template", lambda arm: replace(arm, prompt=replace(arm.prompt, digest="11"))),
    ],
)
def test_each_difference_that_nobody_declared_is_named(name: str, change: Callable[[Arm], Arm]) -> None:
    """One judge with another cap, temperature, rule ...: a warning under the name of that field, with both values."""
    (finding,) = parity(asked(change=change))
    assert (finding.check, finding.severity) == (f"parity {name}", "warning")
    assert len(finding.evidence) == 2


def test_a_prompt_that_one_judge_alone_was_given_is_found() -> None:
    """The rendered prompts of one item differ: the item and the first line that does are told."""
    (finding,) = parity(asked({"q003": SHOWN.replace("Pick one.", "Pick the best.")}))
    assert finding.check == "parity prompt"
    assert "item q003: '[user] Pick one.'" in finding.evidence[0]


def test_candidates_that_are_rendered_otherwise_are_found() -> None:
    """`[1] text` line by line against `1. text` with blank lines between: the rendering differs, whatever the texts are."""
    other = "Pick one.\n" + "\n".join(f"[{n}] {text}" for n, text in enumerate(DOCUMENTS, 1))
    found = parity(asked({f"q00{n}": other for n in range(5)}))
    assert {finding.check for finding in found} == {"parity candidates", "parity prompt"}
    (rendering,) = [finding for finding in found if finding.check == "parity candidates"]
    assert any("[#] " in line for line in rendering.evidence)


def test_a_coordinate_declares_what_it_names() -> None:
    """Other served models and fingerprints under another model are what that coordinate says."""
    given = asked()
    rows = [
        row
        if row.condition.get("model") == "ann" or row.outcome is None or row.outcome.kept is None
        else replace(
            row,
            stages={
                **row.stages,
                "pick": replace(
                    row.outcome,
                    kept=replace(row.outcome.kept, reply=replace(row.outcome.kept.reply, fingerprint="fp_2")),
                ),
            },
        )
        for row in given.rows["pick"]
    ]
    assert parity(replace(given, rows={"pick": rows})) == []


def test_the_change_point_of_a_served_model_is_told() -> None:
    """A backend that changed once is told with the attempt from which on; one that alternates is told as a mixture."""
    once = [(n, f"q{n}", "fp_a" if n < 30 else "fp_b") for n in reversed(range(50))]
    assert said(once) == "fp_a -> fp_b from attempt 30 on (item q30), after 30 replies"
    mixed = [(n, f"q{n}", "fp_a" if n % 2 else "fp_b") for n in range(50)]
    assert said(mixed) == "they alternate: 49 changes in 50 replies"


def test_the_finding_of_two_served_models_has_its_change_point() -> None:
    """From item q020 on another model answered: an error whose evidence says so."""
    given = evidence(lambda model, id_, draw: Ending(served="m-id" if id_ < "q020" else "other"))
    found = [finding for finding in audit(given).findings if finding.check == "served"]
    assert all("m-id -> other from attempt" in finding.evidence[-1] for finding in found)
    assert len(found) == 2
