"""Blocks of a run that was stopped: how many are complete, what paired numbers rest on, and the values of the main number."""

from __future__ import annotations

from dataclasses import replace

from fakes.evidence import FAILED, PENDING, TRUNCATED, Ending, evidence
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.model.experiment import Question
from judgerun.report.blocks import complete, section
from judgerun.report.build import report
from judgerun.report.main import main_number
from judgerun.report.questions import questions
from judgerun.report.verdicts import Teller

QUESTION = Question(
    name="q", feed="pick", value="value == 'yes'", compare=("model", ("ann", "bob")), test="paired-bootstrap"
)


def in_blocks(given: Evidence, size: int = 4) -> Evidence:
    """The same evidence with so many items in each block."""
    rows = [replace(row, block=f"b{int(row.id[1:]) // size:03d}") for row in given.rows["pick"]]
    return replace(given, rows={"pick": rows})


def stopped(model: str, id_: str, draw: int) -> Ending:
    """Blocks of four: in the last three, of which bob has only the first two items, both say yes where it is answered."""
    number = int(id_[1:])
    if model == "bob" and number >= 28 and number % 4 >= 2:
        return PENDING
    return Ending(value="yes" if number >= 28 or model == "ann" else "no")


def test_pairs_of_blocks_that_are_not_complete_are_left_out() -> None:
    """Of blocks in which bob has something pending no pair counts, though some of their items have both values."""
    given = in_blocks(evidence(stopped, questions=[QUESTION]))
    lines = {line.coords["measure"]: line for line in questions(Teller(given, audit(given)))}
    assert lines["difference"].n == 28
    assert lines["difference"].value == -1.0
    assert "6 pairs in blocks that are not complete are left out" in lines["difference"].note


def test_a_complete_run_leaves_out_nothing_and_says_nothing() -> None:
    """Failed and truncated cells are ends: their blocks are complete, and the report has no section on blocks."""

    def ended(model: str, id_: str, draw: int) -> Ending:
        return {"q001": FAILED, "q002": TRUNCATED}.get(id_, Ending())

    given = in_blocks(evidence(ended, questions=[QUESTION]))
    line = next(line for line in questions(Teller(given, audit(given))) if line.coords["measure"] == "difference")
    assert line.n == 38
    assert "left out" not in line.note
    assert section(given) is None
    assert "Complete blocks" not in report(given, audit(given))["report.md"].decode()


def test_the_report_says_how_many_blocks_are_complete() -> None:
    """Ten blocks are planned, seven are complete in both conditions, all ten in one of them."""
    given = in_blocks(evidence(stopped, questions=[QUESTION], seal=None))
    found = complete(given.rows["pick"])
    assert [len(blocks) for blocks in found.values()] == [10, 7]
    page = report(given, audit(given))["report.md"].decode()
    assert "| pick | 2 | 10 | 7 | 10 |" in page


def test_the_main_number_is_the_first_pair_of_the_first_question() -> None:
    """Its values are the differences by id, in the blocks that are complete; what is left are the other blocks."""
    given = in_blocks(evidence(stopped, questions=[QUESTION, replace(QUESTION, name="later", compare=None)]))
    found = main_number(given)
    assert found is not None
    assert (found.question, found.measure, found.coords["model"]) == ("q", "difference", "ann -> bob")
    assert (len(found.values), set(found.values), len(set(found.blocks)), found.left) == (28, {-1.0}, 7, 3)


def test_without_a_comparison_it_is_the_share_of_the_first_condition() -> None:
    """Truth values of single items make a share; a question about labels has no number, and no question none."""
    single = evidence(stopped, questions=[replace(QUESTION, compare=None, test=None)])
    found = main_number(single)
    assert found is not None
    assert (found.measure, found.binary, len(found.values), found.left) == ("mean", True, 40, 0)
    labels = main_number(evidence(stopped, questions=[replace(QUESTION, value="value")]))
    assert labels is not None
    assert "labels" in labels.why
    assert main_number(evidence(stopped)) is None
