"""The panel of a run: what it says of the whole, before the flow has opened all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from judgerun.api.watching import Watch
from judgerun.cli.panel import clock
from judgerun.plan.counts import Counts


@dataclass
class Opened:
    """A flow, as far as the panel asks it: whether all blocks are open."""

    drained: bool


@pytest.mark.parametrize(
    ("drained", "known", "done", "told"),
    [
        (False, 40, 20, 5000),  # rows are opened as they are needed: the quote knows how many there will be
        (True, 5000, 4990, 5000),
        (True, 3000, 2990, 3000),  # `where` or a short reply left fewer rows than the bound
        (True, 9000, 4990, 5000),  # --limit: what lies beyond it is not for this run
        (False, 6000, 5500, 5500),
    ],
)
def test_planned_is_the_whole_from_the_first_second(drained: bool, known: int, done: int, told: int) -> None:
    """The panel's total is the quote's until every row is known, then the flow's, and never under what is done."""
    count = Counts(condition="judge@rows", stage="judge", planned=known, done=done, pending=known - done)
    nothing = cast(Any, None)
    seen = Watch(
        progress=nothing,
        flow=cast(Any, Opened(drained)),
        cache=nothing,
        budget=nothing,
        goal={"judge@rows": 5000},
        now=1.0,
    )
    assert seen.planned(count) == told


def test_times_are_hours_minutes_seconds() -> None:
    """A span is told so that a night can be planned by it."""
    assert (clock(13_425), clock(9.4)) == ("3:43:45", "0:00:09")
