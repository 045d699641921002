"""Lengths and texts against finish reasons, in an experiment with planted faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.evidence import Ending, Rule, chat, evidence
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.model.experiment import Chat, ParseRule
from judgerun.model.reply import Finish, Usage

BOB = "pick/bob/terse@items"


def capped_chat(cap: int | None, parse: ParseRule | None = None) -> Chat:
    """Two judges with an output cap."""
    stage = chat(parse=parse)
    arms = tuple(replace(arm, model=replace(arm.model, max_output_tokens=cap)) for arm in stage.arms)
    return replace(stage, arms=arms)


def told(tokens: int | None, **more: object) -> Ending:
    """A reply of so many tokens; None: it does not say."""
    return Ending(usage=Usage(input_fresh=100, output_visible=tokens), **more)  # type: ignore[arg-type]


def lengthy(cut: Ending, n: int) -> Rule:
    """The first `n` of bob's forty replies end as `cut`; the others are of many lengths."""
    return lambda model, id_, draw: cut if model == "bob" and int(id_[1:]) < n else told(200 + 37 * int(id_[1:]) % 300)


def found(given: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(given).findings if finding.check == check]


@pytest.mark.parametrize(("n", "severity"), [(4, "warning"), (5, "error")])
def test_replies_at_the_cap_that_say_stop_are_found(n: int, severity: str) -> None:
    """Replies of cap - 1 tokens with a natural finish: a warning, above 10% an error; with the chance that it is none."""
    (finding,) = found(evidence(lengthy(told(1023), n), stage=capped_chat(1024)), "pile-up")
    assert (finding.severity, finding.condition, finding.value) == (severity, BOB, n)
    assert "called cut in error" in finding.message


def test_replies_that_say_that_they_were_cut_are_no_news() -> None:
    """Where the finish reason says length the pile is no finding, but stands in the table."""
    given = evidence(lengthy(told(1024, finish=Finish.LENGTH, finish_raw="length"), 10), stage=capped_chat(1024))
    assert found(given, "pile-up") == []
    table = next(table for table in audit(given).tables if table.name == "lengths")
    row = dict(zip(table.columns, next(row for row in table.rows if row[0] == BOB), strict=True))
    assert (row["at the cap"], row["finish length"], row["at the cap, not said"]) == (10, 10, 0)


def test_a_cap_that_nobody_stated_is_seen() -> None:
    """A model without max_output_tokens whose replies pile up at 2,048 was cut by somebody."""
    given = evidence(lengthy(told(2048, finish=Finish.UNKNOWN, finish_raw="?"), 12), stage=capped_chat(None))
    (finding,) = found(given, "pile-up")
    assert "a cap that nobody stated" in finding.message


def test_lengths_that_the_provider_did_not_tell_are_counted_anew() -> None:
    """Replies without usage enter by what a tokenizer counted, and the table says how many."""
    given = evidence(lengthy(told(None), 12), stage=capped_chat(1024))
    assert found(given, "pile-up") == []
    silent = [row for row in given.rows["pick"] if row.condition.name == BOB and int(row.id[1:]) < 12]
    keys = [row.outcome.key for row in silent if row.outcome is not None and row.outcome.key is not None]
    (finding,) = found(replace(given, recounts=dict.fromkeys(keys, 1024)), "pile-up")
    assert finding.value == 12


@pytest.mark.parametrize(("finish", "severity"), [(Finish.UNKNOWN, "warning"), (Finish.STOP, "note")])
def test_texts_that_stop_inside_a_sentence_are_told(finish: Finish, severity: str) -> None:
    """Where finish reasons are unknown a cut text is a warning, else a note; with how often the rule sees a real cut."""
    text = "we look at the first of the three cases and find that it is the one in which"
    stage = capped_chat(1024, ParseRule(kind="text"))
    (finding,) = found(evidence(lengthy(told(500, text=text, finish=finish), 8), stage=stage), "cut text")
    assert (finding.severity, finding.value) == (severity, 8)
    assert "not known here" in finding.message


def test_a_missing_marker_looks_cut() -> None:
    """A reply that should end with a marked answer and has no marker is told."""
    stage = capped_chat(1024, ParseRule(kind="label", values=("yes", "no"), marker="FINAL:"))
    bare = lambda model, id_: model == "bob" and id_ < "q008"  # noqa: E731
    rule = lambda model, id_, draw: told(300, text="yes" if bare(model, id_) else "FINAL: yes")  # noqa: E731
    (finding,) = found(evidence(rule, stage=stage), "cut text")
    assert (finding.condition, finding.value, finding.evidence[0]) == (BOB, 8, "item q000: it has no marker")


def test_replies_that_end_naturally_near_the_cap_are_no_pile() -> None:
    """Where cut replies say so, the few natural endings near the cap are none of them, though most of the mass there is cut."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        place = int(id_[1:])
        cut = told(1024, finish=Finish.LENGTH, finish_raw="length")
        return cut if place < 20 else told(1020 - 25 * (place - 20))

    assert found(evidence(rule, stage=capped_chat(1024)), "pile-up") == []
