"""Shapes: explode, fold, pair and map, with what failed or is not known yet counted at its bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from fakes.tables import Lab, Rows, arm, chat, counts, kept, numbered, text_of
from judgerun.errors import Refused
from judgerun.model.experiment import Explode, ExplodeRows, Fold, Map, Pair, ParseRule
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request
from judgerun.plan.flow import Flow
from judgerun.table.row import Row

STRINGS = {"type": "array", "maxItems": 3, "items": {"type": "string"}}
SCHEMA = {"type": "object", "properties": {"good": STRINGS, "bad": {**STRINGS, "maxItems": 2}}}
JSON = ParseRule(kind="json", schema=SCHEMA)
SCORE = ParseRule(kind="score", low=0, high=9)
LABEL = ParseRule(kind="label", values=("A", "B", "tie"))
KINDS = (
    ExplodeRows(each=("good",), fields={"role": "positive", "expect": "yes"}),
    ExplodeRows(each=("bad",), fields={"role": "negative", "expect": "no"}),
)


def variants(*, at_most: int | None = None, **settings: Any) -> Lab:
    """A generator whose variants are judged one by one."""
    return Lab(
        stages=[
            chat("ladder", "rows", arm("g", "p", "write {{ text }}", parse=JSON, **settings)),
            Explode(name="pairs", kind="explode", feeds=("ladder",), rows=KINDS, at_most=at_most),
            chat(
                "judge",
                "pairs",
                arm("m", "q", "{{ text }}: {{ pairs.value }} is {{ pairs.role }}", expect="pairs.expect"),
            ),
        ],
        tables=[numbered("rows", 4)],
    )


def writes(good: int, bad: int, request: Request) -> Kept:
    """What the generator says."""
    stem = text_of(request)
    return kept(
        json.dumps({"good": [f"{stem} g{n}" for n in range(good)], "bad": [f"{stem} b{n}" for n in range(bad)]})
    )


def test_rows_not_yet_known_count_at_their_bound() -> None:
    """Five of each reply by its schema; once it is there, as many as it gave."""
    lab = variants()
    assert counts(lab.survey())["judge/m/q@pairs@ladder/g/p@rows"] == (20, 0, 0, 20)

    def answer(request: Request) -> Kept | Lost:
        text = text_of(request)
        if not text.startswith("write"):
            return kept("yes")
        if text.endswith("3"):
            return Lost("gone")
        return kept("no json") if text.endswith("2") else writes(2, 1, request)

    lab.answer = answer
    flow = lab.flow()
    cell = flow.take()
    assert cell is not None
    flow.finish()
    assert counts(flow)["judge/m/q@pairs@ladder/g/p@rows"] == (20, 0, 0, 20)
    whole = lab.whole()
    assert counts(whole)["judge/m/q@pairs@ladder/g/p@rows"] == (16, 6, 10, 0)
    judged = whole.counts()[1]
    assert judged.reasons == {"upstream unparsed": 5, "upstream failed: gone": 5}
    ids = sorted(row.id for row in whole.rows("judge") if row.state == "live" and row.root == "p0")
    assert ids == ["p0/negative.1", "p0/positive.1", "p0/positive.2"]
    agrees = {row.id.split("/")[1]: row.stages["judge"].agrees for row in whole.rows("judge") if row.state == "live"}
    assert agrees == {"positive.1": True, "positive.2": True, "negative.1": False}


def test_more_rows_than_promised_fail_together() -> None:
    """`at_most` is a promise to the quote: a reply beyond it is a failure with its number, not a surprise."""
    lab = variants(at_most=2)
    lab.answer = lambda request: writes(2, 1, request)
    flow = lab.whole()
    assert counts(flow)["judge/m/q@pairs@ladder/g/p@rows"] == (8, 0, 8, 0)
    assert flow.counts()[1].reasons == {"upstream failed: 3 rows in one reply, more than 2": 8}


def test_an_explode_without_a_bound_is_refused() -> None:
    """Without maxItems and `at_most` nobody could quote what follows."""
    lab = Lab(
        stages=[
            chat("ladder", "rows", arm("g", "p", "write", parse=ParseRule(kind="json", schema={"type": "object"}))),
            Explode(name="pairs", kind="explode", feeds=("ladder",), rows=(ExplodeRows(each=("x",)),)),
        ],
        tables=[numbered("rows", 1)],
    )
    assert lab.flow() is not None  # the schema has no such property: no rows
    open_ended = ParseRule(kind="json", schema={"properties": {"x": {"type": "array"}}})
    lab.stages = [chat("ladder", "rows", arm("g", "p", "write", parse=open_ended)), lab.stages[1]]
    with pytest.raises(Refused, match="how many rows"):
        lab.flow()


def folded(flow: Flow, stage: str) -> dict[str, tuple[str, Any, bool]]:
    """state, value and incomplete of each row of a fold."""
    return {row.id: _told(row, stage) for row in flow.rows(stage)}


def _told(row: Row, stage: str) -> tuple[str, Any, bool]:
    made = row.stages.get(stage)
    return (row.state, made.value if made else None, bool(made and made.incomplete))


def marks(**fold: Any) -> Lab:
    """Five draws of a mark, averaged."""
    return Lab(
        stages=[
            chat("mark", "rows", arm("m", "p", "{{ text }}", parse=SCORE, draws=5)),
            Fold(**{"name": "mean", "kind": "fold", "feeds": ("mark",), "over": "draw", "rule": "mean", **fold}),
            chat("use", "mean", arm("u", "q", "{{ text }} has {{ mean.value }}")),
        ],
        tables=[numbered("rows", 3)],
    )


def test_a_fold_needs_its_whole_group() -> None:
    """One unparsed draw of five makes the group incomplete, counted, and no mean flows on."""
    lab = marks()
    lab.answer = lambda request: kept(
        "none" if text_of(request) == "text 1" and request.draw == 3 else str(request.draw)
    )
    flow = lab.whole()
    assert folded(flow, "mean") == {"p0": ("live", 3.0, False), "p1": ("live", None, True), "p2": ("live", 3.0, False)}
    assert counts(flow)["use/u/q@mean@mark/m/p@rows"] == (3, 2, 1, 0)
    assert flow.counts()[1].reasons == {"upstream incomplete": 1}
    (row,) = [row for row in flow.rows("mean") if row.id == "p1"]
    assert row.stages["mean"].extra == {"n": 4, "of": 5}
    assert row.draws == ()


def test_at_least_makes_do_with_fewer() -> None:
    """Three concluded draws of five are enough where the stage says so; two are not."""
    lab = marks(at_least=3)

    def answer(request: Request) -> Kept | Lost:
        bad = {"text 0": 2, "text 1": 3}.get(text_of(request), 0)
        return Lost("no") if request.draw <= bad else kept(str(request.draw))

    lab.answer = answer
    flow = lab.whole(pick=lambda n: n - 1)
    assert folded(flow, "mean") == {"p0": ("live", 4.0, False), "p1": ("live", None, True), "p2": ("live", 3.0, False)}


def test_a_fold_waits_for_every_draw() -> None:
    """While a draw is open the group is pending, and so is what reads it."""
    lab = marks()
    lab.answer = lambda request: kept("4")
    flow = lab.run(most=14)
    flow.finish()
    assert counts(flow)["mark/m/p@rows"] == (15, 14, 0, 1)
    assert counts(flow)["use/u/q@mean@mark/m/p@rows"] == (3, 0, 0, 3)
    assert sorted(state for state, _, _ in folded(flow, "mean").values()) == ["live", "live", "pending"]


def test_a_fold_over_order_agrees_or_ties() -> None:
    """Both orders must name the same winner; the folded coordinate is written as a dash."""
    table = Rows(
        "answers",
        [{"id": q, "system": s, "text": f"{s} on {q}"} for q in ("q1", "q2") for s in ("north", "south", "base")],
        condition_field="system",
    )
    lab = Lab(
        stages=[
            Pair(name="match", kind="pair", feeds=("answers",), by="id", of="condition", against="base"),
            chat("prefer", "match", arm("m", "p", "{{ a.text }} or {{ b.text }}", parse=LABEL, orders=("ab", "ba"))),
            Fold(name="verdict", kind="fold", feeds=("prefer",), over="order", rule="agree", otherwise="tie"),
        ],
        tables=[table],
        answer=lambda request: kept("B" if text_of(request).startswith("base") else "A"),
    )
    flow = lab.whole()
    asked = {text_of(cell.request): cell.condition for cell in lab.sent}
    assert asked["north on q1 or base on q1"] == "prefer/m/p/ab@match/north~base@answers:-"
    assert asked["base on q1 or north on q1"] == "prefer/m/p/ba@match/north~base@answers:-"
    verdicts = {(row.id, row.condition.name): row.stages["verdict"].value for row in flow.rows("verdict")}
    assert verdicts["q1", "verdict@prefer/m/p/-@match/north~base@answers:-"] == "A"
    assert set(verdicts.values()) == {"A"}
    lab.cache.clear()
    lab.answer = lambda request: kept("A")  # whoever stands first wins
    values = {row.stages["verdict"].value for row in lab.whole().rows("verdict")}
    assert values == {"tie"}


def test_pairs_of_all_meet_once() -> None:
    """Against all, every two conditions meet once; a row without a partner meets nobody."""
    table = Rows(
        "answers",
        [
            {"id": q, "s": s, "text": s}
            for q, s in [("q1", "x"), ("q1", "y"), ("q1", "z"), ("q2", "x"), ("q2", "z"), ("q3", "y")]
        ],
        condition_field="s",
    )
    lab = Lab(stages=[Pair(name="match", kind="pair", feeds=("answers",), of="condition")], tables=[table])
    found = sorted((row.id, row.condition.segments[0].coordinates[0][1]) for row in lab.whole().rows("match"))
    assert found == [("q1", "x~y"), ("q1", "x~z"), ("q1", "y~z"), ("q2", "x~z")]


def test_a_pair_needs_both_replies() -> None:
    """A pair of answers fails where one of them failed, and is pending while one is open."""
    lab = Lab(
        stages=[
            chat("answer", "rows", arm("m1", "p", "1 {{ text }}"), arm("m2", "p", "2 {{ text }}")),
            Pair(name="match", kind="pair", feeds=("answer",), of="model"),
            chat("prefer", "match", arm("j", "q", "{{ a.reply }} or {{ b.reply }}: {{ text }}")),
        ],
        tables=[numbered("rows", 4)],
        answer=lambda request: Lost("no") if text_of(request) == "2 text 1" else kept("to " + text_of(request)),
    )
    name = "prefer/j/q@match/m1~m2@answer/-/p@rows"
    assert counts(lab.survey())[name] == (4, 0, 0, 4)
    flow = lab.whole(pick=lambda n: n // 2)
    assert counts(flow)[name] == (4, 3, 1, 0)
    assert "to 1 text 0 or to 2 text 0: text 0" in {text_of(cell.request) for cell in lab.sent}


def test_pairs_by_a_field_meet_across_ids() -> None:
    """`by` names the field whose value becomes the id; two rows of one side with one value are told."""
    items = [
        {"id": "r1", "s": "x", "question": "q1"},
        {"id": "r2", "s": "y", "question": "q1"},
        {"id": "r3", "s": "y", "question": "q2"},
        {"id": "r4", "s": "x", "question": "q2"},
        {"id": "r5", "s": "x", "question": "q2"},
        {"id": "r6", "s": "x", "question": None},
    ]
    table = Rows("answers", items, condition_field="s")
    lab = Lab(
        stages=[Pair(name="match", kind="pair", feeds=("answers",), by="question", of="condition")], tables=[table]
    )
    rows = sorted((row.id, row.state) for row in lab.whole().rows("match"))
    assert rows == [("q1", "live"), ("q2", "failed"), ("q2", "live")]


def test_a_pair_of_unknown_rows_is_counted_at_most_once_for_each() -> None:
    """Before the variants of two writers are known, as many pairs are planned as the smaller side may have."""
    small = ParseRule(kind="json", schema={"properties": {"good": {**STRINGS, "maxItems": 1}}})
    lab = Lab(
        stages=[
            chat(
                "ladder", "rows", arm("g", "p", "1 {{ text }}", parse=JSON), arm("h", "p", "2 {{ text }}", parse=small)
            ),
            Explode(name="pairs", kind="explode", feeds=("ladder",), rows=KINDS[:1]),
            Pair(name="match", kind="pair", feeds=("pairs",), of="model"),
            chat("judge", "match", arm("m", "q", "{{ a.pairs.value }} or {{ b.pairs.value }}")),
        ],
        tables=[numbered("rows", 2)],
        answer=lambda request: writes(2 if text_of(request).startswith("1") else 1, 0, request),
    )
    name = "judge/m/q@match/g~h@pairs@ladder/-/p@rows"
    assert counts(lab.survey())[name] == (2, 0, 0, 2)
    half = lab.run(most=1)
    half.finish()
    assert counts(half)[name] == (2, 0, 0, 2)
    assert counts(lab.whole())[name] == (2, 2, 0, 0)


def test_a_fold_over_rows_goes_back_to_the_source() -> None:
    """All variants of one reply become one row again, under the id that they came from."""
    lab = variants()
    stages = [
        *lab.stages[:2],
        chat("judge", "pairs", arm("m", "q", "{{ text }}: {{ pairs.value }}", parse=SCORE)),
        Fold(name="best", kind="fold", feeds=("judge",), over="rows", rule="median", value="judge.value"),
        Fold(
            name="roles", kind="fold", feeds=("judge",), over="rows", by="pairs.role", rule="list", value="judge.value"
        ),
    ]
    lab.stages = stages

    def answer(request: Request) -> Kept | Lost:
        text = text_of(request)
        if text.startswith("write"):
            return writes(0 if text.endswith("3") else 2, 0 if text.endswith("3") else 1, request)
        return kept("none" if "text 1" in text and "b0" in text else text[-1])

    lab.answer = answer
    flow = lab.whole()
    assert folded(flow, "best") == {"p0": ("live", 0.0, False), "p1": ("live", None, True), "p2": ("live", 0.0, False)}
    roles = folded(flow, "roles")
    assert roles["positive"] == ("live", [0, 1, 0, 1, 0, 1], False)
    assert roles["negative"][2] is True


def test_a_fold_names_what_it_cannot_find() -> None:
    """Folding a coordinate that no row has is refused."""
    lab = Lab(
        stages=[
            chat("one", "rows", arm("m", "p", "x")),
            Fold(name="two", kind="fold", feeds=("one",), over="order"),
        ],
        tables=[numbered("rows", 1)],
    )
    with pytest.raises(Refused, match="no coordinate 'order'"):
        lab.flow()


def test_records_fold_name_by_name() -> None:
    """Several names of a reply are folded each by itself."""
    lab = Lab(
        stages=[
            chat(
                "mark",
                "rows",
                arm("m", "p", "{{ text }}", parse=ParseRule(kind="json", schema={}, value=("x", "y")), draws=2),
            ),
            Fold(name="mean", kind="fold", feeds=("mark",), over="draw", rule="mean"),
        ],
        tables=[numbered("rows", 1)],
        answer=lambda request: kept(json.dumps({"x": request.draw, "y": 10 * request.draw, "z": 0})),
    )
    (row,) = lab.whole().rows("mean")
    assert row.stages["mean"].value == {"x": 1.5, "y": 15.0}


def mapped(function: Any, **given: Any) -> Lab:
    """Replies that a function turns into rows, which are asked about."""
    return Lab(
        stages=[
            chat("one", "rows", arm("m", "p", "{{ text }}")),
            Map(**{"name": "made", "kind": "map", "feeds": ("one",), "call": "rows:made", "rows_max": 2, **given}),
            chat("two", "made", arm("n", "q", "{{ id }} {{ made.value }}")),
        ],
        tables=[numbered("rows", 4)],
        functions={"rows:made": function},
        answer=lambda request: kept("cut", finish=Finish.LENGTH) if text_of(request) == "text 3" else kept("ok"),
    )


def test_a_map_makes_rows_of_rows() -> None:
    """Nothing, one or several rows of each; before they are known they count at `rows_max`."""

    def made(row: Mapping[str, Any]) -> Any:
        match row["text"]:
            case "text 0":
                return None
            case "text 1":
                return [{"id": "new", "value": row["one"]["reply"]}, {"value": 7}]
            case _:
                return "just this"

    lab = mapped(made)
    name = "two/n/q@made@one/m/p@rows"
    assert counts(lab.survey())[name] == (8, 0, 0, 8)
    flow = lab.whole()
    assert counts(flow)[name] == (5, 3, 2, 0)
    asked = {text_of(cell.request) for cell in lab.sent if cell.stage == "two"}
    assert asked == {"new ok", "p1/made.2 7", "p2 just this"}
    assert flow.counts()[1].reasons == {"upstream truncated": 2}


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda row: 1 / 0, "map: ZeroDivisionError: division by zero"),
        (lambda row: [{"value": n} for n in range(3)], "map: 3 rows of one, more than rows_max = 2"),
        (lambda row: {"id": "same", "value": 1}, "map: the id 'same' was given before"),
    ],
)
def test_a_function_that_fails_fails_its_rows(function: Any, reason: str) -> None:
    """An error, too many rows, an id given twice: a reason, never a crash."""
    flow = mapped(function).whole()
    assert f"upstream failed: {reason}" in flow.counts()[1].reasons


def test_a_whole_map_sees_all_rows_of_a_condition_at_once() -> None:
    """It waits until none can come; rows that failed are counted beside it; an id that came in keeps its history."""
    seen: list[list[str]] = []

    def made(rows: list[Mapping[str, Any]]) -> Any:
        seen.append([row["id"] for row in rows])
        return [{"id": "p0", "value": "old"}, {"id": "x", "value": "new", "text": "t"}]

    lab = mapped(made, whole=True)
    name = "two/n/q@made@one/m/p@rows"
    half = lab.run(most=3)
    half.finish()
    assert counts(half)[name][3] == 8
    assert seen == []
    flow = lab.whole(pick=lambda n: n - 1)
    assert seen == [["p0", "p1", "p2"]]
    assert counts(flow)[name] == (4, 2, 2, 0)
    assert {text_of(cell.request) for cell in lab.sent if cell.stage == "two"} == {"p0 old", "x new"}
    history = {row.id: "one" in row.stages for row in flow.rows("made") if row.state == "live"}
    assert history == {"p0": True, "x": False}


def test_a_sample_of_unknown_ids_waits_and_is_the_same_in_every_condition() -> None:
    """After an explode the ids are chosen among all that came; before that the sample's size is planned."""
    lab = variants()
    lab.stages = [
        chat(
            "ladder",
            "rows",
            arm("g", "p", "write {{ text }}", parse=JSON),
            arm("h", "p", "write {{ text }}", parse=JSON),
        ),
        lab.stages[1],
        chat("judge", "pairs", arm("m", "q", "{{ text }}: {{ pairs.value }}", sample=3)),
    ]
    lab.answer = lambda request: writes(2, 1, request) if text_of(request).startswith("write") else kept("ok")
    assert [held.planned for held in lab.survey().counts() if held.stage == "judge"] == [3, 3]
    flow = lab.whole()
    ids: dict[str, set[str]] = {}
    for row in flow.rows("judge"):
        ids.setdefault(row.condition.name, set()).add(row.id)
    first, second = ids.values()
    assert first == second
    assert len(first) == 3
