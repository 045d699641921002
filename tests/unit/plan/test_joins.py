"""Joins: documents and stages bound to a row, variants, what is missing, what is ambiguous."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.tables import Lab, Rows, arm, chat, counts, kept, numbered, text_of
from judgerun.errors import Refused
from judgerun.model.experiment import Join, ParseRule, Retrieve, TextOf, Variant
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request
from judgerun.model.rows import Gold

CORPUS = Rows("corpus", [{"id": f"d{n}", "text": f"word{n} filler", "for": f"p{n}"} for n in range(4)])


def words(k: int = 2) -> Retrieve:
    """A ranking of the corpus by words."""
    return Retrieve(
        name="words",
        kind="retrieve",
        feeds=("rows", "corpus"),
        method="bm25",
        k=k,
        queries=(TextOf(table="rows", expression="rows.text + ' word' + rows.n"),),
        corpus=TextOf(table="corpus", expression="corpus.text"),
    )


def rows() -> Rows:
    """Three rows; the last has no document of its own."""
    return Rows(
        "rows", [{"id": f"p{n}", "text": f"t{n}", "n": str(n), "own": None if n == 2 else f"d{n}"} for n in range(3)]
    )


def test_variants_differ_by_what_they_join() -> None:
    """A document by its id, the first of a ranking, the best judged one, and nothing, which is null."""
    stage = chat(
        "solve",
        "rows",
        arm("m", "p", "{{ text }} {% if context %}{{ context.id }}:{{ context.text }}{% else %}-{% endif %}"),
        variants=(
            Variant(name="none"),
            Variant(name="own", joins=(Join(name="context", table="corpus", by="own"),)),
            Variant(name="first", joins=(Join(name="context", table="words", by="id", rank=1),)),
            Variant(name="best", joins=(Join(name="context", table="corpus", gold="easy", rank=1),)),
        ),
    )
    gold = Gold("easy", {"p0": {"d3": 1, "d2": 2, "d1": 2}, "p1": {"d1": 0}})
    lab = Lab(stages=[stage, words()], tables=[rows(), CORPUS], golds=[gold])
    flow = lab.whole()
    asked = {(cell.condition.split("@")[0].split("/")[-1], cell.id): text_of(cell.request) for cell in lab.sent}
    assert asked["none", "p0"] == "t0 -"
    assert asked["own", "p1"] == "t1 d1:word1 filler"
    assert asked["first", "p2"] == "t2 d2:word2 filler"
    assert asked["best", "p0"] == "t0 d1:word1 filler"
    by_variant = {held.condition.split("/")[3].split("@")[0]: held for held in flow.counts()}
    assert by_variant["own"].reasons == {"join context: the row has no own": 1}
    assert by_variant["best"].reasons == {
        "join context: easy judges only 0 documents relevant": 2,
    }
    assert (by_variant["none"].done, by_variant["first"].done) == (3, 3)


def test_a_shared_field_joins_where_no_id_does() -> None:
    """`by` may name a field that both tables have."""
    answers = Rows("answers", [{"id": "x1", "question": "q1", "text": "answer"}])
    asked = Rows("rows", [{"id": "r", "question": "q1", "text": "t"}, {"id": "s", "question": "q2", "text": "t"}])
    stage = chat(
        "one", "rows", arm("m", "p", "{{ other.text }}"), joins=(Join(name="other", table="answers", by="question"),)
    )
    flow = Lab(stages=[stage], tables=[asked, answers]).whole()
    assert counts(flow) == {"one/m/p@rows": (2, 1, 1, 0)}
    assert flow.counts()[0].reasons == {"join other: answers has no row for 'q2'": 1}


def hinted(**given: Any) -> Lab:
    """A solver that needs the hint that another stage wrote for the same row."""
    return Lab(
        stages=[
            chat(
                "solve",
                "rows",
                arm("m", "p", "{{ text }} {{ hint.reply }}"),
                joins=(Join(name="hint", table="hints", by="id"),),
            ),
            chat(
                "hints", "rows", arm("h", "q", "hint for {{ text }}", parse=given.pop("parse", ParseRule(kind="text")))
            ),
        ],
        tables=[numbered("rows", 6)],
        **given,
    )


def test_a_row_waits_for_its_partner_from_another_stage() -> None:
    """The stage may stand later in the file; its rows are asked first, and a cut one is no partner."""

    def answer(request: Request) -> Kept | Lost:
        text = text_of(request)
        if text == "hint for text 1":
            return kept("half", finish=Finish.LENGTH)
        return Lost("no") if text == "hint for text 2" else kept("H" if text.startswith("hint") else "ok")

    lab = hinted(answer=answer)
    assert counts(lab.survey()) == {"hints/h/q@rows": (6, 0, 0, 6), "solve/m/p@rows": (6, 0, 0, 6)}
    flow = lab.whole(pick=lambda n: n // 2)
    assert counts(flow) == {"hints/h/q@rows": (6, 5, 1, 0), "solve/m/p@rows": (6, 4, 2, 0)}
    solved = next(held for held in flow.counts() if held.stage == "solve")
    assert solved.reasons == {"upstream truncated": 1, "upstream failed: no": 1}
    assert {text_of(cell.request) for cell in lab.sent if cell.id == "p0"} == {"hint for text 0", "text 0 H"}


def test_a_partner_that_where_dropped_is_missing() -> None:
    """Whoever waits for a row that never comes fails with a reason, and does not wait for ever."""
    lab = Lab(
        stages=[
            chat("hints", "rows", arm("h", "q", "hint for {{ text }}", where="id != 'p3'")),
            chat(
                "solve",
                "rows",
                arm("m", "p", "{{ text }} {{ hint.reply }}"),
                joins=(Join(name="hint", table="hints", by="id"),),
            ),
        ],
        tables=[numbered("rows", 6)],
    )
    flow = lab.whole()
    assert counts(flow) == {"hints/h/q@rows": (5, 5, 0, 0), "solve/m/p@rows": (6, 5, 1, 0)}
    assert flow.counts()[1].reasons == {"join hint: hints has no row for 'p3'": 1}


def test_a_partner_of_another_row_is_found_wherever_its_block_is() -> None:
    """Joining by a field, the partner may come from a block that is opened later."""
    table = Rows("rows", [{"id": f"p{n}", "text": f"t{n}", "next": f"p{(n + 1) % 5}"} for n in range(5)])
    lab = Lab(
        stages=[
            chat("hints", "rows", arm("h", "q", "hint for {{ text }}")),
            chat(
                "solve",
                "rows",
                arm("m", "p", "{{ text }} {{ hint.text }}"),
                joins=(Join(name="hint", table="hints", by="next"),),
            ),
        ],
        tables=[table],
    )
    assert counts(lab.whole())["solve/m/p@rows"] == (5, 5, 0, 0)
    assert "t4 t0" in {text_of(cell.request) for cell in lab.sent}


def test_an_ambiguous_join_is_refused() -> None:
    """Two hints for one row and nothing that says which: the plan is refused, naming the place."""
    lab = Lab(
        stages=[
            chat("hints", "rows", arm("h", "q", "1"), arm("i", "q", "2")),
            chat(
                "solve", "rows", arm("m", "p", "{{ hint.reply }}"), joins=(Join(name="hint", table="hints", by="id"),)
            ),
        ],
        tables=[numbered("rows", 2)],
    )
    with pytest.raises(Refused) as refused:
        lab.flow()
    (problem,) = refused.value.problems
    assert problem.place == "stage.solve.with.hint"
    assert "2 rows" in problem.wrong


def test_several_draws_of_a_partner_are_refused() -> None:
    """Two draws of a hint are two partners; which one is meant cannot be told."""
    lab = hinted()
    hints = chat("hints", "rows", arm("h", "q", "hint for {{ text }}", draws=2))
    lab.stages = [lab.stages[0], hints]
    with pytest.raises(Refused, match="several draws of hints"):
        lab.flow()


def test_a_stage_upstream_is_its_own_partner() -> None:
    """Joining a stage of the row's own history takes what that stage made of this row."""
    lab = Lab(
        stages=[
            chat("hints", "rows", arm("h", "q", "1 {{ text }}"), arm("i", "q", "2 {{ text }}")),
            chat(
                "solve", "hints", arm("m", "p", "{{ hint.model }}"), joins=(Join(name="hint", table="hints", by="id"),)
            ),
        ],
        tables=[numbered("rows", 1)],
    )
    lab.whole()
    assert {text_of(cell.request) for cell in lab.sent if cell.stage == "solve"} == {"h", "i"}


def test_stages_that_wait_for_each_other_are_refused() -> None:
    """A circle of joins is named, and nothing is planned."""
    lab = Lab(
        stages=[
            chat("one", "rows", arm("m", "p", "x"), joins=(Join(name="a", table="two", by="id"),)),
            chat("two", "rows", arm("m", "p", "x"), joins=(Join(name="a", table="one", by="id"),)),
        ],
        tables=[numbered("rows", 1)],
    )
    with pytest.raises(Refused, match="one, two"):
        lab.flow()
