"""Waits, slots and the queues for money: order, endings, and turns granted in the moment in which their owner is cancelled."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.clock import LoopClock
from fakes.waiting import ONE, Somebody, end, settle, waits
from judgerun.dispatch.money import Money
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.slots import Slots
from judgerun.dispatch.waits import Ended, Waits
from judgerun.errors import InvariantBroken
from judgerun.simulate import virtual


def test_wait_is_measured_in_cell_seconds() -> None:
    """A batch of three that sleeps ten seconds has idled thirty cell-seconds under its cause, and none under others."""

    async def life() -> None:
        progress = Progress()
        held = Waits(clock=LoopClock(), progress=progress)
        task = asyncio.ensure_future(held.sleep("backoff", 10.0, Somebody(size=3)))
        await settle()
        assert progress.waits() == {"backoff": 3}
        await task
        assert progress.idle["backoff"] == pytest.approx(30.0)
        assert progress.waits() == {}
        assert sum(progress.idle.values()) == pytest.approx(30.0)

    virtual.run(life())


def test_end_reaches_only_the_lost() -> None:
    """Ending the waits of one provider leaves those of another asleep, and takes no time."""

    async def life() -> None:
        held = waits()
        lost = asyncio.ensure_future(held.sleep("backoff", 50.0, Somebody(provider="bad")))
        kept = asyncio.ensure_future(held.sleep("backoff", 50.0, Somebody(provider="lab")))
        await settle()
        end(held, lambda waiter: waiter.provider == "bad")
        with pytest.raises(Ended):
            await lost
        assert asyncio.get_running_loop().time() < 0.01
        await kept
        assert asyncio.get_running_loop().time() == pytest.approx(50.0, abs=0.01)

    virtual.run(life())


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True))
def test_slots_serve_in_plan_order(ranks: list[int]) -> None:
    """Whatever the order of arrival, those who wait are served by rank; a free slot is taken at once."""

    async def life() -> list[int]:
        slots = Slots(1, waits())
        await slots.acquire((-1,), ONE)
        served: list[int] = []

        async def use(rank: int) -> None:
            await slots.acquire((rank,), ONE)
            served.append(rank)
            slots.release()

        tasks = [asyncio.ensure_future(use(rank)) for rank in ranks]
        await settle()
        assert served == []
        slots.release()
        await asyncio.gather(*tasks)
        assert slots.free == 1
        return served

    assert virtual.run(life()) == sorted(ranks)


def test_slot_granted_to_the_cancelled_goes_to_the_next() -> None:
    """A slot that is given in the moment in which its owner is cancelled is not lost: the next in order has it."""

    async def life() -> None:
        slots = Slots(1, waits())
        await slots.acquire((0,), ONE)
        first = asyncio.ensure_future(slots.acquire((1,), ONE))
        second = asyncio.ensure_future(slots.acquire((2,), ONE))
        await settle()
        slots.release()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        slots.release()
        assert slots.free == 1

    virtual.run(life())


def test_slot_granted_when_a_stop_comes_is_kept_by_its_owner() -> None:
    """A stop does not take a turn back that was just given: the owner looks for itself and gives it back."""

    async def life() -> None:
        held = waits()
        slots = Slots(1, held)
        await slots.acquire((0,), ONE)
        waiting = asyncio.ensure_future(slots.acquire((1,), ONE))
        await settle()
        slots.release()
        end(held, lambda waiter: True)
        await waiting
        slots.release()
        assert slots.free == 1

    virtual.run(life())


def test_ended_waiter_is_passed_over() -> None:
    """Who was ended while waiting gets no slot any more, and does not block those behind it."""

    async def life() -> None:
        held = waits()
        slots = Slots(1, held)
        await slots.acquire((0,), ONE)
        gone = asyncio.ensure_future(slots.acquire((1,), Somebody(provider="bad")))
        stays = asyncio.ensure_future(slots.acquire((2,), ONE))
        await settle()
        end(held, lambda waiter: waiter.provider == "bad")
        slots.release()
        await stays
        with pytest.raises(Ended):
            await gone

    virtual.run(life())


def test_the_lost_do_not_begin_to_wait() -> None:
    """Who has lost its purpose before it waits is told at once, and no slot is kept for it."""

    async def life() -> None:
        held = waits()
        slots = Slots(1, held)
        await slots.acquire((0,), ONE)
        held.lost = lambda waiter: waiter.provider == "bad"
        with pytest.raises(Ended):
            await slots.acquire((1,), Somebody(provider="bad"))
        with pytest.raises(Ended):
            await held.sleep("backoff", 1000.0, Somebody(provider="bad"))
        slots.release()
        assert slots.free == 1
        assert asyncio.get_running_loop().time() < 0.01

    virtual.run(life())


def test_slot_released_twice_is_our_bug() -> None:
    """More slots than there are can never be free."""
    slots = Slots(1, waits())
    with pytest.raises(InvariantBroken):
        slots.release()


@pytest.mark.parametrize("seed", range(20))
def test_slots_are_never_lost_or_doubled(seed: int) -> None:
    """Under random acquires, cancels and stops no more than the slots are owned, and in the end all are free."""

    async def life() -> None:
        rng = random.Random(seed)
        held = waits()
        slots = Slots(3, held)
        owned = 0

        async def use() -> None:
            nonlocal owned
            await slots.acquire((rng.randrange(9),), ONE)
            owned += 1
            assert owned <= 3
            try:
                await asyncio.sleep(rng.random())
            finally:
                owned -= 1
                slots.release()

        tasks = []
        for _ in range(60):
            tasks.append(asyncio.ensure_future(use()))
            await asyncio.sleep(rng.random() * 0.2)
            if rng.random() < 0.3:
                rng.choice(tasks).cancel()
            if rng.random() < 0.05:
                end(held, lambda waiter: True)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert slots.free == 3
        assert owned == 0

    virtual.run(life())


def test_newcomer_behind_a_waiting_head_is_blocked() -> None:
    """Who is later in plan order may not try before the one that waits; who is earlier may; other scopes are free."""

    async def life() -> None:
        money = Money(waits())
        task = asyncio.ensure_future(money.join("total", (5,), ONE))
        await settle()
        assert money.blocked(("day", "total"), (6,)) == "total"
        assert money.blocked(("day", "total"), (4,)) is None
        assert money.blocked(("day",), (6,)) is None
        money.wake("total")
        await task
        assert money.blocked(("total",), (6,)) == "total", "while the head tries, nobody overtakes it"
        money.done("total")
        assert money.blocked(("total",), (6,)) is None
        assert not money.waiting

    virtual.run(life())


def test_one_head_tries_at_a_time_in_plan_order() -> None:
    """Each close calls one head; its success calls the next, its failure nobody."""

    async def life() -> None:
        money = Money(waits())
        tried: list[int] = []

        async def wait(rank: int) -> None:
            await money.join("total", (rank,), ONE)
            tried.append(rank)

        tasks = [asyncio.ensure_future(wait(rank)) for rank in (3, 1, 2)]
        await settle()
        money.freed(("total",))
        money.freed(("total",))
        await settle()
        assert tried == [1]
        money.done("total")
        await settle()
        assert tried == [1, 2]
        money.done("total", wake=False)
        await settle()
        assert tried == [1, 2]
        money.wake_all()
        await asyncio.gather(*tasks)
        assert tried == [1, 2, 3]
        money.done("total")

    virtual.run(life())


def test_head_called_and_cancelled_at_once_calls_the_next() -> None:
    """The call of a head that is cancelled in the same moment is not lost."""

    async def life() -> None:
        money = Money(waits())
        first = asyncio.ensure_future(money.join("total", (1,), ONE))
        second = asyncio.ensure_future(money.join("total", (2,), ONE))
        await settle()
        money.wake("total")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        money.done("total")
        assert money.blocked(("total",), (9,)) is None

    virtual.run(life())
