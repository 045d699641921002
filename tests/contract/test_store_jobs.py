"""The Store port's part in the batch lane: one suite, run on every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.test_store import World, open_store
from fakes.store import HandClock, budget, chat, claim, forfeit, reply, settle, void
from judgerun.errors import InvariantBroken
from judgerun.ledger.budget import Cap
from judgerun.ledger.entry import Decision
from judgerun.model.kept import Kept
from judgerun.ports import Enlisted, JobState, Place, Spend, Store, Window

PLACE = Place("lab", "lab-address", "m")


@pytest.fixture(params=["memory", "inline", "aiosqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A cache entered for the experiment `utility` under 1,000 nanos."""
    clock, path = HandClock(), tmp_path / "cache.db"
    made = World(request.param, path, clock, await open_store(request.param, path, clock))
    await made.store.enter(experiment="utility", budget=budget(total=1000))
    yield made
    await made.store.aclose()


async def enlisted(store: Store, *numbers: int, token: str = "t", nanos: int = 100) -> Enlisted:
    """Reserve so many requests for a job."""
    return await store.enlist([claim(chat(n), nanos=nanos) for n in numbers], token=token, deployment="lab-address")


async def submitted(store: Store, *numbers: int, token: str = "t", remote: str = "remote") -> int:
    """A job that the provider has."""
    job = (await enlisted(store, *numbers, token=token)).job
    assert job is not None
    await store.move(job, JobState.SUBMITTING)
    await store.move(job, JobState.SUBMITTED, remote=remote)
    return job


async def test_a_job_holds_the_money_of_each_request(world: World) -> None:
    """Each request has its own attempt and hold, in the order of the claims; the job is made once for its token."""
    store = world.store
    first, second = await enlisted(store, 1, 2), await enlisted(store, 3)
    assert first.job == second.job
    assert [grant.decision for grant in first.grants] == [Decision.RESERVED] * 2
    assert store.standing().experiment == Spend(held=300)
    assert first.job is not None
    lines = store.lines(first.job)
    assert [line.key for line in lines] == [chat(n).key for n in (1, 2, 3)]
    assert [line.attempt for line in lines] == [grant.attempt for grant in (*first.grants, *second.grants)]
    assert {(line.stage, line.condition, line.need.nanos, line.bound_by) for line in lines} == {
        ("pick", "pick/m@rows", 100, "bytes")
    }
    assert store.request(chat(2).key) == chat(2)
    with pytest.raises(KeyError):
        store.request(chat(9).key)
    world.check(1000)


async def test_claims_stop_at_the_first_that_must_wait(world: World) -> None:
    """What is held or kept is passed over; at the first claim that the caps refuse nothing more is tried, though it would fit."""
    store = world.store
    kept = (await store.reserve(claim(chat(1)))).attempt
    assert kept is not None
    await store.close(settle(kept, (chat(1), reply(), 60)))
    await store.reserve(claim(chat(2)))
    asked = [
        claim(chat(1)),
        claim(chat(2)),
        claim(chat(3), nanos=800),
        claim(chat(4), nanos=100),
        claim(chat(5), nanos=10),
    ]
    said = await store.enlist(asked, token="t", deployment="lab-address")
    decisions = [grant.decision for grant in said.grants]
    assert decisions == [Decision.KEPT, Decision.HELD, Decision.RESERVED, Decision.WAIT]
    again = await store.enlist([claim(chat(6), nanos=950)], token="u", deployment="lab-address")
    assert ([grant.decision for grant in again.grants], again.job) == ([Decision.EXHAUSTED], None)
    world.check(1000)


async def test_an_attempt_of_a_job_is_closed_like_any_other(world: World) -> None:
    """Settled, void or forfeited, once, several in one commit; the job ends when nothing of it is open."""
    store = world.store
    job = await submitted(store, 1, 2, 3)
    one, two, three = (line.attempt for line in store.lines(job))
    await store.close_all([settle(one, (chat(1), reply("seven"), 60)), void(two)])
    assert [line.attempt for line in store.lines(job)] == [three]
    with pytest.raises(InvariantBroken, match="open attempts"):
        await store.move(job, JobState.ENDED)
    with pytest.raises(InvariantBroken):
        await store.close_all([forfeit(three), settle(one, nanos=1)])
    assert [line.attempt for line in store.lines(job)] == [three]  # both or neither
    await store.close_all([forfeit(three)])
    await store.move(job, JobState.ENDED)
    assert store.standing().experiment == Spend(settled=60, forfeited=100)
    kept = store.lookup(chat(1).key)
    assert isinstance(kept, Kept)
    assert kept.attempt == one
    world.check(1000)


FOLLOWS = {
    JobState.FILLING: {JobState.SUBMITTING, JobState.ENDED},
    JobState.SUBMITTING: {JobState.SUBMITTED, JobState.ENDED},
    JobState.SUBMITTED: {JobState.SUBMITTED, JobState.ENDED},
    JobState.ENDED: set(),
}
WAY = {
    JobState.FILLING: [],
    JobState.SUBMITTING: [JobState.SUBMITTING],
    JobState.SUBMITTED: [JobState.SUBMITTING, JobState.SUBMITTED],
    JobState.ENDED: [JobState.ENDED],
}


@pytest.mark.parametrize("now", JobState)
@pytest.mark.parametrize("wanted", JobState)
async def test_which_state_may_follow_which(world: World, now: JobState, wanted: JobState) -> None:
    """A job goes one way: what was sent is never filled again, what has ended stays ended."""
    store = world.store
    said = await enlisted(store, 1)
    assert said.job is not None
    assert said.grants[0].attempt is not None
    await store.close(void(said.grants[0].attempt))
    for state in WAY[now]:
        await store.move(said.job, state, remote="r" if state is JobState.SUBMITTED else None)
    if wanted in FOLLOWS[now]:
        await store.move(said.job, wanted, remote="r" if wanted is JobState.SUBMITTED else None)
    else:
        with pytest.raises(InvariantBroken, match=f"from {now} to {wanted}"):
            await store.move(said.job, wanted, remote="r")


async def test_nothing_is_added_once_it_may_have_been_sent(world: World) -> None:
    """A job that is being submitted takes no further claim."""
    job = (await enlisted(world.store, 1)).job
    assert job is not None
    await world.store.move(job, JobState.SUBMITTING)
    with pytest.raises(InvariantBroken, match="can take no more"):
        await enlisted(world.store, 2)
    assert world.store.standing().experiment == Spend(held=100)


async def test_an_orderly_end_leaves_submitted_jobs_and_voids_what_was_not_sent(world: World) -> None:
    """`leave` forfeits calls, voids a job that is being filled, and lets submitted and doubtful ones stand with their holds; the
    next owner of the experiment takes these over, once.
    """
    store = world.store
    await store.reserve(claim(chat(1)))
    sent, doubtful = await submitted(store, 2, token="a"), (await enlisted(store, 3, token="b")).job
    assert doubtful is not None
    await store.move(doubtful, JobState.SUBMITTING)
    await enlisted(store, 4, token="c")
    await store.leave({}, {})
    await store.enter(experiment="utility", budget=budget(total=1000))
    assert store.standing().experiment == Spend(forfeited=100, held=200)
    assert store.stranded(chat(2).key) == f"job {sent} of experiment utility at lab"
    assert store.stranded(chat(4).key) is None
    found = store.left()
    assert [(job.id, job.state, job.token, job.remote, job.place) for job in found] == [
        (sent, JobState.SUBMITTED, "a", "remote", PLACE),
        (doubtful, JobState.SUBMITTING, "b", None, PLACE),
    ]
    assert await store.adopt([sent, doubtful]) == {sent, doubtful}
    assert (await store.adopt([sent, doubtful]), store.left()) == (set(), ())
    assert store.stranded(chat(2).key) is None
    assert (await store.reserve(claim(chat(2)))).decision is Decision.HELD
    world.check(1000)


async def test_only_jobs_of_the_experiment_are_taken_over(world: World) -> None:
    """Another experiment's job stands; so does one of which this run takes none."""
    store = world.store
    job = await submitted(store, 1)
    await store.leave({}, {})
    await store.enter(experiment="other", budget=budget(total=1000))
    assert (store.left(), await store.adopt([job])) == ((), set())
    assert store.stranded(chat(1).key) == "job 1 of experiment utility at lab"
    await store.leave({}, {})
    await store.enter(experiment="utility", budget=budget(total=1000))
    assert await store.adopt([]) == set()
    assert [held.id for held in store.left()] == [job]
    assert await store.adopt([job]) == {job}


async def test_the_dead_leave_what_was_or_may_have_been_submitted(world: World) -> None:
    """After a crash: calls forfeited, what was being filled void, what was being submitted or had been stands and is taken over."""
    second = await world.second()
    await world.store.reserve(claim(chat(1)))
    await submitted(world.store, 2, token="a")
    doubtful = (await enlisted(world.store, 3, token="b")).job
    assert doubtful is not None
    await world.store.move(doubtful, JobState.SUBMITTING)
    await enlisted(world.store, 4, 5, token="c")
    await second.enter(experiment="utility", budget=budget(total=1000))
    assert await second.recover() == 0  # it lives
    assert (second.left(), await second.adopt([1, 2])) == ((), set())
    assert second.stranded(chat(2).key) is None
    await world.store.aclose()  # without leaving: as killed
    assert await second.recover() == 1
    assert second.standing().experiment == Spend(forfeited=100, held=200)
    left = second.left()
    assert [job.token for job in left] == ["a", "b"]
    assert await second.adopt([job.id for job in left]) == {job.id for job in left}
    assert (await enlisted(second, 4, token="d")).grants[0].decision is Decision.RESERVED
    await second.aclose()


async def test_jobs_count_in_caps_and_not_in_rate_windows(world: World) -> None:
    """A call finds its minute free though a job took three requests; the cap on calls counts them all."""
    store = world.store
    await store.leave({}, {})
    await store.enter(experiment="utility", budget=budget(Cap("calls", "total", "", 4), total=10_000))
    await submitted(store, 1, 2, 3)
    window = Window(provider="lab", model=None, requests_per_minute=1)
    assert (await store.reserve(claim(chat(4), windows=(window,)))).decision is Decision.RESERVED
    assert (await store.reserve(claim(chat(5), windows=(window,)))).decision is Decision.WAIT
    assert [grant.decision for grant in (await enlisted(store, 6, token="u")).grants] == [Decision.WAIT]


async def test_what_is_enqueued(world: World) -> None:
    """The tokens of open attempts in jobs that have not ended, by provider or by one model of it."""
    store = world.store
    job = await submitted(store, 1, 2)
    other = [claim(chat(3), model="n", expected=5), claim(chat(4), model="n", expected=5)]
    await store.enlist(other, token="u", deployment="lab-address")
    assert (store.enqueued("lab", None), store.enqueued("lab", "m"), store.enqueued("lab", "n")) == (30, 20, 10)
    await store.close(void(store.lines(job)[0].attempt))
    assert (store.enqueued("lab", None), store.enqueued("elsewhere", None)) == (20, 0)
