"""Anthropic's message batches: requests in one body, results as lines of JSON; calls from lines and lines from replies; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from judgerun.model.reply import Failure
from judgerun.ports import Look
from judgerun.providers import body as bodies
from judgerun.providers.jobs import flow
from judgerun.providers.jobs.flow import Flow, Line, Results
from judgerun.providers.wire import WireCall, WireReply

PATH = "/messages/batches"
UNTOLD = Look(ended=False, told="a batch that may be this job is at work: only its results will tell whose it is")


def line(name: str, call: WireCall) -> bytes:
    """What stands for one request in a job, ended by a comma."""
    return b'{"custom_id":"%s","params":%s},' % (name.encode(), call.body)


def submit(lines: list[bytes], call: WireCall, *, token: str) -> Flow[str]:
    """Hand the batch over. It has no place for a token: its requests are its name."""
    made = yield from flow.ask(WireCall(path=PATH, body=flow.joined(b'{"requests":[', lines, b"]}")))
    return made if isinstance(made, Failure) else flow.named(made, "id")


def find(names: Collection[str], *, token: str, since: float, known: Collection[str]) -> Flow[str | Look | None]:
    """The batch that holds exactly these requests. As long as one with as many is at work it cannot be told apart: then
    that will show later. Batches `known` under another token are not asked. The newest are listed first.
    """
    query = {"limit": str(flow.PAGE)}
    for _ in range(flow.PAGES_MAX):
        found = yield from flow.listing(flow.question(PATH, **query), "data")
        if isinstance(found, Failure):
            return found
        page, listed = found
        for batch in listed:
            if _may_be(batch, len(names), since=since, known=known):
                same = yield from _same(batch, names)
                if same is not None:
                    return same
        if not page.get("has_more") or flow.past([flow.moment(batch.get("created_at")) for batch in listed], since):
            return None
        last = flow.named(page, "last_id")
        if isinstance(last, Failure):
            return last
        query["after_id"] = last
    return flow.ENDLESS


def _may_be(batch: Mapping[str, Any], size: int, *, since: float, known: Collection[str]) -> bool:
    """Whether what a list tells of a batch speaks against nothing."""
    made, counts = flow.moment(batch.get("created_at")), bodies.mapping(batch.get("request_counts")).values()
    numbers = [count for count in counts if isinstance(count, int)]
    late = made is None or made >= since - flow.SKEW_S
    return late and batch.get("id") not in known and (not numbers or sum(numbers) == size)


def _same(batch: Mapping[str, Any], names: Collection[str]) -> Flow[str | Look | None]:
    """The id of a batch if its results are those of these requests."""
    job = flow.named(batch, "id")
    if isinstance(job, Failure):
        return job
    if batch.get("processing_status") != "ended":
        return UNTOLD
    results = yield from flow.results(flow.question(f"{PATH}/{job}/results"))
    if isinstance(results, Failure):
        return results
    return job if {name for name, _ in _lines(results)} == set(names) else None


def look(job: str) -> Flow[Look]:
    """Its status. A batch is never refused as a whole after it was taken."""
    held = yield from flow.ask(flow.question(f"{PATH}/{job}"))
    status = held if isinstance(held, Failure) else flow.named(held, "processing_status")
    return status if isinstance(status, Failure) else Look(ended=status == "ended", told=status)


def collect(job: str) -> Flow[Results]:
    """One line for each request, in any order. What was not done to its end has a line that says so, and is not charged."""
    results = yield from flow.results(flow.question(f"{PATH}/{job}/results"))
    return results if isinstance(results, Failure) else Results(lines=_lines(results))


def _lines(results: WireReply) -> Iterator[Line]:
    for held in flow.entries(results.body):
        if (name := bodies.word(held.get("custom_id"))) is not None:
            yield name, _outcome(bodies.mapping(held.get("result")))


def _outcome(result: Mapping[str, Any]) -> WireReply | Failure:
    match result.get("type"):
        case "succeeded":
            return flow.reply(result.get("message"))
        case "errored":
            error = bodies.mapping(result.get("error"))
            return flow.told(error.get("error") or error)
        case "expired":
            return flow.EXPIRED
        case "canceled":
            return flow.CANCELLED
    return flow.UNREADABLE


def cancel(job: str) -> Flow[None]:
    """Ask for its end; what is done meanwhile is in its results."""
    held = yield from flow.ask(flow.order(f"{PATH}/{job}/cancel"))
    return held if isinstance(held, Failure) else None
