"""Chains of chat stages: cells, conditions, admission, draws, sharing, counts."""

from __future__ import annotations

from fakes.tables import Lab, arm, chat, counts, kept, numbered, text_of
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request


def solve_and_grade(**given: object) -> Lab:
    """Twelve problems, two solvers, one grader."""
    return Lab(
        stages=[
            chat("solve", "problems", arm("s1", "solve", "Solve {{ text }}"), arm("s2", "solve", "Solve {{ text }}")),
            chat(
                "grade", "solve", arm("g", "grade", "Problem {{ text }}. Grade: {{ solve.reply }} by {{ solve.model }}")
            ),
        ],
        tables=[numbered("problems", 12)],
        **given,  # type: ignore[arg-type]
    )


def test_a_chain_runs_to_its_end() -> None:
    """Every row passes both stages, once per condition."""
    lab = solve_and_grade()
    flow = lab.whole()
    assert counts(flow) == {
        "solve/s1/solve@problems": (12, 12, 0, 0),
        "solve/s2/solve@problems": (12, 12, 0, 0),
        "grade/g/grade@solve/s1/solve@problems": (12, 12, 0, 0),
        "grade/g/grade@solve/s2/solve@problems": (12, 12, 0, 0),
    }
    assert len(lab.sent) == 48
    assert len({cell.request.key for cell in lab.sent}) == 48


def test_downstream_is_pending_before_upstream_is_there() -> None:
    """A survey of an empty cache counts every stage, though only the first can be sent."""
    lab = solve_and_grade()
    flow = lab.survey()
    assert counts(flow) == {
        "solve/s1/solve@problems": (12, 0, 0, 12),
        "solve/s2/solve@problems": (12, 0, 0, 12),
        "grade/g/grade@solve/s1/solve@problems": (12, 0, 0, 12),
        "grade/g/grade@solve/s2/solve@problems": (12, 0, 0, 12),
    }


def test_a_cut_answer_ends_downstream_as_failed() -> None:
    """What is not admitted is counted as failed below, with its reason, and never sent."""

    def answer(request: Request) -> Kept | Lost:
        text = text_of(request)
        if text == "Solve text 3":
            return kept("half", finish=Finish.LENGTH)
        if text == "Solve text 4":
            return Lost("timed out")
        if text == "Solve text 5":
            return kept(" ")
        return kept("whole")

    lab = solve_and_grade(answer=answer)
    flow = lab.whole()
    assert counts(flow)["grade/g/grade@solve/s1/solve@problems"] == (12, 9, 3, 0)
    grade = next(held for held in flow.counts() if held.condition.startswith("grade/g/grade@solve/s1"))
    assert grade.reasons == {"upstream truncated": 1, "upstream failed: timed out": 1, "upstream empty": 1}
