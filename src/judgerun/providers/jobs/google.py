"""Gemini's batch mode with requests inline: an operation under batches/; calls from lines and lines from replies; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson

from judgerun.model.reply import Billable, Cause, Failure
from judgerun.ports import Look
from judgerun.providers import body as bodies
from judgerun.providers.jobs import flow
from judgerun.providers.jobs.flow import Flow, Line, Results
from judgerun.providers.wire import WireCall, WireReply

STATUS: Mapping[int, int] = {
    1: 503,  # cancelled, although nobody asked for it: seen of single requests in jobs that were done
    2: 500,
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    13: 500,
    14: 503,
    15: 500,
    16: 401,
}
"""The HTTP status of each code of gRPC, in which operations tell their errors."""

ENDED = frozenset({"SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"})
CUT: Mapping[str, Failure] = {
    "FAILED": Failure(cause=Cause.OVERLOADED, billable=Billable.NO, detail="its job failed before it was done"),
    "CANCELLED": flow.CANCELLED,
    "EXPIRED": flow.EXPIRED,
}
"""States of a job that was not done to its end."""
STOPPED = frozenset({1, 4})
"""Codes of requests that the end of their job stopped: cancelled, deadline exceeded."""


def line(name: str, call: WireCall) -> bytes:
    """What stands for one request in a job, ended by a comma."""
    return b'{"request":%s,"metadata":{"key":"%s"}},' % (call.body, name.encode())


def submit(lines: list[bytes], call: WireCall, *, token: str) -> Flow[str]:
    """Hand the job over, under the token as its name."""
    head = b'{"batch":{"displayName":%s,"inputConfig":{"requests":{"requests":[' % orjson.dumps(token)
    path = call.path.removesuffix(":generateContent") + ":batchGenerateContent"
    made = yield from flow.ask(WireCall(path=path, body=flow.joined(head, lines, b"]}}}}")))
    return made if isinstance(made, Failure) else flow.named(made, "name")


def find(names: Collection[str], *, token: str, since: float, known: Collection[str]) -> Flow[str | Look | None]:
    """The job that has the token as its name. The order of the list is not documented: it is read to its end."""
    query = {"pageSize": str(flow.PAGE)}
    for _ in range(flow.PAGES_MAX):
        found = yield from flow.listing(flow.question("/batches", **query), "operations", missing=[])
        if isinstance(found, Failure):
            return found
        page, listed = found
        for operation in listed:
            if bodies.mapping(operation.get("metadata")).get("displayName") == token:
                return flow.named(operation, "name")
        following = bodies.word(page.get("nextPageToken"))
        if following is None:
            return None
        query["pageToken"] = following
    return flow.ENDLESS


def look(job: str) -> Flow[Look]:
    """Its state. One that failed with nothing done was refused whole."""
    held = yield from _operation(job)
    if isinstance(held, Failure):
        return held
    state = _state(held)
    refused = None
    if state == "FAILED" and not _done(held):
        refused = _told(held.get("error") or {"message": "no reason is told"}, status=400)
    return Look(ended=state in ENDED, told=state, failure=refused)


def _operation(job: str) -> Flow[Mapping[str, Any]]:
    """The object of a job: an error in it is the job's, where it has a name at all."""
    reply = yield flow.question(f"/{job}")
    if isinstance(reply, Failure):
        return reply
    held = flow.loaded(reply.body)
    if held is not None and "name" in held:
        return held
    other = bodies.read(reply)
    return other if isinstance(other, Failure) else flow.odd("the reply is no operation")


def _state(held: Mapping[str, Any]) -> str:
    """The state, under either of its names; of an operation that is done without one, by whether it has an error."""
    told = bodies.word(bodies.mapping(held.get("metadata")).get("state")) or bodies.word(held.get("state"))
    if told is None:
        return ("FAILED" if held.get("error") else "SUCCEEDED") if held.get("done") is True else "UNSPECIFIED"
    return told.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")


def _done(held: Mapping[str, Any]) -> int | None:
    """Requests that were answered; None where the job does not say. A count of 0 is left out."""
    counts = bodies.mapping(bodies.mapping(held.get("metadata")).get("batchStats"))
    done = str(counts.get("successfulRequestCount", "0" if counts else ""))
    return int(done) if done.isdecimal() else None


def _told(error: Any, *, status: int | None = None) -> Failure:
    code = bodies.mapping(error).get("code")
    return flow.told(error, status=STATUS.get(code, status) if isinstance(code, int) else status)


def collect(job: str) -> Flow[Results]:
    """The responses. They are told apart by their keys alone: in large jobs they have been seen out of order."""
    held = yield from _operation(job)
    if isinstance(held, Failure):
        return held
    state = _state(held)
    items = _responses(held)
    if items is None and state not in CUT:  # an end that is told before its results are there
        return flow.odd(f"its results are not there yet: it is {state}")
    rest = CUT.get(state)
    return Results(lines=_lines(items or [], rest), rest=rest, done=_done(held))


def _responses(held: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The list of responses, which lies in an object of the same name, in the operation's response or in its metadata."""
    for place in (held.get("response"), bodies.mapping(held.get("metadata")).get("output")):
        outer = bodies.mapping(place).get("inlinedResponses")
        found = bodies.objects(bodies.mapping(outer).get("inlinedResponses", outer))
        if found is not None:
            return found
    return None


def _lines(items: list[Mapping[str, Any]], rest: Failure | None) -> Iterator[Line]:
    for item in items:
        if (name := bodies.word(bodies.mapping(item.get("metadata")).get("key"))) is not None:
            yield name, _outcome(item, rest)


def _outcome(item: Mapping[str, Any], rest: Failure | None) -> WireReply | Failure:
    error = item.get("error")
    if error:
        stopped = bodies.mapping(error).get("code") in STOPPED
        return rest if rest is not None and stopped else _told(error, status=500)
    return flow.reply(item["response"]) if "response" in item else flow.UNREADABLE


def cancel(job: str) -> Flow[None]:
    """Ask for its end."""
    held = yield from flow.ask(flow.order(f"/{job}:cancel"))
    return held if isinstance(held, Failure) else None
