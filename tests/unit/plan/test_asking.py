"""Asking: draws, orders, samples, where, expect, gold, fallback, sharing, what is cached, faults of prompts."""

from __future__ import annotations

import pytest

from fakes.tables import Lab, Rows, arm, chat, counts, kept, numbered, text_of
from judgerun.model.experiment import Embed, ParseRule, Retrieve, TextOf
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request
from judgerun.model.rows import Gold

SCORE = ParseRule(kind="score", low=0, high=7)
CHOICE = ParseRule(kind="choice")


def test_draws_are_cells_of_one_condition() -> None:
    """Five draws of a prompt are five requests, told apart by the draw alone; downstream cells carry them."""
    lab = Lab(
        stages=[
            chat("mark", "rows", arm("m", "p", "{{ text }}", parse=SCORE, draws=5)),
            chat("check", "mark", arm("c", "q", "{{ text }}: {{ mark.value }}")),
        ],
        tables=[numbered("rows", 3)],
        answer=lambda request: kept("4"),
    )
    flow = lab.whole()
    assert counts(flow) == {"mark/m/p@rows": (15, 15, 0, 0), "check/c/q@mark/m/p@rows": (15, 15, 0, 0)}
    first = [cell for cell in lab.sent if cell.stage == "mark" and cell.id == "p0"]
    assert sorted(cell.draws for cell in first) == [(("mark", n),) for n in range(1, 6)]
    assert len({cell.request.key for cell in first}) == 5
    assert len({cell.request.payload["messages"][0]["content"] for cell in first}) == 1
    below = [row.draws for row in flow.rows("check") if row.id == "p0"]
    assert below == [(("check", 1), ("mark", n)) for n in range(1, 6)]


def test_identical_requests_are_bought_once() -> None:
    """Two rows with one text, in two stages with one prompt: one call, the others share it."""
    table = Rows("rows", [{"id": "a", "text": "same"}, {"id": "b", "text": "same"}, {"id": "c", "text": "other"}])
    stages = [chat(name, "rows", arm("m", "p", "{{ text }}")) for name in ("one", "two")]
    lab = Lab(stages=stages, tables=[table])
    flow = lab.whole()
    assert len(lab.sent) == 2
    assert sum(held.done for held in flow.counts()) == 6
    assert sum(held.shared for held in flow.counts()) == 4
    again = lab.survey()
    assert [(h.done, h.shared, h.pending) for h in again.counts()] == [(h.done, h.shared, 0) for h in flow.counts()]


def test_a_cell_that_is_forgone_leaves_its_call_to_those_that_share_it() -> None:
    """When the first stage may not ask, the other gets the same request to send; forgone in its turn, both stay pending; and a
    later look finds them as before.
    """
    table = Rows("rows", [{"id": "a", "text": "same"}, {"id": "b", "text": "other"}])
    stages = [chat(name, "rows", arm("m", "p", "{{ text }}")) for name in ("one", "two")]
    lab = Lab(stages=stages, tables=[table])
    flow, taken = lab.flow(), []
    while (cell := flow.take()) is not None:
        taken.append((cell.stage, cell.id))
        if cell.stage == "one" or cell.id == "b":
            flow.forgo(cell)
        else:
            flow.resolve(cell, kept("ok"))
    flow.finish()
    assert sorted(taken) == [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")]
    held = {one.stage: (one.planned, one.done, one.shared, one.pending) for one in flow.counts()}
    assert held == {"one": (2, 0, 0, 2), "two": (2, 1, 0, 1)}


def test_what_another_experiment_bought_is_cached() -> None:
    """A reply of another experiment counts as cached; one's own does not."""
    lab = Lab(
        stages=[chat("one", "rows", arm("m", "p", "{{ text }}"))],
        tables=[numbered("rows", 4)],
        answer=lambda request: kept("ok", experiment="other" if text_of(request) != "text 0" else "made"),
    )
    lab.whole()
    (held,) = lab.survey().counts()
    assert (held.done, held.cached, held.shared) == (4, 3, 0)


def test_where_drops_rows_from_the_plan() -> None:
    """A row that `where` drops is not planned; one that it cannot judge fails, with the reason; null is no error to ask for."""
    table = Rows(
        "rows", [{"id": "a", "n": "3"}, {"id": "b", "n": "9"}, {"id": "c", "n": "many"}, {"id": "d", "n": None}]
    )
    where = "n is not none and n|int > 4"
    lab = Lab(stages=[chat("one", "rows", arm("m", "p", "{{ id }}", where=where))], tables=[table])
    flow = lab.whole()
    assert counts(flow) == {"one/m/p@rows": (2, 1, 1, 0)}
    (reason,) = flow.counts()[0].reasons
    assert reason.startswith("where: ")
    assert [cell.id for cell in lab.sent] == ["b"]


def test_where_on_upstream_waits_for_it() -> None:
    """Before the reply is there the row counts as planned; the reply decides."""
    lab = Lab(
        stages=[
            chat("mark", "rows", arm("m", "p", "{{ text }}", parse=SCORE)),
            chat("look", "mark", arm("c", "q", "Why {{ mark.value }}? {{ text }}", where="mark.value < 4")),
        ],
        tables=[numbered("rows", 8)],
        answer=lambda request: (
            kept(str(int(text_of(request)[-1]))) if text_of(request).startswith("text") else kept("so")
        ),
    )
    assert counts(lab.survey())["look/c/q@mark/m/p@rows"] == (8, 0, 0, 8)
    assert counts(lab.whole())["look/c/q@mark/m/p@rows"] == (4, 4, 0, 0)


def test_a_sample_takes_the_same_ids_in_every_condition() -> None:
    """Three of the rows that pass, the same for both graders of both solvers, known before the first reply."""
    lab = Lab(
        stages=[
            chat("solve", "rows", arm("s1", "p", "1 {{ text }}"), arm("s2", "p", "2 {{ text }}")),
            chat("grade", "solve", arm("g", "q", "{{ solve.reply }} {{ text }}", sample=3, where="even")),
        ],
        tables=[numbered("rows", 20, even=lambda n: n % 2 == 0)],
    )
    assert {held.planned for held in lab.survey().counts() if held.stage == "grade"} == {3}
    flow = lab.whole()
    ids = {
        name: {row.id for row in flow.rows("grade") if row.condition.get("model", "solve") == name}
        for name in ("s1", "s2")
    }
    assert len(ids["s1"]) == 3
    assert ids["s1"] == ids["s2"]
    assert all(int(id[1:]) % 2 == 0 for id in ids["s1"])


def test_a_smaller_sample_is_inside_a_larger() -> None:
    """Growing a sample keeps what was bought."""

    def ids(size: int) -> set[str]:
        lab = Lab(stages=[chat("one", "rows", arm("m", "p", "{{ text }}", sample=size))], tables=[numbered("rows", 50)])
        return {row.id for row in lab.whole().rows("one")}

    assert ids(5) < ids(20) < ids(50)


def test_expect_makes_agrees() -> None:
    """Numbers compare as numbers; an unparsed reply disagrees; nothing expected, nothing said."""
    table = Rows(
        "rows", [{"id": n, "text": n, "human": h} for n, h in [("a", "4"), ("b", "5"), ("c", "4"), ("d", None)]]
    )
    lab = Lab(
        stages=[chat("mark", "rows", arm("m", "p", "{{ text }}", parse=SCORE, expect="human"))],
        tables=[table],
        answer=lambda request: kept("none" if text_of(request) == "c" else "4"),
    )
    agrees = {row.id: row.stages["mark"].agrees for row in lab.whole().rows("mark")}
    assert agrees == {"a": True, "b": False, "c": False, "d": None}


def test_a_field_stands_in_for_what_does_not_flow_on() -> None:
    """`missing` names the original, which stands in for cut, unparsed and lost replies, marked."""

    def answer(request: Request) -> Kept | Lost:
        match text_of(request):
            case "text 0":
                return kept("cut", finish=Finish.LENGTH)
            case "text 1":
                return Lost("no")
            case _:
                return kept("rewritten")

    lab = Lab(
        stages=[
            chat("form", "rows", arm("m", "p", "{{ text }}")),
            chat("use", "form", arm("n", "q", "use {{ form.value }}", missing="text")),
        ],
        tables=[numbered("rows", 3)],
        answer=answer,
    )
    flow = lab.whole()
    assert counts(flow) == {"form/m/p@rows": (3, 2, 1, 0), "use/n/q@form/m/p@rows": (3, 3, 0, 0)}
    shown = {cell.id: text_of(cell.request) for cell in lab.sent if cell.stage == "use"}
    assert shown == {"p0": "use text 0", "p1": "use text 1", "p2": "use rewritten"}
    assert {row.id: row.stages["form"].fallback for row in flow.rows("use")} == {"p0": True, "p1": True, "p2": False}


def test_admit_lets_cut_answers_pass() -> None:
    """A study that graded cut answers is reproduced by listing `length`; what is unparsed still does not pass."""
    lab = Lab(
        stages=[
            chat("mark", "rows", arm("m", "p", "{{ text }}", parse=SCORE)),
            chat("use", "mark", arm("n", "q", "use {{ mark.value }} {{ text }}", admit=("stop", "length"))),
        ],
        tables=[numbered("rows", 2)],
        answer=lambda request: kept("5" if "0" in text_of(request) else "none", finish=Finish.LENGTH),
    )
    flow = lab.whole()
    assert flow.counts()[1].reasons == {"upstream unparsed": 1}
    assert flow.counts()[0].concluded == 0


def test_a_prompt_that_cannot_be_rendered_fails_its_cell() -> None:
    """A missing name fails the cells that need it, says which, and sends nothing."""
    table = Rows("rows", [{"id": "a", "text": "x"}, {"id": "b", "text": "y", "hint": "h"}])
    lab = Lab(stages=[chat("one", "rows", arm("m", "p", "{{ text }} {{ hint }}"))], tables=[table])
    flow = lab.whole()
    assert counts(flow) == {"one/m/p@rows": (2, 1, 1, 0)}
    (reason,) = flow.counts()[0].reasons
    assert "hint" in reason


def ranked(*, orders: tuple[str, ...], answer_place: int = 1) -> Lab:
    """Four documents by words; a judge picks the one shown at a place."""
    corpus = Rows("corpus", [{"id": f"d{n}", "text": "common " * n + "rest"} for n in range(1, 5)])
    return Lab(
        stages=[
            Retrieve(
                name="top",
                kind="retrieve",
                feeds=("rows", "corpus"),
                method="bm25",
                k=4,
                queries=(TextOf(table="rows", expression="rows.text"),),
                corpus=TextOf(table="corpus", expression="corpus.text"),
                gold=("easy",),
                metrics=("hit@1",),
            ),
            chat(
                "pick",
                "top",
                arm(
                    "m",
                    "p",
                    "{% for c in candidates %}{{ c.id }}={{ c.text }};{% endfor %}",
                    parse=CHOICE,
                    orders=orders,
                    gold=("easy",),
                ),
            ),
        ],
        tables=[Rows("rows", [{"id": "q", "text": "common rest"}]), corpus],
        golds=[Gold("easy", {"q": {"d2": 1}})],
        answer=lambda request: kept(str(answer_place)),
    )


def test_candidates_are_shown_in_every_order_and_choices_mapped_back() -> None:
    """The place that a judge names is that of the given order, whatever order it was shown."""
    lab = ranked(orders=("given", "reversed", "shuffled:2"))
    flow = lab.whole()
    (top,) = flow.rows("top")
    given = [candidate.id for candidate in top.stages["top"].candidates or ()]
    assert sorted(given) == ["d1", "d2", "d3", "d4"]
    shown = {
        cell.condition.split("@")[0].split("/")[-1]: [
            part.split("=")[0] for part in text_of(cell.request).split(";")[:-1]
        ]
        for cell in lab.sent
    }
    assert shown["given"] == given
    assert shown["reversed"] == given[::-1]
    assert all(sorted(shown[name]) == sorted(given) for name in ("shuffled:1", "shuffled:2"))
    for row in flow.rows("pick"):
        outcome = row.stages["pick"]
        assert outcome.order is not None
        assert given[outcome.value - 1] == shown[outcome.order][0]


def test_the_chosen_candidate_is_scored_first() -> None:
    """A judge's gold scores the ranking with its choice put first; what did not conclude has no score."""
    lab = ranked(orders=())
    (top,) = lab.whole().rows("top")
    given = [candidate.id for candidate in top.stages["top"].candidates or ()]
    for place, document in enumerate(given, start=1):
        other = ranked(orders=(), answer_place=place)
        (row,) = other.whole().rows("pick")
        assert row.stages["pick"].scores == {"easy.hit_1": float(document == "d2")}
    (row,) = ranked(orders=(), answer_place=9).whole().rows("pick")
    assert row.stages["pick"].scores == {"easy.hit_1": None}


def test_only_gives_out_no_other_condition() -> None:
    """Cells of other conditions are planned, never taken."""
    lab = Lab(
        stages=[chat("one", "rows", arm("m", "p", "{{ text }}"), arm("n", "p", "{{ text }}"))],
        tables=[numbered("rows", 5)],
    )
    flow = lab.whole(only="one/n")
    assert counts(flow) == {"one/m/p@rows": (5, 0, 0, 5), "one/n/p@rows": (5, 5, 0, 0)}
    assert {cell.model for cell in lab.sent} == {"n"}


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_limit_opens_so_many_blocks_in_every_condition(limit: int) -> None:
    """A limited run leaves the conditions paired, on the blocks that an unlimited one opens first."""
    lab = Lab(
        stages=[chat("one", "rows", arm("m", "p", "{{ text }}"), arm("n", "p", "{{ text }}"))],
        tables=[numbered("rows", 10)],
    )
    flow = lab.whole(limit=limit)
    assert set(counts(flow).values()) == {(10, limit, 0, 10 - limit)}
    ids = {name: {cell.id for cell in lab.sent if cell.model == name} for name in ("m", "n")}
    assert ids["m"] == ids["n"]
    unlimited = Lab(stages=lab.stages, tables=lab.tables)
    fresh = unlimited.flow()
    first = [fresh.take() for _ in range(2 * limit)]
    assert {cell.id for cell in first if cell is not None} == ids["m"]


def test_corpora_are_needed_whole_and_do_not_count_against_the_limit() -> None:
    """One block of queries still ranks against the whole corpus."""
    lab = Lab(
        stages=[
            Embed(
                name="vectors",
                kind="embed",
                feeds=("rows", "corpus"),
                models=(arm("e", "p", "x").model,),
                queries=(TextOf(table="rows", expression="rows.text"),),
                corpus=TextOf(table="corpus", expression="corpus.text"),
            )
        ],
        tables=[numbered("rows", 4), numbered("corpus", 6, text=lambda n: f"doc {n}")],
        answer=lambda request: kept("", vector=b"\0\0\x80?" * 2),
    )
    assert counts(lab.whole(limit=1)) == {"vectors/e@corpus": (6, 6, 0, 0), "vectors/e@rows": (4, 1, 0, 3)}


def test_cells_come_in_block_order_across_conditions() -> None:
    """All conditions of a block come before the next block, blocks in seeded order, whatever the rows' order in the file."""
    tables = [numbered("rows", 12), Rows("rows", list(reversed(numbered("rows", 12).items)))]
    seen = []
    for table in tables:
        flow = Lab(
            stages=[chat("one", "rows", arm("m", "p", "{{ text }}"), arm("n", "p", "{{ text }}"))], tables=[table]
        ).flow()
        cells = [flow.take() for _ in range(24)]
        assert flow.take() is None
        assert flow.drained
        seen.append([(cell.id, cell.model) for cell in cells if cell is not None])
        ranks = [cell.rank for cell in cells if cell is not None]
        assert ranks == sorted(ranks)
    assert seen[0] == seen[1]
    assert [model for _, model in seen[0]] == ["m", "n"] * 12
    assert [id for id, _ in seen[0]][::2] != [f"p{n}" for n in range(12)]


def test_a_bounded_take_gives_way() -> None:
    """With `blocks` a take over cached rows returns early, undrained, and goes on at the next call."""
    lab = Lab(stages=[chat("one", "rows", arm("m", "p", "{{ text }}"))], tables=[numbered("rows", 10)])
    lab.whole()
    flow = lab.flow()
    assert flow.take(blocks=4) is None
    assert not flow.drained
    assert flow.counts()[0].done == 4
    assert flow.take() is None
    assert flow.drained
    assert flow.counts()[0].done == 10
