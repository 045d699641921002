"""How runs end before their time: asked once, asked twice, cancelled, out of money, frozen, gated, without a provider."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from fakes import judge
from fakes.flow import Arm, FakeFlow, deployment, model
from fakes.provider import FakeProvider
from fakes.world import Knobs, World
from judgerun.dispatch.gates import Rule
from judgerun.dispatch.scheduler import window
from judgerun.errors import Exit
from judgerun.ledger.budget import Budget, Cap
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import LaneSpec
from judgerun.plan.counts import Counts
from judgerun.ports import Order
from judgerun.simulate import virtual
from judgerun.table.gate import Fired, Sums

SLOW = (1.0, 5.0)


def kinds(path: Path) -> Counter[str]:
    """How many entries there are of each kind."""
    return Counter(kind for (kind,) in judge.rows_of(path, "select kind from entry"))


@pytest.mark.parametrize("seed", range(12))
def test_first_stop_drains(tmp_path: Path, seed: int) -> None:
    """At whatever moment the stop comes: nothing more is sent, what is in flight is answered and settled, nothing is forfeited."""

    async def life() -> None:
        at = random.Random(seed).uniform(0.0, 12.0)
        async with World(tmp_path, seed, Knobs(rows=40, concurrency=5, latency=SLOW)) as world:
            outcome = await world.run(stops=[at])
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.INTERRUPTED
            assert all(hit.at <= at for hit in world.server.bill.hits)
            entries = kinds(world.path)
            assert entries["reserve"] == entries["settle"] + entries["void"] == entries["settle"]
            assert len(world.server.bill.hits) == entries["settle"]
            assert asyncio.get_running_loop().time() < at + SLOW[1] + 1
            assert outcome.progress.in_flight == 0
            assert not any(outcome.progress.waiting.values())

    virtual.run(life())


@pytest.mark.parametrize("fault", ["429", "500"])
def test_drain_waits_for_no_backoff(tmp_path: Path, fault: str) -> None:
    """What fails after the stop is not tried again: a drain lasts as long as the slowest call, not as the longest backoff."""

    async def life() -> None:
        knobs = Knobs(rows=40, concurrency=5, latency=SLOW, weights={fault: 1e9}, retry_after="300", attempts_max=9)
        async with World(tmp_path, 11, knobs) as world:
            outcome = await world.run(stops=[2.0])
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.INTERRUPTED
            assert asyncio.get_running_loop().time() < 2.0 + SLOW[1] + 1

    virtual.run(life())


@pytest.mark.parametrize("seed", range(12))
def test_second_stop_ends_at_once(tmp_path: Path, seed: int) -> None:
    """Asked twice, the run ends in that moment; what was in flight is forfeited, and what the provider bills is in the books."""

    async def life() -> None:
        at = random.Random(seed).uniform(0.0, 12.0)
        again = at + random.Random(-seed - 1).uniform(0.0, 1.0)
        async with World(tmp_path, seed, Knobs(rows=40, concurrency=5, latency=SLOW)) as world:
            outcome = await world.run(stops=[at, again])
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.INTERRUPTED
            assert asyncio.get_running_loop().time() < again + 0.01
            entries = kinds(world.path)
            assert entries["forfeit"] > 0
            assert entries["reserve"] == entries["settle"] + entries["void"] + entries["forfeit"]
            await asyncio.sleep(100)
            assert judge.judge_books(world.path, world.server.bill) == []

    virtual.run(life())


def test_cancelled_caller_leaves_clean_books(tmp_path: Path) -> None:
    """Who cancels `main` gets the cancellation, after every hold of the run has had its end."""

    async def life() -> None:
        async with World(tmp_path, 1, Knobs(rows=40, concurrency=5, latency=SLOW)) as world:
            task = asyncio.ensure_future(world.run())
            await asyncio.sleep(4.0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            entries = kinds(world.path)
            assert entries["reserve"] == sum(entries[kind] for kind in ("settle", "void", "forfeit"))
            assert entries["forfeit"] == 5
            assert judge.rows_of(world.path, "select count(*) from owner where closed is null") == [(0,)]

    virtual.run(life())


def test_stop_asked_through_the_cache_drains(tmp_path: Path) -> None:
    """`judgerun stop` in another process is heard within seconds, and drains."""
    from judgerun.store.inline import Inline

    async def life() -> None:
        async with World(tmp_path, 2, Knobs(rows=60, concurrency=3, latency=SLOW)) as world:
            task = asyncio.ensure_future(world.run())
            await asyncio.sleep(6.0)
            async with Inline.open(world.path, clock=world.clock, durable=False) as other:
                assert await other.ask("e", Order.STOP, by="a test") == 1
            outcome = await task
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.INTERRUPTED
            assert max(hit.at for hit in world.server.bill.hits) < 8.0
            assert kinds(world.path)["forfeit"] == 0

    virtual.run(life())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("real", [False, True])
def test_stop_by_cap_leaves_conditions_paired(tmp_path: Path, seed: int, real: bool) -> None:
    """When the money is gone the two conditions are apart by at most twice the slots, and the rows that are done are the first
    ones of the seeded order in both.
    """

    async def life() -> None:
        slots = 3
        knobs = Knobs(rows=60, concurrency=slots, cap=1_600_000, latency=(0.1, 6.0), real=real)
        async with World(tmp_path, seed, knobs) as world:
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.EXHAUSTED
            done = {counts.condition: counts.done for counts in outcome.flow.counts()}
            solved = [n for name, n in done.items() if name.startswith("solve/")]
            assert len(solved) == 2
            assert min(solved) > 5
            assert max(solved) - min(solved) <= 2 * slots, done

    virtual.run(life())


def test_first_exhausted_closes_its_scope(tmp_path: Path) -> None:
    """Once a request does not fit any more, no smaller one of that scope is let in after it; other scopes go on."""

    async def life() -> None:
        async with World(tmp_path, 3, Knobs(rows=12, concurrency=1)) as world:
            world.arms = [Arm(name="a", model=model("a", world.lab)), Arm(name="b", model=model("b", world.lab))]
            world.budget = Budget(
                name="b", caps=(Cap("nanos", "total", "", 10**12), Cap("nanos", "condition", "solve/a", 600_000))
            )
            world.text = lambda row, arm: f"row {row} of {arm.name} " + "x" * (4000 if row == 3 else 10)
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.EXHAUSTED
            assert "condition solve/a" in (outcome.ending.reason or "")
            assert isinstance(outcome.flow, FakeFlow)
            done = Counter(condition for condition, _ in outcome.flow.outcomes)
            assert done == {"solve/a@rows": 3, "solve/b@rows": 12}

    virtual.run(life())


def test_overrun_freezes_and_says_so(tmp_path: Path) -> None:
    """A bill above its hold is booked in full, nothing is sent any more, and a later run is told."""

    async def life() -> None:
        async with World(tmp_path, 4, Knobs(rows=20, concurrency=2, weights={"overrun": 0.1})) as world:
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.FROZEN
            assert "billed more than it held" in (outcome.ending.reason or "")
            assert judge.judge_books(world.path, world.server.bill) == []
            sent = len(world.server.bill.hits)
            again = await world.run(number=1)
            assert again.ending is not None
            assert again.ending.code is Exit.FROZEN
            assert len(world.server.bill.hits) == sent

    virtual.run(life())


@asynccontextmanager
async def two_providers(
    place: Path, *, weights: dict[str, float], down: bool = False
) -> AsyncIterator[tuple[World, FakeProvider]]:
    """A world with a second provider `bad` that has these faults (or is not there at all) beside the healthy `lab`."""
    async with World(place, 5, Knobs(rows=15, concurrency=3, latency=(0.1, 1.0))) as world:
        bad = FakeProvider(seed=6, weights=weights)
        await bad.start()
        if down:
            await bad.stop()
        other = deployment("bad", bad.url)
        world.arms = [Arm(name="a", model=model("a", world.lab)), Arm(name="z", model=model("z", other))]
        try:
            yield world, bad
        finally:
            if not down:
                await bad.stop()


LANES = {"lab": LaneSpec(name="lab", concurrency=3), "bad": LaneSpec(name="bad", concurrency=3, attempts_max=3)}


@pytest.mark.parametrize("fault", ["quota", "unauthorised"])
def test_closed_provider_leaves_the_other_to_finish(tmp_path: Path, fault: str) -> None:
    """Out of credit or without a right key: that provider's cells stay pending, the other's are all done, exit 9."""

    async def life() -> None:
        async with two_providers(tmp_path, weights={fault: 1e9}) as (world, bad):
            outcome = await world.run(lanes=LANES)
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.PROVIDER
            assert (outcome.ending.reason or "").startswith("bad: ")
            done = {counts.condition: (counts.done, counts.failed, counts.pending) for counts in outcome.flow.counts()}
            assert done == {"solve/a@rows": (15, 0, 0), "solve/z@rows": (0, 0, 15)}
            assert len(bad.bill.hits) <= 3
            assert kinds(world.path)["forfeit"] == 0

    virtual.run(life())


def test_provider_out_of_reach_is_closed_after_its_limit(tmp_path: Path) -> None:
    """Nobody listens: tries that are not sent do not count and cost nothing; after ten minutes of waiting it is closed."""

    async def life() -> None:
        async with two_providers(tmp_path, weights={}, down=True) as (world, _):
            outcome = await world.run(lanes=LANES)
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.PROVIDER
            assert 500 < asyncio.get_running_loop().time() < 1500
            assert {counts.done for counts in outcome.flow.counts()} == {15, 0}
            booked = judge.rows_of(world.path, "select sum(nanos) from entry where kind = 'forfeit'")
            assert booked == [(None,)]

    virtual.run(life())


def test_retry_after_is_kept(tmp_path: Path) -> None:
    """No request is asked again before the moment that the provider named, and a 429 uses up no try."""

    async def life() -> None:
        knobs = Knobs(rows=10, concurrency=4, weights={"429": 1.0}, retry_after="17", attempts_max=1)
        async with World(tmp_path, 7, knobs) as world:
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.DONE
            assert outcome.complete
            times: dict[str, list[float]] = {}
            for hit in world.server.bill.hits:
                times.setdefault(hit.digest, []).append(hit.at)
            gaps = [later - sooner for at in times.values() for sooner, later in pairwise(at)]
            assert gaps
            assert min(gaps) >= 17.0
            assert outcome.progress.idle["backoff"] > 0

    virtual.run(life())


def test_failed_cells_are_lost_with_a_reason_and_tried_anew(tmp_path: Path) -> None:
    """A request that keeps failing is recorded as lost after `attempts_max` tries; a later run asks it again."""

    async def life() -> None:
        async with World(tmp_path, 8, Knobs(rows=3, weights={"500": 1e9}, attempts_max=3)) as world:
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.DONE
            assert isinstance(outcome.flow, FakeFlow)
            assert all(isinstance(lost, Lost) for lost in outcome.flow.outcomes.values())
            assert len(world.server.bill.hits) == 3 * len(outcome.flow.outcomes)
            reasons = {reason for (reason,) in judge.rows_of(world.path, "select reason from lost")}
            assert any("3 tries" in reason and "500" in reason for reason in reasons)
            world.server.weights = {}
            again = await world.run(number=1)
            assert again.complete
            assert isinstance(again.flow, FakeFlow)
            assert all(isinstance(kept, Kept) for kept in again.flow.outcomes.values())

    virtual.run(life())


def limits(after: int) -> Rule:
    """A gate on the share of done cells of the condition solve/a, which always fires after so many."""

    def look(counts: Collection[Counts], since: Mapping[str, Sums], stopped: Collection[str]) -> list[Fired]:
        return [
            Fired(condition=held.condition, limit="done", why=f"{held.done} done")
            for held in counts
            if held.condition == "solve/a@rows" and held.done >= after and held.condition not in stopped
        ]

    return look


def test_gate_stops_its_condition_and_its_downstream(tmp_path: Path) -> None:
    """When a gate fires, no further call of that condition or of what it feeds is sent; others go on; exit 7 and an event."""

    async def life() -> None:
        async with World(tmp_path, 9, Knobs(rows=80, concurrency=2)) as world:
            world.gate = limits(20)
            outcome = await world.run()
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.GATE
            done = {counts.condition: counts.done for counts in outcome.flow.counts()}
            assert 20 <= done["solve/a@rows"] <= 30
            assert done["grade/g@solve/a@rows"] <= 30
            assert done["solve/b@rows"] == 80
            assert judge.rows_of(world.path, "select subject from event where kind = 'gate'") == [("solve/a@rows",)]

    virtual.run(life())


def test_gate_is_judged_from_the_cache_before_anything_is_sent(tmp_path: Path) -> None:
    """A rerun that is told how the cache stands does not send a single call of a condition that is bad already."""

    async def life() -> None:
        async with World(tmp_path, 10, Knobs(rows=30, concurrency=2)) as world:
            world.gate = limits(5)
            first = await world.run(rows=12)
            surveyed: Sequence[Counts] = first.flow.counts()
            before = sum(hit.model == "id-a" for hit in world.server.bill.hits)
            outcome = await world.run(number=1, surveyed=surveyed)
            assert outcome.ending is not None
            assert outcome.ending.code is Exit.GATE
            assert sum(hit.model == "id-a" for hit in world.server.bill.hits) == before

    virtual.run(life())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("real", [False, True])
def test_a_stop_amid_retries_and_failures_leaves_conditions_paired(tmp_path: Path, seed: int, real: bool) -> None:
    """Whenever a run ends whose calls are refused, dropped and retried, its conditions are apart by no more than the window of
    open work.
    """

    async def life() -> None:
        slots = 3
        weights = {"429": 0.1, "500": 0.15, "429_date": 0.05, "rejected": 0.03}
        knobs = Knobs(rows=80, concurrency=slots, latency=(0.1, 6.0), real=real, weights=weights)
        async with World(tmp_path, seed, knobs) as world:
            outcome = await world.run(stops=[random.Random(seed).uniform(20.0, 90.0)])
            ended = {c.condition: c.done + c.failed for c in outcome.flow.counts() if c.condition.startswith("solve/")}
            assert len(ended) == 2
            assert min(ended.values()) > 3
            assert max(ended.values()) - min(ended.values()) <= window(slots), (seed, ended)

    virtual.run(life())
