"""The three batch APIs of the simulated provider: how jobs run, what they cost, in which ways they go wrong."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from fakes.serving import serving
from judgerun.simulate import virtual
from judgerun.simulate.bill import Bill, Tariff
from judgerun.simulate.faults import FAULTS, swarm
from judgerun.simulate.jobs.engine import JOB_S
from judgerun.simulate.server import Simulator

T = TypeVar("T")
N = 8
PROMPTS = [f"{n}: is it so? Answer YES or NO." for n in range(N)]
KEYS = [f"k{n}" for n in range(N)]
TARIFF = Tariff(input=1_000_000_000, output=4_000_000_000)
HALF = JOB_S / 2 + JOB_S / N / 2  # the first half of the lines is done, and not one more


class Api:
    """One batch API as a client sees it. `word` says how a job stands, `results` how often each line ended how."""

    base = ""

    def __init__(self, session: aiohttp.ClientSession, root: str) -> None:
        self._session, self._root = session, root + self.base

    async def call(self, method: str, path: str, body: Any = None, **given: Any) -> Any:
        """The JSON of an answer, or its lines."""
        headers = {"anthropic-version": "2023-06-01"}
        data = (
            None
            if body is None
            else body
            if isinstance(body, aiohttp.FormData)
            else json.dumps(body, separators=(",", ":"))
        )
        async with self._session.request(method, self._root + path, data=data, headers=headers, **given) as response:
            text = await response.text()
            self.status = response.status
            return json.loads(text) if text.startswith("{") and "\n" not in text.strip() else _lines(text)

    async def submit(self, prompts: list[str] = PROMPTS, token: str = "t") -> str:
        """Submit the prompts under the keys; the id of the job."""
        raise NotImplementedError

    async def word(self, id: str) -> str:
        raise NotImplementedError

    async def results(self, id: str) -> Counter[tuple[str, str]]:
        raise NotImplementedError

    async def cancel(self, id: str) -> None:
        raise NotImplementedError

    async def listed(self, size: int) -> list[str]:
        """The ids of all jobs, page by page."""
        raise NotImplementedError


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _chat(prompt: str) -> dict[str, Any]:
    return {"model": "judge-a", "messages": [{"role": "user", "content": prompt}], "max_tokens": 50}


class OpenAI(Api):
    base = "/v1"
    words = ("validating", "in_progress", "completed", "failed", "expired", "cancelling", "cancelled")

    async def submit(self, prompts: list[str] = PROMPTS, token: str = "t") -> str:
        made = [
            {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": _chat(prompt)}
            for key, prompt in zip(KEYS, prompts, strict=False)
        ]
        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        form.add_field("file", "\n".join(map(json.dumps, made)), filename="in.jsonl", content_type="application/jsonl")
        file = await self.call("POST", "/files", form)
        body = {
            "input_file_id": file["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"token": token},
        }
        made_job = await self.call("POST", "/batches", body)
        assert (made_job["status"], made_job["metadata"]) == ("validating", {"token": token})
        return str(made_job["id"])

    async def word(self, id: str) -> str:
        return str((await self.call("GET", f"/batches/{id}"))["status"])

    async def results(self, id: str) -> Counter[tuple[str, str]]:
        job = await self.call("GET", f"/batches/{id}")
        found: Counter[tuple[str, str]] = Counter()
        for name in ("output_file_id", "error_file_id"):
            for line in await self._file(job[name]):
                code = (line["error"] or {}).get("code", "")
                good = line["response"] is not None and line["response"]["status_code"] == 200
                end = "succeeded" if good else code.removeprefix("batch_") or "errored"
                found[line["custom_id"], end.replace("cancelled", "canceled")] += 1
        return found

    async def _file(self, id: str) -> list[Any]:
        if not id:
            return []
        told = await self.call("GET", f"/files/{id}/content")
        return told if isinstance(told, list) else [told]

    async def cancel(self, id: str) -> None:
        assert (await self.call("POST", f"/batches/{id}/cancel"))["status"] == "cancelling"

    async def listed(self, size: int) -> list[str]:
        found: list[str] = []
        while True:
            page = await self.call("GET", f"/batches?limit={size}" + (f"&after={found[-1]}" if found else ""))
            found += [job["id"] for job in page["data"]]
            if not page["has_more"]:
                return found


class Anthropic(Api):
    base = "/anthropic/v1"
    words = ("in_progress", "in_progress", "ended", "", "ended", "canceling", "ended")

    async def submit(self, prompts: list[str] = PROMPTS, token: str = "t") -> str:
        made = [{"custom_id": key, "params": _chat(prompt)} for key, prompt in zip(KEYS, prompts, strict=False)]
        job = await self.call("POST", "/messages/batches", {"requests": made})
        assert self.status == 200, job
        assert job["request_counts"]["processing"] == len(made)
        return str(job["id"])

    async def word(self, id: str) -> str:
        return str((await self.call("GET", f"/messages/batches/{id}"))["processing_status"])

    async def results(self, id: str) -> Counter[tuple[str, str]]:
        job = await self.call("GET", f"/messages/batches/{id}")
        assert job["results_url"].endswith(f"{self.base}/messages/batches/{id}/results")
        told = await self.call("GET", f"/messages/batches/{id}/results")
        lines = told if isinstance(told, list) else [told]
        return Counter((line["custom_id"], line["result"]["type"]) for line in lines)

    async def cancel(self, id: str) -> None:
        assert (await self.call("POST", f"/messages/batches/{id}/cancel"))["processing_status"] == "canceling"

    async def listed(self, size: int) -> list[str]:
        found: list[str] = []
        while True:
            after = f"&after_id={found[-1]}" if found else ""
            page = await self.call("GET", f"/messages/batches?limit={size}{after}")
            found += [job["id"] for job in page["data"]]
            if not page["has_more"]:
                return found


class Google(Api):
    base = "/google/v1beta"
    words = ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "EXPIRED", "RUNNING", "CANCELLED")

    async def submit(self, prompts: list[str] = PROMPTS, token: str = "t") -> str:
        made = [
            {"request": {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}, "metadata": {"key": key}}
            for key, prompt in zip(KEYS, prompts, strict=False)
        ]
        batch = {"displayName": token, "inputConfig": {"requests": {"requests": made}}}
        job = await self.call("POST", "/models/judge-a:batchGenerateContent", {"batch": batch})
        assert job["metadata"]["displayName"] == token
        return str(job["name"])

    async def word(self, id: str) -> str:
        job = await self.call("GET", f"/{id}")
        state = job["metadata"]["state"].removeprefix("BATCH_STATE_")
        assert job.get("done", False) == (state not in ("PENDING", "RUNNING"))
        return str(state)

    async def results(self, id: str) -> Counter[tuple[str, str]]:
        job = await self.call("GET", f"/{id}")
        ends = {1: "canceled", 4: "expired"}
        return Counter(
            (one["metadata"]["key"], "succeeded" if "response" in one else ends.get(one["error"]["code"], "errored"))
            for one in job["response"]["inlinedResponses"]["inlinedResponses"]
        )

    async def cancel(self, id: str) -> None:
        assert await self.call("POST", f"/{id}:cancel") == {}

    async def listed(self, size: int) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            page = await self.call("GET", f"/batches?pageSize={size}&pageToken={token}")
            found += [job["name"] for job in page["operations"]]
            token = page.get("nextPageToken", "")
            if not token:
                return found


APIS = [OpenAI, Anthropic, Google]
apis = pytest.mark.parametrize("made", APIS, ids=lambda api: api.__name__)


def run(
    made: type[Api], act: Callable[[Any], Awaitable[T]], *, fault: str | None = None, pace: float = 1.0
) -> tuple[T, Simulator]:
    """What `act` came to, in virtual time, at a provider on which this fault befalls every job."""

    async def main() -> tuple[T, Simulator]:
        loop = asyncio.get_running_loop()
        bill = Bill({"judge-a": TARIFF})
        simulator = Simulator(
            seed=1, bill=bill, pace=pace, faults={fault: 1.0} if fault else {}, wall=lambda: 1_800_000_000 + loop.time()
        )
        async with serving(simulator) as url, aiohttp.ClientSession() as session:
            return await act(made(session, url.removesuffix("/v1"))), simulator

    return virtual.run(main())


def lines(simulator: Simulator) -> list[dict[str, Any]]:
    """The rows of the books that are lines of jobs."""
    return [row for row in simulator.bill.rows if row["job"] is not None]


@apis
def test_a_job_runs_for_its_time_and_its_results_carry_the_clients_names(made: Any) -> None:
    """Taken, at work, ended; each line once, by its key."""

    async def act(api: Any) -> tuple[list[str], Counter[tuple[str, str]]]:
        id = await api.submit()
        seen = []
        for _ in range(2):
            await asyncio.sleep(HALF)
            seen.append(await api.word(id))
        return seen, await api.results(id)

    (seen, found), simulator = run(made, act)
    assert seen == [made.words[1], made.words[2]]
    assert found == Counter({(key, "succeeded"): 1 for key in KEYS})
    assert [row["line"] for row in lines(simulator)] == KEYS


@apis
def test_a_line_costs_half_of_a_call_and_everything_else_nothing(made: Any) -> None:
    """By the books, line for line."""

    async def act(api: Any) -> None:
        await api.submit()
        await asyncio.sleep(2 * JOB_S)

    _, simulator = run(made, act)
    for row in lines(simulator):
        spent = row["input"] * 1000 + row["output"] * 4000
        assert row["nanos"] == -(-spent // 2) > 0
        assert row["billed"]
    assert all(not row["billed"] and row["nanos"] == 0 for row in simulator.bill.rows if row["job"] is None)


@apis
def test_without_pace_a_job_has_ended_at_the_next_look(made: Any) -> None:
    """Nothing is waited for."""

    async def act(api: Any) -> str:
        return str(await api.word(await api.submit()))

    assert run(made, act, pace=0.0)[0] == made.words[2]


def test_a_line_gets_the_answer_that_its_call_would_get() -> None:
    """The same body, the same text."""

    async def act(api: Any) -> list[tuple[str, str]]:
        id = await api.submit()
        await asyncio.sleep(2 * JOB_S)
        job = await api.call("GET", f"/batches/{id}")
        told = {
            line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
            for line in await api.call("GET", f"/files/{job['output_file_id']}/content")
        }
        pairs = []
        for key, prompt in zip(KEYS, PROMPTS, strict=True):
            direct = await api.call("POST", "/chat/completions", _chat(prompt))
            pairs.append((told[key], direct["choices"][0]["message"]["content"]))
        return pairs

    pairs, _ = run(OpenAI, act)
    assert len(pairs) == N
    assert [inside for inside, _ in pairs] == [direct for _, direct in pairs]


@apis
def test_results_stand_in_another_order_than_the_requests(made: Any) -> None:
    """Who relies on the order gets it wrong."""

    async def act(api: Any) -> list[str]:
        id = await api.submit()
        await asyncio.sleep(2 * JOB_S)
        return [key for key, _ in await api.results(id)]

    order, _ = run(made, act)
    assert sorted(order) == KEYS != order


@apis
def test_jobs_are_listed_newest_first_page_by_page(made: Any) -> None:
    """All of them, each once."""

    async def act(api: Any) -> tuple[list[str], list[str]]:
        return [await api.submit(token=f"t{n}") for n in range(5)], await api.listed(2)

    (ids, found), _ = run(made, act)
    assert found == ids[::-1]


@apis
def test_a_cancelled_job_keeps_and_charges_what_is_done(made: Any) -> None:
    """The rest is told to be cancelled."""

    async def act(api: Any) -> tuple[str, str, Counter[tuple[str, str]]]:
        id = await api.submit()
        await asyncio.sleep(HALF)
        await api.cancel(id)
        between = await api.word(id)
        await asyncio.sleep(JOB_S)
        return between, await api.word(id), await api.results(id)

    (between, after, found), simulator = run(made, act)
    assert (between, after) == (made.words[5], made.words[6])
    assert Counter(end for _, end in found) == {"succeeded": N // 2, "canceled": N // 2}
    assert len(lines(simulator)) == N // 2


async def _ended(api: Any) -> tuple[str, Counter[tuple[str, str]]]:
    id = await api.submit()
    await asyncio.sleep(2 * JOB_S)
    return await api.word(id), await api.results(id)


@apis
def test_some_lines_of_a_job_can_end_with_an_error(made: Any) -> None:
    """They cost nothing; the others are whole."""
    (word, found), simulator = run(made, _ended, fault="job_partial")
    ends = Counter(end for _, end in found)
    assert word == made.words[2]
    assert ends["errored"] > 0 < ends["succeeded"]
    assert sum(row["billed"] for row in lines(simulator)) == ends["succeeded"]


@apis
def test_a_line_can_be_missing_from_the_results_and_is_charged(made: Any) -> None:
    """One of them."""
    (_, found), simulator = run(made, _ended, fault="job_missing_line")
    assert (len(found), found.total()) == (N - 1, N - 1)
    assert sum(row["billed"] for row in lines(simulator)) == N


@apis
def test_a_line_can_stand_twice_in_the_results_and_is_charged_once(made: Any) -> None:
    """One of them."""
    (_, found), simulator = run(made, _ended, fault="job_duplicate_line")
    assert (len(found), found.total()) == (N, N + 1)
    assert sum(row["billed"] for row in lines(simulator)) == N


@pytest.mark.parametrize("made", [OpenAI, Anthropic], ids=lambda api: api.__name__)
def test_a_job_can_expire_when_half_of_it_is_done(made: Any) -> None:
    """What is done is there, and charged."""
    (word, found), simulator = run(made, _ended, fault="job_expire")
    assert word == made.words[4]
    assert Counter(end for _, end in found) == {"succeeded": N // 2, "expired": N // 2}
    assert sum(row["billed"] for row in lines(simulator)) == N // 2


def test_an_expired_job_of_google_has_no_results() -> None:
    """And nothing of it is charged."""

    async def act(api: Any) -> tuple[str, bool]:
        id = await api.submit()
        await asyncio.sleep(2 * JOB_S)
        return await api.word(id), "response" in await api.call("GET", f"/{id}")

    told, simulator = run(Google, act, fault="job_expire")
    assert told == ("EXPIRED", False)
    assert lines(simulator) == []


@pytest.mark.parametrize("made", [OpenAI, Google], ids=lambda api: api.__name__)
def test_a_whole_job_can_fail_and_costs_nothing(made: Any) -> None:
    """For too many enqueued tokens; said in the job after it was taken."""

    async def act(api: Any) -> tuple[str, Any]:
        id = await api.submit()
        await asyncio.sleep(2 * JOB_S)
        job = await api.call("GET", f"/{'' if made is Google else 'batches/'}{id}")
        return await api.word(id), job.get("errors") or job.get("error")

    (word, why), simulator = run(made, act, fault="job_fail")
    assert word == made.words[3]
    assert "token" in json.dumps(why)
    assert lines(simulator) == []


def test_a_full_queue_of_anthropic_refuses_the_job() -> None:
    """With a rate limit, and there is no job."""

    async def act(api: Any) -> tuple[int, Any]:
        body = {"requests": [{"custom_id": "a", "params": _chat("Is it so?")}]}
        told = await api.call("POST", "/messages/batches", body)
        return api.status, told["error"]["type"]

    told, simulator = run(Anthropic, act, fault="job_fail")
    assert told == (429, "rate_limit_error")
    assert simulator.engine.jobs == {}


@apis
def test_a_submit_whose_response_is_lost_has_made_a_job(made: Any) -> None:
    """It runs, it costs, it can be found in the list."""

    async def act(api: Any) -> list[str]:
        with pytest.raises(aiohttp.ClientError):
            await api.submit(token="lost")
        await asyncio.sleep(2 * JOB_S)
        return list(await api.listed(10))

    found, simulator = run(made, act, fault="job_submit_lost")
    assert found == list(simulator.engine.jobs)
    assert len(found) == 1
    assert len(lines(simulator)) == N


@apis
def test_a_line_that_cannot_be_answered_ends_with_an_error_and_the_others_do_not(made: Any) -> None:
    """As its call would."""

    async def act(api: Any) -> Counter[tuple[str, str]]:
        id = await api.submit(["x" * 600_000, "Answer YES or NO."])
        await asyncio.sleep(2 * JOB_S)
        found: Counter[tuple[str, str]] = await api.results(id)
        return found

    found, _ = run(made, act)
    assert found == Counter({("k0", "errored"): 1, ("k1", "succeeded"): 1})


WRONG: list[tuple[type[Api], str, Any]] = [
    (OpenAI, "/batches", {}),
    (OpenAI, "/batches", {"endpoint": "/v1/chat/completions", "completion_window": "24h", "input_file_id": "none"}),
    (OpenAI, "/batches", {"endpoint": "/v1/chat/completions", "completion_window": "1h", "input_file_id": "none"}),
    (Anthropic, "/messages/batches", {"requests": []}),
    (Anthropic, "/messages/batches", {"requests": [{"custom_id": "a b", "params": {}}]}),
    (Anthropic, "/messages/batches", {"requests": [{"custom_id": "a", "params": {}}] * 2}),
    (Google, "/models/m:batchGenerateContent", {"batch": {"displayName": "t"}}),
    (Google, "/models/m:batchGenerateContent", {"batch": {"inputConfig": {"requests": {"requests": [{}]}}}}),
]


@pytest.mark.parametrize(("made", "path", "body"), WRONG)
def test_a_job_that_cannot_be_taken_is_a_400(made: type[Api], path: str, body: Any) -> None:
    """Nothing is begun."""

    async def act(api: Any) -> int:
        await api.call("POST", path, body)
        return int(api.status)

    status, simulator = run(made, act)
    assert status == 400
    assert simulator.engine.jobs == {}


@pytest.mark.parametrize(
    ("made", "path"), [(OpenAI, "/batches/batch_9"), (Anthropic, "/messages/batches/x"), (Google, "/batches/9")]
)
def test_a_job_that_is_not_there_is_a_404(made: type[Api], path: str) -> None:
    """In the dialect's own words."""

    async def act(api: Any) -> int:
        await api.call("GET", path)
        return int(api.status)

    assert run(made, act)[0] == 404


def test_faults_of_jobs_are_all_tried_here_and_in_no_swarm() -> None:
    """A run without jobs keeps its rate of faults."""
    here = Path(__file__).read_text(encoding="utf-8")
    own = {name for name, fault in FAULTS.items() if fault.kind == "job"}
    assert [name for name in own if f'"{name}"' not in here] == []
    assert not own & {name for seed in range(50) for name in swarm(seed, 0.3)}


def test_a_client_that_leaves_in_the_middle_of_a_list_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asked is gone: nobody is there to be told, and the server says nothing of it either."""

    async def life() -> None:
        async with serving(Simulator(faults={"trickle": 1.0})) as url:
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
            writer.write(b"GET /v1/batches HTTP/1.1\r\nhost: here\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(1.5)
            writer.transport.abort()
            await asyncio.sleep(20)

    virtual.run(life())
    assert caplog.records == []
