"""Gemini's batch mode with inline requests: operations under batches/; bodies from and to the engine's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import orjson
from aiohttp import web

from judgerun.simulate import google
from judgerun.simulate.ask import Body, Call, Trouble, Wrong
from judgerun.simulate.jobs.engine import Engine, Job, Line
from judgerun.simulate.jobs.host import Host, Route, on, wrong

PREFIX = "batches/"
LIST_MAX = 100
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"


def routes(host: Host) -> list[Route]:
    """The endpoints, each with its handler."""
    engine = host.engine

    async def submit(request: web.Request) -> web.StreamResponse:
        raw, model = await request.read(), request.match_info["model"]
        try:
            batch = Call(path="batch", raw=raw).body().get("batch") or {}
            lines = _lines(batch, model)
        except Wrong as reason:
            return wrong(google, str(reason))
        told = {"model": f"models/{model}", "displayName": batch["displayName"]}

        def begin(fault: str | None) -> Body:
            return _operation(engine.start(PREFIX, lines, fault, told, keeps=False))

        return await host.exchange(request, google, begin, submit=raw)

    def cancel(job: Job) -> Body:
        engine.cancel(job)
        return {}

    async def listed(request: web.Request) -> web.StreamResponse:
        return await host.exchange(request, google, lambda _: _list(engine, request.query))

    return [
        ("POST", "/models/{model:[^:]+}:batchGenerateContent", submit),
        ("GET", "/batches", listed),
        ("GET", "/batches/{id:[0-9]+}", on(host, google, _operation, prefix=PREFIX)),
        ("POST", "/batches/{id:[0-9]+}:cancel", on(host, google, cancel, prefix=PREFIX)),
    ]


def _lines(batch: Body, model: str) -> list[Line]:
    held = ((batch.get("inputConfig") or {}).get("requests") or {}).get("requests")
    if not isinstance(held, list) or not held:
        raise Wrong("batch.inputConfig.requests.requests: a list that is not empty")
    if not isinstance(batch.get("displayName"), str):
        raise Wrong("batch.displayName: required")
    return [_line(one, model, n) for n, one in enumerate(held)]


def _line(held: Body, model: str, n: int) -> Line:
    line = Line(key=str((held.get("metadata") or {}).get("key", n)), dialect=google)
    body = held.get("request") or {}
    digest = Call(path="line", raw=orjson.dumps(body), match={"model": model}).digest
    try:
        line.ask = google.parse(body, model, digest)
    except Wrong as reason:
        line.trouble = Trouble(kind="request", message=str(reason))
    return line


def _state(job: Job) -> str:
    if job.ended is None:
        return "RUNNING" if job.begun else "PENDING"
    if job.failed:
        return "FAILED"
    if job.cancelled is not None:
        return "CANCELLED"
    return "EXPIRED" if job.fault == "job_expire" else "SUCCEEDED"


def _operation(job: Job) -> Body:
    """The operation of a batch; counts are words, and those of 0 are left out. The responses are documented to stand in the order
    of the requests, and were seen in another.
    """
    counts = {
        "requestCount": len(job.lines),
        "pendingRequestCount": job.count("waiting"),
        "successfulRequestCount": job.count("succeeded"),
        "failedRequestCount": job.count("errored"),
    }
    metadata = {
        "@type": _TYPE,
        **job.told,
        "createTime": _time(job.created),
        "updateTime": _time(job.ended or job.created),
        "batchStats": {name: str(count) for name, count in counts.items() if count},
        "state": f"BATCH_STATE_{_state(job)}",
        "name": job.id,
    }
    made: Body = {"name": job.id, "metadata": metadata}
    if job.ended is None:
        return made
    if job.failed:
        return {**made, "done": True, "error": {"code": 8, "message": "enqueued tokens exceed the limit"}}
    if job.fault == "job_expire":  # has no results
        return {**made, "done": True}
    metadata["endTime"] = _time(job.ended)
    output = {"inlinedResponses": {"inlinedResponses": [_told(line) for line in job.results()]}}
    kind = f"{_TYPE}Output"
    return {**made, "metadata": {**metadata, "output": output}, "done": True, "response": {"@type": kind, **output}}


def _told(line: Line) -> Body:
    metadata = {"metadata": {"key": line.key}}
    if line.ask is not None and line.given is not None:
        return {"response": google.write(line.ask, line.given), **metadata}
    codes = {"canceled": (1, "the batch was cancelled"), "expired": (4, "the batch expired")}
    code, message = codes.get(line.end, (13, "internal error"))
    if line.trouble is not None:
        code, message = 3 if line.trouble.kind in ("request", "context") else 13, line.trouble.message
    return {"error": {"code": code, "message": message}, **metadata}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _list(engine: Engine, query: Mapping[str, str]) -> Body:
    """A page, newest first; operations in a list carry no responses."""
    jobs = [job for job in reversed(engine.jobs.values()) if "displayName" in job.told]
    start, size = int(query.get("pageToken") or 0), min(int(query.get("pageSize", 50)), LIST_MAX)
    page = [_operation(job) for job in jobs[start : start + size]]
    for operation in page:
        operation.pop("response", None)
        operation["metadata"].pop("output", None)
    more = {"nextPageToken": str(start + size)} if start + size < len(jobs) else {}
    return {"operations": page, **more}
