"""Pace: evenness, the exact window, order, and turns that are given back."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from fakes.clock import LoopClock
from fakes.waiting import ONE, Somebody, end, settle
from judgerun.dispatch.pace import LOT_S, Pace
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.waits import Ended, Waits
from judgerun.simulate import virtual


def paced(requests: int | None = None, tokens: int | None = None) -> tuple[Pace, Waits]:
    """A pace on the running loop."""
    clock = LoopClock()
    held = Waits(clock=clock, progress=Progress())
    return Pace(
        clock=clock, waits=held, rng=random.Random(1), requests_per_minute=requests, tokens_per_minute=tokens
    ), held


async def passed(pace: Pace, count: int, *, tokens: int = 1, waste: float = 0.0, seed: int = 0) -> list[float]:
    """When so many turns were used; a share of them is given back at once and asked for again."""
    rng = random.Random(seed)
    used: list[float] = []

    async def use(rank: int) -> None:
        while True:
            await pace.turn((rank,), tokens, ONE)
            if rng.random() >= waste:
                used.append(asyncio.get_running_loop().time())
                return
            pace.back(tokens)

    await asyncio.gather(*(use(rank) for rank in range(count)))
    await pace.aclose()
    return used


def worst(times: list[float], seconds: float = 60.0) -> int:
    """The most within any half-open window."""
    return max(sum(at <= other < at + seconds for other in times) for at in times)


@pytest.mark.parametrize("limit", [1, 2, 7, 60, 600])
@pytest.mark.parametrize("waste", [0.0, 0.5])
def test_no_window_passes_the_limit_and_the_rate_is_used(limit: int, waste: float) -> None:
    """In no 60 seconds more than the limit, with every second turn given back too; and no slower than the guard demands."""

    async def life() -> None:
        pace, _ = paced(requests=limit)
        count = 2 * limit + 3
        times = await passed(pace, count, waste=waste)
        assert worst(times) <= limit
        assert times[-1] <= (count - 1) * 61 / limit * 1.1 + 61

    virtual.run(life())


def test_pace_is_even() -> None:
    """A minute's allowance does not leave in one burst: 60 a minute are one each second, give or take the guard."""

    async def life() -> None:
        pace, _ = paced(requests=60)
        times = await passed(pace, 30)
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert min(gaps) > 0.9
        assert max(gaps) < 1.2

    virtual.run(life())


def test_turns_go_by_plan_order_whatever_their_size() -> None:
    """A large request that is first in plan order is not passed by small ones that come later."""

    async def life() -> None:
        pace, _ = paced(tokens=6000)
        order: list[int] = []

        async def use(rank: int, tokens: int) -> None:
            await pace.turn((rank,), tokens, ONE)
            order.append(rank)

        tasks = [asyncio.ensure_future(use(rank, 3000 if rank == 1 else 10)) for rank in (3, 1, 2, 0)]
        await asyncio.gather(*tasks)
        await pace.aclose()
        assert order == [0, 1, 2, 3]

    virtual.run(life())


def test_given_back_turn_goes_to_the_first_who_waits() -> None:
    """A turn that is given back is used at once by the next, while the bucket's own sleeper sleeps on."""

    async def life() -> None:
        pace, _ = paced(requests=1)
        await pace.turn((0,), 1, ONE)
        waiting = asyncio.ensure_future(pace.turn((1,), 1, ONE))
        await settle()
        pace.back(1)
        await waiting
        assert asyncio.get_running_loop().time() < 0.01
        third = asyncio.ensure_future(pace.turn((2,), 1, ONE))
        await third
        assert asyncio.get_running_loop().time() == pytest.approx(61, abs=0.1)
        await pace.aclose()

    virtual.run(life())


def test_turn_granted_to_the_cancelled_is_given_back() -> None:
    """A turn that comes in the moment in which its owner is cancelled goes to the next."""

    async def life() -> None:
        pace, _ = paced(requests=1)
        await pace.turn((0,), 1, ONE)
        first = asyncio.ensure_future(pace.turn((1,), 1, ONE))
        second = asyncio.ensure_future(pace.turn((2,), 1, ONE))
        await settle()
        pace.back(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert asyncio.get_running_loop().time() < 0.01
        await pace.aclose()

    virtual.run(life())


def test_ended_wait_loses_no_turn() -> None:
    """Whoever is ended while the bucket leaks for it leaves the turn to those behind."""

    async def life() -> None:
        pace, held = paced(requests=2)
        await pace.turn((0,), 1, ONE)
        gone = asyncio.ensure_future(pace.turn((1,), 1, Somebody(provider="bad")))
        stays = asyncio.ensure_future(pace.turn((2,), 1, ONE))
        await settle()
        end(held, lambda waiter: waiter.provider == "bad")
        with pytest.raises(Ended):
            await gone
        await stays
        assert asyncio.get_running_loop().time() == pytest.approx(30.5, abs=0.1)
        await pace.aclose()

    virtual.run(life())


def test_tokens_are_corrected_at_settle() -> None:
    """Tokens that were debited and not used shorten the next wait; more than were debited lengthen it."""

    async def used(actual: int) -> float:
        pace, _ = paced(tokens=600)
        await pace.turn((0,), 300, ONE)
        pace.correct(actual - 300)
        began = asyncio.get_running_loop().time()
        await pace.turn((1,), 300, ONE)
        await pace.aclose()
        return asyncio.get_running_loop().time() - began

    assert virtual.run(used(0)) == pytest.approx(0.0, abs=1.5)
    assert virtual.run(used(300)) == pytest.approx(30.5, abs=1.5)
    assert virtual.run(used(600)) == pytest.approx(61.0, abs=1.5)


def test_request_larger_than_a_minute_passes() -> None:
    """A request that expects more tokens than a minute allows waits for a whole minute's and then goes."""

    async def life() -> None:
        pace, _ = paced(tokens=100)
        await pace.turn((0,), 5000, ONE)
        assert asyncio.get_running_loop().time() < 62
        await pace.aclose()

    virtual.run(life())


def test_full_window_of_the_cache_postpones() -> None:
    """When the cache says that its window is full, no turn is given before the delay has passed, not even a returned one."""

    async def life() -> None:
        pace, _ = paced(requests=600)
        await pace.turn((0,), 1, ONE)
        pace.postpone(20.0)
        waiting = asyncio.ensure_future(pace.turn((1,), 1, ONE))
        await settle()
        pace.back(1)
        await waiting
        assert asyncio.get_running_loop().time() == pytest.approx(20.0, abs=0.2)
        await pace.aclose()

    virtual.run(life())


def test_turns_of_a_rising_rate_come_in_lots() -> None:
    """After a silence turns that are due within a few milliseconds are given in one moment, and none of them is lost to it."""

    async def life() -> list[float]:
        pace, _ = paced()
        pace.restart(400)
        return await passed(pace, 400)

    used = virtual.run(life())
    moments = sorted(set(used))
    assert len(used) == 400
    assert all(later - earlier >= LOT_S * 0.999 for earlier, later in pairwise(moments))
    assert max(used.count(moment) for moment in moments) <= 40
    assert len(moments) <= 160
    assert used[-1] < 1.0
