"""Judges with a planted bias, and judges without: position, length, family, repeats, one answer for all, copies, echoes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from fakes.evidence import Ending, chat, evidence, experiment, ids, make_row
from judgerun.audit.checks import audit
from judgerun.audit.copies import alike
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Table
from judgerun.audit.position import judges
from judgerun.model.condition import Condition, Segment
from judgerun.model.experiment import ParseRule
from judgerun.table.order import permutation
from judgerun.table.row import Candidate, Outcome, Row

COUNT = 10
ORDERS = ("given", "reversed")
SEED = 7
PROSE = "the number of ways is the product of the choices at every step of the way, so that"


def found(given: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(given).findings if finding.check == check]


def table(given: Evidence, name: str) -> Table:
    """The table of that name."""
    return next(table for table in audit(given).tables if table.name == name)


def ordered(pick: Callable[[str, Sequence[int]], int], orders: Sequence[str] = ORDERS, n: int = 60) -> Evidence:
    """A judge that is shown ten candidates under several orders; `pick` says which place of those shown it chooses (from 1)."""
    stage = chat(("ann",), parse=ParseRule(kind="choice"))
    ranking = Outcome(candidates=tuple(Candidate(f"d{place}", 1.0, place, {}) for place in range(1, COUNT + 1)))
    rows = []
    for id_ in ids(n):
        for order in orders:
            own = Segment("pick", (("model", "ann"), ("prompt", "terse"), ("order", order)))
            places = list(permutation(order, COUNT, seed=SEED, id=id_) or range(COUNT))
            value = places[pick(id_, places) - 1] + 1
            row = make_row(
                Condition((own, Segment("items", (), separator=":"))), id_, Ending(value=value, text=str(value))
            )
            assert row.outcome is not None
            rows.append(replace(row, stages={"top": ranking, "pick": replace(row.outcome, order=order)}))
    return Evidence(experiment=experiment([stage], seed=SEED), rows={"pick": rows})


@pytest.mark.parametrize(
    "orders", [("given", "reversed"), ("given", "rotated:3", "rotated:7"), ("shuffled:1", "shuffled:2")]
)
def test_a_judge_that_chooses_by_place_is_found(orders: tuple[str, ...]) -> None:
    """Whatever is shown first is chosen: a preference for the first half, however the orders were made."""
    given = ordered(lambda id_, places: 1, orders)
    (finding,) = found(given, "position")
    assert finding.severity == "warning"
    assert "prefers what is shown first" in finding.message


def test_a_judge_that_chooses_by_content_is_not() -> None:
    """The same candidate under every order, wherever it stands: every pair of orders agrees, and no place is preferred."""
    given = ordered(lambda id_, places: places.index(int(id_[1:]) % COUNT) + 1)
    assert found(given, "position") == []
    (judge,) = judges(given)
    assert (judge.kept.count, judge.kept.n, judge.stuck) == (60, 60, (0, 0))


@pytest.mark.parametrize("seed", range(10))
def test_a_judge_that_guesses_is_not_called_biased(seed: int) -> None:
    """Choices at random stay with no half of the list."""
    dice = random.Random(seed)
    assert found(ordered(lambda id_, places: dice.randint(1, COUNT)), "position") == []


def test_a_judge_under_one_order_is_shown_and_not_tested() -> None:
    """Under the given order alone the places chosen stand in the table, without a test."""
    given = ordered(lambda id_, places: 1, ("given",))
    assert found(given, "position") == []
    (row,) = table(given, "position").rows
    assert row[2:5] == (1, "1: 60", 0)


def swapped(first: Callable[[str, str], bool], *, n: int = 60) -> Evidence:
    """A judge of pairs, shown both ways; `first` says whether it names the one that is shown first."""
    rule = ParseRule(kind="label", values=("A", "B", "TIE"))
    rows = []
    for id_ in ids(n):
        for order in ("ab", "ba"):
            own = Segment("pick", (("model", "ann"), ("prompt", "terse"), ("order", order)))
            value = "A" if first(id_, order) == (order == "ab") else "B"
            row = make_row(Condition((own, Segment("items", (), separator=":"))), id_, Ending(value=value, text=value))
            assert row.outcome is not None
            stages = {"pick": replace(row.outcome, order=order)}
            rows.append(replace(row, stages=stages, joined={"a": {"reply": "long " * 20}, "b": {"reply": "short"}}))
    return Evidence(experiment=experiment([chat(("ann",), parse=rule)], seed=SEED), rows={"pick": rows})


def test_a_judge_of_pairs_that_prefers_the_first_is_found() -> None:
    """It names the first shown under either order: a preference; one that names the same side under both has none."""
    (finding,) = found(swapped(lambda id_, order: True), "position")
    assert "prefers what is shown first" in finding.message
    assert found(swapped(lambda id_, order: (id_ < "q030") == (order == "ab")), "position") == []


def test_a_judge_of_pairs_that_takes_the_longer_is_found() -> None:
    """The longer one always wins: a note with both counts."""
    told = found(swapped(lambda id_, order: order == "ab"), "longer wins")
    assert [(finding.severity, finding.value) for finding in told] == [("note", 1.0)] * 2


def graded(score: Callable[[str, str, str], int], *, judges: Sequence[str] = ("ann", "bob"), n: int = 40) -> Evidence:
    """Answers of two generators, `north` and `south` by lineage, scored by judges: ann is of the north, bob of the south."""
    rule = ParseRule(kind="score", low=0, high=10)
    stage = chat(judges, stage="grade", parse=rule)
    solver = chat(("x",), stage="solve")
    lineages = {"ann": "north", "bob": "south"}
    rows: list[Row] = []
    for id_ in ids(n):
        for generator in ("north", "south"):
            text = f"{generator} " * (1 + int(id_[1:]))
            answer = Outcome(reply=text, finish="stop", lineage=generator)
            for judge in judges:
                value = score(judge, generator, id_)
                own = Segment("grade", (("model", judge), ("prompt", "terse")))
                where = Condition((own, Segment("solve", (("model", generator),)), Segment("items", (), separator=":")))
                row = make_row(where, id_, Ending(value=value, text=str(value)))
                assert row.outcome is not None
                grade = replace(row.outcome, lineage=lineages[judge])
                rows.append(replace(row, stages={"solve": answer, "grade": grade}))
    return Evidence(experiment=experiment([solver, stage], seed=SEED), rows={"grade": rows})


def fair(judge: str, generator: str, id_: str) -> int:
    """Scores by the item, and one better for the north, by whomever they are given."""
    return int(id_[1:]) % 7 + (generator == "north")


def test_judges_of_their_own_family_are_disclosed() -> None:
    """Each judge that scores its own lineage is a note, with no preference where both judges agree on who is better."""
    told = found(graded(fair), "self-preference")
    assert [finding.severity for finding in told] == ["note", "note"]
    assert all(finding.value == 0 for finding in told)
    rows = table(graded(fair), "families").rows
    assert [row[:4] for row in rows] == [
        ("ann", "north", "north", 40),
        ("ann", "north", "south", 40),
        ("bob", "south", "north", 40),
        ("bob", "south", "south", 40),
    ]


def test_a_judge_that_prefers_its_own_family_is_found() -> None:
    """Ann gives the north two more than bob does: a warning with the difference of differences; bob then seems to prefer its own
    as much, since only the difference can be seen.
    """
    given = graded(
        lambda judge, generator, id_: fair(judge, generator, id_) + 2 * (judge == "ann" and generator == "north")
    )
    told = found(given, "self-preference")
    assert [(finding.severity, finding.value) for finding in told] == [("warning", 2.0), ("warning", 2.0)]


def test_a_lone_judge_has_nobody_to_be_compared_with() -> None:
    """One judge alone: that it scores its own family is a note without a number."""
    (finding,) = found(graded(fair, judges=("ann",)), "self-preference")
    assert (finding.severity, finding.value) == ("note", None)


def test_scores_that_go_with_length_are_told() -> None:
    """Scores that rise with the length of what is judged are a note; scores that do not are none."""
    told = found(graded(lambda judge, generator, id_: int(id_[1:]) // 4), "length bias")
    assert len(told) == 4
    assert all(finding.severity == "note" and float(finding.value or 0) > 0.9 for finding in told)
    assert found(graded(fair), "length bias") == []


@pytest.mark.parametrize(("noisy", "warned"), [(10, True), (2, False)])
def test_a_judge_that_contradicts_itself_is_told(noisy: int, warned: bool) -> None:
    """Of twenty items asked twice `noisy` have two answers: under 80% of agreement a warning."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        no = id_ >= "q015" or (int(id_[1:]) < noisy and draw == 2)
        return Ending(value="no" if no else "yes", text="no" if no else "yes")

    given = evidence(rule, n=20, draws=2, stage=chat(("ann",)))
    assert bool(found(given, "repeats")) is warned
    (row,) = table(given, "repeats").rows
    assert (row[1], row[2]) == (20, 1 - noisy / 20)


@pytest.mark.parametrize(("others", "warned"), [(1, True), (2, False), (3, False)])
def test_a_judge_that_always_says_the_same_is_told(others: int, warned: bool) -> None:
    """Above 95% of one answer it is a warning; at it nothing is said."""
    given = evidence(
        lambda model, id_, draw: Ending(value="no", text="no") if int(id_[1:]) < others else Ending(),
        stage=chat(("ann",)),
    )
    assert bool(found(given, "constant")) is warned


def test_one_answer_for_many_items_is_found() -> None:
    """Six of forty replies are one stock answer but for a number: they are named, and a warning above 5%."""
    dice = random.Random(3)
    words = ["chord", "prime", "angle", "square", "sum", "root", "even", "graph", "colour", "path", "set", "limit"]

    def rule(model: str, id_: str, draw: int) -> Ending:
        text = f"{PROSE} it is {int(id_[1:])}." if id_ < "q006" else " ".join(dice.choices(words, k=40))
        return Ending(text=text)

    (finding,) = found(evidence(rule, stage=chat(("ann",), parse=ParseRule(kind="text"))), "near-duplicates")
    assert (finding.severity, finding.value) == ("warning", 6 / 40)
    assert "items q000 and q001" in finding.evidence[0]


def test_copies_are_paired_with_their_first_like() -> None:
    """Each later copy is named beside the first one; what is like nothing is left out."""
    assert alike(["abcdefghij" * 3, "something else entirely", "abcdefghij" * 3, "abcdefghij" * 3]) == [(0, 2), (0, 3)]
    assert alike(["one"]) == []


def test_a_reply_that_repeats_its_prompt_is_found() -> None:
    """Two replies stand word by word in their prompts: told with their items; a note while they are few."""
    given = evidence(
        lambda model, id_, draw: Ending(
            text=f"{PROSE} {id_}" if id_ < "q002" else " ".join([f"w{n}{id_}" for n in range(20)])
        ),
        stage=chat(("ann",), parse=ParseRule(kind="text")),
    )
    asked = {
        "adapter": "openai/1",
        "deployment": "x",
        "payload": {"messages": [{"role": "user", "content": f"Solve. {PROSE} q000 and q001."}]},
    }
    (finding,) = found(replace(given, request=lambda key: asked), "echo")
    assert (finding.severity, finding.value) == ("note", 2 / 40)
