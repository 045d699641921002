"""The Jobs port over real HTTP against the three batch APIs of the simulated provider: handed over once, told truly, lost never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from fakes.serving import serving
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Failure, Finish
from judgerun.model.request import Request, RequestKey, build
from judgerun.ports import Answer, Look, Provider
from judgerun.providers.jobs.flow import PAGE
from judgerun.providers.open import connect
from judgerun.simulate import virtual
from judgerun.simulate.bill import Bill
from judgerun.simulate.dialects import BASES
from judgerun.simulate.jobs.engine import JOB_S
from judgerun.simulate.law import Law
from judgerun.simulate.server import Simulator

NOW = 1_800_000_000.0
N = 8
LAWS = {"judge-a": Law(error=0.0, cached=0.0), "embedder": Law(error=0.0, cached=0.0, dimensions=16)}
TOKEN = "f00d" * 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Way:
    """A dialect, and what is sent."""

    dialect: str
    kind: str = "chat"

    def __str__(self) -> str:
        return f"{self.dialect} {self.kind}"

    def request(self, n: int) -> Request:
        """One of many requests."""
        adapter = f"{self.dialect}/1"
        if self.kind == "embed":
            payload: dict[str, Any] = {"model": "embedder", "text": f"lamp {n}", "role": "document"}
            return build("embed", payload, deployment="sim", adapter=adapter, draw=0)
        messages = [{"role": "user", "content": f"{n}: is it so? Answer YES or NO."}]
        payload = {"model": "judge-a", "messages": messages, "max_output_tokens": 100}
        return build("chat", payload, deployment="sim", adapter=adapter, draw=0)

    def requests(self, n: int = N) -> list[Request]:
        """Several of them."""
        return [self.request(number) for number in range(n)]


WAYS = [Way("openai"), Way("openai", "embed"), Way("openai-responses"), Way("anthropic"), Way("google")]
ways = pytest.mark.parametrize("way", WAYS, ids=str)
apis = pytest.mark.parametrize("way", [Way("openai"), Way("anthropic"), Way("google")], ids=str)


class World:
    """A simulated provider in virtual time, and a process that speaks to it."""

    def __init__(self, way: Way, simulator: Simulator, provider: Provider) -> None:
        assert provider.jobs is not None
        self.way, self.simulator, self.provider, self.jobs = way, simulator, provider, provider.jobs

    @property
    def charged(self) -> set[str]:
        """The lines that were charged."""
        return {row["line"] for row in self.simulator.bill.rows if row["billed"]}

    async def submit(self, n: int = N, *, token: str = TOKEN) -> str:
        """Hand over a job that is taken."""
        job = await self.jobs.submit(self.way.requests(n), token=token, timeout_s=60.0)
        assert isinstance(job, str), job
        return job

    async def find(self, n: int = N, *, token: str = TOKEN, known: tuple[str, ...] = ()) -> str | Look | Failure | None:
        """Ask for a job."""
        return await self.jobs.find(self.way.requests(n), token=token, since=NOW, known=known, timeout_s=60.0)

    async def collect(self, job: str, n: int = N) -> Mapping[RequestKey, Answer]:
        """What became of a job that has ended, or ends soon."""
        await asyncio.sleep(JOB_S * 2)
        look = await self.jobs.look(job, timeout_s=60.0)
        assert not isinstance(look, Failure)
        assert (look.ended, look.failure) == (True, None)
        answers = await self.jobs.collect(job, self.way.requests(n), timeout_s=60.0)
        assert not isinstance(answers, Failure)
        return answers


@asynccontextmanager
async def process(way: Way, url: str) -> AsyncIterator[Provider]:
    """A provider as a run has it: of nothing that another did it knows."""
    base = url.removesuffix("/v1") + BASES[way.dialect][0]
    deployment = Deployment(name=way.dialect, dialect=way.dialect, base_url=base, identity="sim", builtin=True)
    provider = connect([deployment], [Model(name="m", provider=deployment, model="m")], {})[way.dialect]
    yield provider
    await provider.aclose()


def run(way: Way, play: Callable[[World], Awaitable[T]], *, fault: str = "") -> T:
    """Play against a simulator on which this fault befalls every submit (and, where it is one of calls, every call)."""

    async def main() -> T:
        start = asyncio.get_running_loop().time()
        simulator = Simulator(
            seed=1,
            models=LAWS,
            faults={fault: 1.0} if fault else {},
            bill=Bill(),
            wall=lambda: NOW + asyncio.get_running_loop().time() - start,
        )
        async with serving(simulator) as url, process(way, url) as provider:
            return await play(World(way, simulator, provider))

    return virtual.run(main())


def failures(answers: Mapping[RequestKey, Answer]) -> list[Failure]:
    """Those of the answers that are none."""
    return [answer.failure for answer in answers.values() if answer.failure is not None]


@ways
def test_a_job_says_of_each_request_what_a_call_would_have_said(way: Way) -> None:
    """The same text or vector, finish, model and usage; the books of the provider hold every line once."""

    async def play(world: World) -> None:
        answers = await world.collect(await world.submit())
        assert world.charged == {request.key.hex() for request in way.requests()}
        assert answers.keys() == {request.key for request in way.requests()}
        for request in way.requests():
            alone = await world.provider.send([request], timeout_s=60.0, attempt=1)
            (reply,), (single,) = answers[request.key].replies, alone.replies
            assert (reply.text, reply.vector, reply.finish) == (single.text, single.vector, single.finish)
            assert (reply.usage, reply.served_model) == (single.usage, single.served_model)
            assert reply.finish is Finish.STOP

    run(way, play)


@ways
def test_a_job_ends_after_its_time_and_is_told_in_the_providers_word(way: Way) -> None:
    """Until then there is nothing to collect."""

    async def play(world: World) -> None:
        job = await world.submit()
        first = await world.jobs.look(job, timeout_s=60.0)
        await asyncio.sleep(JOB_S + 1)
        last = await world.jobs.look(job, timeout_s=60.0)
        assert not isinstance(first, Failure)
        assert not isinstance(last, Failure)
        assert (first.ended, last.ended, last.failure) == (False, True, None)
        assert first.told != last.told

    run(way, play)


@apis
def test_what_is_collected_too_early_is_no_result(way: Way) -> None:
    """A job that is at work has no silent requests: it is asked again."""

    async def play(world: World) -> None:
        job = await world.submit()
        assert isinstance(await world.jobs.collect(job, way.requests(), timeout_s=60.0), Failure)

    run(way, play)


@ways
def test_size_is_the_bytes_that_a_request_takes(way: Way) -> None:
    """The sum of the sizes is the size of what is uploaded, up to its frame, which is the same for any number of requests."""
    sent: list[int] = []

    async def play(world: World) -> int:
        return sum(world.jobs.size(request) for request in way.requests())

    total = run(way, play)

    async def upload(world: World) -> None:
        inner = world.jobs._http  # type: ignore[attr-defined] # what goes out is counted where it goes out
        whole = inner.send

        async def send(call: Any, **given: Any) -> Any:
            sent.append(len(call.body))
            return await whole(call, **given)

        inner.send = send
        await world.submit()

    run(way, upload)
    assert 0 <= sent[0] - total <= 400


@ways
def test_requests_that_failed_are_told_and_the_others_kept(way: Way) -> None:
    """An error of a line is classed as an error of a call would be, and nothing is charged for it."""

    async def play(world: World) -> None:
        answers = await world.collect(await world.submit())
        told = failures(answers)
        assert len(answers) == N
        assert 0 < len(told) < N
        assert {(one.cause, one.billable) for one in told} == {(Cause.OVERLOADED, Billable.NO)}
        assert {key.hex() for key, answer in answers.items() if answer.replies} == world.charged

    run(way, play, fault="job_partial")


@ways
def test_a_job_that_expired_keeps_what_was_done(way: Way) -> None:
    """The rest is told to have run out of time, uncharged; so is all of a job whose provider gives nothing of it."""

    async def play(world: World) -> None:
        answers = await world.collect(await world.submit())
        told = failures(answers)
        assert len(answers) == N
        assert {(one.cause, one.billable) for one in told} == {(Cause.TIMED_OUT, Billable.NO)}
        assert len(told) == (N if way.dialect == "google" else N // 2)
        assert {key.hex() for key, answer in answers.items() if answer.replies} == world.charged

    run(way, play, fault="job_expire")


@ways
def test_a_job_that_was_cancelled_keeps_what_was_done(way: Way) -> None:
    """The rest is told to have been interrupted, uncharged."""

    async def play(world: World) -> None:
        job = await world.submit()
        await asyncio.sleep(JOB_S / 2 + 1)
        assert await world.jobs.cancel(job, timeout_s=60.0) is None
        answers = await world.collect(job)
        told = failures(answers)
        assert len(answers) == N
        assert 0 < len(told) < N
        assert {(one.cause, one.billable) for one in told} == {(Cause.INTERRUPTED, Billable.NO)}
        assert {key.hex() for key, answer in answers.items() if answer.replies} == world.charged

    run(way, play)


@pytest.mark.parametrize("way", [way for way in WAYS if way.dialect != "anthropic"], ids=str)
def test_a_job_that_was_refused_whole_for_a_limit_asks_for_patience(way: Way) -> None:
    """Nothing of it was done."""

    async def play(world: World) -> None:
        job = await world.submit()
        await asyncio.sleep(JOB_S + 1)
        look = await world.jobs.look(job, timeout_s=60.0)
        assert not isinstance(look, Failure)
        assert look.ended
        assert look.failure is not None
        assert (look.failure.cause, look.failure.billable) == (Cause.RATE_LIMITED, Billable.NO)
        assert "nqueued token" in look.failure.detail
        assert world.charged == set()

    run(way, play, fault="job_fail")


def test_a_batch_of_anthropic_is_refused_when_it_is_handed_over() -> None:
    """It certainly does not exist."""
    way = Way("anthropic")

    async def play(world: World) -> None:
        said = await world.jobs.submit(way.requests(), token=TOKEN, timeout_s=60.0)
        assert isinstance(said, Failure)
        assert (said.cause, said.billable) == (Cause.RATE_LIMITED, Billable.NO)
        assert await world.find() is None

    run(way, play, fault="job_fail")


@ways
def test_a_request_on_which_the_results_are_silent_is_not_among_the_answers(way: Way) -> None:
    """It may have been done, and was: nobody may take it for undone."""

    async def play(world: World) -> None:
        answers = await world.collect(await world.submit())
        assert len(answers) == N - 1
        assert len(world.charged) == N

    run(way, play, fault="job_missing_line")


@ways
def test_a_line_that_stands_twice_counts_once(way: Way) -> None:
    """One answer for each request."""

    async def play(world: World) -> None:
        answers = await world.collect(await world.submit())
        assert len(answers) == N
        assert failures(answers) == []

    run(way, play, fault="job_duplicate_line")


@ways
def test_of_a_job_only_the_requests_that_are_asked_for_are_told(way: Way) -> None:
    """Those of which the answers are kept already are passed over."""

    async def play(world: World) -> None:
        answers = await world.collect(await world.submit(), n=3)
        assert answers.keys() == {request.key for request in way.requests(3)}

    run(way, play)


@ways
def test_a_job_whose_submit_was_lost_is_found_and_collected(way: Way) -> None:
    """By another process too; asking twice finds the same one, and asking for another token or other requests finds none."""

    async def play(world: World) -> None:
        said = await world.jobs.submit(way.requests(), token=TOKEN, timeout_s=60.0)
        assert isinstance(said, Failure)
        assert said.billable is Billable.UNKNOWN
        await asyncio.sleep(JOB_S + 1)
        found = await world.find()
        assert isinstance(found, str)
        assert await world.find() == found
        assert await world.find(3, token="beef" * 8) is None
        assert len(await world.collect(found)) == N

    run(way, play, fault="job_submit_lost")


@ways
def test_a_job_that_never_was_is_not_found(way: Way) -> None:
    """Among others, and in an empty list."""

    async def play(world: World) -> None:
        assert await world.find() is None
        await world.submit(3, token="beef" * 8)
        assert await world.find() is None

    run(way, play)


@apis
def test_a_job_is_found_on_a_later_page_of_the_list(way: Way) -> None:
    """Behind more jobs than a page holds; one that is older than the time asked for may stay unfound."""

    async def play(world: World) -> None:
        said = await world.jobs.submit(way.requests(), token=TOKEN, timeout_s=60.0)
        assert isinstance(said, Failure)
        world.simulator.faults.clear()
        for n in range(PAGE + 5):
            await world.submit(1 + n % 3, token=f"{n:032x}")
        await asyncio.sleep(JOB_S + 1)
        assert isinstance(await world.find(), str)

    run(way, play, fault="job_submit_lost")


def test_a_batch_of_anthropic_that_cannot_be_told_apart_yet_is_never_none() -> None:
    """While a batch of as many requests is at work, nothing may be handed over again; when it has ended, its results tell."""
    way = Way("anthropic")

    async def play(world: World) -> None:
        await world.jobs.submit(way.requests(), token=TOKEN, timeout_s=60.0)
        said = await world.find()
        assert isinstance(said, Look)
        assert (said.ended, "may be this job" in said.told) == (False, True)
        assert await world.find(N - 1) is None  # another number of requests cannot be it
        await asyncio.sleep(JOB_S + 1)
        assert isinstance(await world.find(), str)
        others = [way.request(n) for n in range(N, 2 * N)]
        assert await world.jobs.find(others, token="beef" * 8, since=NOW, known=(), timeout_s=60.0) is None

    run(way, play, fault="job_submit_lost")


def test_a_batch_of_anthropic_that_is_known_under_another_token_is_not_it() -> None:
    """What was handed over for sure is told apart, though it is at work and as large."""
    way = Way("anthropic")

    async def play(world: World) -> None:
        other = await world.submit(token="beef" * 8)
        assert isinstance(await world.find(), Look)
        assert await world.find(known=(other,)) is None

    run(way, play)


@apis
@pytest.mark.parametrize(
    ("fault", "cause", "billable"),
    [
        ("429", Cause.RATE_LIMITED, Billable.NO),
        ("401", Cause.UNAUTHORISED, Billable.NO),
        ("529", Cause.OVERLOADED, Billable.NO),
        ("quota", Cause.QUOTA, Billable.NO),
    ],
)
def test_a_submit_that_was_refused_leaves_nothing(way: Way, fault: str, cause: Cause, billable: Billable) -> None:
    """Its failure says why, as a call's would."""

    async def play(world: World) -> None:
        said = await world.jobs.submit(way.requests(), token=TOKEN, timeout_s=60.0)
        assert isinstance(said, Failure)
        assert (said.cause, said.billable) == (cause, billable)
        world.simulator.faults.clear()
        assert await world.find() is None

    run(way, play, fault=fault)


@apis
@pytest.mark.parametrize(
    "fault", ["500", "504", "drop_after", "garbage", "truncated", "drop_mid", "stall", "error_200"]
)
def test_a_submit_that_broke_leaves_a_job_in_doubt_where_one_may_be(way: Way, fault: str) -> None:
    """Openai's upload comes first: where that broke, no job was made; else the answer to `find` is what is there."""

    async def play(world: World) -> None:
        said = await world.jobs.submit(way.requests(), token=TOKEN, timeout_s=60.0)
        assert isinstance(said, Failure)
        assert said.billable is (Billable.NO if way.dialect == "openai" else Billable.UNKNOWN)
        world.simulator.faults.clear()
        await asyncio.sleep(JOB_S + 1)
        assert await world.find() == next(iter(world.simulator.engine.jobs), None)

    run(way, play, fault=fault)


@apis
@pytest.mark.parametrize(
    "fault", ["500", "502", "504", "drop_before", "drop_mid", "garbage", "truncated", "error_200", "429"]
)
def test_a_question_that_broke_is_a_failure_and_no_answer(way: Way, fault: str) -> None:
    """Neither is a job taken for ended or absent, nor its requests for undone."""

    async def play(world: World) -> None:
        job = await world.submit()
        await asyncio.sleep(JOB_S + 1)
        world.simulator.faults[fault] = 1.0
        assert isinstance(await world.find(), Failure)
        assert isinstance(await world.jobs.look(job, timeout_s=60.0), Failure)
        assert isinstance(await world.jobs.cancel(job, timeout_s=60.0), Failure)
        assert isinstance(await world.jobs.collect(job, way.requests(), timeout_s=60.0), Failure)

    run(way, play)
