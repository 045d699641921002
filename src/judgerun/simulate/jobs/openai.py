"""OpenAI's batch API: files of lines, batches over them, files of results; bodies from and to the engine's jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import orjson
from aiohttp import web

from judgerun.simulate import openai, responses
from judgerun.simulate.ask import Body, Call, Trouble, Wrong
from judgerun.simulate.dialects import Dialect
from judgerun.simulate.jobs.engine import Engine, Job, Line
from judgerun.simulate.jobs.host import Host, Route, on, wrong

DAY_S = 86_400
LINES_MAX = 50_000
LIST_MAX = 100
ENDPOINTS: Mapping[str, tuple[Dialect, str]] = {
    "/v1/chat/completions": (openai, "/chat/completions"),
    "/v1/embeddings": (openai, "/embeddings"),
    "/v1/responses": (responses, "/responses"),
}
REASONS: Mapping[str, Body] = {
    "expired": {
        "code": "batch_expired",
        "message": "This request could not be executed before the completion window expired.",
    },
    "canceled": {"code": "batch_cancelled", "message": "This request was not executed: the batch was cancelled."},
}


def routes(host: Host) -> list[Route]:
    """The endpoints, each with its handler."""
    engine = host.engine

    async def upload(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        held = form.get("file")
        if form.get("purpose") != "batch" or not isinstance(held, web.FileField):
            return wrong(openai, "a file is sent as multipart with the purpose batch")
        raw, name = held.file.read(), held.filename
        return await host.exchange(request, openai, lambda _: _file(engine, engine.keep(raw), name))

    async def submit(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            body = Call(path="/batches", raw=raw).body()
            dialect, path = _endpoint(body)
            lines = _lines(engine, body, dialect, path)
        except Wrong as reason:
            return wrong(openai, str(reason))

        def begin(fault: str | None) -> Body:
            return _batch(engine, engine.start("batch_", lines, fault, body))

        return await host.exchange(request, openai, begin, submit=raw)

    async def listed(request: web.Request) -> web.StreamResponse:
        return await host.exchange(request, openai, lambda _: _list(engine, request.query))

    async def content(request: web.Request) -> web.StreamResponse:
        raw = engine.files.get(request.match_info["id"])
        gone = openai.error(Trouble(kind="missing", message="No such File object."))
        return await host.exchange(request, openai, lambda _: gone if raw is None else raw)

    return [
        ("POST", "/files", upload),
        ("GET", "/files/{id}/content", content),
        ("POST", "/batches", submit),
        ("GET", "/batches", listed),
        ("GET", "/batches/{id}", on(host, openai, lambda job: _batch(engine, job))),
        ("POST", "/batches/{id}/cancel", on(host, openai, lambda job: _batch(engine, engine.cancel(job)))),
    ]


def _file(engine: Engine, id: str, name: str) -> Body:
    size, at = len(engine.files[id]), int(engine.now())
    told = {"id": id, "object": "file", "bytes": size, "created_at": at, "filename": name}
    return {**told, "purpose": "batch", "status": "processed"}


def _endpoint(body: Body) -> tuple[Dialect, str]:
    if body.get("endpoint") not in ENDPOINTS:
        raise Wrong(f"endpoint: one of {', '.join(ENDPOINTS)}")
    if body.get("completion_window") != "24h":
        raise Wrong("completion_window: only 24h")
    return ENDPOINTS[str(body["endpoint"])]


def _lines(engine: Engine, body: Body, dialect: Dialect, path: str) -> list[Line]:
    raw = engine.files.get(str(body.get("input_file_id")))
    if raw is None:
        raise Wrong("input_file_id: no such file")
    held = [Call(path="line", raw=line).body() for line in raw.splitlines() if line]
    if not 0 < len(held) <= LINES_MAX or len({str(one.get("custom_id")) for one in held}) < len(held):
        raise Wrong(f"a file holds 1 to {LINES_MAX} lines, each with a custom_id of its own")
    if any(one.get("url") != body["endpoint"] or one.get("method") != "POST" for one in held):
        raise Wrong("each line is a POST to the endpoint of the batch")
    return [_line(one, dialect, path) for one in held]


def _line(held: Body, dialect: Dialect, path: str) -> Line:
    line = Line(key=str(held["custom_id"]), dialect=dialect)
    try:
        line.ask = dialect.read(Call(path=path, raw=orjson.dumps(held.get("body"))))
    except Wrong as reason:
        line.trouble = Trouble(kind="request", message=str(reason))
    return line


def _status(job: Job) -> str:
    if job.ended is None:
        if job.cancelled is not None:
            return "cancelling"
        return "in_progress" if job.begun else "validating"
    if job.failed:
        return "failed"
    if job.cancelled is not None:
        return "cancelled"
    return "expired" if job.fault == "job_expire" else "completed"


def _batch(engine: Engine, job: Job) -> Body:
    """The object of a batch. A clean one has an error file id that is empty, as it was seen at the real one."""
    status, created = _status(job), int(job.created)
    ended = None if job.ended is None else int(job.ended)
    files: dict[str, str | None] = {"output_file_id": None, "error_file_id": None}
    if ended is not None and not job.failed:
        files = {name: _kept(engine, job, name) for name in files}
    limit = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached.", "param": None, "line": None}
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": job.told["endpoint"],
        "errors": {"object": "list", "data": [limit]} if job.failed else None,
        "input_file_id": job.told["input_file_id"],
        "completion_window": "24h",
        "status": status,
        **files,
        "created_at": created,
        "in_progress_at": None if status in ("validating", "failed") else created,
        "expires_at": created + DAY_S,
        "finalizing_at": ended if status == "completed" else None,
        "cancelling_at": None if job.cancelled is None else int(job.cancelled),
        **{f"{name}_at": ended if status == name else None for name in ("completed", "failed", "expired", "cancelled")},
        "request_counts": {
            "total": 0 if job.failed else len(job.lines),
            "completed": job.count("succeeded"),
            "failed": job.count("errored"),
        },
        "metadata": job.told.get("metadata"),
    }


def _kept(engine: Engine, job: Job, name: str) -> str:
    """The id of the file of the successes, or of the rest; empty where there would be nothing in it."""
    id = f"file-{name[:3]}{job.id}"
    good = name == "output_file_id"
    raw = b"".join(orjson.dumps(told) + b"\n" for told in _told(job, good=good))
    if not raw:
        return ""
    engine.files[id] = raw
    return id


def _told(job: Job, *, good: bool) -> Iterator[Body]:
    for line in job.results():
        if (line.end == "succeeded") == good:
            response, error = _response(line)
            yield {"id": f"batch_req_{line.key}", "custom_id": line.key, "response": response, "error": error}


def _response(line: Line) -> tuple[Body | None, Body | None]:
    if line.end in REASONS:
        return None, REASONS[line.end]
    if line.ask is not None and line.given is not None:
        status, body = 200, line.dialect.write(line.ask, line.given)
    else:
        refused = line.dialect.error(_trouble(line))
        status, body = refused.status, refused.body
    return {"status_code": status, "request_id": f"req_{line.key}", "body": body}, None


def _trouble(line: Line) -> Trouble:
    return line.trouble or Trouble(kind="server", message="the server had an error")


def _list(engine: Engine, query: Mapping[str, str]) -> Body:
    """A page, newest first."""
    jobs = [job for job in reversed(engine.jobs.values()) if "input_file_id" in job.told]
    ids = [job.id for job in jobs]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    limit = min(int(query.get("limit", 20)), LIST_MAX)
    page = [_batch(engine, job) for job in islice(jobs, start, start + limit)]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": start + limit < len(jobs)}
