"""The codecs of batch APIs and the driver over them: the bytes of a job, the words of a provider, results of any kind."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, TypeVar

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.serving import request_of, talking
from judgerun.model.experiment import Deployment, Model, PriceSpec
from judgerun.model.reply import Billable, Cause, Failure, Finish
from judgerun.model.request import Request, build
from judgerun.ports import Answer, Jobs, Look
from judgerun.providers.jobs import anthropic, flow, google, openai
from judgerun.providers.open import CODECS, DIALECTS, connect, profile
from judgerun.providers.wire import BODY_BYTES_MAX, WireCall, WireReply

T = TypeVar("T")
TOKEN = "f00d" * 8
SINCE = 1_800_000_000.0
KEY = "canary/7f3a9c51d2e8+4b06="
apis = pytest.mark.parametrize("dialect", sorted(CODECS))


def place(dialect: str, url: str = "http://127.0.0.1:1/v1") -> Deployment:
    """A built-in deployment of a dialect with a batch API."""
    return Deployment(name=dialect, dialect=dialect, base_url=url, identity="p", api_key_env="THE_KEY", builtin=True)


def request(dialect: str, n: int = 0, *, stream: bool = False) -> Request:
    """A chat request."""
    payload = {"model": "m", "messages": [{"role": "user", "content": f"a {n}"}], "max_output_tokens": 16}
    return build("chat", payload, deployment="p", adapter=f"{dialect}/1{' stream' * stream}", draw=0)


def lines(dialect: str, n: int = 2) -> list[bytes]:
    """The lines of a job."""
    made = [request(dialect, number) for number in range(n)]
    return [CODECS[dialect].line(one.key.hex(), DIALECTS[dialect].encode([one], place(dialect))) for one in made]


def wire(body: Any) -> WireReply:
    """A success with this body."""
    return WireReply(status=200, headers={}, body=body if isinstance(body, bytes) else orjson.dumps(body), at=0.0)


def drive(asked: Generator[WireCall, WireReply | Failure, T], *replies: Any) -> tuple[list[WireCall], T]:
    """The calls of a flow that is sent these bodies or failures, and what it returns."""
    calls = [next(asked)]
    for reply in replies:
        try:
            calls.append(asked.send(reply if isinstance(reply, Failure) else wire(reply)))
        except StopIteration as end:
            return calls, end.value
    raise AssertionError(f"it asks for more: {calls[-1]}")


def ends(asked: Generator[WireCall, WireReply | Failure, T], *replies: Any) -> T:
    """What it returns."""
    return drive(asked, *replies)[1]


# -- what is sent


@apis
def test_a_line_holds_the_bytes_of_a_single_call_under_the_requests_key(dialect: str) -> None:
    """Byte for byte; the key in hex is a name that every API takes."""
    one = request(dialect)
    body = DIALECTS[dialect].encode([one], place(dialect)).body
    (line,) = lines(dialect, 1)
    assert body in line
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one.key.hex())
    held = json.loads(line[:-1])
    assert held.get("custom_id", held.get("metadata", {}).get("key")) == one.key.hex()
    assert held.get("body", held.get("params", held.get("request"))) == json.loads(body)


@apis
def test_a_request_that_would_be_streamed_alone_is_whole_in_a_job(dialect: str) -> None:
    """No API streams in a job; all else of its body is the same."""

    async def play(jobs: Jobs) -> str | Failure:
        return await jobs.submit([request(dialect, stream=True)], token=TOKEN, timeout_s=5)

    _, ((_, body), *_) = asked(dialect, play, lambda head: (200, b'{"id": "b", "name": "b"}'))
    assert DIALECTS[dialect].encode([request(dialect)], place(dialect)).body in body
    assert b"stream" not in body


@pytest.mark.parametrize("dialect", ["openai", "openai-responses"])
def test_the_upload_is_a_form_with_a_purpose_and_a_file(dialect: str) -> None:
    """As any parser reads it; the same lines make the same bytes."""
    call = WireCall(path="/chat/completions")
    held = lines(dialect)
    (upload, made), said = drive(openai.submit(lines(dialect), call, token=TOKEN), {"id": "file-1"}, {"id": "batch_1"})
    head = b"content-type: " + upload.headers["content-type"].encode() + b"\r\n\r\n"
    purpose, file = BytesParser(policy=HTTP).parsebytes(head + upload.body).iter_parts()
    assert (purpose.get_param("name", header="content-disposition"), purpose.get_content().strip()) == (
        "purpose",
        "batch",
    )
    assert (file.get_param("name", header="content-disposition"), file.get_filename()) == ("file", f"{TOKEN}.jsonl")
    assert file.get_payload(decode=True) == b"".join(held).rstrip(b"\n")
    assert upload == drive(openai.submit(held, call, token=TOKEN), {"id": "file-1"}, {"id": "batch_1"})[0][0]
    assert held == []
    assert json.loads(made.body) == {
        "input_file_id": "file-1",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"judgerun": TOKEN},
    }
    assert said == "batch_1"


@pytest.mark.parametrize("dialect", ["anthropic", "google"])
def test_a_job_in_one_body_holds_its_lines_in_order(dialect: str) -> None:
    """And, where the API has a place for it, the token."""
    call = WireCall(path="/models/m:generateContent")
    (only,), _ = drive(CODECS[dialect].submit(lines(dialect), call, token=TOKEN), {"id": "a", "name": "a"})
    expected = [json.loads(line[:-1]) for line in lines(dialect)]
    held = json.loads(only.body)
    if dialect == "google":
        assert only.path == "/models/m:batchGenerateContent"
        assert held == {"batch": {"displayName": TOKEN, "inputConfig": {"requests": {"requests": expected}}}}
    else:
        assert only.path == "/messages/batches"
        assert held == {"requests": expected}


# -- whether a job exists

MISSED = Failure(cause=Cause.TIMED_OUT, billable=Billable.UNKNOWN)


def test_a_file_alone_is_no_job() -> None:
    """Whatever became of the upload, nothing is charged; what became of the batch is in doubt."""
    call = WireCall(path="/chat/completions")
    for first in (MISSED, b"<html>", {"object": "file"}, {"error": {"message": "no"}}):
        said = ends(openai.submit(lines("openai"), call, token=TOKEN), first)
        assert isinstance(said, Failure)
        assert said.billable is Billable.NO
    for second in (MISSED, b"", {"object": "batch"}, {"id": 7}, {"error": {"message": "no"}}):
        said = ends(openai.submit(lines("openai"), call, token=TOKEN), {"id": "file-1"}, second)
        assert isinstance(said, Failure)
        assert said.billable is Billable.UNKNOWN


@pytest.mark.parametrize("dialect", ["anthropic", "google"])
@pytest.mark.parametrize("reply", [MISSED, b"", {}, {"id": 7, "name": ""}, {"error": {"message": "no"}}])
def test_a_submit_without_a_name_is_in_doubt(dialect: str, reply: Any) -> None:
    """The job may exist."""
    call = WireCall(path="/models/m:generateContent")
    said = ends(CODECS[dialect].submit(lines(dialect), call, token=TOKEN), reply)
    assert isinstance(said, Failure)
    assert said.billable is Billable.UNKNOWN


def _find(dialect: str, *, known: frozenset[str] = frozenset(), names: frozenset[str] = frozenset("ab")) -> Any:
    return CODECS[dialect].find(names, token=TOKEN, since=SINCE, known=known)


@apis
@pytest.mark.parametrize("reply", [MISSED, b"", b"[]", {"data": 7, "operations": 7}, {"error": {"message": "no"}}])
def test_a_list_that_cannot_be_read_is_never_an_empty_one(dialect: str, reply: Any) -> None:
    """Else a job would be handed over twice."""
    assert isinstance(ends(_find(dialect), reply), Failure)


@apis
def test_a_list_without_an_end_is_a_failure(dialect: str) -> None:
    """A server that says `more` for ever is not asked for ever."""
    old = {"id": "x", "created_at": int(SINCE) - 9, "name": "x", "request_counts": {"succeeded": 9}}
    page = {"data": [old], "operations": [old], "has_more": True, "nextPageToken": "t", "last_id": "x"}
    calls, said = drive(_find(dialect), *[page] * flow.PAGES_MAX)
    assert len(calls) == flow.PAGES_MAX
    assert isinstance(said, Failure)


@apis
def test_a_list_that_says_more_and_not_where_is_a_failure(dialect: str) -> None:
    """Only google says by the token itself that there is more."""
    said = ends(_find(dialect), {"data": [], "operations": [], "has_more": True})
    assert said is None if dialect == "google" else isinstance(said, Failure)


def _batch(at: float, name: str = "x", **more: Any) -> dict[str, Any]:
    return {"id": name, "created_at": int(at), **more}


def test_the_list_is_left_where_all_that_follows_is_too_old() -> None:
    """The page itself must show its order: one that begins with the oldest is read on, and nothing is missed."""
    old = [_batch(SINCE - 7200), _batch(SINCE - 9000)]
    calls, said = drive(_find("openai"), {"data": [_batch(SINCE), *old], "has_more": True})
    assert (len(calls), said) == (1, None)
    ours = _batch(SINCE, "ours", metadata={"judgerun": TOKEN})
    for first in (old[::-1], old[:1], [_batch(SINCE), _batch(SINCE - 3500)], [{"id": "x"}, {"id": "y"}]):
        calls, said = drive(_find("openai"), {"data": first, "has_more": True}, {"data": [ours], "has_more": False})
        assert (len(calls), said) == (2, "ours")
        assert calls[1].query["after"] == first[-1]["id"]


def _stated(name: str, status: str, size: int, *, at: str = "2027-01-15T08:00:00.123456Z") -> dict[str, Any]:
    counts = {"processing": 0, "succeeded": size - 1, "errored": 1, "canceled": 0, "expired": 0}
    return {"id": name, "processing_status": status, "created_at": at, "request_counts": counts}


RESULTS = {
    "ours": b'{"custom_id":"b","result":{"type":"expired"}}\n{"custom_id":"a","result":{"type":"canceled"}}\n',
    "other": b'{"custom_id":"a","result":{"type":"expired"}}\n{"custom_id":"c","result":{"type":"expired"}}\n',
    "part": b'{"custom_id":"a","result":{"type":"expired"}}\n',
}


def test_a_batch_of_anthropic_is_known_by_exactly_its_requests() -> None:
    """One that shares some of them is another; only those of the right size, time and name are asked for their results."""
    page = {
        "data": [
            _stated("known", "in_progress", 2),
            _stated("small", "in_progress", 3),
            _stated("old", "in_progress", 2, at="2027-01-15T06:59:59Z"),
            _stated("other", "ended", 2),
            _stated("ours", "ended", 2),
        ],
        "has_more": False,
    }
    calls, said = drive(_find("anthropic", known=frozenset({"known"})), page, RESULTS["other"], RESULTS["ours"])
    assert [call.path.split("/")[-2] for call in calls[1:]] == ["other", "ours"]
    assert said == "ours"


@pytest.mark.parametrize(
    "batch",
    [
        _stated("x", "in_progress", 2),
        _stated("x", "canceling", 2),
        {**_stated("x", "in_progress", 2), "request_counts": None},
        {**_stated("x", "in_progress", 2), "created_at": "soon"},
        {"id": "x"},
        {},
    ],
)
def test_a_batch_of_anthropic_that_may_be_ours_is_no_absence(batch: dict[str, Any]) -> None:
    """Nor is one whose results cannot be had."""
    assert isinstance(ends(_find("anthropic"), {"data": [batch], "has_more": False}), (Failure, Look))
    ended = {"data": [_stated("x", "ended", 2)], "has_more": False}
    for broken in (MISSED, b"", b"<html>", {"error": {}}, RESULTS["ours"][:-9]):
        assert isinstance(ends(_find("anthropic"), ended, broken), Failure)


def test_a_job_of_google_is_found_by_its_name_on_whatever_page() -> None:
    """A page may list nothing, and an empty list is an empty object."""
    ours = {"name": "batches/7", "metadata": {"displayName": TOKEN}}
    calls, said = drive(_find("google"), {"nextPageToken": "t"}, {"operations": [{"name": "batches/6"}, ours]})
    assert (calls[1].query["pageToken"], said) == ("t", "batches/7")
    assert ends(_find("google"), {}) is None


# -- how a job stands

LOOKS: list[tuple[str, dict[str, Any], bool, tuple[Cause, str] | None]] = [
    ("openai", {"status": "validating"}, False, None),
    ("openai", {"status": "finalizing"}, False, None),
    ("openai", {"status": "cancelling"}, False, None),
    ("openai", {"status": "a new word"}, False, None),
    ("openai", {"status": "completed"}, True, None),
    ("openai", {"status": "COMPLETED"}, True, None),
    ("openai", {"status": "expired"}, True, None),
    ("openai", {"status": "cancelled"}, True, None),
    (
        "openai",
        {"status": "failed", "errors": {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit"}]}},
        True,
        (Cause.RATE_LIMITED, "token_limit_exceeded Enqueued token limit"),
    ),
    (
        "openai",
        {
            "status": "failed",
            "errors": {
                "data": [
                    {"code": "invalid_json_line", "message": "Not parseable.", "line": 3},
                    {"code": "invalid_json_line"},
                ]
            },
        },
        True,
        (Cause.REJECTED, "invalid_json_line Not parseable. (line 3) (1 more)"),
    ),
    (
        "openai",
        {"status": "failed", "errors": {"data": [{"code": "billing_hard_limit_reached", "message": "limit"}]}},
        True,
        (Cause.QUOTA, "billing_hard_limit_reached limit"),
    ),
    ("openai", {"status": "failed", "errors": None}, True, (Cause.REJECTED, "no reason is told")),
    ("openai", {"status": "failed", "errors": 7, "request_counts": {"completed": 2}}, True, None),
    ("anthropic", {"processing_status": "in_progress"}, False, None),
    ("anthropic", {"processing_status": "canceling"}, False, None),
    ("anthropic", {"processing_status": "ended"}, True, None),
    ("google", {"name": "batches/1", "metadata": {"state": "BATCH_STATE_PENDING"}}, False, None),
    ("google", {"name": "batches/1", "metadata": {"state": "JOB_STATE_RUNNING"}}, False, None),
    ("google", {"name": "batches/1", "state": "JOB_STATE_SUCCEEDED"}, True, None),
    ("google", {"name": "batches/1", "metadata": {"state": "BATCH_STATE_SUCCEEDED"}, "done": True}, True, None),
    ("google", {"name": "batches/1", "metadata": {"state": "BATCH_STATE_EXPIRED"}}, True, None),
    (
        "google",
        {
            "name": "batches/1",
            "metadata": {"state": "JOB_STATE_CANCELLED"},
            "error": {"code": 1, "message": "cancelled"},
        },
        True,
        None,
    ),
    ("google", {"name": "batches/1"}, False, None),
    ("google", {"name": "batches/1", "done": True, "response": {}}, True, None),
    (
        "google",
        {"name": "batches/1", "done": True, "error": {"code": 8, "message": "enqueued tokens"}},
        True,
        (Cause.RATE_LIMITED, "enqueued tokens"),
    ),
    (
        "google",
        {"name": "batches/1", "metadata": {"state": "BATCH_STATE_FAILED"}, "error": {"code": 3, "message": "bad"}},
        True,
        (Cause.REJECTED, "bad"),
    ),
    (
        "google",
        {"name": "batches/1", "metadata": {"state": "JOB_STATE_FAILED"}},
        True,
        (Cause.REJECTED, "no reason is told"),
    ),
    (
        "google",
        {"name": "b", "metadata": {"state": "JOB_STATE_FAILED", "batchStats": {"successfulRequestCount": "2"}}},
        True,
        None,
    ),
]


@pytest.mark.parametrize(("dialect", "body", "ended", "refused"), LOOKS)
def test_states(dialect: str, body: dict[str, Any], ended: bool, refused: tuple[Cause, str] | None) -> None:
    """What a job's own word means: only a job of which nothing was done was refused whole, and nothing of it is charged."""
    look = ends(CODECS[dialect].look("batches/1"), body)
    assert isinstance(look, Look)
    assert look.ended is ended
    if refused is None:
        assert look.failure is None
    else:
        assert look.failure is not None
        assert (look.failure.cause, look.failure.detail, look.failure.billable) == (*refused, Billable.NO)


@apis
@pytest.mark.parametrize(
    "reply", [MISSED, b"", {}, {"error": {"message": "no"}}, {"status": 7, "processing_status": {}}]
)
def test_a_look_at_what_is_no_job_is_a_failure(dialect: str, reply: Any) -> None:
    """It says nothing of the job."""
    assert isinstance(ends(CODECS[dialect].look("batches/1"), reply), Failure)


# -- what a job left


def _openai(*outcomes: Any, status: str = "completed", completed: int | None = None) -> Any:
    batch = {"status": status, "output_file_id": "f", "error_file_id": "", "request_counts": {"completed": completed}}
    return openai.collect("b"), batch, b"\n".join(orjson.dumps({"custom_id": "k", **outcome}) for outcome in outcomes)


def _anthropic(*outcomes: Any) -> Any:
    made = (orjson.dumps({"custom_id": "k", "result": outcome}) for outcome in outcomes)
    return anthropic.collect("b"), b"\n".join(made)


def _google(*outcomes: Any, state: str = "SUCCEEDED", done: str | None = None) -> Any:
    made = [{"metadata": {"key": "k"}, **outcome} for outcome in outcomes]
    stats = {} if done is None else {"batchStats": {"requestCount": "2", "successfulRequestCount": done}}
    metadata = {"state": f"BATCH_STATE_{state}", **stats}
    return google.collect("b"), {"name": "b", "metadata": metadata, "response": {"inlinedResponses": made}}


FAILED: list[tuple[Any, Cause, Billable]] = [
    (_openai({"error": {"code": "batch_expired", "message": "late"}}), Cause.TIMED_OUT, Billable.NO),
    (_openai({"error": {"code": "batch_cancelled"}, "response": None}), Cause.INTERRUPTED, Billable.NO),
    (_openai({"error": {"code": "server_error", "message": "oh"}}), Cause.OVERLOADED, Billable.NO),
    (_openai({"error": {"code": "a new word"}}), Cause.MALFORMED, Billable.NO),
    (_openai({"error": "text"}), Cause.MALFORMED, Billable.NO),
    (_openai({}), Cause.MALFORMED, Billable.UNKNOWN),
    (_openai({"response": {"body": {}}}), Cause.MALFORMED, Billable.UNKNOWN),
    (_anthropic({"type": "expired"}), Cause.TIMED_OUT, Billable.NO),
    (_anthropic({"type": "canceled"}), Cause.INTERRUPTED, Billable.NO),
    (
        _anthropic({"type": "errored", "error": {"type": "error", "error": {"type": "invalid_request_error"}}}),
        Cause.REJECTED,
        Billable.NO,
    ),
    (
        _anthropic({"type": "errored", "error": {"type": "error", "error": {"type": "overloaded_error"}}}),
        Cause.OVERLOADED,
        Billable.NO,
    ),
    (_anthropic({"type": "errored", "error": {"type": "api_error"}}), Cause.OVERLOADED, Billable.NO),
    (_anthropic({"type": "errored"}), Cause.MALFORMED, Billable.NO),
    (_anthropic({"type": "a new word"}), Cause.MALFORMED, Billable.UNKNOWN),
    (_anthropic(None), Cause.MALFORMED, Billable.UNKNOWN),
    (_google({"error": {"code": 3, "message": "bad"}}), Cause.REJECTED, Billable.NO),
    (_google({"error": {"code": 8, "message": "slow down"}}), Cause.RATE_LIMITED, Billable.NO),
    (_google({"error": {"code": 13, "message": "oh"}}), Cause.OVERLOADED, Billable.NO),
    (_google({"error": {"code": 1, "message": "The operation was cancelled."}}), Cause.OVERLOADED, Billable.NO),
    (_google({"error": {"code": 1}}, state="CANCELLED"), Cause.INTERRUPTED, Billable.NO),
    (_google({"error": {"code": 4}}, state="EXPIRED"), Cause.TIMED_OUT, Billable.NO),
    (_google({"error": "text"}), Cause.OVERLOADED, Billable.NO),
    (_google({}), Cause.MALFORMED, Billable.UNKNOWN),
]


@pytest.mark.parametrize(("given_", "cause", "billable"), FAILED)
def test_what_a_line_without_a_reply_means(given_: Any, cause: Cause, billable: Billable) -> None:
    """An error that the provider tells is not charged; a line that cannot be read may have been."""
    results = ends(*given_)
    assert isinstance(results, flow.Results)
    ((name, told),) = list(results.lines)
    assert name == "k"
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (cause, billable)


@pytest.mark.parametrize(
    "given_",
    [
        _openai({"response": {"status_code": 200, "request_id": "r", "body": {"a": 1}}, "error": None}),
        _anthropic({"type": "succeeded", "message": {"a": 1}}),
        _google({"response": {"a": 1}}),
    ],
)
def test_a_line_with_a_reply_is_the_reply_of_a_call(given_: Any) -> None:
    """With its body alone."""
    ((_, told),) = list(ends(*given_).lines)
    assert isinstance(told, WireReply)
    assert (told.status, json.loads(told.body)) == (200, {"a": 1})


@pytest.mark.parametrize("place_", ["response", "output"])
@pytest.mark.parametrize("nested", [True, False])
def test_the_responses_of_google_lie_in_either_place_at_either_depth(place_: str, nested: bool) -> None:
    """As its pages write them, and as they have been seen."""
    listed: Any = [{"metadata": {"key": "k"}, "response": {}}]
    output = {"inlinedResponses": {"inlinedResponses": listed} if nested else listed}
    held = {"name": "b", "done": True, "metadata": {"output": output} if place_ == "output" else {}}
    if place_ == "response":
        held["response"] = output
    results = ends(google.collect("b"), held)
    assert isinstance(results, flow.Results)
    assert [name for name, _ in results.lines] == ["k"]


def test_responses_of_google_are_told_apart_by_their_keys_alone() -> None:
    """Their order is not that of the requests: one without a key is nobody's."""
    flow_, held = _google({"response": {}})
    held["response"]["inlinedResponses"].append({"response": {}})
    assert len(list(ends(flow_, held).lines)) == 1


@pytest.mark.parametrize(
    ("dialect", "replies"),
    [
        ("openai", [{"status": "in_progress"}]),
        ("openai", [{"status": "completed", "output_file_id": None, "request_counts": {"completed": 2}}]),
        ("openai", [{"status": "completed", "output_file_id": "f"}, b""]),
        ("openai", [{"status": "completed", "output_file_id": "f"}, b'{"custom_id": "k"}\n{"custom']),
        ("openai", [{"status": "completed", "output_file_id": "f"}, {"error": {"message": "no"}}]),
        ("openai", [{"status": "completed", "output_file_id": "f"}, MISSED]),
        ("anthropic", [b""]),
        ("anthropic", [b'{"custom_id": "k"}\n<html>']),
        ("anthropic", [{"error": {"message": "no"}}]),
        ("google", [{"name": "b", "metadata": {"state": "BATCH_STATE_RUNNING"}}]),
        ("google", [{"name": "b", "metadata": {"state": "BATCH_STATE_SUCCEEDED"}, "done": True}]),
        ("google", [b'{"name": "b", ']),
    ],
)
def test_results_that_are_not_whole_are_not_taken_for_silence(dialect: str, replies: list[Any]) -> None:
    """They are asked for again: else what was done would count as lost."""
    assert isinstance(ends(CODECS[dialect].collect("b"), *replies), Failure)


def test_a_batch_without_a_success_has_its_errors_alone() -> None:
    """And one without any file says nothing of any request."""
    batch = {"status": "completed", "output_file_id": None, "error_file_id": "e", "request_counts": {"completed": 0}}
    calls, results = drive(openai.collect("b"), batch, b'{"custom_id": "k", "error": {"code": "batch_expired"}}\n')
    assert calls[1].path == "/files/e/content"
    assert isinstance(results, flow.Results)
    assert [name for name, _ in results.lines] == ["k"]
    bare = ends(openai.collect("b"), {"status": "expired"})
    assert isinstance(bare, flow.Results)
    assert (list(bare.lines), bare.rest, bare.done) == ([], flow.EXPIRED, None)


# -- the driver


def asked(
    dialect: str, play: Callable[[Jobs], Awaitable[T]], respond: Callable[[str], tuple[int, bytes]]
) -> tuple[T, list[tuple[str, bytes]]]:
    """What comes of a play against a server that responds to each head; and the heads and bodies that it got."""
    got: list[tuple[str, bytes]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _, body = (await request_of(reader)).partition(b"\r\n\r\n")
        got.append((head.decode(), body))
        status, answer = respond(head.decode())
        writer.write(
            b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (status, len(answer)) + answer
        )
        await writer.drain()

    async def main() -> T:
        async with talking(talk) as url:
            deployment = place(dialect, url)
            provider = connect([deployment], [Model(name="m", provider=deployment, model="m")], {"THE_KEY": KEY})[
                dialect
            ]
            try:
                assert provider.jobs is not None
                return await play(provider.jobs)
            finally:
                await provider.aclose()

    return asyncio.run(main()), got


def collected(dialect: str, job: bytes, results: bytes, n: int = 2) -> Any:
    """What a driver makes of these results."""

    async def play(jobs: Jobs) -> Any:
        return await jobs.collect("b", [request(dialect, number) for number in range(n)], timeout_s=5)

    def respond(head: str) -> tuple[int, bytes]:
        return 200, results if "/content " in head or "/results " in head else job

    return asked(dialect, play, respond)[0]


@pytest.mark.parametrize(
    ("completed", "status", "cause"),
    [
        (1, "expired", Cause.TIMED_OUT),
        (1, "cancelled", Cause.INTERRUPTED),
        (2, "expired", None),
        (None, "expired", None),
        (1, "completed", None),
    ],
)
def test_silence_of_a_job_that_was_cut_short_is_believed_where_all_that_was_done_is_there(
    completed: int | None, status: str, cause: Cause | None
) -> None:
    """Else the silent request may be one of those that were done, and charged."""
    body = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    first = {"custom_id": request("openai").key.hex(), "response": {"status_code": 200, "body": body}}
    job = {"status": status, "output_file_id": "f", "request_counts": {"completed": completed}}
    answers = collected("openai", orjson.dumps(job), orjson.dumps(first))
    assert answers[request("openai").key].replies[0].text == "a"
    silent = answers.get(request("openai", 1).key)
    if cause is None:
        assert silent is None
    else:
        assert (silent.failure.cause, silent.failure.billable) == (cause, Billable.NO)


def test_a_line_is_read_as_the_reply_of_a_call_would_be() -> None:
    """Refusals, in-band errors and error statuses are what they are there; only that an error status is never charged."""
    one, two, three, four = (request("openai", n) for n in range(4))
    bodies: list[tuple[Request, int, Any]] = [
        (one, 200, {"choices": [{"message": {"content": None, "refusal": "no"}, "finish_reason": "stop"}]}),
        (two, 200, {"error": {"code": 503, "message": "upstream"}}),
        (three, 504, {"error": {"message": "late"}}),
        (four, 400, {"error": {"message": "m does not exist", "code": "context_length_exceeded"}}),
    ]
    made = [
        {"custom_id": each.key.hex(), "response": {"status_code": status, "request_id": "r-7", "body": body}}
        for each, status, body in bodies
    ]
    stranger = {"custom_id": "another", "response": {"status_code": 200, "body": {}}}
    raw = b"\n".join(map(orjson.dumps, [stranger, *made, {**made[0], "response": None}]))
    answers = collected("openai", b'{"status": "completed", "output_file_id": "f"}', raw, 4)
    assert answers[one.key].replies[0].finish is Finish.REFUSAL
    assert answers[one.key].served_by == "r-7"
    assert _failed(answers[two.key]) == (Cause.OVERLOADED, Billable.UNKNOWN)
    assert _failed(answers[three.key]) == (Cause.OVERLOADED, Billable.NO)
    assert _failed(answers[four.key]) == (Cause.TOO_LONG, Billable.NO)
    assert len(answers) == 4


def _failed(answer: Answer) -> tuple[Cause, Billable]:
    assert answer.failure is not None
    return answer.failure.cause, answer.failure.billable


def test_results_may_be_larger_than_the_body_of_any_call() -> None:
    """A job's results come as one body."""
    message = {"content": [{"type": "text", "text": "x" * (BODY_BYTES_MAX + 1)}], "stop_reason": "end_turn"}
    made = {"custom_id": request("anthropic").key.hex(), "result": {"type": "succeeded", "message": message}}
    answers = collected("anthropic", b"", orjson.dumps(made))
    assert len(answers[request("anthropic").key].replies[0].text) == BODY_BYTES_MAX + 1


def test_a_large_job_arrives_whole() -> None:
    """It is sent in pieces."""

    async def play(jobs: Jobs) -> Any:
        payload = {"model": "m", "messages": [{"role": "user", "content": "y" * 2**21}], "max_output_tokens": 16}
        large = build("chat", payload, deployment="p", adapter="anthropic/1", draw=0)
        assert jobs.size(large) > 2**21
        return await jobs.submit([large], token=TOKEN, timeout_s=5)

    said, ((_, body),) = asked("anthropic", play, lambda head: (200, b'{"id": "b"}'))
    assert said == "b"
    assert len(json.loads(body)["requests"][0]["params"]["messages"][0]["content"]) == 2**21


@apis
@pytest.mark.parametrize("status", [400, 404])
def test_a_server_without_a_batch_api_refuses_in_words_that_reach_a_person(dialect: str, status: int) -> None:
    """Nothing else is tried: least of all a call at the full price."""

    async def play(jobs: Jobs) -> Any:
        return await jobs.submit([request(dialect)], token=TOKEN, timeout_s=5)

    words = b'{"error": {"message": "the model m is not supported for batch"}}'
    said, got = asked(dialect, play, lambda head: (status, words))
    assert isinstance(said, Failure)
    assert (said.cause, said.billable, said.status) == (Cause.REJECTED, Billable.NO, status)
    assert "not supported for batch" in said.detail
    assert len(got) == 1


@apis
@pytest.mark.parametrize(
    ("status", "doubt"),
    [
        *[(status, False) for status in (302, 400, 401, 404, 413, 429, 501, 503, 529)],
        *[(status, True) for status in (408, 500, 502, 504, 520)],
    ],
)
def test_a_status_after_which_a_job_may_exist(dialect: str, status: int, doubt: bool) -> None:
    """A server that broke may have taken it; one that refused has not."""

    async def play(jobs: Jobs) -> Any:
        return await jobs.submit([request(dialect)], token=TOKEN, timeout_s=5)

    def respond(head: str) -> tuple[int, bytes]:
        return (200, b'{"id": "file-1"}') if "/files" in head else (status, b"{}")

    said, _ = asked(dialect, play, respond)
    assert isinstance(said, Failure)
    assert said.billable is (Billable.UNKNOWN if doubt else Billable.NO)


@apis
@pytest.mark.parametrize("status", [200, 400, 500])
def test_no_key_that_a_server_echoes_is_kept(dialect: str, status: int) -> None:
    """In no answer to any question: words, results, errors, raw bodies."""
    names = [request(dialect, n).key.hex() for n in range(2)]

    async def play(jobs: Jobs) -> list[Any]:
        held = [request(dialect, n) for n in range(2)]
        return [
            await jobs.submit(held, token=TOKEN, timeout_s=5),
            await jobs.find(held, token=TOKEN, since=SINCE, known=(), timeout_s=5),
            await jobs.look("b", timeout_s=5),
            await jobs.collect("b", held, timeout_s=5),
            await jobs.cancel("b", timeout_s=5),
        ]

    def respond(head: str) -> tuple[int, bytes]:
        sent = next(line for line in head.split("\r\n") if "canary" in line)
        words = {"message": sent, "code": 3, "type": sent}
        if status != 200:
            return status, orjson.dumps({"error": words})
        if "/content " in head or "/results " in head:
            made = [
                {"custom_id": names[0], "response": {"status_code": 400, "body": {"error": words}}},
                {"custom_id": names[1], "error": words},
            ]
            if "/results " in head:
                made = [{"custom_id": n, "result": {"type": "errored", "error": {"error": words}}} for n in names]
            return 200, b"\n".join(map(orjson.dumps, made))
        batch = {"id": "b", "status": "failed" if "collect" not in head else "completed", "errors": {"data": [words]}}
        batch |= {"processing_status": sent, "output_file_id": "f", "request_counts": {"completed": 0}}
        inlined = [{"metadata": {"key": n}, "error": words} for n in names]
        batch |= {"name": "b", "metadata": {"state": sent}, "done": True, "response": {"inlinedResponses": inlined}}
        return 200, orjson.dumps(batch)

    said, got = asked(dialect, play, respond)
    assert all(KEY in head for head, _ in got)  # it was sent, so that there was something to leak
    assert "7f3a9c51d2e8" not in repr(said)
    assert "[secret]" in repr(said)


FIELDS = [
    "error",
    "code",
    "message",
    "response",
    "status_code",
    "body",
    "type",
    "result",
    "metadata",
    "key",
    "choices",
    "content",
    "candidates",
    "output",
    "status",
    "usage",
    "state",
    "inlinedResponses",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["expired", "ended", "succeeded", "errored"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


def _read(dialect: str, *replies: bytes) -> None:
    """Collect as the driver does, without a socket; what comes is an outcome of a kind for each request at most."""
    given_ = replies[-1:] if dialect == "anthropic" else replies  # whose results come without their job
    held = ends(CODECS[dialect].collect("b"), *given_, *[replies[-1]] * 2)
    if isinstance(held, Failure):
        return
    for name, told in held.lines:
        assert isinstance(name, str)
        if isinstance(told, WireReply) and told.status == 200:
            said = DIALECTS[dialect].decode([request(dialect)], told, place(dialect))
            assert isinstance(said, (tuple, Failure))


@apis
@given(raw=st.binary(max_size=200), nested=st.integers(0, 2000))
def test_arbitrary_bytes_as_results_never_raise(dialect: str, raw: bytes, nested: int) -> None:
    """Nor does what is nested deeper than anyone writes."""
    deep = b'{"custom_id":"k","result":{"type":"succeeded","message":' + b"[" * nested + b"]" * nested + b"}}"
    _read(dialect, raw)
    _read(dialect, b'{"name":"b","status":"completed","output_file_id":"f"}', raw + b"\n" + deep)
    for asking in (CODECS[dialect].look("b"), CODECS[dialect].cancel("b")):
        ends(asking, raw)


@apis
@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw of nested JSON is slow on a loaded machine
@given(held=st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), min_size=1, max_size=4))
def test_arbitrary_objects_as_results_never_raise(dialect: str, held: list[dict[str, Any]]) -> None:
    """Whatever stands where a reply, an error, a state or a list is expected."""
    named = ({"custom_id": f"{n}", "metadata": {"key": f"{n}"}, **one} for n, one in enumerate(held))
    results = b"\n".join(map(orjson.dumps, named))
    for one in [*held, {"response": {"inlinedResponses": held}}]:
        job = orjson.dumps({"name": "b", "status": "completed", "output_file_id": "f", "done": True, **one})
        _read(dialect, job, results)
        ends(CODECS[dialect].look("b"), job)


# -- who has one


def test_deployments_that_have_a_batch_api() -> None:
    """The four built-in ones, and one of one's own whose price says what a token costs there; no other server is taken for one."""
    price = PriceSpec(input=1, output=1)
    for dialect in CODECS:
        built = profile(place(dialect), Model(name="m", provider=place(dialect), model="m", max_output_tokens=99))
        assert built.jobs is not None
        assert built.jobs.factor == "0.5"
        assert built.jobs.embed is (dialect == "openai")
        own = replace(place(dialect), name="lab", builtin=False, price=price)
        assert DIALECTS[dialect].profile(own).jobs is None
        said = DIALECTS[dialect].profile(replace(own, price=replace(price, batch_factor="0.8"))).jobs
        assert said == replace(built.jobs, factor="0.8")
    for name in ("groq", "deepseek", "openrouter"):
        assert DIALECTS["openai"].profile(replace(place("openai"), name=name)).jobs is None
    assert DIALECTS["openai"].profile(replace(place("openai"), name="lab", builtin=False, like="vllm")).jobs is None
