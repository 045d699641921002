"""Two processes on one cache, in one virtual loop: keys, money and rate windows that they share."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fakes import judge
from fakes.mortal import Mortal
from fakes.world import Knobs, Outcome, World
from judgerun.errors import Exit
from judgerun.ledger.entry import Decision
from judgerun.simulate import virtual


async def both(world: World, *, first: Mortal | None = None, apart: float = 0.0) -> tuple[Outcome, Outcome]:
    """Two runs of the same experiment, the second a little later."""

    async def later() -> Outcome:
        await asyncio.sleep(apart)
        return await world.run(number=1)

    one, two = await asyncio.gather(world.run(number=0, mortal=first), later())
    return one, two


@pytest.mark.parametrize("seed", range(8))
def test_two_runs_buy_each_key_once(tmp_path: Path, seed: int) -> None:
    """Both finish; what one holds open the other waits for and finds; no request goes out twice."""

    async def life() -> None:
        knobs = Knobs(rows=12, concurrency=3, embed=True, real=bool(seed % 2))
        async with World(tmp_path, seed, knobs) as world:
            one, two = await both(world, apart=0.01 * seed)
            assert one.complete
            assert two.complete
            asked = [hit.digest for hit in world.server.bill.hits]
            assert len(asked) == len(set(asked))
            told = {**one.store.decisions, **two.store.decisions}
            assert Decision.HELD in told or Decision.KEPT in told
            assert world.findings == []
            assert judge.judge_books(world.path, world.server.bill) == []

    virtual.run(life())


@pytest.mark.parametrize("seed", range(6))
def test_window_holds_over_two_processes(tmp_path: Path, seed: int) -> None:
    """In no window of 60 seconds do more requests arrive than one lane allows, whoever sent them; and the rate is used."""

    async def life() -> None:
        limit = 12 + seed
        knobs = Knobs(rows=18, concurrency=6, requests_per_minute=limit, latency=(0.05, 0.4), real=bool(seed % 2))
        async with World(tmp_path, seed, knobs) as world:
            one, two = await both(world, apart=0.3 * seed)
            assert one.complete
            assert two.complete
            told = {**one.store.decisions, **two.store.decisions}
            assert Decision.RATE in told  # it is the cache that knows of the other process
            hits = world.server.bill.hits
            assert world.server.bill.worst_window(60.0) <= limit
            needed = len(hits) / limit * 61
            assert hits[-1].at - hits[0].at < 1.5 * needed + 61

    virtual.run(life())


@pytest.mark.parametrize("seed", range(8))
def test_survivor_finishes_what_the_dead_held(tmp_path: Path, seed: int) -> None:
    """One process is killed in the middle: the other forfeits its holds, buys those keys itself, and the books agree."""

    async def life() -> None:
        knobs = Knobs(rows=10, concurrency=4, latency=(1.0, 3.0))
        async with World(tmp_path, seed, knobs) as world:
            one, two = await both(world, first=Mortal(6 + 5 * seed), apart=0.2)
            assert one.ending is None
            assert two.ending is not None
            assert two.ending.code is Exit.DONE
            assert two.complete
            await asyncio.sleep(1000)
            assert world.findings == []
            assert judge.judge_books(world.path, world.server.bill) == []

    virtual.run(life())


@pytest.mark.parametrize("seed", range(6))
def test_two_runs_share_one_cap(tmp_path: Path, seed: int) -> None:
    """Two processes on a cap that is too small: it holds at every commit of either, is used well, and neither hangs."""

    async def life() -> None:
        knobs = Knobs(rows=30, concurrency=4, cap=1_500_000, latency=(0.2, 2.0))
        async with World(tmp_path, seed, knobs) as world:
            one, two = await both(world)
            assert world.findings == []
            for outcome in (one, two):
                assert outcome.ending is not None
                assert outcome.ending.code is Exit.EXHAUSTED
            assert judge.judge_books(world.path, world.server.bill) == []
            assert world.server.bill.total > 0.9 * 1_500_000

    virtual.run(life())
