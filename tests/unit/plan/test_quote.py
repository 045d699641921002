"""Quotes: what is to be sent and its three prices; what must be refused; reservations; what changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.tables import LAB, PROFILE, Lab, Rows, arm, chat, kept, model, numbered, text_of
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Embed, Explode, ExplodeRows, Model, ParseRule, PriceSpec, Retrieve, TextOf
from judgerun.model.kept import Cell, Kept
from judgerun.model.lane import LaneSpec
from judgerun.model.profile import Profile
from judgerun.model.request import Request, build
from judgerun.plan.changes import changed, cost, lines
from judgerun.plan.quote import Line, Quote, need, output_bound, quote

USD = 1_000_000_000
PRICE = Price(rates=PriceSpec(input=1 * USD, output=10 * USD), source="test")


def quoted(
    lab: Lab, *, price: Price | None = PRICE, lanes: Mapping[str, LaneSpec] | None = None, **given: Any
) -> Quote:
    """The quote of a fresh survey."""
    ceilings = given.pop("ceilings", {})
    return quote(lab.flow(**given), prices=lambda _: price, lanes=lanes or {}, ceilings=ceilings, budget="b")


def line(held: Quote, stage: str) -> Line:
    """The first line of a stage."""
    return next(line for line in held.lines if line.stage == stage)


def two_stages(**settings: Any) -> Lab:
    """A solver and its grader."""
    return Lab(
        stages=[
            chat("solve", "rows", arm("s", "p", "Solve {{ text }}", given={"max_output_tokens": 1000}, **settings)),
            chat("grade", "solve", arm("g", "q", "Grade {{ solve.reply }}")),
        ],
        tables=[Rows("rows", [{"id": f"p{n}", "text": f"{n}" + "x" * (99 if n else 899)} for n in range(10)])],
        answer=lambda request: kept("y" * 400 if text_of(request).startswith("Solve") else "7"),
    )


def test_a_fresh_quote_counts_everything_as_to_send() -> None:
    """The three prices stand in order; the grader's calls are priced before one solution exists."""
    held = quoted(two_stages(output_tokens_expected=500))
    assert [(one.cells, one.to_send, one.unknown) for one in held.lines] == [(10, 10, 0), (10, 10, 10)]
    assert held.to_send == 20
    for one in held.lines:
        assert 0 < one.expected <= one.worst <= one.bound
    solve = line(held, "solve")
    inputs = [64 + len("Solve ") + size for size in [900, *[100] * 9]]
    assert solve.bound == sum(size * 1000 + 1000 * 10_000 for size in inputs)
    assert solve.expected == sum(-(-size // 4) for size in inputs) * 1000 + 10 * 500 * 10_000
    assert solve.worst == sum(-(-size // 2) * 1000 + 1000 * 10_000 for size in inputs)
    assert held.problems == ()


def test_the_grader_is_priced_at_the_mean_and_at_the_longest_solution() -> None:
    """Before a solution is there its length is taken from what is expected and, at worst, from its cap."""
    held = line(quoted(two_stages(output_tokens_expected=500)), "grade")
    frame = len("Grade {{ solve.reply }}") + 64
    mean, longest = frame + 500 * 4, frame + 1000 * 4
    assert held.expected == 10 * -(-mean // 4) * 1000 + 10 * 16 * 10_000
    assert held.bound == 10 * (longest * 1000 + 16 * 10_000)


def test_what_is_cached_is_not_quoted_and_tells_lengths() -> None:
    """After some replies the rest is quoted by their lengths."""
    lab = two_stages(output_tokens_expected=900)
    lab.run(most=4)
    held = line(quoted(lab), "solve")
    done = held.cached
    assert 0 < done <= 4
    assert held.to_send == 10 - done
    assert held.cells == held.cached + held.shared + held.to_send + held.failed
    assert held.expected < line(quoted(two_stages(output_tokens_expected=900)), "solve").expected / 2
    lab.whole()
    rest = quoted(lab)
    assert (rest.to_send, rest.expected, rest.worst, rest.bound, rest.seconds) == (0, 0, 0, 0, 0.0)


def test_each_arm_is_quoted_at_its_own_cap() -> None:
    """Two prompts of one model with different caps: the dear one does not make the other dear."""
    arms = [
        arm("m", name, f"{name} {{{{ text }}}}", given={"max_output_tokens": cap})
        for name, cap in (("a", 10), ("b", 999))
    ]
    held = quoted(Lab(stages=[chat("one", "rows", *arms)], tables=[numbered("rows", 1)]))
    assert [one.bound - (64 + len("a text 0")) * 1000 for one in held.lines] == [10 * 10_000, 999 * 10_000]


def test_shared_calls_are_quoted_once() -> None:
    """Equal requests cost one call."""
    lab = Lab(stages=[chat("one", "rows", arm("m", "p", "same"))], tables=[numbered("rows", 5)])
    (held,) = quoted(lab).lines
    assert (held.cells, held.cached, held.shared, held.to_send) == (5, 0, 4, 1)
    lab.whole()
    (held,) = quoted(lab).lines
    assert (held.cells, held.cached, held.shared, held.to_send) == (5, 1, 4, 0)


def test_only_and_limit_quote_what_they_send() -> None:
    """What is left out stays planned, and costs nothing."""
    lab = two_stages()
    held = quoted(lab, only="solve")
    assert [(one.cells, one.to_send) for one in held.lines] == [(10, 10), (10, 0)]
    held = quoted(lab, limit=3)
    assert [(one.cells, one.to_send) for one in held.lines] == [(10, 3), (10, 3)]


def test_an_unpriced_model_is_a_problem() -> None:
    """Only while something is to be sent to it."""
    lab = Lab(stages=[chat("one", "rows", arm("m", "p", "{{ text }}"))], tables=[numbered("rows", 2)])
    (problem,) = quoted(lab, price=None).problems
    assert (problem.place, problem.wrong) == ("models.m", "no price of lab/id-m is known")
    lab.whole()
    assert quoted(lab, price=None).problems == ()


@pytest.mark.parametrize(
    ("reasoning", "cap", "ceiling", "bound"),
    [
        ("inside", 100, None, 100),
        ("none", 100, 5000, 100),
        ("inside", None, 5000, 5000),
        ("inside", None, None, None),
        ("outside", 100, None, None),
        ("unknown", 100, 5000, 5000),
        ("outside", 9000, 5000, 9000),
    ],
)
def test_what_bounds_the_output(reasoning: Any, cap: int | None, ceiling: int | None, bound: int | None) -> None:
    """The cap where it covers hidden reasoning, else a ceiling; without either nothing may be sent."""
    profile = Profile(dialect="openai", adapter="openai/1", reasoning=reasoning)
    assert output_bound(cap, ceiling, profile) == bound
    lab = Lab(
        stages=[chat("one", "rows", arm("m", "p", "x", given={"max_output_tokens": cap}))],
        tables=[numbered("rows", 1)],
        profiles={"m": profile},
    )
    held = quoted(lab, ceilings={} if ceiling is None else {"lab/id-m": ceiling})
    assert bool(held.problems) is (bound is None)
    if bound is None:
        assert held.problems[0].place == 'ceiling."lab/id-m"'
    else:
        assert held.bound == (64 + 1) * 1000 + bound * 10_000


def a_cell(held: Model, request: Request, bound: int) -> Cell:
    """A cell of that input bound."""
    return Cell(
        stage="s",
        condition="s/m/p@rows",
        id="p0",
        draws=(),
        block="p0",
        provider="lab",
        model=held.name,
        request=request,
        rank=(0,),
        input_bound=bound,
        input_bound_by="bytes",
        output_cap=held.max_output_tokens,
    )


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(0, 10**11), st.integers(0, 10**11))
def test_a_need_covers_every_bill_within_its_bounds(bound: int, cap: int, dear_in: int, dear_out: int) -> None:
    """Whatever a call reports within its bounds costs no more than was reserved."""
    price = Price(rates=PriceSpec(input=dear_in, output=dear_out), source="test")
    held = model("m", max_output_tokens=cap)
    request = build("chat", {"model": "m"}, deployment="d", adapter="a", draw=1)
    amount = need(a_cell(held, request, bound), held, price, None, PROFILE)
    assert (amount.calls, amount.tokens) == (1, bound + cap)
    assert amount.nanos == price.bound(bound, cap)
    embedded = build("embed", {"model": "m", "text": "t"}, deployment="d", adapter="a", draw=1)
    assert need(a_cell(held, embedded, bound), held, price, None, PROFILE).tokens == bound


def test_time_is_set_by_the_tightest_lane() -> None:
    """Slots, requests and tokens a minute, requests a day; embeddings go in batches; providers side by side."""
    lab = Lab(
        stages=[chat("one", "rows", arm("m", "p", "{{ text }}", given={"max_output_tokens": 50}))],
        tables=[numbered("rows", 120)],
    )

    def seconds(**lane: Any) -> float:
        return quoted(lab, lanes={"lab": LaneSpec(**{"name": "lab", "concurrency": 4, **lane})}).seconds

    assert seconds() == 120 * 2.0 / 4
    assert seconds(requests_per_minute=10) == 60 * 120 / 10
    assert seconds(tokens_per_minute=100) > seconds(tokens_per_minute=1000) > 60
    assert seconds(requests_per_day=50) == 2 * 86_400
    own = {"lab/m": LaneSpec(name="lab/m", concurrency=1), "lab": LaneSpec(name="lab", concurrency=4)}
    assert quoted(lab, lanes=own).seconds == 240.0


def test_jobs_take_up_to_a_day_for_each_stage_that_waits_for_another() -> None:
    """In the batch lane the pace of calls says nothing: stages that depend on each other add up, others do not, and where little
    may be enqueued one job follows the other; what is bought takes no time.
    """
    stages = [
        chat(
            "solve",
            "rows",
            arm("s", "p", "Solve {{ text }}", given={"lane": "batch"}),
            arm("c", "p", "Solve {{ text }}"),
        ),
        chat("other", "rows", arm("o", "p", "Say {{ text }}", given={"lane": "batch"})),
        chat("grade", "solve", arm("g", "q", "Grade {{ solve.reply }}", given={"lane": "batch"})),
    ]
    lab = Lab(stages=stages, tables=[numbered("rows", 10)], answer=lambda request: kept("7"))
    held = quoted(lab, lanes={"lab": LaneSpec(name="lab", concurrency=1)})
    assert [(one.stage, one.model, one.days, one.seconds > 0) for one in held.lines] == [
        ("solve", "s", 1, False),
        ("solve", "c", 0, True),
        ("other", "o", 1, False),
        ("grade", "g", 1, False),
        ("grade", "g", 1, False),
    ]
    assert held.days == 2
    assert held.seconds == line(held, "solve").seconds + held.lines[1].seconds
    assert quoted(lab, lanes={"lab": LaneSpec(name="lab", enqueued_tokens=100)}).days > 4
    lab.run()
    assert quoted(lab).days == 0


def test_an_embedding_stage_and_what_follows_is_quoted() -> None:
    """Texts are priced as they are; the judge of candidates by the documents; variants by what their writer may say."""
    schema = {"properties": {"v": {"type": "array", "maxItems": 3}}}
    text = TextOf(table="rows", expression="rows.text")
    corpus = TextOf(table="corpus", expression="corpus.text")
    lab = Lab(
        stages=[
            Embed(
                name="vectors",
                kind="embed",
                feeds=("rows", "corpus"),
                models=(model("e"),),
                queries=(text,),
                corpus=corpus,
            ),
            Retrieve(name="top", kind="retrieve", feeds=("vectors",), method="dense", k=5),
            chat("pick", "top", arm("m", "p", "{{ text }}{% for c in candidates %}{{ c.text }}{% endfor %}")),
            chat("write", "rows", arm("w", "p", "{{ text }}", parse=ParseRule(kind="json", schema=schema))),
            Explode(name="parts", kind="explode", feeds=("write",), rows=(ExplodeRows(each=("v",)),)),
            chat("judge", "parts", arm("j", "p", "{{ parts.value }}")),
        ],
        tables=[numbered("rows", 4), numbered("corpus", 6, text=lambda n: f"{n}" + "d" * 99)],
        answer=_says,
    )
    held = quoted(lab)
    assert [(one.stage, one.to_send, one.unknown) for one in held.lines] == [
        ("vectors", 6, 0),
        ("vectors", 4, 0),
        ("pick", 4, 4),
        ("write", 4, 0),
        ("judge", 12, 12),
    ]
    assert line(held, "vectors").bound == 6 * 116 * 1000
    assert line(held, "pick").bound >= 4 * (5 * 100 * 1000 + 16 * 10_000)
    assert line(held, "judge").bound >= 12 * (16 * 4 * 1000 + 16 * 10_000)
    lab.whole()
    assert quoted(lab).to_send == 0


def _says(request: Request) -> Kept:
    if request.kind == "embed":
        return kept("", vector=b"\0\0\x80?\0\0\0\0")
    return kept(json.dumps({"v": ["a"]}) if text_of(request).startswith("text") else "ok")


def test_changed_lines_are_named() -> None:
    """The lines of the new text; a span as first-last; what was only taken away, where it stood."""
    old = "a\nb\nc\nd\n"
    assert lines(old, "a\nB\nc\nd\n") == "line 2"
    assert lines(old, "a\nB\nC\nd\n") == "lines 2-3"
    assert lines(old, "A\nb\nc\nD\n") == "lines 1, 4"
    assert lines(old, "a\nb\nd\n") == "line 3"
    assert lines(old, "a\nb\nc\n") == "line 3"
    assert lines(old, old) == ""
    assert lines("", "a\n") == "line 1"


def test_changes_are_told_with_what_they_cost() -> None:
    """Files by name: changed with lines where the text was kept, gone, new; conditions that lost replies."""
    found = changed(
        {"terse.md": "1", "rows.csv": "1", "old.md": "1", "same.md": "1"},
        {"terse.md": "2", "rows.csv": "2", "new.md": "1", "same.md": "1"},
        {"terse.md": ("a\nb", "a\nc")},
    )
    assert list(map(str, found)) == ["new.md is new", "old.md is gone", "rows.csv changed", "terse.md line 2 changed"]
    told = cost({"pick/m/terse": 2000, "pick/m/cot": 5}, {"pick/m/terse": 0, "pick/m/cot": 5})
    assert told == ["pick/m/terse: 2,000 cached -> 0"]
    assert LAB.name == "lab"
