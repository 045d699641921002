"""The batch lane between a real store and a batch API that can be made to do anything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.clock import LoopClock
from fakes.flow import Arm, FakeFlow, chat, deployment, model
from fakes.jobs import LIMITS, Batches, FakeJobs
from fakes.judge import rows_of
from fakes.quick import QuickProvider
from fakes.world import PRICE
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.run import Ending, Run
from judgerun.dispatch.trays import Part, Tray
from judgerun.errors import Exit
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Experiment, Model
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import LaneSpec
from judgerun.model.profile import JobLimits
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.model.request import Request, RequestKey
from judgerun.ports import Answer, Look
from judgerun.simulate import virtual
from judgerun.store.inline import Inline

LAB = deployment("lab", "http://127.0.0.1:9/v1")
A = replace(model("a", LAB), lane="batch")
B = model("b", LAB)
HALF = replace(PRICE, rates=replace(PRICE.rates, input=500_000_000, output=2_000_000_000))
COST = 4 * 500 + 3 * 2000
"""Nanos of one call of A in a job: the usage of the fake at half the price."""
NEED = 18 * 500 + 16 * 2000
"""Its hold."""


@dataclass
class Bench:
    """A cache, a batch API, and runs on them."""

    path: Path
    arms: Sequence[Arm] = (Arm(name="a", model=A),)
    rows: int = 4
    caps: Sequence[Cap] = (Cap("nanos", "total", "", 10**15),)
    spec: LaneSpec = field(default_factory=lambda: LaneSpec(name="lab", concurrency=4, timeout_s=30.0))
    batches: Batches = field(default_factory=lambda: Batches(1, pace=(100.0, 100.0)))
    jobs: type[FakeJobs] = FakeJobs
    limits: JobLimits = LIMITS
    name: str = "e"
    pause: float = 0.0  # seconds that a call takes
    progress: Progress = field(default_factory=Progress)
    flow: FakeFlow = field(init=False)
    stop: Callable[[], None] = field(init=False)
    hasty: bool = False  # somebody stops the run just when money is to be held

    async def run(self, *, stops: Sequence[float] = ()) -> Ending:
        """One process to its end."""
        clock = LoopClock()
        store = Inline.open(self.path, clock=clock, durable=False)
        provider = QuickProvider(pause=self.pause)
        provider.jobs = self.jobs(self.batches, limits=self.limits)
        models = {held.name: held for arm in self.arms for held in (arm.model, arm.grader) if held is not None}
        self.flow = FakeFlow(self.arms, self.rows, store.lookup)
        self.progress = Progress()
        life = Run(
            self.flow,
            store=store,
            providers={"lab": provider},
            models=models,
            clock=clock,
            lanes={"lab": self.spec},
            budget=Budget(name="b", caps=tuple(self.caps)),
            prices=self.price,
            rng=random.Random(1),
            experiment=Experiment(name=self.name, folder="", seed=1),
            progress=self.progress,
        )
        self.stop = life.stop
        handles = [asyncio.get_running_loop().call_later(at, life.stop) for at in stops]
        try:
            async with asyncio.timeout(50_000):
                return await life.main()
        finally:
            for handle in handles:
                handle.cancel()
            await store.aclose()

    def price(self, held: Model, day: date) -> Price:
        """Half of it in the lane."""
        if self.hasty:
            self.stop()
        return HALF if held.lane else PRICE

    @property
    def sizes(self) -> list[int]:
        """Requests of each job that the provider took, in order."""
        return [len(job.requests) for job in self.batches.jobs.values()]

    def spend(self) -> tuple[int, int, int]:
        """Settled, forfeited, held."""
        query = "select sum(settled_nanos), sum(forfeited_nanos), sum(held_nanos) from account"
        (row,) = rows_of(self.path, query)
        return row[0] or 0, row[1] or 0, row[2] or 0

    def states(self) -> list[str]:
        """Of each job in the cache."""
        return [state for (state,) in rows_of(self.path, "select state from job order by id")]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A fresh one."""
    return Bench(tmp_path / "cache.db")


DONE = Ending(code=Exit.DONE, reason=None, codes={})


# -- parts


def test_cells_are_bought_in_jobs_at_the_price_of_the_lane(bench: Bench) -> None:
    """Each reply is settled for itself, at half the price; the wait for the job is measured in cell-seconds."""
    assert virtual.run(bench.run()) == DONE
    assert bench.flow.complete
    assert (bench.sizes, bench.states()) == ([4], ["ended"])
    assert bench.spend() == (4 * COST, 0, 0)
    kept = bench.flow.outcomes["solve/a@rows", "r0"]
    assert isinstance(kept, Kept)
    assert kept.cost == COST
    assert bench.progress.idle["job"] == pytest.approx(4 * 100, abs=4 * 60)
    assert bench.progress.jobs == {}


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (replace(LIMITS, requests=3), [3, 3, 3, 1]),
        (replace(LIMITS, bytes=3 * 210), [3, 3, 3, 1]),
        (replace(LIMITS, bytes=10), [1] * 10),
    ],
)
def test_parts_are_as_large_as_the_limits_allow(bench: Bench, limits: JobLimits, sizes: list[int]) -> None:
    """By count and by bytes; a request that is too large by itself goes alone, and the provider's answer decides."""
    bench.limits, bench.rows = limits, 10
    assert virtual.run(bench.run()) == DONE
    assert bench.sizes == sizes


def test_no_more_is_enqueued_than_the_lane_allows(bench: Bench) -> None:
    """Jobs follow one another where the limit on enqueued tokens has room for one only; a larger request goes alone."""
    bench.rows, bench.spec = 5, replace(bench.spec, enqueued_tokens=14)  # each takes six or seven
    assert virtual.run(bench.run()) == DONE
    assert bench.sizes == [2, 2, 1]
    ends = [job.ends_at for job in bench.batches.jobs.values()]
    assert ends[1] - ends[0] >= 100
    bench.rows, bench.spec = 7, replace(bench.spec, enqueued_tokens=1)
    assert virtual.run(bench.run()) == DONE
    assert bench.sizes == [2, 2, 1, 1, 1]


def test_a_first_job_begins_at_once_and_later_ones_gather(bench: Bench) -> None:
    """Beside slow calls the lane does not wait for its last cell: one small job, then what came while it was open."""
    bench.arms, bench.rows, bench.pause = (Arm(name="a", model=A), Arm(name="b", model=B)), 60, 20.0
    bench.limits = replace(LIMITS, requests=50)
    assert virtual.run(bench.run()) == DONE
    assert bench.flow.complete
    assert 5 < bench.sizes[0] < 20
    assert len(bench.sizes) < 6


def test_cells_in_jobs_own_no_slot(bench: Bench) -> None:
    """One slot, and two hundred cells in open jobs: calls go on beside them."""
    bench.arms, bench.rows = (Arm(name="a", model=A), Arm(name="b", model=B)), 200
    bench.limits, bench.spec, bench.pause = replace(LIMITS, requests=1000), replace(bench.spec, concurrency=1), 0.1
    bench.batches.pace = (5000.0, 5000.0)

    async def life() -> tuple[int, Ending]:
        running = asyncio.ensure_future(bench.run())
        await asyncio.sleep(1000)
        return bench.progress.calls, await running

    calls, ending = virtual.run(life())
    assert (calls, ending) == (200, DONE)


# -- money


def test_what_money_allows_is_submitted_and_the_rest_waits(bench: Bench) -> None:
    """Under a cap that holds a few at a time the parts are small, and all is bought in the end."""
    bench.rows, bench.caps = 6, (Cap("nanos", "total", "", 3 * NEED + 3 * COST),)
    assert virtual.run(bench.run()) == DONE
    assert bench.flow.complete
    assert len(bench.sizes) > 1
    assert bench.spend() == (6 * COST, 0, 0)


def test_an_exhausted_cap_ends_the_run_and_its_jobs_stand(bench: Bench) -> None:
    """The reason says where the calls are; a later run collects what has ended, though nothing more may be bought."""
    virtual.run(bench.run(stops=[30.0]))
    bench.rows, bench.caps = 6, (*bench.caps, Cap("calls", "total", "", 0))
    ending = virtual.run(bench.run())
    assert ending.code is Exit.EXHAUSTED
    assert (ending.reason or "").endswith("exhausted; 4 calls are in jobs at lab; run again to collect")
    assert bench.states() == ["submitted"]
    later = virtual.run(_later(bench))
    assert (later.code, later.reason) == (Exit.EXHAUSTED, "budget b: calls of total exhausted")
    assert bench.spend() == (4 * COST, 0, 0)
    assert bench.sizes == [4]


# -- stops


def test_a_drained_run_leaves_its_jobs_and_the_next_collects_them(bench: Bench) -> None:
    """It does not wait for the job; the holds stay; its reason tells; the next run submits nothing."""
    first = virtual.run(bench.run(stops=[30.0]))
    assert first.code is Exit.INTERRUPTED
    assert first.reason == "interrupted; 4 calls are in jobs at lab; run again to collect"
    assert bench.spend()[2] > 0
    assert bench.states() == ["submitted"]
    assert not bench.flow.outcomes
    assert virtual.run(_later(bench)) == DONE
    assert bench.flow.complete
    assert bench.sizes == [4]
    assert bench.spend() == (4 * COST, 0, 0)


async def _later(bench: Bench) -> Ending:
    """A run on a day on which the job has ended."""
    await asyncio.sleep(10_000)
    return await bench.run()


def test_a_stop_in_the_middle_of_a_submit_is_asked_for(bench: Bench) -> None:
    """The second stop does not wait for the answer: whether the job exists is for the next run to find out."""

    class Slow(FakeJobs):
        async def _submit(self, requests: Sequence[Request], token: str, timeout_s: float) -> str | Failure:
            number = self.batches.take(requests, token)
            await asyncio.sleep(25)
            return number

    bench.jobs = Slow
    first = virtual.run(bench.run(stops=[5.0, 6.0]))
    assert first.code is Exit.INTERRUPTED
    assert bench.states() == ["submitting"]
    assert virtual.run(_later(bench)) == DONE
    assert bench.sizes == [4]
    assert bench.batches.findings == []


def test_a_run_that_was_stopped_while_it_filled_sends_nothing(bench: Bench) -> None:
    """What is reserved and not yet submitted when the stop comes is void."""

    bench.hasty = True
    assert virtual.run(bench.run()).code is Exit.INTERRUPTED
    assert bench.batches.jobs == {}
    assert bench.states() == ["ended"]
    assert bench.spend() == (0, 0, 0)
    assert rows_of(bench.path, "select kind, count(*) from entry group by kind") == [("reserve", 4), ("void", 4)]


# -- what providers do


def test_one_bad_request_does_not_take_the_others_with_it(bench: Bench) -> None:
    """A job that is refused whole is sent in smaller parts until the request at fault stands alone, and is given up."""

    class Picky(FakeJobs):
        async def submit(self, requests: Sequence[Request], *, token: str, timeout_s: float) -> str | Failure:
            if any("row 3" in str(request.payload) for request in requests):
                return Failure(cause=Cause.REJECTED, billable=Billable.NO, detail="bad line")
            return await super().submit(requests, token=token, timeout_s=timeout_s)

    bench.jobs, bench.rows, bench.limits = Picky, 8, replace(LIMITS, requests=100)
    assert virtual.run(bench.run()) == DONE
    lost = {item for (_, item), outcome in bench.flow.outcomes.items() if isinstance(outcome, Lost)}
    assert lost == {"r3"}
    assert bench.flow.complete
    assert bench.spend() == (7 * COST, 0, 0)


def test_too_much_enqueued_waits_for_another_job_to_end(bench: Bench) -> None:
    """The provider allows one job at a time: what it refuses goes when the one before has ended, at no try's cost."""

    class One(FakeJobs):
        async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
            now, mine = asyncio.get_running_loop().time(), self.batches.jobs[job]
            if any(other.ends_at > now and other.ends_at < mine.ends_at for other in self.batches.jobs.values()):
                mine.whole = "over quota"
                mine.ends_at = now
            return await super().look(job, timeout_s=timeout_s)

    bench.jobs, bench.rows, bench.limits = One, 9, replace(LIMITS, requests=3)
    bench.spec = replace(bench.spec, attempts_max=1)
    assert virtual.run(bench.run()) == DONE
    ends = [job.ends_at for job in bench.batches.jobs.values() if not job.whole]
    assert ends[-1] < 600  # at once, when there is room
    assert bench.flow.complete
    assert not any(isinstance(outcome, Lost) for outcome in bench.flow.outcomes.values())
    assert bench.batches.findings == []


def test_a_job_that_cannot_be_looked_at_is_left_standing(bench: Bench) -> None:
    """After ten minutes of failures the run ends without it, says so, and forfeits nothing; the next run collects it."""

    class Blind(FakeJobs):
        async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
            return Failure(cause=Cause.REJECTED, billable=Billable.NO, status=404, detail="no such batch")

    bench.jobs = Blind
    first = virtual.run(bench.run())
    assert first.code is Exit.PROVIDER
    assert first.reason is not None
    assert first.reason.startswith(
        "lab: job 1 cannot be looked at: rejected (http 404): no such batch; 4 calls are in jobs"
    )
    assert bench.spend()[1] == 0
    assert rows_of(bench.path, "select detail from job") == [("rejected (http 404): no such batch",)]
    bench.jobs = FakeJobs
    assert virtual.run(_later(bench)) == DONE
    assert bench.sizes == [4]


def test_cells_that_come_after_their_job_was_left_stay_pending(bench: Bench) -> None:
    """A job taken over cannot be looked at, and some of its cells come behind slow calls: the run does not wait for itself."""

    class Blind(FakeJobs):
        async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
            return Failure(cause=Cause.OVERLOADED, billable=Billable.NO)

    bench.rows, bench.limits = 20, replace(LIMITS, requests=100)
    virtual.run(bench.run(stops=[30.0]))
    bench.jobs, bench.arms, bench.pause = Blind, (Arm(name="b", model=B), Arm(name="a", model=A)), 900.0
    bench.spec = replace(bench.spec, concurrency=1)
    assert virtual.run(bench.run()).code is Exit.PROVIDER
    assert len(bench.flow.outcomes) == 20  # all of b's
    assert len(bench.flow.abandoned) == 20
    assert bench.sizes == [20]


def test_a_submit_without_an_answer_is_not_repeated_while_it_cannot_be_found_out(bench: Bench) -> None:
    """The list of jobs does not answer: nothing is sent anew, the holds stay, and the reason tells."""

    class Mute(FakeJobs):
        async def _submit(self, requests: Sequence[Request], token: str, timeout_s: float) -> str | Failure:
            self.batches.take(requests, token)
            return Failure(cause=Cause.TIMED_OUT, billable=Billable.UNKNOWN)

        async def find(
            self, requests: Sequence[Request], *, token: str, since: float, known: Collection[str], timeout_s: float
        ) -> str | Look | Failure | None:
            return Failure(cause=Cause.OVERLOADED, billable=Billable.UNKNOWN)

    bench.jobs = Mute
    ending = virtual.run(bench.run())
    assert ending.code is Exit.PROVIDER
    assert "4 calls are in jobs at lab" in (ending.reason or "")
    assert bench.states() == ["submitting"]
    assert bench.sizes == [4]
    bench.jobs = FakeJobs
    assert virtual.run(_later(bench)) == DONE
    assert bench.sizes == [4]


def test_a_job_that_shows_only_later_is_waited_for(bench: Bench) -> None:
    """A submit without an answer, and other jobs must end before the provider can tell: that takes hours, and is no failure; the
    provider is told which jobs are certain, also those of earlier processes.
    """
    asked: list[Collection[str]] = []

    class Slow(FakeJobs):
        async def _submit(self, requests: Sequence[Request], token: str, timeout_s: float) -> str | Failure:
            self.batches.take(requests, token)
            return Failure(cause=Cause.TIMED_OUT, billable=Billable.UNKNOWN)

        async def find(
            self, requests: Sequence[Request], *, token: str, since: float, known: Collection[str], timeout_s: float
        ) -> str | Look | Failure | None:
            asked.append(known)
            if asyncio.get_running_loop().time() < 8000:
                return Look(ended=False, told="another is at work")
            return await super().find(requests, token=token, since=since, known=known, timeout_s=timeout_s)

    virtual.run(bench.run(stops=[30.0]))
    bench.jobs, bench.rows = Slow, 7
    assert virtual.run(bench.run()) == DONE
    assert bench.flow.complete
    assert bench.sizes == [4, 3]
    assert set(map(frozenset, asked)) == {frozenset({"remote-1"})}
    assert bench.batches.findings == []


def test_a_key_that_is_not_taken_closes_the_provider_and_its_jobs_stand(bench: Bench) -> None:
    """A 401 on the way: exit 9, the job with its holds waits for a key that works."""

    class Locked(FakeJobs):
        async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
            return Failure(cause=Cause.UNAUTHORISED, billable=Billable.NO, status=401)

    bench.jobs = Locked
    first = virtual.run(bench.run())
    assert first.code is Exit.PROVIDER
    assert bench.states() == ["submitted"]
    bench.jobs = FakeJobs
    assert virtual.run(_later(bench)) == DONE


@pytest.mark.parametrize("stops", [(), (30.0,)], ids=["while it runs", "before it is collected"])
def test_what_a_cancelled_job_did_not_do_is_asked_again(bench: Bench, stops: tuple[float, ...]) -> None:
    """Somebody cancels a job at the provider: what it did is kept, the rest goes in another, whether its cells came before the
    results or after them; a try counts.
    """

    class Cancelled(FakeJobs):
        async def collect(
            self, job: str, requests: Sequence[Request], *, timeout_s: float
        ) -> Mapping[RequestKey, Answer] | Failure:
            remote = self.batches.jobs[job]
            if job == "remote-1":
                remote.fates.update(dict.fromkeys([request.key for request in remote.requests[1:]], "cancelled"))
            return await super().collect(job, requests, timeout_s=timeout_s)

    bench.jobs = Cancelled
    if stops:
        virtual.run(bench.run(stops=stops))
    assert virtual.run(_later(bench)) == DONE
    assert bench.sizes == [4, 3]
    assert all(isinstance(outcome, Kept) for outcome in bench.flow.outcomes.values())
    assert bench.spend() == (4 * COST, 0, 0)
    assert bench.batches.findings == []


@pytest.mark.parametrize("status", [404, 405])
def test_where_there_is_no_batch_api_the_lane_closes_at_once(bench: Bench, status: int) -> None:
    """The address does not know a submit, or the model: one submit, exit 9 with the provider's words, nothing held, cells
    pending; other models of the provider go on, by calls and in jobs.
    """
    submits: list[int] = []

    class Absent(FakeJobs):
        async def submit(self, requests: Sequence[Request], *, token: str, timeout_s: float) -> str | Failure:
            if requests[0].payload["model"] != "id-a":
                return await super().submit(requests, token=token, timeout_s=timeout_s)
            submits.append(len(requests))
            return Failure(cause=Cause.REJECTED, billable=Billable.NO, status=status, detail="no such path")

    bench.jobs, bench.rows, bench.limits = Absent, 20, replace(LIMITS, requests=8)
    bench.arms = (Arm(name="a", model=A), Arm(name="b", model=B), Arm(name="c", model=replace(A, name="c", model="c")))
    ending = virtual.run(bench.run())
    assert ending.code is Exit.PROVIDER
    assert ending.reason == f"lab: jobs of model a are not taken: rejected (http {status}): no such path"
    assert submits == [8]
    assert {condition for condition, _ in bench.flow.outcomes} == {"solve/b@rows", "solve/c@rows"}
    assert len(bench.flow.outcomes) == 40
    assert bench.spend()[2] == 0
    assert set(bench.states()) == {"ended"}


# -- other runs


@pytest.mark.parametrize("lane", ["batch", None])
def test_calls_in_a_job_that_nobody_collects_stay_pending(bench: Bench, lane: str | None) -> None:
    """Another experiment's stopped run left them in a job: this one does not wait for ever, and says whose they are."""
    virtual.run(bench.run(stops=[30.0]))
    other = replace(bench, name="other", rows=5)
    other.arms = (Arm(name="a", model=A if lane else replace(A, lane=None)),)
    ending = virtual.run(other.run())
    assert ending.code is Exit.PROVIDER
    assert "job 1 of experiment e at lab" in (ending.reason or "")
    assert list(other.flow.outcomes) == [("solve/a@rows", "r4")]
    assert virtual.run(_later(bench)) == DONE
    assert virtual.run(other.run()) == DONE


def test_money_in_a_job_that_nobody_collects_is_not_waited_for(bench: Bench) -> None:
    """All that is left of a shared budget is held by another experiment's standing job: the run ends and says so."""
    bench.caps = (Cap("nanos", "total", "", 5 * NEED),)
    virtual.run(bench.run(stops=[30.0]))
    other = replace(bench, name="other", arms=(Arm(name="b", model=B),), rows=2)
    ending = virtual.run(other.run())
    assert ending.code is Exit.EXHAUSTED
    assert "held by jobs of experiment e at lab" in (ending.reason or "")


def test_a_job_is_collected_at_its_price_though_the_lane_was_left(bench: Bench) -> None:
    """Who takes the lane out of the file between two runs still pays what the job was reserved at."""
    virtual.run(bench.run(stops=[30.0]))
    bench.arms = (Arm(name="a", model=replace(A, lane=None)),)
    assert virtual.run(_later(bench)) == DONE
    assert bench.flow.complete
    assert bench.spend() == (4 * COST, 0, 0)


def test_a_job_is_collected_though_its_model_has_another_name(bench: Bench) -> None:
    """A name is the experiment's own: what the provider calls the model says whose results they are, and at what price."""
    virtual.run(bench.run(stops=[30.0]))
    bench.arms = (Arm(name="a", model=replace(A, name="renamed")),)
    assert virtual.run(_later(bench)) == DONE
    assert bench.flow.complete
    assert (bench.sizes, bench.spend()) == ([4], (4 * COST, 0, 0))


@pytest.mark.parametrize("lane", ["batch", None])
def test_a_job_of_a_model_that_is_gone_is_left_and_told(bench: Bench, lane: str | None) -> None:
    """Its name means another model now: its results are not settled at that one's price; it stands with its holds, and once it is
    told how to be rid of it.
    """
    virtual.run(bench.run(stops=[30.0]))
    bench.arms = (Arm(name="a", model=replace(A, model="dearer", lane=lane)),)
    assert virtual.run(_later(bench)) == DONE
    assert bench.states()[0] == "submitted"
    assert bench.spend()[2] == 4 * NEED
    told = [line for line in bench.progress.news if "is left" in line]
    assert told == ["job 1 at lab is left: no model of this experiment is id-a there now; judgerun jobs e"]
    bench.arms = (Arm(name="a", model=A),)
    assert virtual.run(_later(bench)) == DONE
    assert bench.spend()[2] == 0
    assert sorted(bench.sizes) == ([4, 4] if lane else [4])


def test_calls_in_a_job_of_another_are_told_once(bench: Bench) -> None:
    """Many cells wait for one job that only another experiment can collect: one line tells of it."""
    virtual.run(bench.run(stops=[30.0]))
    other = replace(bench, name="other")
    virtual.run(other.run())
    assert len([line for line in other.progress.news if "no process collects it" in line]) == 1


def test_a_second_process_waits_for_the_keys_of_a_living_one(bench: Bench) -> None:
    """Two runs of one experiment: each request is in one job, and both end."""

    async def both() -> list[Ending]:
        other = replace(bench)
        first = asyncio.ensure_future(bench.run())
        await asyncio.sleep(20)
        return [await other.run(), await first]

    assert virtual.run(both()) == [DONE, DONE]
    assert bench.sizes == [4]


# -- trays


@given(
    ranks=st.lists(st.integers(0, 50), min_size=1, max_size=40, unique=True),
    most=st.integers(1, 9),
    size=st.integers(1, 2000),
    draws=st.lists(st.integers(1, 5), max_size=20),
)
def test_a_tray_gives_its_cells_in_plan_order_within_the_limits(
    ranks: list[int], most: int, size: int, draws: list[int]
) -> None:
    """Whatever is drawn and put back: the first come first, no part passes a limit, and nothing is lost."""
    tray = Tray(model=A, limits=JobLimits(requests=most, bytes=size, factor="1"))
    for rank in ranks:
        cell = chat(A, f"row {rank}", stage="s", condition="s/a@rows", item=str(rank), rank=(rank,))
        tray.add(cell, bytes=100 + rank)
    for number in draws:
        tray.back(tray.draw(Part(requests_max=most, bytes_max=size, tokens_max=None, alone=True), number))
    seen: list[int] = []
    while tray.size:
        part = Part(requests_max=most, bytes_max=size, tokens_max=None, alone=True)
        while found := tray.draw(part, 4):
            for entry in found:
                part.put(entry)
            seen += [entry.rank[0] for entry in found]
        assert part.requests <= most
        assert part.bytes <= size or part.requests == 1
    assert seen == sorted(ranks)
    assert (tray.bytes, tray.tokens) == (0, 0)


def test_a_tray_drops_what_has_lost_its_purpose() -> None:
    """What is said to be out is given back to be left pending, and counts no more."""
    tray = Tray(model=A, limits=LIMITS)
    for rank in range(6):
        cell = chat(A, f"row {rank}", stage="s", condition=f"s/{rank % 2}", item=str(rank), rank=(rank,))
        tray.add(cell, bytes=100)
    assert sorted(cell.id for cell in tray.drop(lambda cell: cell.condition == "s/0")) == ["0", "2", "4"]
    assert (tray.size, tray.bytes, tray.first.cell.id) == (3, 300, "1")
