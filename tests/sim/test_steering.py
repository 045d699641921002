"""Runs that are steered by a person in another terminal, in virtual time, judged by the provider's bill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import judge
from fakes.mortal import Mortal
from fakes.world import Knobs, Outcome, World
from judgerun.errors import Exit
from judgerun.ledger.budget import Cap
from judgerun.model.lane import LaneSpec
from judgerun.ports import Order
from judgerun.simulate import virtual
from judgerun.store.inline import Inline

HEARD_S = 2.0
"""Within so many seconds an order is heard: it is looked for each second."""


@asynccontextmanager
async def other(world: World) -> AsyncIterator[Inline]:
    """The cache as a command in another terminal has it."""
    async with Inline.open(world.path, clock=world.clock, durable=False) as store:
        yield store


async def ask(world: World, order: Order, *, within: float | None = None) -> int:
    """Give an order."""
    async with other(world) as store:
        return await store.ask("e", order, by="a test", within=within)


def sent(world: World, since: float, until: float) -> int:
    """Requests that arrived at the provider between two moments."""
    return sum(since < hit.at <= until for hit in world.server.bill.hits)


def kinds(world: World) -> set[str]:
    """The kinds of entries."""
    return {kind for (kind,) in judge.rows_of(world.path, "select distinct kind from entry")}


def steered(
    tmp_path: Path, knobs: Knobs, order: Callable[[World], Awaitable[None]], *, seed: int = 3
) -> tuple[World, Outcome]:
    """A run during which somebody does something, to its end; its books are sound."""

    async def life() -> tuple[World, Outcome]:
        async with World(tmp_path, seed, knobs) as world:
            task = asyncio.ensure_future(world.run())
            await order(world)
            outcome = await task
            assert world.findings == []
            assert judge.judge_books(world.path, world.server.bill) == []
            return world, outcome

    return virtual.run(life())


SLOW = Knobs(rows=40, concurrency=4, latency=(1.0, 3.0))


@pytest.mark.parametrize("real", [False, True])
def test_pause_for_ten_minutes(tmp_path: Path, real: bool) -> None:
    """While paused nothing is sent, and what was in flight is kept; after the unpause the run goes on to its end."""
    moments: list[float] = []

    async def order(world: World) -> None:
        await asyncio.sleep(6.0)
        assert await ask(world, Order.PAUSE) == 1
        moments.append(asyncio.get_running_loop().time())
        await asyncio.sleep(600.0)
        assert await ask(world, Order.UNPAUSE) == 1
        moments.append(asyncio.get_running_loop().time())

    world, outcome = steered(tmp_path, replace(SLOW, real=real), order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.DONE
    assert outcome.complete
    assert sent(world, moments[0] + HEARD_S, moments[1]) == 0
    assert sent(world, moments[1], moments[1] + 10.0) > 0
    assert "forfeit" not in kinds(world)
    assert outcome.progress.idle["paused"] > 500.0
    assert not any(outcome.progress.waiting.values())


@pytest.mark.parametrize("fault", ["429", "500", "drop before"])
def test_a_pause_closes_no_provider(tmp_path: Path, fault: str) -> None:
    """A provider in trouble that is well again after a long pause was not waited for too long."""

    async def order(world: World) -> None:
        await asyncio.sleep(20.0)
        await ask(world, Order.PAUSE)
        await asyncio.sleep(1_500.0)
        await ask(world, Order.UNPAUSE)
        await asyncio.sleep(3.0)
        world.server.weights.clear()

    _, outcome = steered(tmp_path, replace(SLOW, weights={fault: 1e9}, attempts_max=50), order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.DONE, outcome.ending
    assert outcome.complete


def test_a_pause_is_no_wait_for_money(tmp_path: Path) -> None:
    """Cells that waited for money are paused like all others, and get it after the unpause, up to the cap."""

    async def order(world: World) -> None:
        await asyncio.sleep(6.0)
        await ask(world, Order.PAUSE)
        await asyncio.sleep(300.0)
        await ask(world, Order.UNPAUSE)

    world, outcome = steered(tmp_path, replace(SLOW, cap=1_000_000), order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.EXHAUSTED
    assert world.server.bill.total <= 1_000_000


@pytest.mark.parametrize("how", ["once", "twice", "stop", "now"])
def test_a_paused_run_can_be_stopped(tmp_path: Path, how: str) -> None:
    """Ctrl-C (or SIGTERM), `stop` and `stop --now` end a paused run at once, with 130."""

    async def life() -> None:
        async with World(tmp_path, 4, SLOW) as world:
            task = asyncio.ensure_future(world.run(stops={"once": [60.0], "twice": [60.0, 61.0]}.get(how, [])))
            await asyncio.sleep(5.0)
            await ask(world, Order.PAUSE)
            await asyncio.sleep(55.0)
            if how in ("stop", "now"):
                await ask(world, Order(how))
            outcome = await task
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.INTERRUPTED
            assert asyncio.get_running_loop().time() < 60.0 + HEARD_S
            assert judge.judge_books(world.path, world.server.bill) == []
            assert "forfeit" not in kinds(world)

    virtual.run(life())


def test_a_paused_run_that_is_killed_is_not_paused_when_it_runs_again(tmp_path: Path) -> None:
    """An order is for the processes that live: the next run begins as if it had never been given."""

    async def life() -> None:
        async with World(tmp_path, 5, SLOW) as world:
            mortal = Mortal()
            task = asyncio.ensure_future(world.run(mortal=mortal))
            await asyncio.sleep(5.0)
            await ask(world, Order.PAUSE)
            await asyncio.sleep(30.0)
            mortal.dead = True
            await task
            assert await ask(world, Order.STOP) == 0
            outcome = await world.run(number=1)
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.DONE
            assert outcome.progress.idle["paused"] == 0.0
            assert judge.judge_books(world.path, world.server.bill) == []

    virtual.run(life())


def test_two_processes_hear(tmp_path: Path) -> None:
    """An order is given to all processes of an experiment on the cache, and each hears it."""

    async def life() -> None:
        async with World(tmp_path, 6, replace(SLOW, rows=80)) as world:
            tasks = [asyncio.ensure_future(world.run(number=number)) for number in range(2)]
            await asyncio.sleep(6.0)
            assert await ask(world, Order.PAUSE) == 2
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(100.0)
            assert sent(world, began + HEARD_S, began + 100.0) == 0
            assert await ask(world, Order.STOP) == 2
            for task in tasks:
                ending = (await task).ending
                assert ending is not None
                assert ending.code is Exit.INTERRUPTED
            assert judge.judge_books(world.path, world.server.bill) == []

    virtual.run(life())


def test_a_drain_with_a_deadline(tmp_path: Path) -> None:
    """What ends before the deadline is kept; what is in flight when it passes is forfeited."""
    ended: list[float] = []

    async def order(world: World) -> None:
        await asyncio.sleep(5.0)
        await ask(world, Order.STOP, within=10.0)
        ended.append(asyncio.get_running_loop().time())

    knobs = replace(SLOW, concurrency=12, latency=(1.0, 60.0), timeout_s=100.0)
    world, outcome = steered(tmp_path, knobs, order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.INTERRUPTED
    assert {"settle", "forfeit"} <= kinds(world)
    (last,) = judge.rows_of(world.path, "select max(at) - min(at) from entry where kind = 'forfeit'")
    assert last[0] < 0.1
    assert sent(world, ended[0] + HEARD_S, float("inf")) == 0
    (at,) = judge.rows_of(world.path, "select min(at) from entry where kind = 'forfeit'")
    (asked,) = judge.rows_of(world.path, "select at from event where kind = 'ask'")
    assert 10.0 <= at[0] - asked[0] <= 10.0 + HEARD_S


def test_a_drain_that_is_in_time_forfeits_nothing(tmp_path: Path) -> None:
    """A deadline that is not reached changes nothing."""

    async def order(world: World) -> None:
        await asyncio.sleep(5.0)
        await ask(world, Order.STOP, within=30.0)

    world, outcome = steered(tmp_path, SLOW, order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.INTERRUPTED
    assert "forfeit" not in kinds(world)


def test_stop_at_once(tmp_path: Path) -> None:
    """What is in flight is forfeited when the order is heard."""

    async def order(world: World) -> None:
        await asyncio.sleep(5.0)
        await ask(world, Order.NOW)
        await asyncio.sleep(HEARD_S)

    world, outcome = steered(tmp_path, replace(SLOW, latency=(20.0, 50.0), timeout_s=100.0), order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.INTERRUPTED
    assert kinds(world) == {"reserve", "forfeit"}


def test_concurrency_is_set_up_and_down(tmp_path: Path) -> None:
    """A lane that is narrowed has no more calls in flight than it says once those are back; one that is widened has more."""
    seen: dict[str, int] = {}

    async def order(world: World) -> None:
        async def limit(slots: int, name: str) -> None:
            async with other(world) as store:
                await store.lane(LaneSpec(name="lab", concurrency=4), {"concurrency": slots})
            await asyncio.sleep(HEARD_S + 3.0)
            world.server.in_flight_max = 0
            await asyncio.sleep(20.0)
            seen[name] = world.server.in_flight_max

        await asyncio.sleep(6.0)
        await limit(1, "one")
        await limit(12, "twelve")
        await limit(2, "two")
        await limit(4, "four")

    _, outcome = steered(tmp_path, replace(SLOW, rows=250, latency=(0.5, 1.5)), order)
    assert outcome.complete
    assert seen == {"one": 1, "twelve": 12, "two": 2, "four": 4}


def test_rates_are_set(tmp_path: Path) -> None:
    """A rate that is set where none was written is kept from then on; none of it takes it away."""
    moments: list[float] = []

    async def order(world: World) -> None:
        await asyncio.sleep(5.0)
        for rate in (30, None):
            async with other(world) as store:
                await store.lane(LaneSpec(name="lab", concurrency=4), {"requests_per_minute": rate})
            moments.append(asyncio.get_running_loop().time())
            await asyncio.sleep(120.0)

    world, _ = steered(tmp_path, replace(SLOW, rows=200, latency=(0.5, 1.0)), order)
    limited = [hit.at for hit in world.server.bill.hits if moments[0] + HEARD_S < hit.at < moments[1]]
    assert 0 < len(limited) <= 60 + 2
    assert sent(world, moments[1] + HEARD_S + 61.0, moments[1] + HEARD_S + 81.0) > 40


@pytest.mark.parametrize("seed", range(4))
def test_a_cap_that_is_lowered_in_mid_run_holds(tmp_path: Path, seed: int) -> None:
    """From the moment in which it is set the bill keeps to it, and the run ends as exhausted."""

    async def order(world: World) -> None:
        await asyncio.sleep(8.0)
        async with other(world) as store:
            await store.cap(world.budget, [Cap("nanos", "total", "", 1_500_000)])

    world, outcome = steered(tmp_path, replace(SLOW, rows=80), order, seed=seed)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.EXHAUSTED
    assert world.server.bill.total <= 1_500_000


def test_a_cap_that_is_raised_reopens_its_scope(tmp_path: Path) -> None:
    """A condition that was out of money goes on while the run lives; what it passed over is for the next run, and is said."""

    async def order(world: World) -> None:
        await asyncio.sleep(20.0)
        async with other(world) as store:
            await store.cap(world.budget, [Cap("nanos", "condition", "solve/a", 10**12)])

    knobs = replace(SLOW, rows=120, condition_cap=400_000)
    world, outcome = steered(tmp_path, knobs, order)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.EXHAUSTED
    assert "its cap was raised" in (outcome.ending.reason or "")
    query = "select sum(settled_nanos) from account where condition like 'solve/a%'"
    assert judge.rows_of(world.path, query)[0][0] > 400_000
