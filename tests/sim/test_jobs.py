"""Whole runs in the batch lane under seeded faults, kills and stops in virtual time, judged by the batch API's own bill.

JUDGERUN_SEED=83 pytest tests/sim/test_jobs.py      plays that seed alone
JUDGERUN_SEEDS=5000 pytest tests/sim/test_jobs.py   plays so many
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fakes import world as worlds
from fakes.flow import Arm, model
from fakes.jobs import FAULTS, LINES, WHOLES, Batches, FakeJobs
from fakes.judge import judge_books, judge_replies, rows_of
from fakes.mortal import Mortal
from fakes.provider import Bill
from fakes.world import Knobs, Outcome, World
from judgerun.dispatch import collect, fill
from judgerun.errors import Exit
from judgerun.model.experiment import Deployment, Model
from judgerun.model.lane import LaneSpec
from judgerun.ports import Jobs
from judgerun.simulate import virtual
from judgerun.store.inline import Inline

SEEDS = int(os.environ.get("JUDGERUN_SEEDS", "200"))
GROUP = 20
ONLY = os.environ.get("JUDGERUN_SEED")
GROUPS = (
    [range(int(ONLY), int(ONLY) + 1)] if ONLY else [range(n, min(n + GROUP, SEEDS)) for n in range(0, SEEDS, GROUP)]
)
LIVES = 4
"""Processes under faults, before the provider is well again."""
WELL = 4
"""Processes after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """What a seed draws besides the knobs of every world."""

    faults: Mapping[str, float] = field(default_factory=dict)
    lanes: frozenset[str] = frozenset({"a", "b", "g", "v"})  # models with the lane
    enqueued: int | None = None
    dies: tuple[tuple[int, bool] | None, ...] = ()  # for each process: at which step, and whether after it
    stops: tuple[tuple[float, ...], ...] = ()  # for each process: when it is asked to stop


def draw(seed: int) -> tuple[Knobs, Batched]:
    """The knobs of a seed."""
    rng = random.Random(f"jobs {seed}")
    faults = {fault: rng.choice([0.0, 0.0, 0.2, 0.5]) for fault in FAULTS}
    faults["overrun"] = rng.choice([0.0, 0.0, 0.0, 0.0, 0.1])
    dies, stops = [], []
    for _ in range(LIVES):
        fate = rng.random()
        dies.append((rng.randint(1, 60), rng.random() < 0.5) if fate < 0.6 else None)
        at = rng.uniform(0.0, 200.0)
        stops.append((at, *([at + rng.uniform(0.0, 20.0)] if rng.random() < 0.5 else [])) if fate > 0.7 else ())
    knobs = Knobs(
        rows=rng.randint(2, 12),
        cap=rng.choice([10**12, rng.randint(300_000, 3_000_000)]),
        calls=rng.choice([None, None, rng.randint(10, 80)]),
        condition_cap=rng.choice([None, None, rng.randint(100_000, 800_000)]),
        embed=rng.random() < 0.4,
        concurrency=rng.randint(1, 4),
        latency=rng.choice([(0.01, 0.1), (0.2, 3.0)]),
    )
    lanes = frozenset(name for name in "abgv" if rng.random() < 0.75)
    batched = Batched(
        faults=faults,
        lanes=lanes,
        enqueued=rng.choice([None, None, rng.randint(5, 80)]),
        dies=tuple(dies),
        stops=tuple(stops),
    )
    return knobs, batched


class JobsWorld(World):
    """A world whose provider has a batch API."""

    def __init__(self, place: Path, seed: int, knobs: Knobs, batched: Batched, *, mutant: str = "") -> None:
        super().__init__(place, seed, knobs, mutant=mutant)
        self.batched = batched
        self.batches = Batches(seed, weights=dict(batched.faults))

    def default_arms(self, lab: Deployment) -> list[Arm]:
        """As ever, some of them with the lane."""

        def laned(name: str) -> Model:
            return replace(model(name, lab), lane="batch" if name in self.batched.lanes else None)

        arms = [Arm(name="a", model=laned("a"), grader=laned("g")), Arm(name="b", model=laned("b"))]
        if self.knobs.embed:
            arms.append(Arm(name="v", model=laned("v"), embed=True))
        return arms

    def jobs(self, mortal: Mortal) -> Jobs:
        return FakeJobs(self.batches, mortal, mutant=self.mutant)

    def lanes(self) -> dict[str, LaneSpec]:
        return {"lab": replace(super().lanes()["lab"], enqueued_tokens=self.batched.enqueued)}

    async def live(self, number: int) -> Outcome:
        """One process under its faults. What it bills above a hold freezes the budget; somebody reopens it."""
        dies = self.batched.dies[number] if number < len(self.batched.dies) else None
        stops = self.batched.stops[number] if number < len(self.batched.stops) else ()
        outcome = await self.run(number=number, mortal=Mortal(*dies) if dies else Mortal(), stops=stops)
        store = Inline.open(self.path, clock=self.clock, durable=False)
        await store.unfreeze(self.budget.name, "the simulation goes on")
        await store.aclose()
        return outcome

    def bill(self) -> Bill:
        """The calls' bill, with the jobs' charges at their attempts."""
        said = self.server.bill
        whole = Bill(hits=said.hits, charged=dict(said.charged), overruns=set(said.overruns))
        query = (
            "select a.id, j.token, r.key from attempt a join job j on j.id = a.job"
            " join carried k on k.attempt = a.id join request r on r.id = k.request"
        )
        remotes = {job.token: job for job in self.batches.jobs.values()}
        for attempt, token, key in rows_of(self.path, query):
            if (remote := remotes.get(token)) is not None:
                whole.charge(attempt, remote.charges(key))
                if remote.fates[key] == "overrun":
                    whole.overruns.add(attempt)
        return whole


async def play(place: Path, seed: int, knobs: Knobs, batched: Batched, *, mutant: str = "") -> JobsWorld:
    """Several lives under faults, then a healthy provider until all is done, then once more for nothing."""
    async with JobsWorld(place, seed, knobs, batched, mutant=mutant) as world:
        for number in range(LIVES):
            await world.live(number)
            await asyncio.sleep(random.Random(f"pause {seed} {number}").choice([0.0, 10.0, 500.0]))
        world.batches.weights.clear()
        healthy = None
        for number in range(LIVES, LIVES + WELL):  # the first collect what was submitted in a sicker time
            healthy = await world.live(number)
            await asyncio.sleep(500.0)
        world.findings += world.batches.findings
        world.findings += _left(world.path) + judge_books(world.path, world.bill()) + judge_replies(world.path)
        assert healthy is not None
        ending = healthy.ending
        if ending is None or ending.code not in (Exit.DONE, Exit.EXHAUSTED):
            world.findings.append(f"a run on a healthy provider ended with {ending}")
        elif ending.code is Exit.DONE and not healthy.complete:
            world.findings.append("a run on a healthy provider ended without all cells")
        sent = (world.batches.submits, len(world.server.bill.hits))
        again = await world.run(number=LIVES + WELL)
        if healthy.complete and (again.ending is None or again.ending.code is not Exit.DONE):
            world.findings.append(f"a rerun after completion ended with {again.ending}")
        if healthy.complete and sent != (world.batches.submits, len(world.server.bill.hits)):
            world.findings.append("a rerun after completion sent again")
        return world


def _left(path: Path) -> list[str]:
    """Nothing is open once every job has ended, unless the run was out of money."""
    jobs = rows_of(path, "select id, state from job where state <> 'ended'")
    open_ = rows_of(path, "select id from attempt where open = 1")
    return [f"open at the end: jobs {jobs}, attempts {open_}"] if jobs or open_ else []


def lived(place: Path, seed: int, *, mutant: str = "") -> JobsWorld:
    """One seed's world after its whole life, in a folder of its own."""
    folder = place / f"{seed} {mutant}"
    folder.mkdir()
    return virtual.run(play(folder, seed, *draw(seed), mutant=mutant))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attempts in a commit, so that kills fall between the commits of a job."""
    monkeypatch.setattr(collect, "CHUNK", 3)
    monkeypatch.setattr(fill, "CHUNK", 3)
    monkeypatch.setattr(worlds, "VIRTUAL_MAX_S", 20_000.0)  # one small job after the other


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_promises_hold_in_the_batch_lane(tmp_path: Path, seeds: range) -> None:
    """Whatever fails, is killed or stopped: nothing is submitted twice, caps hold at each commit, the batch API's bill is in the
    books, each reserve has one end, and once faults stop everything ends.
    """
    found = {seed: world.findings for seed in seeds if (world := lived(tmp_path, seed)).findings}
    assert not found, f"JUDGERUN_SEED={min(found)} pytest {Path(__file__).name}: {found}"


MUTANTS = ("no find", "no submitting", "void on unknown", "no recovery")
"""Faults of our own: a killed submit is sent anew unasked; its state is forgotten; silence is free; the dead are not seen."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_judge_finds_a_planted_fault(tmp_path: Path, mutant: str) -> None:
    """A program that breaks a promise is caught by one of the first seeds: the tester itself is tested."""
    caught = next((seed for seed in range(60) if lived(tmp_path, seed, mutant=mutant).findings), None)
    assert caught is not None, f"no seed caught {mutant!r}"


@pytest.mark.parametrize("seed", range(0, 40, 8))
def test_one_seed_is_one_run(tmp_path: Path, seed: int) -> None:
    """The same seed gives the same jobs and the same ledger, entry by entry."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    query = "select attempt, kind, nanos, calls, tokens, at from entry order by id"
    first, second = lived(tmp_path / "1", seed), lived(tmp_path / "2", seed)
    assert rows_of(first.path, query) == rows_of(second.path, query), f"seed {seed}"
    assert [job.token for job in first.batches.jobs.values()] == [job.token for job in second.batches.jobs.values()]


def test_seeds_differ_in_kind(tmp_path: Path) -> None:
    """The seeds reach what they are meant to reach: every fault of a job and of a line, every way in which a job ends, and
    jobs that outlive the process that submitted them.
    """
    fates: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    adopted = held = 0
    for seed in range(40):
        world = lived(tmp_path, seed)
        for job in world.batches.jobs.values():
            fates.update({job.whole: 1})
            fates.update(job.fates.values())
        ended.update(detail.split(":")[0] for (detail,) in rows_of(world.path, "select detail from job"))
        kinds = rows_of(world.path, "select kind from entry e join attempt a on a.id = e.attempt where job is not null")
        ended.update(kind for (kind,) in kinds)
        adopted += len(
            rows_of(
                world.path, "select j.id from job j where owner > (select min(owner) from attempt where job = j.id)"
            )
        )
        held += sum(
            "run again to collect" in (outcome.ending.reason or "") for outcome in world.outcomes if outcome.ending
        )
    assert {*WHOLES, *LINES} <= fates.keys()
    assert {
        "collected",
        "nothing of it was sent",
        "timed out",
        "rate limited",
        "rejected",
        "overloaded",
        "not sent",
    } <= ended.keys()
    assert {"settle", "void", "forfeit"} <= ended.keys()
    assert adopted > 10
    assert held > 10
