"""Gauges: what a gate asks of replies is counted as they come, in runs and surveys alike, and only where it asks."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.kept import Kept
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.plan.gauge import Gauge, Pairing
from judgerun.table.gate import ITEMS_MAX


def kept(tokens: int | None = 10, *, finish: Finish = Finish.STOP, cost: int | None = 5, text: str = "x") -> Kept:
    """A reply of so many output tokens."""
    usage = Usage() if tokens is None else Usage(output_visible=tokens // 2, reasoning=tokens - tokens // 2)
    return Kept(reply=Reply(finish=finish, text=text, usage=usage), attempt=1, experiment="e", cost=cost)


def test_far_lengths_are_beyond_four_times_or_below_a_fourth() -> None:
    """Visible and reasoning tokens count together, the bounds themselves are near, and no usage is neither."""
    gauge = Gauge(expected=100)
    for tokens in (24, 25, 100, 400, 401, None):
        gauge.reply(f"t{tokens}", (), kept(tokens), parsed=True, shared=False)
    counts = gauge.counts()
    assert (counts["length"], counts["told"]) == (2, 5)
    assert counts["bad"]["length"] == ("t24", "t401")


def test_shared_calls_and_unknown_costs_are_not_billed() -> None:
    """A call costs once, whatever number of cells share it; a forfeited hold is no cost of a call."""
    gauge = Gauge()
    gauge.reply("a", (), kept(cost=3), parsed=True, shared=False)
    gauge.reply("b", (), kept(cost=3), parsed=True, shared=True)
    gauge.reply("c", (), kept(cost=None), parsed=True, shared=False)
    gauge.reply("d", (), kept(cost=4), parsed=True, shared=False)
    counts = gauge.counts()
    assert (counts["billed"], counts["cost"], counts["squares"]) == (2, 7, 25)
    assert counts["bad"]["cost"] == ("d", "a")
    assert counts["told"] == 0, "no length is expected"


def test_evidence_is_the_last_ten_and_the_dearest_ten() -> None:
    """Of many bad items the last ones are named, of costs the highest."""
    gauge = Gauge()
    costs = random.Random(1).sample(range(100), 100)
    for cost in costs:
        reply = kept(cost=cost, finish=Finish.LENGTH, text="")
        gauge.reply(f"i{cost}", (), reply, parsed=False, shared=False)
        gauge.fail(f"f{cost}")
    gauge.reply("no", (), kept(finish=Finish.REFUSAL, cost=0), parsed=True, shared=False)
    bad = gauge.counts()["bad"]
    last = tuple(f"i{cost}" for cost in costs[-ITEMS_MAX:])
    assert bad["truncated"] == bad["empty"] == bad["unparsed"] == last
    assert bad["failed"] == tuple(f"f{cost}" for cost in costs[-ITEMS_MAX:])
    assert bad["refused"] == ("no",)
    assert bad["cost"] == tuple(f"i{cost}" for cost in range(99, 89, -1))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(1, 2), st.booleans()), max_size=80))
def test_pairs_are_those_of_a_plain_count(told: list[tuple[int, int, int, bool]]) -> None:
    """Whatever order replies come in, each two conditions are compared on the items and draws that both have answered."""
    replies = {(place, item, draw): cut for place, item, draw, cut in told}
    pairing = Pairing("abcd")
    for (place, item, draw), cut in replies.items():
        pairing.reply(place, f"i{item}", (("s", draw),), truncated=cut)
    wanted: Counter[tuple[int, int, str]] = Counter()
    for (one, item, draw), cut in replies.items():
        for two in set(range(4)) - {one}:
            other = replies.get((two, item, draw))
            if other is not None:
                wanted.update(
                    {(one, two, "n"): 1, (one, two, "here"): cut and not other, (one, two, "there"): other and not cut}
                )
    for one in range(4):
        found = pairing.pairs(one)
        for two, name in enumerate("abcd"):
            expected = tuple(wanted[one, two, what] for what in ("n", "here", "there"))
            assert found.get(name, (0, 0, 0)) == expected
