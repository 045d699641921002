"""Breaker and pulse: when a provider is taken to be away, who probes it, and how slowness and silence are told."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from fakes.clock import LoopClock
from fakes.waiting import Somebody, end, settle, waits
from judgerun.dispatch.breaker import ANSWERS, FAILURES, PAUSE_MAX_S, Breaker
from judgerun.dispatch.pulse import RECENT, SILENT_S, Pulse
from judgerun.dispatch.waits import Ended, Waits
from judgerun.simulate import virtual


@dataclass(frozen=True, slots=True)
class Cell(Somebody):
    """One that asks to be let through."""

    rank: tuple[int, ...] = (0,)
    failed: int = 0


def now() -> float:
    return asyncio.get_running_loop().time()


def breaker(held: Waits) -> Breaker:
    return Breaker(clock=LoopClock(), waits=held, rng=random.Random(1))


def broken(held: Waits) -> Breaker:
    """One that has just opened."""
    made = breaker(held)
    said = [made.failed(cell, began=0.0) for cell in [Cell(rank=(n,)) for n in range(FAILURES)]]
    assert said == [False] * (FAILURES - 1) + [True]
    return made


def test_it_opens_after_failures_in_a_row_of_several_cells() -> None:
    """An answer between them begins the row anew; what fails again and again alone is its own fault."""

    async def life() -> None:
        made, cells = breaker(waits()), [Cell(rank=(n,)) for n in range(FAILURES)]
        for cell in cells[:-1]:
            made.failed(cell, began=0.0)
        assert not made.answered()
        for cell in cells[:-1]:
            made.failed(cell, began=0.0)
        assert made.state == "ok"
        made.answered()
        for _ in range(50):
            made.failed(cells[0], began=0.0)
        assert made.state == "ok"

    virtual.run(life())


def test_one_probe_goes_out_after_each_pause_and_pauses_grow() -> None:
    """Of many that wait one is let through at a time; each pause is up to twice as long, and never above a minute."""

    async def life() -> None:
        made, times = broken(waits()), list[float]()

        async def ask(rank: int) -> None:
            for n in range(4):
                turn = await made.turn(Cell(rank=(rank,), failed=n))
                assert turn is not None
                times.append(now())
                made.failed(Cell(), began=now())
                made.back(turn)

        await asyncio.gather(*(ask(rank) for rank in range(4)))
        gaps = [later - sooner for sooner, later in zip([0.0, *times], times, strict=False)]
        assert len(times) == 16
        assert all(min(2.0**n, PAUSE_MAX_S) / 2 <= gap + 1e-6 for n, gap in enumerate(gaps[:10]))
        assert max(gaps) <= PAUSE_MAX_S + 1e-6
        await made.aclose()

    virtual.run(life())


def test_the_cell_that_has_failed_least_probes() -> None:
    """One that fails by its own fault does not keep the provider closed for the others."""

    async def life() -> None:
        made, order = broken(waits()), list[int]()

        async def ask(rank: int, failed: int) -> None:
            turn = await made.turn(Cell(rank=(rank,), failed=failed))
            order.append(rank)
            if turn is not None:
                made.back(turn)

        await asyncio.gather(ask(1, 3), ask(2, 0), ask(3, 1))
        assert order == [2, 3, 1]
        await made.aclose()

    virtual.run(life())


def test_a_few_answers_close_it_for_all() -> None:
    """After the first the state is half-open and some are let through; after as many as are wanted nobody waits."""

    async def life() -> None:
        made, passed = broken(waits()), 0

        async def ask(rank: int) -> None:
            nonlocal passed
            turn = await made.turn(Cell(rank=(rank,)))
            passed += 1
            await asyncio.sleep(1.0)
            if turn is not None:
                made.back(turn)

        asks = [asyncio.ensure_future(ask(rank)) for rank in range(20)]
        await asyncio.sleep(1.4)
        assert (made.state, passed) == ("open", 1)
        assert made.answered()
        assert made.state == "half-open"
        await settle()
        assert passed <= 1 + ANSWERS
        assert [made.answered() for _ in range(ANSWERS - 1)] == [False] * (ANSWERS - 2) + [True]
        await settle()
        assert (made.state, passed, made.lasted) == ("ok", 20, 0.0)
        await asyncio.gather(*asks)
        await made.aclose()

    virtual.run(life())


def test_what_was_on_its_way_before_is_nothing_new() -> None:
    """Failures of calls that began before it opened make no pause longer."""

    async def life() -> None:
        await asyncio.sleep(5.0)
        made = breaker(waits())
        for n in range(FAILURES):
            made.failed(Cell(rank=(n,)), began=4.0)
        before = made.next_at
        for n in range(100):
            assert not made.failed(Cell(rank=(n,)), began=4.5)
        assert made.next_at == before
        await made.aclose()

    virtual.run(life())


def test_a_probe_that_is_no_longer_wanted_makes_room_for_the_next() -> None:
    """A stop ends the wait of those who wait, also in the moment in which one was let through."""

    async def life() -> None:
        held = waits()
        made = broken(held)
        first = asyncio.ensure_future(made.turn(Cell(rank=(1,))))
        await settle()
        end(held, lambda waiter: True)
        with pytest.raises(Ended):
            await first
        second = asyncio.ensure_future(made.turn(Cell(rank=(2,))))
        assert await second is not None
        await made.aclose()

    virtual.run(life())


def told(pulse: Pulse, count: int, *, seconds: float, tokens: int) -> float:
    """How slow it is after so many answers."""
    pulse.recent.extend([(seconds, tokens)] * count)
    return pulse.slow()


def test_slowness_is_against_its_own_start_and_not_the_length_of_answers() -> None:
    """Longer answers take longer in all, shorter ones longer for each token; neither is slow."""
    pulse = Pulse()
    assert told(pulse, RECENT - 1, seconds=1.0, tokens=100) == 1.0
    assert told(pulse, 1, seconds=1.0, tokens=100) == 1.0
    assert told(pulse, RECENT, seconds=10.0, tokens=1000) == pytest.approx(1.0)
    assert told(pulse, RECENT, seconds=0.5, tokens=1) == pytest.approx(0.5)
    assert told(pulse, RECENT, seconds=4.0, tokens=100) == pytest.approx(4.0)
    assert told(pulse, RECENT, seconds=40.0, tokens=1000) == pytest.approx(4.0)
    pulse.reset(0.0)
    assert told(pulse, RECENT, seconds=4.0, tokens=100) == 1.0


def test_silence_counts_while_calls_are_in_flight() -> None:
    """Not while nothing was asked, and not before anything was ever answered."""
    pulse = Pulse()
    pulse.sent(100.0)
    assert pulse.silence(150.0) == 50.0
    assert pulse.patience == float("inf")
    pulse.last = 150.0
    pulse.recent.append((2.0, 10))
    assert pulse.patience == SILENT_S
    pulse.in_flight = 0
    assert pulse.silence(900.0) == 0.0
    pulse.sent(1000.0)
    assert pulse.silence(1010.0) == 10.0
    pulse.recent.extend([(20.0, 10)] * RECENT)
    assert pulse.patience == 200.0
