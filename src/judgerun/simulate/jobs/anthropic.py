"""Anthropic's message batches: requests in one body, results as lines of JSON; bodies from and to the engine's jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import orjson
from aiohttp import web

from judgerun.simulate import anthropic
from judgerun.simulate.ask import Body, Call, Refused, Trouble, Wrong
from judgerun.simulate.jobs.engine import Engine, Job, Line
from judgerun.simulate.jobs.host import Host, Route, on, wrong

DAY_S = 86_400
LINES_MAX = 100_000
LIST_MAX = 1000
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,64}")
QUEUE = "the requests in the batch queue would exceed the limit of your organisation"


def routes(host: Host) -> list[Route]:
    """The endpoints, each with its handler."""
    engine = host.engine

    async def submit(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            lines = _lines(Call(path="/messages/batches", raw=raw).body())
        except Wrong as reason:
            return wrong(anthropic, str(reason))
        base = str(request.url.with_query(None))

        def begin(fault: str | None) -> Body | Refused:
            if fault == "job_fail":  # no state says that a batch failed: it is refused at its submit
                return anthropic.error(Trouble(kind="limit", message=QUEUE))
            return _batch(engine.start("msgbatch_", lines, fault, {"base": base}))

        return await host.exchange(request, anthropic, begin, submit=raw)

    async def listed(request: web.Request) -> web.StreamResponse:
        return await host.exchange(request, anthropic, lambda _: _list(engine, request.query))

    return [
        ("POST", "/messages/batches", submit),
        ("GET", "/messages/batches", listed),
        ("GET", "/messages/batches/{id}", on(host, anthropic, _batch)),
        ("POST", "/messages/batches/{id}/cancel", on(host, anthropic, lambda job: _batch(engine.cancel(job)))),
        ("GET", "/messages/batches/{id}/results", on(host, anthropic, _results)),
    ]


def _lines(body: Body) -> list[Line]:
    held = body.get("requests")
    if not isinstance(held, list) or not 0 < len(held) <= LINES_MAX:
        raise Wrong(f"requests: a list of 1 to {LINES_MAX}")
    keys = [str(one.get("custom_id")) for one in held]
    if len(set(keys)) < len(keys) or not all(map(_KEY.fullmatch, keys)):
        raise Wrong("requests: each has a custom_id of its own, of 1 to 64 letters, digits, _ or -")
    return [_line(key, one.get("params") or {}) for key, one in zip(keys, held, strict=True)]


def _line(key: str, params: Body) -> Line:
    line = Line(key=key, dialect=anthropic)
    digest = Call(path="line", raw=orjson.dumps(params)).digest
    try:
        if params.get("stream"):
            raise Wrong("stream: a request in a batch is not streamed")
        line.ask = anthropic.parse(params, digest)
    except Wrong as reason:
        line.trouble = Trouble(kind="request", message=str(reason))
    return line


def _batch(job: Job) -> Body:
    """The object of a batch; results are counted once all of it has ended."""
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if job.ended is None:
        counts["processing"] = len(job.lines)
    else:
        counts |= {name: job.count(name) for name in counts if name != "processing"}
    status = "ended" if job.ended is not None else "in_progress" if job.cancelled is None else "canceling"
    return {
        "id": job.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "created_at": _time(job.created),
        "expires_at": _time(job.created + DAY_S),
        "ended_at": _time(job.ended),
        "cancel_initiated_at": _time(job.cancelled),
        "archived_at": None,
        "results_url": None if job.ended is None else f"{job.told['base']}/{job.id}/results",
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _results(job: Job) -> bytes | None:
    if job.ended is None:
        return None
    return b"".join(orjson.dumps({"custom_id": line.key, "result": _result(line)}) + b"\n" for line in job.results())


def _result(line: Line) -> Body:
    if line.ask is not None and line.given is not None:
        return {"type": "succeeded", "message": anthropic.write(line.ask, line.given)}
    if line.trouble is not None:
        return {"type": "errored", "error": anthropic.error(line.trouble).body}
    return {"type": line.end}


def _list(engine: Engine, query: Mapping[str, str]) -> Body:
    """A page, newest first."""
    jobs = [job for job in reversed(engine.jobs.values()) if "base" in job.told]
    ids = [job.id for job in jobs]
    start = ids.index(query["after_id"]) + 1 if query.get("after_id") in ids else 0
    limit = min(int(query.get("limit", 20)), LIST_MAX)
    page = [_batch(job) for job in jobs[start : start + limit]]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"data": page, **ends, "has_more": start + limit < len(jobs)}
