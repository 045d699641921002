"""Flow: what the codecs of batch APIs share: exchanges as generators, lines of JSON, failures without a status; pure."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import orjson

from judgerun.model.experiment import Deployment
from judgerun.model.profile import JobLimits
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.providers import body as bodies
from judgerun.providers import fault
from judgerun.providers.wire import WireCall, WireReply

T = TypeVar("T")

Flow = Generator[WireCall, WireReply | Failure, T | Failure]
"""Exchanges one after the other: it yields a call, is sent a reply with a status of success or why there is none, and returns
what came of it all. Who drives it does the talking.
"""

PAGE = 100
PAGES_MAX = 1000
"""A list of jobs that is longer than this has no end."""

SKEW_S = 3600.0
"""How far the clock of a provider may be from ours, in seconds."""

EXPIRED = Failure(cause=Cause.TIMED_OUT, billable=Billable.NO, detail="its job expired before it was done")
CANCELLED = Failure(cause=Cause.INTERRUPTED, billable=Billable.NO, detail="its job was cancelled before it was done")
UNREADABLE = Failure(cause=Cause.MALFORMED, billable=Billable.UNKNOWN, detail="its result in the job cannot be read")
ENDLESS = Failure(cause=Cause.MALFORMED, billable=Billable.NO, detail="the list of jobs has no end")

Line = tuple[str, WireReply | Failure]
"""What a job says of one request, by the name that the request has in it: an HTTP reply of its own, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What an ended job left."""

    lines: Iterator[Line]
    rest: Failure | None = None  # of a job that was cut short: why the requests without a line were not done
    done: int | None = None  # how many were, by the job's own count: `rest` is believed only where they all have lines


def job_limits(deployment: Deployment, usual: JobLimits) -> JobLimits | None:
    """What a job may hold at a deployment of a dialect that has a batch API. A deployment of one's own has one where its price says
    what a token costs there: nobody else can know.
    """
    if deployment.builtin:
        return usual
    factor = None if deployment.price is None else deployment.price.batch_factor
    return None if factor is None else replace(usual, factor=factor)


def ask(call: WireCall) -> Generator[WireCall, WireReply | Failure, dict[str, Any] | Failure]:
    """One exchange whose reply is a JSON object."""
    reply = yield call
    return reply if isinstance(reply, Failure) else bodies.read(reply)


def listing(
    call: WireCall, field: str, *, missing: list[Any] | None = None
) -> Flow[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """One page of a list of jobs: the page, and the objects in it. `missing` is what a page without the field lists."""
    held = yield from ask(call)
    if isinstance(held, Failure):
        return held
    listed = bodies.objects(held.get(field, missing))
    return odd("the list of jobs is none") if listed is None else (held, listed)


def question(path: str, **query: str) -> WireCall:
    """A GET."""
    return WireCall(path=path, method="GET", query=query)


def order(path: str) -> WireCall:
    """A POST without a body."""
    return WireCall(path=path)


def unbilled(failure: Failure) -> Failure:
    """The failure of an exchange that can have cost nothing."""
    return replace(failure, billable=Billable.NO)


def odd(why: str) -> Failure:
    """A success that is not what was asked for: what was asked may have been done."""
    return Failure(cause=Cause.MALFORMED, billable=Billable.UNKNOWN, detail=why)


def named(held: Mapping[str, Any], field: str) -> str | Failure:
    """The provider's name of a job or file."""
    return bodies.word(held.get(field)) or odd(f"the reply names no {field}")


def split(body: bytes) -> Iterator[bytes]:
    """The lines of a body, one after the other: it is not copied whole."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        if line := body[start:end].strip():
            yield line
        start = end + 1


def results(call: WireCall) -> Flow[WireReply]:
    """One exchange whose reply is a body of lines, the last of which names a request: else it broke off, or is something else, and
    a job's silence would be taken for what the job says.
    """
    reply = yield call
    if isinstance(reply, Failure):
        return reply
    end = len(reply.body)
    while end and reply.body[end - 1 : end].isspace():
        end -= 1
    last = loaded(reply.body[reply.body.rfind(b"\n", 0, end) + 1 : end])
    return reply if last is not None and "custom_id" in last else odd("its results break off, or are none")


def entries(body: bytes) -> Iterator[Mapping[str, Any]]:
    """The objects of a body of lines. A line that is none names no request: its request is one on which nothing is said."""
    return (held for line in split(body) if (held := loaded(line)) is not None)


def loaded(raw: bytes) -> dict[str, Any] | None:
    """The JSON object that bytes hold; None where they hold none."""
    try:
        held = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return held if isinstance(held, dict) else None


def reply(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> WireReply:
    """The reply that a call of its own would have had with this body, written anew."""
    try:
        raw = orjson.dumps(body)
    except orjson.JSONEncodeError:  # nested deeper than any answer
        raw = b""
    return WireReply(status=status, headers=headers or {}, body=raw, at=0.0)


def told(error: Any, *, status: int | None = None) -> Failure:
    """The failure that an error of a job, or of a request in one, means: nothing is charged for it. `status` is the HTTP status
    that it would have had, where its own words do not say.
    """
    held = {"message": error} if not isinstance(error, dict) else error
    return fault.told(held if status is None else {**held, "status": status}, raw=reply(error).body)


def past(times: Sequence[float | None], since: float) -> bool:
    """Whether all that follows a page is older than `since`: no API but one promises its order, so the page itself must show it."""
    known = [time for time in times if time is not None]
    ordered = len(known) == len(times) > 1 and known == sorted(known, reverse=True)
    return ordered and known[-1] < since - SKEW_S


def moment(text: Any) -> float | None:
    """The Unix time of an RFC 3339 text; None where it is none."""
    try:
        time = datetime.fromisoformat(text)
        return None if time.tzinfo is None else time.timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def joined(head: bytes, lines: list[bytes], tail: bytes) -> bytes:
    """A body out of lines that each end with a separator of one byte, which the last one loses. The list is emptied: what may be
    hundreds of megabytes stands in memory once.
    """
    body = b"".join([head, *lines[:-1], lines[-1][:-1], tail])
    lines.clear()
    return body
