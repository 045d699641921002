"""OpenAI's batch API: a file of lines, a batch over it, files of results; calls from lines and lines from replies; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

import orjson

from judgerun.model.reply import Failure
from judgerun.model.request import digest
from judgerun.ports import Look
from judgerun.providers import body as bodies
from judgerun.providers.jobs import flow
from judgerun.providers.jobs.flow import Flow, Line, Results
from judgerun.providers.wire import WireCall, WireReply

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
CUT: Mapping[str, Failure] = {"expired": flow.EXPIRED, "cancelled": flow.CANCELLED}
"""Statuses of a batch that was not done to its end."""
MARK = "judgerun"
"""The field of a batch's metadata that holds our name for it."""


def line(name: str, call: WireCall) -> bytes:
    """What stands for one request in a job: its call as an object, ended by a newline."""
    url = f"/v1{call.path}".encode()
    return b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (name.encode(), url, call.body)


def submit(lines: list[bytes], call: WireCall, *, token: str) -> Flow[str]:
    """Upload the lines, then make the batch. A file alone is nothing: it costs nothing and starts nothing."""
    uploaded = yield from flow.ask(_upload(lines, token))
    file = uploaded if isinstance(uploaded, Failure) else flow.named(uploaded, "id")
    if isinstance(file, Failure):
        return flow.unbilled(file)
    told = {
        "input_file_id": file,
        "endpoint": f"/v1{call.path}",
        "completion_window": "24h",
        "metadata": {MARK: token},
    }
    made = yield from flow.ask(WireCall(path="/batches", body=orjson.dumps(told)))
    return made if isinstance(made, Failure) else flow.named(made, "id")


def _upload(lines: list[bytes], token: str) -> WireCall:
    """The file as a form; what separates its fields is a digest of it, which it cannot hold."""
    mark = f"judgerun-{digest(lines)[:32]}"
    head = (
        f'--{mark}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{mark}\r\ncontent-disposition: form-data; name="file"; filename="{token}.jsonl"\r\n'
        "content-type: application/jsonl\r\n\r\n"
    )
    body = flow.joined(head.encode(), lines, f"\r\n--{mark}--\r\n".encode())
    return WireCall(path="/files", body=body, headers={"content-type": f"multipart/form-data; boundary={mark}"})


def find(names: Collection[str], *, token: str, since: float, known: Collection[str]) -> Flow[str | Look | None]:
    """The batch whose metadata hold the token."""
    query = {"limit": str(flow.PAGE)}
    for _ in range(flow.PAGES_MAX):
        found = yield from flow.listing(flow.question("/batches", **query), "data")
        if isinstance(found, Failure):
            return found
        page, listed = found
        for batch in listed:
            if bodies.mapping(batch.get("metadata")).get(MARK) == token:
                return flow.named(batch, "id")
        if not page.get("has_more") or flow.past([_time(batch) for batch in listed], since):
            return None
        last = flow.named(listed[-1] if listed else {}, "id")
        if isinstance(last, Failure):
            return last
        query["after"] = last
    return flow.ENDLESS


def _time(batch: Mapping[str, Any]) -> float | None:
    made = batch.get("created_at")
    return float(made) if isinstance(made, int) else None


def look(job: str) -> Flow[Look]:
    """Its status. A batch that failed was refused when its file was looked at: for a limit of enqueued tokens, or a bad line."""
    held = yield from flow.ask(flow.question(f"/batches/{job}"))
    if isinstance(held, Failure):
        return held
    status = _status(held)
    if isinstance(status, Failure):
        return status
    refused = _refused(held) if status == "failed" and not _done(held) else None
    return Look(ended=status in ENDED, told=status, failure=refused)


def _status(held: Mapping[str, Any]) -> str | Failure:
    status = flow.named(held, "status")
    return status if isinstance(status, Failure) else status.lower()  # other servers shout


def _done(held: Mapping[str, Any]) -> int | None:
    """Requests that were answered; None where it does not say."""
    done = bodies.mapping(held.get("request_counts")).get("completed")
    return done if isinstance(done, int) else None


def _refused(held: Mapping[str, Any]) -> Failure:
    """Why the whole batch was refused: its first error, and how many there are."""
    errors = bodies.objects(bodies.mapping(held.get("errors")).get("data")) or [{"message": "no reason is told"}]
    first = errors[0]
    line, more = first.get("line"), len(errors) - 1
    words = [str(first.get("message", "")), f"(line {line})" if line else "", f"({more} more)" if more else ""]
    error = {**first, "message": " ".join(filter(None, words))}
    return flow.told(error, status=429 if first.get("code") == "token_limit_exceeded" else 400)


def collect(job: str) -> Flow[Results]:
    """The lines of both files, of successes and of errors. One that would be empty has no id, or an empty one."""
    held = yield from flow.ask(flow.question(f"/batches/{job}"))
    if isinstance(held, Failure):
        return held
    status = _status(held)
    files = [file for name in ("output_file_id", "error_file_id") if (file := bodies.word(held.get(name)))]
    if status not in ENDED or (_done(held) and not files):  # an end that is told before its files are there
        return flow.odd(f"its results are not there yet: it is {status}")
    found: list[WireReply] = []
    for file in files:
        content = yield from flow.results(flow.question(f"/files/{file}/content"))
        if isinstance(content, Failure):
            return content
        found.append(content)
    lines = chain.from_iterable(_lines(content) for content in found)
    return Results(lines=lines, rest=CUT.get(str(status)), done=_done(held))


def _lines(content: WireReply) -> Iterator[Line]:
    for held in flow.entries(content.body):
        if (name := bodies.word(held.get("custom_id"))) is not None:
            yield name, _outcome(held)


def _outcome(held: Mapping[str, Any]) -> WireReply | Failure:
    response, error = bodies.mapping(held.get("response")), held.get("error")
    status = response.get("status_code")
    if isinstance(status, int):
        given = bodies.word(response.get("request_id"))
        return flow.reply(response.get("body"), status=status, headers={} if given is None else {"x-request-id": given})
    if not error:
        return flow.UNREADABLE
    code = str(bodies.mapping(error).get("code"))
    # Of a request in a batch that was cancelled the code could not be confirmed; other servers write `batch_cancelled`.
    return flow.EXPIRED if "expired" in code else flow.CANCELLED if "cancel" in code else flow.told(error)


def cancel(job: str) -> Flow[None]:
    """Ask for its end; what is done meanwhile is in its results."""
    held = yield from flow.ask(flow.order(f"/batches/{job}/cancel"))
    return held if isinstance(held, Failure) else None
