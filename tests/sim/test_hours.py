"""Where the time of lanes goes, in virtual time: every slot-second has its cause, and each cause is found where it was put."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import judge
from fakes.flow import Arm, deployment, model
from fakes.provider import FakeProvider
from fakes.world import Knobs, Outcome, World, draw
from judgerun.dispatch.beat import BEAT_S, CLOSE_EVERY
from judgerun.model.lane import LaneSpec
from judgerun.ports import Order
from judgerun.simulate import virtual
from judgerun.store.inline import Inline

STEADY = (1.0, 1.0)
"""Each call takes a second."""


def shares(outcome: Outcome, lane: str = "lab") -> Mapping[str, float]:
    """The causes of a lane as shares of its time."""
    spent = outcome.progress.hours.spent()[lane]
    whole = sum(spent.values())
    return {cause: seconds / whole for cause, seconds in spent.items()}


def life(
    place: Path, knobs: Knobs, *, lanes: Mapping[str, LaneSpec] | None = None, stops: tuple[float, ...] = ()
) -> Outcome:
    """One run of a world."""
    found: list[Outcome] = []

    async def main() -> None:
        async with World(place, 1, knobs) as world:
            world.arms = [Arm(name="a", model=model("a", world.lab))]
            found.append(await world.run(lanes=lanes, stops=stops))

    virtual.run(main())
    return found[0]


@pytest.mark.parametrize("seed", range(60))
def test_all_time_is_accounted_to_a_cause(tmp_path: Path, seed: int) -> None:
    """Whatever goes wrong, the causes of each lane add up to its slots times the time that it was open; under one per cent of it
    is not named.
    """

    async def main() -> None:
        knobs = replace(draw(seed), die_at=None)
        async with World(tmp_path, seed, knobs) as world:
            stops = [at for at in (knobs.stop_at, knobs.stop_again) if at is not None]
            outcome = await world.run(stops=stops)
            for account in outcome.progress.hours.accounts.values():
                whole = sum(account.spent.values())
                assert whole == pytest.approx(account.width()[0] * account.lasted), f"seed {seed}"
                assert account.spent["unknown"] <= 0.01 * whole, f"seed {seed}"
                mixed = (
                    account.width()[0] * CLOSE_EVERY * BEAT_S
                )  # what one closing may take for a slot that is handed over
                assert account.spent["local"] <= 0.01 * whole + mixed, f"seed {seed}"
                assert all(seconds >= -1e-6 for seconds in account.spent.values()), f"seed {seed}"

    virtual.run(main())


def test_rate_limit_is_told(tmp_path: Path) -> None:
    """Sixty requests a minute of a second each use one slot of four: of the others' time nearly all is the rate limit's."""
    found = shares(life(tmp_path, Knobs(rows=120, concurrency=4, latency=STEADY, requests_per_minute=60)))
    assert found["sending"] == pytest.approx(0.25, abs=0.02)
    assert found["rate limit"] == pytest.approx(0.75, abs=0.04)


def test_token_limit_is_told_apart_from_the_rate_limit(tmp_path: Path) -> None:
    """Where tokens a minute bind, and requests a minute would allow ten times as many calls, the time is the token limit's."""
    knobs = Knobs(rows=120, concurrency=4, latency=STEADY, requests_per_minute=6_000, tokens_per_minute=1_000)
    found = shares(life(tmp_path, knobs))
    assert found["token limit"] > 0.6
    assert found.get("rate limit", 0.0) < 0.02


def test_money_that_others_hold_is_a_reservation(tmp_path: Path) -> None:
    """Under a cap that the holds of eight calls would pass, slots send as long as they did, and wait for money the rest of it."""
    knobs = Knobs(rows=24, concurrency=8, latency=STEADY)

    async def main() -> Outcome:
        async with World(tmp_path, 1, knobs) as world:
            world.arms = [Arm(name="a", model=model("a", world.lab))]
            probe = await world.run(rows=1)
            (hold,) = judge.rows_of(world.path, "select need_nanos from attempt limit 1")[0]
            (spent,) = judge.rows_of(world.path, "select coalesce(sum(nanos), 0) from entry where kind = 'settle'")[0]
            assert probe.complete
            cap = world.budget.caps[0]
            world.budget = replace(world.budget, caps=(replace(cap, limit=24 * spent + 2 * hold),))
            return await world.run()

    outcome = virtual.run(main())
    found, account = shares(outcome), outcome.progress.hours.accounts["lab"]
    assert found["sending"] == pytest.approx(account.answered * 1.0 / (8 * account.lasted), rel=0.02)
    assert found["reservation"] == pytest.approx(1 - found["sending"], abs=0.15), "but for the last calls' tail"
    assert found["reservation"] > 0.25


def test_backoff_is_told(tmp_path: Path) -> None:
    """A provider that asks everybody for thirty seconds of patience: the time is the backoff's."""
    knobs = Knobs(rows=4, concurrency=4, latency=(0.1, 0.1), weights={"429": 1e9}, retry_after="30", attempts_max=4)
    found = shares(life(tmp_path, knobs, stops=(300.0,)))
    assert found["backoff"] + found.get("cut", 0.0) > 0.9


def test_a_grader_that_waits_for_its_solver_waits_upstream(tmp_path: Path) -> None:
    """A lane of graders under a solver that is ten times slower: sending for a tenth of the slots, upstream for the others."""

    async def main() -> Outcome:
        async with World(tmp_path, 1, Knobs(rows=80, concurrency=4, latency=(10.0, 10.0), real=True)) as world:
            quick = FakeProvider(seed=2, latency=STEADY)
            await quick.start()
            try:
                fast = deployment("fast", quick.url)
                world.arms = [Arm(name="a", model=model("a", world.lab), grader=model("g", fast))]
                world.experiment = world.graded(world.lab, fast)
                lanes = {name: LaneSpec(name=name, concurrency=4, timeout_s=60) for name in ("lab", "fast")}
                return await world.run(lanes=lanes)
            finally:
                await quick.stop()

    outcome = virtual.run(main())
    grader, solver = shares(outcome, "fast"), shares(outcome, "lab")
    assert grader["sending"] == pytest.approx(0.1, abs=0.02)
    assert grader["upstream"] > 0.85
    assert solver["sending"] > 0.9


def test_a_lane_whose_cells_are_behind_a_full_window_waits_for_the_window(tmp_path: Path) -> None:
    """Of two lanes that get the cells of a row each, the quick one waits for the slow one's work to leave the window."""

    async def main() -> Outcome:
        async with World(tmp_path, 1, Knobs(rows=120, concurrency=4, latency=(10.0, 10.0), real=True)) as world:
            quick = FakeProvider(seed=2, latency=STEADY)
            await quick.start()
            try:
                fast = deployment("fast", quick.url)
                world.arms = [Arm(name="a", model=model("a", world.lab)), Arm(name="b", model=model("b", fast))]
                world.experiment = world.paired(world.lab, fast)
                lanes = {name: LaneSpec(name=name, concurrency=4, timeout_s=60) for name in ("lab", "fast")}
                return await world.run(lanes=lanes)
            finally:
                await quick.stop()

    found = shares(virtual.run(main()), "fast")
    assert found["window"] > 0.7
    assert found["sending"] == pytest.approx(0.1, abs=0.03)


def test_a_drain_is_told_as_stop(tmp_path: Path) -> None:
    """After a stop the slots that come free one by one are the stop's, until the slowest call has ended."""
    knobs = Knobs(rows=400, concurrency=4, latency=(1.0, 20.0))
    outcome = life(tmp_path, knobs, stops=(10.0,))
    account = outcome.progress.hours.accounts["lab"]
    assert 0 < account.spent["stop"] <= 4 * (account.lasted - 10.0) + 1e-6


def test_a_lane_of_a_model_waits_for_the_lane_around_it(tmp_path: Path) -> None:
    """Slots of a model's own lane that wait for one of the provider's are told as the other lane's."""
    knobs = Knobs(rows=80, concurrency=2, latency=STEADY)
    lanes = {
        "lab": LaneSpec(name="lab", concurrency=2, timeout_s=20),
        "lab/a": LaneSpec(name="lab/a", concurrency=4, timeout_s=20),
    }
    outcome = life(tmp_path, knobs, lanes=lanes)
    assert shares(outcome, "lab/a")["other lane"] == pytest.approx(0.5, abs=0.05)
    assert shares(outcome, "lab")["sending"] > 0.9


def test_a_provider_that_is_out_of_reach_is_told(tmp_path: Path) -> None:
    """All connections break: after the first failures the breaker is open, and nearly all time is the provider's."""
    knobs = Knobs(rows=60, concurrency=8, latency=(0.1, 0.1), weights={"drop before": 1e9})
    found = shares(life(tmp_path, knobs, stops=(200.0,)))
    assert found["provider"] + found.get("cut", 0.0) > 0.9
    assert found["provider"] > 0.1


def test_a_pause_is_told(tmp_path: Path) -> None:
    """Of a run that was paused for ten minutes these minutes of every slot, within the seconds of hearing it, are the pause's."""

    async def main() -> Outcome:
        async with World(tmp_path, 3, Knobs(rows=40, concurrency=4, latency=STEADY)) as world:
            running = asyncio.ensure_future(world.run())
            for after, order in ((4.0, Order.PAUSE), (600.0, Order.UNPAUSE)):
                await asyncio.sleep(after)
                store = Inline.open(world.path, clock=world.clock, durable=False)
                await store.ask("e", order, by="a test", within=None)
                await store.aclose()
            return await running

    account = virtual.run(main()).progress.hours.accounts["lab"]
    assert account.spent["paused"] == pytest.approx(4 * 600.0, abs=4 * 3.0)
