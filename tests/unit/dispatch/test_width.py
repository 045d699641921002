"""Width: the laws by which a lane becomes narrower and wider, and the slots below it while their number changes."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.waiting import ONE, settle, waits
from judgerun.dispatch.slots import Slots
from judgerun.dispatch.width import DEBOUNCE_S, PRESSURE_MAX, STEP, WEIGHT, Width
from judgerun.simulate import virtual

WAVE = PRESSURE_MAX // WEIGHT
"""Overloads in a row that make a cut."""


def busy(width: Width, extra: int = 3) -> None:
    """All slots in use, and some who wait: in a loop that runs."""
    for rank in range(width.slots.size + extra):
        task = asyncio.ensure_future(width.slots.acquire((rank,), ONE))
        task.add_done_callback(lambda _: None)


def lived(
    ceiling: int, events: list[tuple[float, str]], *, saturated: bool = True
) -> list[tuple[float, str, int, int]]:
    """(when, what, width before, width after) of a lane that lives through these."""

    async def life() -> list[tuple[float, str, int, int]]:
        width, now, told = Width(Slots(ceiling, waits())), 0.0, []
        if saturated:
            busy(width, extra=2 * ceiling)
            await settle()
        for pause, what in events:
            now += pause
            before = width.slots.size
            if what == "answer":
                width.answered(now)
            else:
                width.overloaded(now, began=now)
            told.append((now, what, before, width.slots.size))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return told

    return virtual.run(life())


EVENTS = st.lists(
    st.tuples(st.floats(0, 8), st.sampled_from(["answer", "answer", "answer", "overload"])), min_size=1, max_size=300
)


@given(ceiling=st.integers(1, 200), events=EVENTS, saturated=st.booleans())
def test_it_stays_between_one_and_its_ceiling_and_moves_by_its_laws(
    ceiling: int, events: list[tuple[float, str]], saturated: bool
) -> None:
    """Never below one, never above what is written; a cut is one half and a debounce apart from the next; growth is one step,
    never in a debounce, and only of a lane that is saturated.
    """
    cut = float("-inf")
    for now, what, before, after in lived(ceiling, events, saturated=saturated):
        assert 1 <= after <= ceiling
        if after < before:
            assert what == "overload"
            assert after == max(1, before // 2)
            assert now >= cut + DEBOUNCE_S
            cut = now
        elif after > before:
            assert what == "answer"
            assert saturated
            assert now >= cut + DEBOUNCE_S
            assert after - before <= max(1, ceiling // STEP)


@given(failures=st.integers(WAVE, 500), spread=st.floats(0, 4.9))
def test_one_wave_of_failures_is_one_cut(failures: int, spread: float) -> None:
    """However many failures come within a debounce, the width is halved once."""
    told = lived(100, [(spread / failures, "overload")] * failures)
    assert told[-1][3] == 50


def test_what_was_sent_before_a_cut_says_nothing_about_the_new_width() -> None:
    """Calls that began under the old width fail long after the debounce, and nothing more is cut for them."""
    width = Width(Slots(64, waits()))
    width.cut(10.0)
    for n in range(50):
        assert not width.overloaded(100.0 + n, began=9.0)
    assert width.slots.size == 32
    assert [width.overloaded(200.0, began=199.0) for _ in range(WAVE)] == [False] * (WAVE - 1) + [True]
    assert width.slots.size == 16


@pytest.mark.parametrize("seed", range(5))
def test_stray_failures_do_not_make_a_run_narrow(seed: int) -> None:
    """One call in a hundred that fails with a 503 leaves a wide lane wide; one in three makes it narrow."""

    def end(share: float) -> int:
        rng = random.Random(seed)
        events = [(0.01, "overload" if rng.random() < share else "answer") for _ in range(20_000)]
        return lived(256, events)[-1][3]

    assert end(0.01) > 128, f"seed {seed}"
    assert end(0.34) <= 16, f"seed {seed}"


def test_a_width_that_is_not_used_does_not_grow() -> None:
    """Answers to few calls prove nothing about many at once."""
    wave = [(0.0, "overload")] * WAVE
    quiet = [(1.0, "answer")] * 3000
    assert lived(64, wave + quiet, saturated=False)[-1][3] == 32
    assert lived(64, wave + quiet, saturated=True)[-1][3] == 64


def test_a_slow_provider_is_not_asked_for_more() -> None:
    """While it is held, a saturated lane does not grow."""

    async def life() -> None:
        width = Width(Slots(8, waits()))
        busy(width)
        await settle()
        width.cut(0.0)
        width.held = True
        for n in range(200):
            width.answered(100.0 + n)
        assert width.slots.size == 4
        width.held = False
        for n in range(200):
            width.answered(400.0 + n)
        assert width.slots.size == 8
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    virtual.run(life())


def test_another_ceiling_takes_the_width_along() -> None:
    """A lane that was never cut is as wide as its new ceiling; one that was stays as it is, or as much as is allowed."""
    width = Width(Slots(8, waits()))
    width.limit(20)
    assert width.slots.size == 20
    width.cut(0.0)
    width.limit(40)
    assert width.slots.size == 10
    width.limit(4)
    assert width.slots.size == 4


@given(data=st.data(), seed=st.integers(0, 10_000))
def test_each_slot_is_given_back_once_while_the_number_changes(data: st.DataObject, seed: int) -> None:
    """Never more in use than there were when the last was given out; all come back, and nobody is forgotten."""
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=10))

    async def life() -> None:
        rng, slots = random.Random(seed), Slots(sizes[0], waits())
        used = done = 0

        async def use(rank: int) -> None:
            nonlocal used, done
            await slots.acquire((rank,), ONE)
            used += 1
            assert used <= slots.size
            await asyncio.sleep(rng.uniform(0.1, 2.0))
            used -= 1
            slots.release()
            done += 1

        async def change() -> None:
            for size in sizes:
                await asyncio.sleep(rng.uniform(0.0, 1.5))
                before = used
                slots.resize(size)
                assert used == before  # nothing in use is taken away
                while used > size:  # nobody new comes in meanwhile
                    now = used
                    await asyncio.sleep(0.05)
                    assert used <= now

        await asyncio.gather(*(use(rank) for rank in range(40)), change())
        assert (done, slots.free) == (40, slots.size)

    virtual.run(life())
