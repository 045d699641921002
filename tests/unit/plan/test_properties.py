"""Properties of the flow over random outcomes, orders and stops: counts add up, order changes nothing, a resume is a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.tables import Lab, Rows, arm, balanced, chat, counts, kept, model, numbered, text_of
from judgerun.model.experiment import (
    Embed,
    Explode,
    ExplodeRows,
    Fold,
    Join,
    Map,
    Pair,
    ParseRule,
    Retrieve,
    Stage,
    TextOf,
    Variant,
)
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request
from judgerun.plan import desk
from judgerun.plan.flow import Flow

STRINGS = {"type": "array", "maxItems": 2, "items": {"type": "string"}}
SCHEMA = {"type": "object", "properties": {"good": STRINGS, "bad": STRINGS}}
SCORE = ParseRule(kind="score", low=0, high=7)
LABEL = ParseRule(kind="label", values=("A", "B", "tie"))
JSON = ParseRule(kind="json", schema=SCHEMA)
CHOICE = ParseRule(kind="choice")


def ladder() -> list[Stage]:
    """Generate, explode, judge in draws, fold twice, map, ask again."""
    kinds = (ExplodeRows(each=("good",), fields={"role": "g"}), ExplodeRows(each=("bad",), fields={"role": "b"}))
    return [
        chat("write", "rows", arm("g", "json", "{{ text }}", parse=JSON), arm("h", "json", "{{ text }}", parse=JSON)),
        Explode(name="parts", kind="explode", feeds=("write",), rows=kinds),
        chat("judge", "parts", arm("m", "score", "{{ parts.value }}", parse=SCORE, draws=2, where="text != 'text 2'")),
        Fold(name="mean", kind="fold", feeds=("judge",), over="draw", rule="mean", at_least=1),
        Fold(name="all", kind="fold", feeds=("mean",), over="rows", rule="median"),
        Map(name="made", kind="map", feeds=("all",), call="f", rows_max=2),
        chat("use", "made", arm("u", "text", "{{ text }} {{ made.value }}", missing="text", sample=6)),
    ]


def duel() -> list[Stage]:
    """Two solvers with variants, joined hints, pairs in both orders, folds."""
    hint = Join(name="hint", table="hints", by="id")
    return [
        chat("hints", "rows", arm("h", "text", "hint {{ text }}")),
        chat(
            "solve",
            "rows",
            arm("s", "text", "s {{ text }} {{ hint.reply if hint else '' }}"),
            arm("t", "text", "t {{ text }} {{ hint.reply if hint else '' }}", admit=("stop", "length")),
            variants=(Variant(name="none"), Variant(name="hinted", joins=(hint,))),
        ),
        Pair(name="match", kind="pair", feeds=("solve",), of="model"),
        chat("prefer", "match", arm("j", "label", "{{ a.reply }} | {{ b.reply }}", parse=LABEL, orders=("ab", "ba"))),
        Fold(name="verdict", kind="fold", feeds=("prefer",), over="order", rule="agree", otherwise="tie"),
        chat("why", "verdict", arm("w", "text", "{{ text }} {{ verdict.value }}")),
    ]


def search() -> list[Stage]:
    """Rewrites, two embedders, dense, words, fused, judged in two orders."""
    queries = (TextOf(table="rows", expression="rows.text"), TextOf(table="form", expression="form.value"))
    corpus = TextOf(table="corpus", expression="corpus.text")
    return [
        chat("form", "rows", arm("g", "text", "form {{ text }}")),
        Embed(
            name="vectors",
            kind="embed",
            feeds=("rows", "form", "corpus"),
            models=(model("e1"), model("e2")),
            queries=queries,
            corpus=corpus,
            missing="text",
        ),
        Retrieve(name="dense", kind="retrieve", feeds=("vectors",), method="dense", k=3),
        Retrieve(
            name="words",
            kind="retrieve",
            feeds=("rows", "form", "corpus"),
            method="bm25",
            k=3,
            queries=queries,
            corpus=corpus,
        ),
        Retrieve(name="both", kind="retrieve", feeds=("dense", "words"), method="rrf", k=3),
        chat(
            "pick",
            "both",
            arm("m", "choice", "{{ text }} {{ candidates[0].text }}", parse=CHOICE, orders=("given", "shuffled:1")),
        ),
    ]


PLANS: dict[str, Callable[[], list[Stage]]] = {"ladder": ladder, "duel": duel, "search": search}


def lab(plan: str, seed: int, bad: float) -> Lab:
    """A lab whose replies, good or bad, are a function of the request and the seed."""

    def answer(request: Request) -> Kept | Lost:
        rng = random.Random(f"{seed}{request.key.hex()}")
        if request.kind == "embed":
            if rng.random() < bad / 8:
                return Lost("no vector")
            held = random.Random(text_of(request))
            return kept("", vector=np.array([held.random() - 0.5 for _ in range(4)], dtype="<f4").tobytes())
        if rng.random() < bad:
            faults: Sequence[Kept | Lost] = (
                Lost("timed out"),
                kept("half of 3", finish=Finish.LENGTH),
                kept(""),
                kept("I will not", finish=Finish.REFUSAL),
                kept("neither nor"),
            )
            return rng.choice(faults)
        return kept(_says(request, rng), experiment=rng.choice(["made", "made", "other"]))

    return Lab(
        stages=PLANS[plan](),
        tables=[
            Rows("rows", [*numbered("rows", 5).items, {"id": "again", "text": "text 1"}]),
            numbered("corpus", 6, text=lambda n: f"document text {n}"),
        ],
        functions={
            "f": lambda row: [{"value": row["all"]["value"]}, {"value": "more"}][: 1 + (row["text"] == "text 1")]
        },
        answer=answer,
    )


def _says(request: Request, rng: random.Random) -> str:
    text = text_of(request)
    if "|" in text:
        return rng.choice(["A", "B", "tie"])
    if request.payload["model"] in ("id-g", "id-h") and text.startswith("text"):
        good, bad = ([f"part {rng.randint(1, 4)}" for _ in range(rng.randint(0, 2))] for _ in range(2))
        return json.dumps({"good": good, "bad": bad})
    return f"{rng.randint(1, 3)}"


def picture(flow: Flow) -> Any:
    """Everything that must not depend on order: counts, digest, every row of every stage. `shared` and `cached` of single
    conditions may differ by who came first, their sum may not.
    """
    told = [
        (h.condition, h.planned, h.done, h.failed, h.pending, h.finish, h.unparsed, h.concluded, h.reasons)
        for h in flow.counts()
    ]
    rows = {
        stage.name: [
            (row.id, row.condition.name, row.draws, row.state, row.reason, row.weight, _plain(row.outcome))
            for row in flow.rows(stage.name)
        ]
        for stage in flow.experiment.stages
    }
    return told, sum(held.shared for held in flow.counts()), flow.digest, rows


def _plain(outcome: Any) -> Any:
    if outcome is None:
        return None
    return (outcome.value, outcome.reply, outcome.finish, outcome.candidates, outcome.incomplete, outcome.fallback)


SEEDS = st.integers(0, 2**32)
CASES = (st.sampled_from(sorted(PLANS)), SEEDS, st.sampled_from([0.0, 0.1, 0.4]))
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(*CASES, SEEDS)
def test_the_order_of_replies_changes_nothing(plan: str, seed: int, bad: float, order: int) -> None:
    """Whatever cell is answered next, the final rows, counts and digest are the same; and a survey of the cache sees them."""
    first, second = lab(plan, seed, bad), lab(plan, seed, bad)
    rng = random.Random(order)
    straight = picture(first.whole())
    assert picture(second.whole(pick=rng.randrange)) == straight
    assert picture(second.survey()) == straight
    assert {cell.request.key for cell in first.sent} == {cell.request.key for cell in second.sent}
    assert len(first.sent) == len({cell.request.key for cell in first.sent})


@SLOW
@given(*CASES, SEEDS, st.integers(0, 60))
def test_counts_add_up_whenever_a_run_stops(plan: str, seed: int, bad: float, order: int, most: int) -> None:
    """A run stopped anywhere counts every cell, the unknown at their bound: no later run plans more than the one before."""
    held = lab(plan, seed, bad)
    rng = random.Random(order)
    before = {name: planned for name, (planned, *_) in counts(held.survey()).items()}
    for _ in range(3):
        flow = held.run(most=most, pick=rng.randrange)
        balanced(flow.counts())
        flow.finish()
        balanced(flow.counts())
        stopped = picture(flow)
        assert picture(held.survey()) == stopped
        now = {name: planned for name, (planned, *_) in counts(flow).items()}
        assert now.keys() == before.keys()
        assert all(now[name] <= before[name] for name in now), (before, now)
        before = now
    flow = held.whole(pick=rng.randrange)
    assert all(pending == 0 for *_, pending in counts(flow).values())
    assert picture(flow) == picture(lab(plan, seed, bad).whole())


@SLOW
@given(*CASES, SEEDS)
def test_a_resume_sends_only_what_is_missing(plan: str, seed: int, bad: float, order: int) -> None:
    """Stopped after some replies and begun again, no key is sent twice, and a third run sends nothing."""
    held = lab(plan, seed, bad)
    rng = random.Random(order)
    held.run(most=rng.randrange(40), pick=rng.randrange).finish()
    held.whole(pick=rng.randrange)
    keys = [cell.request.key for cell in held.sent]
    assert len(keys) == len(set(keys))
    flow = held.flow()
    assert flow.take() is None
    assert flow.drained


@SLOW
@given(*CASES, SEEDS, st.integers(0, 60), st.sampled_from([1, 2, 3, 7, 64]))
def test_looking_up_together_changes_nothing(
    plan: str, seed: int, bad: float, order: int, most: int, gathered: int
) -> None:
    """However many cells are looked up at once, a survey, a run and a run that was stopped come to the same, and a survey gives
    the same keys; block by block, but where rankings wait for several queries.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk, "GATHERED", gathered)
        held = lab(plan, seed, bad)
        held.run(most=most, pick=random.Random(order).randrange)
        alone, together = held.flow(), held.flow(many=held.together)
        asked, wanted = ([(cell.rank[0], cell.request.key) for cell in flow.survey()] for flow in (together, alone))
        assert sorted(key for _, key in asked) == sorted(key for _, key in wanted)
        assert plan == "search" or [block for block, _ in asked] == [block for block, _ in wanted]
        assert picture(together) == picture(alone)
        flow = held.run(most=most, pick=random.Random(order).randrange, many=held.together)
        flow.finish()
        assert picture(flow) == picture(held.survey())
        assert all(not barrier.open for barrier in flow.common.barriers)
        assert picture(held.whole(many=held.together)) == picture(lab(plan, seed, bad).whole())
        keys = [cell.request.key for cell in held.sent]
        assert len(keys) == len(set(keys))


@SLOW
@given(*CASES, SEEDS)
def test_every_open_end_is_released(plan: str, seed: int, bad: float, order: int) -> None:
    """After `finish` no barrier counts open work and no row is kept back anywhere."""
    held = lab(plan, seed, bad)
    flow = held.run(most=random.Random(order).randrange(50))
    flow.finish()
    assert all(not barrier.open for barrier in flow.common.barriers)
    with_reply = {row.id for row in flow.rows(held.stages[0].name)}
    assert with_reply
