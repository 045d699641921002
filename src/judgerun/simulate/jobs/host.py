"""Host: what a batch API needs of the server that serves it; no wire shape and no job may stand here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from judgerun.simulate import deliver
from judgerun.simulate.ask import Body, Refused, Trouble
from judgerun.simulate.dialects import Dialect
from judgerun.simulate.jobs.engine import Engine, Job

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Route = tuple[str, str, Handler]
Reply = Callable[[str | None], Body | bytes | Refused]
"""From the fault that befalls the exchange to what is answered."""


class Host(Protocol):
    """The server."""

    @property
    def engine(self) -> Engine: ...

    async def exchange(
        self, request: web.Request, dialect: Dialect, reply: Reply, *, submit: bytes | None = None
    ) -> web.StreamResponse: ...


def on(host: Host, dialect: Dialect, act: Callable[[Job], Body | bytes | None], *, prefix: str = "") -> Handler:
    """A handler of calls on one job, whose id is the `id` of the path after `prefix`; None: there is no such thing (yet)."""

    async def handle(request: web.Request) -> web.StreamResponse:
        job = host.engine.jobs.get(prefix + request.match_info["id"])
        nothing = dialect.error(Trouble(kind="missing", message="there is no such job, or nothing of it to be had"))

        def reply(_: str | None) -> Body | bytes | Refused:
            made = None if job is None else act(job)
            return nothing if made is None else made

        return await host.exchange(request, dialect, reply)

    return handle


def wrong(dialect: Dialect, message: str) -> web.Response:
    """The body cannot be acted on."""
    return deliver.refusal(dialect.error(Trouble(kind="request", message=message)))
