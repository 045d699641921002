"""Cells that are asked again under higher caps, and by the failover of their model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import tables
from fakes.tables import Lab, balanced, counts, kept
from judgerun.model.event import Event
from judgerun.model.experiment import Experiment
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import Request
from judgerun.plan.counts import Counts
from judgerun.plan.flow import Flow
from judgerun.plan.ladder import Escalation, in_force, ladder

CUT = Escalation(condition="solve", rungs=(32, 64), kinds=("truncated",))


def cut_below(*caps: int) -> tables.Answer:
    """Replies that need as many tokens as their row's number says: cut off where the cap is smaller."""

    def answer(request: Request) -> Kept:
        text, cap = tables.text_of(request), request.payload["max_output_tokens"]
        need = caps[int(text.rsplit(" ", 1)[1]) % len(caps)] if text.startswith("solve") else 0
        return kept("whole" if cap >= need else "cut", finish=Finish.STOP if cap >= need else Finish.LENGTH)

    return answer


def lab(*caps: int, rows: int = 4) -> Lab:
    """A solver of rows under a cap of 16, and its grader."""
    return Lab(
        stages=[
            tables.chat("solve", "rows", tables.arm("a", "p", "solve {{ text }}")),
            tables.chat("grade", "solve", tables.arm("g", "q", "grade {{ id }} {{ solve.reply }}")),
        ],
        tables=[tables.numbered("rows", rows)],
        answer=cut_below(*caps),
    )


def of(flow: Flow, stage: str) -> Counts:
    """The counts of the one condition of a stage."""
    (found,) = (one for one in flow.counts() if one.stage == stage)
    return found


def test_each_cell_climbs_until_it_is_whole() -> None:
    """A cell is asked rung by rung until its reply is no longer cut off, and no rung beyond it is bought."""
    made = lab(10, 20, 50, 99)
    made.whole()
    assert counts(made.survey(buys="own")) == {"solve/a/p@rows": (4, 4, 0, 0), "grade/g/q@solve/a/p@rows": (4, 1, 3, 0)}
    made.sent.clear()
    flow = made.whole(plans=(CUT,), buys="rungs", only="solve")
    assert sorted((cell.id, cell.output_cap) for cell in made.sent) == [
        ("p1", 32),
        ("p2", 32),
        ("p2", 64),
        ("p3", 32),
        ("p3", 64),
    ]
    assert (of(flow, "solve").truncated, of(flow, "solve").escalated) == (1, 3)
    rows = {row.id: row.stages["solve"] for row in flow.rows("solve")}
    assert [(rows[id].rung, rows[id].concluded, len(rows[id].below)) for id in ("p0", "p1", "p2", "p3")] == [
        (None, True, 0),
        (32, True, 1),
        (64, True, 2),
        (64, False, 2),
    ]


def test_what_was_starved_upstream_is_planned_after_the_rungs() -> None:
    """Cells that failed for want of a whole reply upstream become cells to be sent, and only they."""
    made = lab(10, 20, 50, 99)
    made.whole()
    made.whole(plans=(CUT,), buys="rungs", only="solve")
    made.sent.clear()
    flow = made.whole(plans=(CUT,))
    assert sorted((cell.stage, cell.id) for cell in made.sent) == [("grade", "p1"), ("grade", "p2")]
    assert counts(flow)["grade/g/q@solve/a/p@rows"] == (4, 3, 1, 0)


def test_a_rung_is_never_bought_twice() -> None:
    """The same plan again sends nothing, and the flow of a plan in force buys only the rungs that are left."""
    made = lab(99)
    made.whole()
    made.run(plans=(CUT,), buys="rungs", only="solve", most=3)
    bought = len(made.sent)
    made.whole(plans=(CUT,))
    assert [cell.stage for cell in made.sent[bought:]] == ["solve"] * 5
    made.sent.clear()
    made.whole(plans=(CUT,), buys="rungs", only="solve")
    assert not made.sent
    keys = [cell.request.key for cell in made.sent]
    assert len(set(keys)) == len(keys)


def test_a_cell_whose_rung_is_not_bought_stands_with_what_it_has() -> None:
    """What stands in a cache is told with the highest rung reached, and the rest as owed; a run has it pending."""
    made = lab(99)
    made.whole()
    made.run(plans=(CUT,), buys="rungs", only="solve", most=3)
    told = of(made.survey(plans=(CUT,), buys="own"), "solve")
    assert (told.done, told.pending, told.owed, told.truncated) == (4, 0, 4, 4)
    buying = of(made.survey(plans=(CUT,)), "solve")
    assert (buying.done, buying.pending, buying.owed) == (0, 4, 0)


def test_a_rung_that_fails_leaves_the_reply_below_it() -> None:
    """A cell whose next rung was asked in vain is done with the reply under the lower cap, and counted as lapsed."""
    made = lab(99)
    made.whole()
    whole = made.answer
    made.answer = lambda request: Lost("gone") if request.payload["max_output_tokens"] == 64 else whole(request)
    flow = made.whole(plans=(CUT,), buys="rungs", only="solve")
    told = of(flow, "solve")
    assert (told.done, told.failed, told.lapsed, told.truncated, told.escalated) == (4, 0, 4, 4, 4)
    assert {row.stages["solve"].rung for row in flow.rows("solve")} == {32}


def test_without_a_plan_nothing_of_the_plan_is_different() -> None:
    """The digest of a flow is the same with and without a plan, which states what is bought again, not what is asked."""
    made = lab(10, 20)
    flow = made.whole()
    escalated = lab(10, 20)
    escalated.whole()
    assert escalated.survey(plans=(CUT,), buys="own").digest == flow.digest


def test_kinds_are_asked_again_as_they_are_named() -> None:
    """Empty and unparsed replies climb only where a plan names them."""
    made = lab(10)
    made.answer = lambda request: kept("" if request.payload["max_output_tokens"] < 40 else "whole")
    made.whole()
    made.sent.clear()
    made.whole(plans=(CUT,), buys="rungs", only="solve")
    assert not made.sent
    empty = replace(CUT, kinds=("empty",))
    made.whole(plans=(empty,), buys="rungs", only="solve")
    assert [cell.output_cap for cell in made.sent].count(64) == 4


def test_the_rungs_of_several_plans_are_one_ladder() -> None:
    """A later plan goes on where an earlier one ends; each rung above the own cap takes the kinds of all that name it."""
    plans = (CUT, Escalation(condition="solve/a", rungs=(64, 128), kinds=("empty",)))
    told = [(rung.cap, sorted(rung.kinds)) for rung in ladder(plans, "solve/a/p@rows", 40)]
    assert told == [(64, ["empty", "truncated"]), (128, ["empty"])]
    assert ladder(plans, "solve/b/p@rows", 64) == ()
    assert ladder(plans, "solve/a/p@rows", None) == ()


def test_a_plan_is_read_from_its_event() -> None:
    """What an event tells is the plan that was written, of its own experiment alone."""
    text = '{"condition": "solve", "max_output_tokens": [32, 64], "of": ["truncated"], "because": "cut"}'
    event = Event(7, 0.0, "escalate", "made", text, "made")
    assert in_force([event, event._replace(experiment="other"), event._replace(kind="gate")], "made") == (
        replace(CUT, because="cut", event=7),
    )
    assert CUT.document() == {"condition": "solve", "max_output_tokens": (32, 64), "of": ("truncated",), "because": ""}


@given(
    needs=st.lists(st.integers(1, 200), min_size=1, max_size=6),
    rungs=st.lists(st.integers(17, 150), min_size=1, max_size=4, unique=True).map(sorted),
    most=st.integers(0, 12),
    pick=st.integers(0, 5),
)
def test_counts_hold_at_every_moment(needs: list[int], rungs: list[int], most: int, pick: int) -> None:
    """planned = done + failed + pending under any rungs, any order of replies and any stop; the end is the same by every way."""
    plan = Escalation(condition="solve", rungs=tuple(rungs))
    made = lab(*needs, rows=len(needs))
    made.whole()
    stopped = made.run(plans=(plan,), buys="rungs", only="solve", most=most, pick=lambda n: pick)
    stopped.finish()
    balanced(stopped.counts())
    made.survey(plans=(plan,), buys="own")
    last = made.whole(plans=(plan,), pick=lambda n: pick)
    other = lab(*needs, rows=len(needs))
    straight = other.whole(plans=(plan,))
    assert counts(last) == counts(straight)
    assert of(last, "solve").truncated == sum(need > max(16, *rungs) for need in needs)
    keys = [cell.request.key for cell in made.sent]
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == sorted(cell.request.key for cell in other.sent)


# -- failover


MODELS = (tables.model("a", failover="b"), tables.model("b", failover="c", max_output_tokens=24), tables.model("c"))


class Pair(Lab):
    """A lab whose experiment knows the models that stand in."""

    def experiment(self) -> Experiment:
        """The experiment."""
        return replace(super().experiment(), models=MODELS)


def pair(rows: int = 2, *, both: bool = False) -> Pair:
    """A solver with a failover; with `both`, the failover solves the rows by itself too."""
    arms = [tables.arm("a", "p", "solve {{ text }}", given={"failover": "b"})]
    if both:
        arms.append(tables.arm("b", "p", "solve {{ text }}", given={"failover": "c", "max_output_tokens": 24}))
    return Pair(stages=[tables.chat("solve", "rows", *arms)], tables=[tables.numbered("rows", rows)])


def test_a_diverted_cell_is_the_same_cell_asked_of_another_model() -> None:
    """Condition, row, draws and rank stay; model, request and cap are the failover's; its reply answers the cell."""
    made = pair(1)
    flow = made.flow()
    cell = flow.take()
    assert cell is not None
    other = flow.divert(cell)
    assert other is not None
    same = ("stage", "condition", "id", "draws", "block", "rank")
    assert [getattr(other, name) for name in same] == [getattr(cell, name) for name in same]
    assert (other.model, other.output_cap, other.request.payload["model"]) == ("b", 24, "id-b")
    assert other.request.key != cell.request.key
    flow.resolve(other, kept("whole"))
    told = of(flow, "solve")
    assert (told.done, told.pending, told.diverted) == (1, 0, 1)
    (row,) = flow.rows("solve")
    assert (row.stages["solve"].server, row.stages["solve"].model) == ("b", "a")


def test_a_chain_of_failovers_ends() -> None:
    """A diverted cell may be diverted again, until no failover is named or the one that is was tried in vain."""
    made = pair(1)
    flow = made.flow()
    last = flow.take()
    assert last is not None
    models = [last.model]
    while (other := flow.divert(last)) is not None:
        last = other
        models.append(last.model)
    assert models == ["a", "b", "c"]
    flow.resolve(last, Lost("down"))
    balanced(flow.counts())
    assert of(flow, "solve").failed == 1


def test_an_abandoned_diversion_leaves_the_cell_pending() -> None:
    """Whether the first cell or the diverted one is abandoned, the cell stays pending, once."""
    for first in (True, False):
        made = pair(1)
        flow = made.flow()
        cell = flow.take()
        assert cell is not None
        other = flow.divert(cell)
        assert other is not None
        flow.abandon(cell if first else other)
        assert counts(flow)["solve/a/p@rows"] == (1, 0, 0, 1)
        assert flow.take() is None


@pytest.mark.parametrize("outcome", ["kept", "abandoned"])
def test_a_diversion_joins_the_cell_that_asks_the_same(outcome: str) -> None:
    """Where another cell asks just what the failover would be asked, one reply answers both, whoever comes first."""
    made = pair(1, both=True)
    flow = made.flow()
    cells = {cell.model: cell for cell in (flow.take(), flow.take()) if cell is not None}
    other = flow.divert(cells["a"])
    assert other is not None
    assert other.request.key == cells["b"].request.key
    if outcome == "abandoned":
        flow.abandon(other)
        assert [one.pending for one in flow.counts()] == [1, 1]
    else:
        flow.resolve(other, kept("whole"))
    flow.resolve(cells["b"], kept("whole"))
    assert {name: held[1] for name, held in counts(flow).items()} == {"solve/a/p@rows": 1, "solve/b/p@rows": 1}
    balanced(flow.counts())


def test_a_cache_answers_by_the_failover_what_the_model_has_not() -> None:
    """On look-up a cell is answered by its failover's reply where its own request has none; its own goes first."""
    made = pair(1)
    flow = made.flow()
    cell = flow.take()
    assert cell is not None
    other = flow.divert(cell)
    assert other is not None
    made.cache[cell.request.key] = Lost("down")
    made.cache[other.request.key] = kept("theirs")
    assert (of(made.survey(), "solve").done, of(made.survey(), "solve").diverted) == (1, 1)
    made.cache[cell.request.key] = kept("own")
    assert (of(made.survey(), "solve").done, of(made.survey(), "solve").diverted) == (1, 0)


def test_no_look_up_is_made_for_a_failover_that_is_not_named() -> None:
    """Without a failover each cell is looked up once, whether it has a reply or not."""
    made = lab(10)
    asked: list[bytes] = []
    flow = made.flow(lookup=lambda key: asked.append(key))
    for _ in flow.survey():
        pass
    assert len(asked) == 4


def test_a_rung_is_diverted_under_its_own_cap() -> None:
    """A cell on a rung keeps the rung's cap when its failover is asked, and the next rung is asked of its own model again."""
    made = pair(1)
    made.answer = lambda request: kept("cut", finish=Finish.LENGTH)
    made.whole()
    flow = made.flow(plans=(CUT,), buys="rungs", only="solve")
    cell = flow.take()
    assert cell is not None
    other = flow.divert(cell)
    assert other is not None
    assert (cell.output_cap, other.model, other.output_cap) == (32, "b", 32)
    flow.resolve(other, kept("cut", finish=Finish.LENGTH))
    again = flow.take()
    assert again is not None
    assert (again.model, again.output_cap) == ("a", 64)
    flow.resolve(again, kept("whole"))
    assert (of(flow, "solve").concluded, of(flow, "solve").diverted, of(flow, "solve").escalated) == (1, 0, 1)
