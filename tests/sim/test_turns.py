"""Stops at every turn of the event loop, and clocks that jump: whole runs in virtual time, judged by the provider's own bill.

JUDGERUN_STORM=long (`make storm`) plays every turn.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes import judge
from fakes.clock import LoopClock
from fakes.world import Knobs, World
from judgerun.errors import Exit
from judgerun.simulate import virtual

LONG = bool(os.environ.get("JUDGERUN_STORM"))
KNOBS = Knobs(rows=6, concurrency=3, latency=(0.2, 2.0))
SHARE = 1 if LONG else 12
"""Of so many turns one is played."""


def at_turns(turns: Sequence[int], act: Callable[[], None]) -> list[int]:
    """Act before each of these turns of the running loop: between any two awaits of any task. What counts the turns."""
    loop, count, left = asyncio.get_running_loop(), [0], sorted(turns)
    once = loop._run_once  # type: ignore[attr-defined]  # a turn is what asyncio itself calls so

    def turn() -> None:
        count[0] += 1
        while left and count[0] >= left[0]:
            left.pop(0)
            act()
        once()

    loop._run_once = turn  # type: ignore[attr-defined]  # as above
    return count


async def stopped(place: Path, turns: Sequence[int]) -> tuple[int, list[str]]:
    """A run that is asked to stop at these turns, and its rerun; how many turns the first had, and what was wrong."""
    counted: list[list[int]] = []
    async with World(place, 7, KNOBS) as world:
        outcome = await world.run(began=lambda run: counted.append(at_turns(turns, run.stop)))
        (count,) = counted[0]
        found = list(world.findings)
        code = outcome.ending.code if outcome.ending else None
        if code is not (Exit.INTERRUPTED if not outcome.complete else code) or code not in (
            Exit.INTERRUPTED,
            Exit.DONE,
        ):
            found.append(f"it ended with {code}")
        entries = Counter(kind for (kind,) in judge.rows_of(world.path, "select kind from entry"))
        if len(turns) == 1 and entries["forfeit"]:
            found.append(f"a drain forfeited {entries['forfeit']}")
        if entries["forfeit"] > KNOBS.concurrency:
            found.append(f"more was forfeited than was in flight: {entries['forfeit']}")
        await asyncio.sleep(100)
        again = await world.run(number=1)
        if not again.complete or again.ending is None or again.ending.code is not Exit.DONE:
            found.append(f"its rerun ended with {again.ending}")
        whole = len({hit.digest for hit in world.server.bill.hits})
        if len(world.server.bill.hits) > whole + entries["forfeit"]:
            found.append("something was bought twice beyond what was in flight")
        return count, found + judge.judge_books(world.path, world.server.bill)


@pytest.mark.parametrize("pause", [None, 1, 9], ids=["once", "twice", "twice-later"])
def test_a_stop_at_any_turn_loses_nothing(tmp_path: Path, pause: int | None) -> None:
    """Ctrl-C between any two awaits, once (nothing is forfeited) or twice (no more than was in flight): the rerun finishes, and
    buys nothing again but what was forfeited.
    """

    def played(turns: Sequence[int]) -> tuple[int, list[str]]:
        place = tmp_path / "-".join(map(str, turns))
        place.mkdir()
        return virtual.run(stopped(place, turns))

    whole, found = played([10**9])
    assert found == []
    first = random.Random(pause).randrange(1, SHARE + 1)
    wrong = {}
    for turn in range(first, whole, SHARE):
        turns = [turn] if pause is None else [turn, turn + pause]
        if bad := played(turns)[1]:
            wrong[turn] = bad
    assert wrong == {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Jumping:
    """A clock whose wall time is set to another moment while a run goes on."""

    real: LoopClock
    at: float
    by: float

    def now(self) -> float:
        return self.real.now()

    def wall(self) -> float:
        return self.real.wall() + (self.by if self.now() >= self.at else 0.0)

    async def sleep(self, seconds: float) -> None:
        await self.real.sleep(seconds)


@pytest.mark.parametrize("by", [-86_400.0, -3600.0, -30.0, 30.0, 3600.0, 86_400.0])
@pytest.mark.parametrize("rate", [None, 30])
def test_a_clock_that_jumps_breaks_no_promise(tmp_path: Path, by: float, rate: int | None) -> None:
    """Wall time that is set back or forward in the middle: everything is done, in about the time that it takes anyhow, within the
    rate, and the books hold the bill.
    """

    async def life() -> None:
        knobs = Knobs(rows=20, concurrency=4, latency=(0.2, 2.0), requests_per_minute=rate)
        async with World(tmp_path, 3, knobs) as world:
            world.clock = Jumping(real=world.clock, at=8.0, by=by)  # type: ignore[assignment]  # a clock all the same
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.DONE
            assert outcome.complete
            assert world.findings == []
            assert judge.judge_books(world.path, world.server.bill) == []
            if rate is not None:
                assert world.server.bill.worst_window(60.0) <= rate
            calls = len(world.server.bill.hits)
            assert asyncio.get_running_loop().time() < (120 if rate is None else 60 * (calls / rate + 3))

    virtual.run(life())
