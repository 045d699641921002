"""What the rest of a budget pays for, from what cells cost so far."""

from __future__ import annotations

import pytest

from judgerun.api.precision import affordable
from judgerun.plan.counts import Counts
from judgerun.ports import Spend, Standing


def counted(name: str, *, done: int, pending: int, cached: int = 0) -> Counts:
    """A condition so far."""
    return Counts(condition=name, stage="pick", planned=done + pending, done=done, pending=pending, cached=cached)


def spent(**nanos: int) -> Standing:
    """What conditions settled."""
    return Standing(conditions={name: Spend(settled=amount) for name, amount in nanos.items()})


def test_each_condition_goes_on_at_its_own_cost() -> None:
    """90 cells at 10 and 80 at 2 nanos cost 1,060: half of that pays for half."""
    counts = [counted("a", done=10, pending=90), counted("b", done=20, pending=80)]
    standing = spent(a=100, b=40)
    assert affordable(counts, standing, 1_060) == 1.0
    assert affordable(counts, standing, 530) == pytest.approx(0.5)
    assert affordable(counts, standing, 0) == 0.0


def test_cached_cells_say_nothing_of_cost_and_forfeits_are_part_of_it() -> None:
    """Of ten done cells eight were cached: the other two cost 30 each, forfeits among it."""
    standing = Standing(conditions={"a": Spend(settled=40, forfeited=20)})
    assert affordable([counted("a", done=10, pending=10, cached=8)], standing, 150) == pytest.approx(0.5)


def test_a_condition_that_bought_nothing_is_taken_at_the_mean_of_the_others() -> None:
    """The condition without a reply of its own costs what the others do; where none bought anything, nothing is known."""
    counts = [counted("a", done=10, pending=0), counted("b", done=0, pending=10)]
    assert affordable(counts, spent(a=100), 50) == pytest.approx(0.5)
    assert affordable([counted("b", done=0, pending=10)], Standing(), 50) is None
