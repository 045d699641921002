"""Canaries in the plan: which rows get them, what stands in them, and that nothing of the real cells changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.tables import Lab, Rows, arm, chat, counts, kept, numbered, text_of
from judgerun.model.condition import canary_of
from judgerun.model.experiment import Canaries, Fold, Join, Variant
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request
from judgerun.table.canary import KINDS, alike, shuffled

PROMPT = "{{ text }} reference {{ reference | default('none') }} answer [{{ reply }}|{{ value }}|{{ solve.reply }}]"


def lab(rate: float | None = 0.4, *, rows: int = 60, reference: bool = True, **more: Any) -> Lab:
    """Problems with references, a solver and a grader that has canaries."""
    fields = {"reference": lambda n: f"right words of {n}"} if reference else {}
    return Lab(
        stages=[
            chat("solve", "problems", arm("s", "solve", "Solve {{ text }}")),
            chat("grade", "solve", arm("g", "grade", PROMPT), canaries=None if rate is None else Canaries(rate=rate)),
        ],
        tables=[numbered("problems", rows, **fields)],
        answer=lambda request: kept(f"an answer to {text_of(request)}"),
        **more,
    )


def planted(cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if canary_of(cell.condition)]


def answer_of(cell: Cell) -> str:
    return text_of(cell.request).partition("answer [")[2].removesuffix("]")


def test_every_kind_stands_in_the_place_of_the_answer() -> None:
    """The prompt sees the canary as reply, value and solve.reply: nothing, the reference, another row's, its words turned."""
    made = lab()
    flow = made.whole()
    by = {(canary_of(cell.condition), cell.id): answer_of(cell) for cell in planted(made.sent)}
    picked = {id for _, id in by}
    assert 1 <= len(picked) <= 15
    assert {kind for kind, _ in by} == set(KINDS)
    for id in picked:
        right = f"right words of {id[1:]}"
        assert by["empty", id] == "||"
        assert by["reference", id] == "|".join([right] * 3)
        wrong = by["wrong", id].split("|")
        assert len(set(wrong)) == 1
        assert wrong[0].startswith("right words of ")
        assert wrong[0] != right
        turned = by["shuffled", id].split("|")[0]
        assert turned != right
        assert sorted(turned.split()) == sorted(right.split())
    assert counts(flow)["grade/g/grade/canary-empty@solve/s/solve@problems"] == (len(picked), len(picked), 0, 0)


def test_canaries_never_flow_on_or_change_real_cells() -> None:
    """With canaries the real cells, their keys and the stage's table are those without."""
    plain, with_some, with_more = lab(None), lab(0.1), lab(0.9)
    flows = [made.whole() for made in (plain, with_some, with_more)]

    def real(made: Lab) -> list[tuple[str, str, bytes]]:
        return sorted((c.condition, c.id, c.request.key) for c in made.sent if not canary_of(c.condition))

    assert real(plain) == real(with_some) == real(with_more)
    tables = [
        [(row.condition.name, row.id, row.outcome and row.outcome.value) for row in f.rows("grade")] for f in flows
    ]
    assert tables[0] == tables[1] == tables[2]
    assert not flows[0].canaries()
    few, many = ({(c.condition, c.id, c.request.key) for c in planted(m.sent)} for m in (with_some, with_more))
    assert few < many


@given(rows=st.integers(1, 60), more=st.integers(0, 40), rate=st.sampled_from([0.001, 0.1, 0.4, 0.9]))
@settings(max_examples=40, deadline=None)
def test_picked_rows_stay_when_rows_are_added(rows: int, more: int, rate: float) -> None:
    """There is at least one of each kind that can be made; whoever is picked by its own rank stays."""
    few, many = lab(rate, rows=rows), lab(rate, rows=rows + more)
    few.whole()
    many.whole()
    kinds = Counter(canary_of(cell.condition) for cell in planted(few.sent))
    assert set(kinds) == (set(KINDS) if rows > 1 else set(KINDS) - {"wrong"})
    before, after = ({(c.id, canary_of(c.condition)) for c in planted(m.sent)} for m in (few, many))
    assert before <= after or len({id for id, _ in before}) == 1


def test_a_canary_needs_no_answer_of_its_row() -> None:
    """A row whose answer was cut, or never came, gives the same canaries as one that was answered."""

    def cut(request: Request) -> Kept | Lost:
        return Lost("down") if text_of(request).endswith(("1", "3")) else kept("half", finish=Finish.LENGTH)

    whole, broken = lab(), lab()
    broken.answer = cut
    whole.whole()
    broken.whole()
    keys = [{c.request.key for c in planted(made.sent)} for made in (whole, broken)]
    assert keys[0]
    assert keys[0] == keys[1]
    before = lab()
    assert {c.request.key for c in before.flow().survey() if canary_of(c.condition)} == keys[0]


def test_without_references_answers_serve() -> None:
    """Wrong is another row's answer, shuffled the own one; there is no reference, and before answers exist both are pending."""
    made = lab(reference=False)
    survey = counts(made.survey())
    assert survey["grade/g/grade/canary-wrong@solve/s/solve@problems"][3] > 0
    assert "grade/g/grade/canary-reference@solve/s/solve@problems" not in survey
    made.whole()
    by = {(canary_of(cell.condition), cell.id): answer_of(cell).split("|")[0] for cell in planted(made.sent)}
    for (kind, id), text in by.items():
        own = f"an answer to Solve text {id[1:]}"
        assert kind == "empty" or alike(text, own) is False
        assert kind != "wrong" or text.startswith("an answer to Solve text ")
        assert kind != "shuffled" or sorted(text.split()) == sorted(own.split())
    assert {kind for kind, _ in by} == {"empty", "wrong", "shuffled"}


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_replies_means_nothing(seed: int) -> None:
    """Whatever reply comes first, the same canaries are asked."""
    for reference in (True, False):
        one, other = lab(reference=reference), lab(reference=reference)
        lot = random.Random(seed)
        first, second = one.whole(), other.whole(pick=lot.randrange)
        assert first.digest == second.digest, seed


def test_a_joined_reference_serves() -> None:
    """with.reference gives the text: of a data table, of a stage that has to be waited for, or as an expression says."""
    solutions = Rows("solutions", [{"id": f"p{n}", "worked": f"s {n}", "mark": "-"} for n in range(30)])
    tables = [numbered("problems", 30), solutions]
    join = Join(name="reference", table="solutions", by="id")
    prompt = "{{ text }} {{ reference.worked }} answer [{{ reply }}]"
    stages = [
        chat("solve", "problems", arm("s", "solve", "Solve {{ text }}")),
        chat(
            "grade",
            "solve",
            arm("g", "grade", prompt),
            joins=(join,),
            canaries=Canaries(rate=0.3, reference="reference.worked"),
        ),
    ]
    made = Lab(stages=stages, tables=tables, answer=lambda request: kept("an answer"))
    made.whole()
    assert {answer_of(c) for c in planted(made.sent) if canary_of(c.condition) == "reference"} <= {
        f"s {n}" for n in range(30)
    }
    assert {canary_of(c.condition) for c in planted(made.sent)} == set(KINDS)

    expert = chat("expert", "problems", arm("e", "expert", "Expert {{ text }}"))
    join = Join(name="reference", table="expert", by="id")
    prompt = "{{ text }} {{ reference.reply }} answer [{{ reply }}]"
    grade = chat("grade", "solve", arm("g", "grade", prompt), joins=(join,), canaries=Canaries(rate=0.3))
    for rate in (0.3, 0.0001):
        grade = chat("grade", "solve", arm("g", "grade", prompt), joins=(join,), canaries=Canaries(rate=rate))
        waits = Lab(
            stages=[stages[0], expert, grade],
            tables=tables[:1],
            answer=lambda request: kept(f"by {text_of(request)}"),
        )
        flow = waits.whole()
        cells = planted(waits.sent)
        assert {canary_of(c.condition) for c in cells} == set(KINDS)
        assert all(answer_of(c).startswith("by Expert") for c in cells if canary_of(c.condition) == "reference")
        assert all(row.state == "live" for row in flow.canaries())


def test_variants_and_draws_have_canaries_of_their_own() -> None:
    """The canary stands behind the variant, is asked as often as the stage draws, and no name falls together with another."""
    variants = (Variant(name="none"), Variant(name="gold", joins=(Join(name="more", table="problems", by="id"),)))
    text = "{{ text }} {{ more.text if more else '' }} [{{ reply }}]"
    made = Lab(
        stages=[
            chat("solve", "problems", arm("s", "solve", "Solve {{ text }}", draws=2)),
            chat("grade", "solve", arm("g", "grade", text, draws=2), variants=variants, canaries=Canaries(rate=0.2)),
        ],
        tables=[numbered("problems", 30)],
        answer=lambda request: kept(f"an answer to {text_of(request)} {request.draw}"),
    )
    flow = made.whole()
    names = list(counts(flow))
    assert len(names) == len(set(names)) == 1 + 2 + 2 * 3
    assert "grade/g/grade/gold/canary-wrong@solve/s/solve@problems" in names
    drawn = Counter((row.condition.name, row.id) for row in flow.canaries())
    assert set(drawn.values()) == {4}
    assert len({c.request.key for c in planted(made.sent) if canary_of(c.condition) == "empty"}) < len(
        [row for row in flow.canaries() if canary_of(row.condition.name) == "empty"]
    )


def test_another_row_is_one_of_the_same_system() -> None:
    """Where a data table has conditions, a wrong answer is the reference of another id in the same one, however many there are."""
    items = [
        {"id": f"p{n}", "text": f"text {n}", "reference": f"by {system} of {n}", "system": system}
        for n in range(6)
        for system in map(str, range(20))
    ]
    made = lab(0.9)
    made.tables = [Rows("problems", items, condition_field="system")]
    made.whole()
    wrong = [cell for cell in planted(made.sent) if canary_of(cell.condition) == "wrong"]
    assert wrong
    for cell in wrong:
        system, said = cell.condition.rpartition(":")[2], answer_of(cell).split("|")[0]
        assert said.startswith(f"by {system} of ")
        assert said != f"by {system} of {cell.id[1:]}"


def test_a_fold_over_graders_sees_no_canary() -> None:
    """What is folded downstream is as large as without canaries."""
    made = lab(0.9)
    made.stages = [*made.stages, Fold(name="all", kind="fold", feeds=("grade",), over="rows", by="1", rule="list")]
    assert [row.outcome and len(row.outcome.value) for row in made.whole().rows("all")] == [60]


@given(st.lists(st.sampled_from("abcd"), max_size=8), st.integers())
def test_shuffled_words_are_never_in_their_order(words: list[str], seed: int) -> None:
    """The words of a text in another order; None exactly where there is no other."""
    text = " ".join(words)
    turned = shuffled(text, seed=seed, id="q")
    if len(set(words)) < 2:
        assert turned is None
    else:
        assert turned is not None
        assert turned != text
        assert sorted(turned.split()) == sorted(words)
