"""The server: HTTP on this machine, one handler for every dialect's calls, the bill, the gauges, and the process that serves."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import orjson
from aiohttp import web

from judgerun.simulate import deliver, openai, spoil
from judgerun.simulate.ask import Ask, Call, Given, Refused, Stated, Trouble, Wrong, tokens, words
from judgerun.simulate.bill import Bill, read_tariffs
from judgerun.simulate.dialects import BASES, DIALECTS, Dialect
from judgerun.simulate.faults import FAULTS, befall, parse
from judgerun.simulate.gauge import Gauge
from judgerun.simulate.jobs import anthropic as messagebatches
from judgerun.simulate.jobs import google as operations
from judgerun.simulate.jobs import openai as batches
from judgerun.simulate.jobs.engine import Engine
from judgerun.simulate.jobs.host import Host, Reply, Route
from judgerun.simulate.law import Law, give, habit, latency, overlong
from judgerun.simulate.serving import serving

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FLOOD_BYTES = 33 * 2**20
REQUEST_BYTES_MAX = 64 * 2**20

NOTHING_LEFT = (
    Stated(unit="requests", limit=60, remaining=0, reset=20.0),
    Stated(unit="tokens", limit=100_000, remaining=0, reset=20.0),
)
TROUBLES: Mapping[str, Trouble] = {
    "quota": Trouble(
        kind="quota", message="You exceeded your current quota, please check your plan and billing details."
    ),
    "401": Trouble(kind="key", message="Incorrect API key provided."),
    "500": Trouble(kind="server", message="the server had an error"),
    "529": Trouble(kind="overload", message="the model is overloaded, try again later"),
    "504": Trouble(kind="timeout", message="the gateway waited long enough"),
}
"""Faults that are an error in the dialect's own words."""

JOBS: Mapping[str, Callable[[Host], list[Route]]] = {
    "openai": batches.routes,
    "anthropic": messagebatches.routes,
    "google": operations.routes,
}
"""The batch APIs; each under the bases of its dialect that have a prefix, for some paths are the same."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Simulator:
    """A provider. Its answers are a function of seed and body; its faults of seed, body and how often the body came before."""

    def __init__(
        self,
        *,
        seed: int = 0,
        models: Mapping[str, Law] | None = None,
        faults: Mapping[str, float] | None = None,
        bill: Bill | None = None,
        gauge: Gauge | None = None,
        pace: float = 1.0,
        wall: Callable[[], float] = time.time,
        flood_bytes: int = FLOOD_BYTES,
    ) -> None:
        """`models`: laws by model name; any other name gets a law of its own. `faults`: weights, as `faults.parse` makes them.
        `pace` multiplies every latency (0: none). `wall` gives Unix seconds.
        """
        self.faults = dict(faults or {})  # may be cleared while it serves: then everything must come to its end
        self.bill = bill if bill is not None else Bill()
        self.gauge = gauge if gauge is not None else Gauge()
        self._seed = seed
        self._models = dict(models or {})
        self._pace = pace
        self._wall = wall
        self._flood_bytes = flood_bytes
        self._came: Counter[str] = Counter()
        self.engine = Engine(seed=seed, models=self._models, bill=self.bill, pace=pace, wall=wall)

    def app(self) -> web.Application:
        """The application: each dialect under its bases, the rest at the root and under /v1."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX)
        for name, dialect in DIALECTS.items():
            for base, path in itertools.product(BASES[name], dialect.PATHS):
                app.router.add_post(base + path, self._handler(dialect, path))
        for name, routes in JOBS.items():
            for base, (method, path, handler) in itertools.product(filter(None, BASES[name]), routes(self)):
                app.router.add_route(method, base + path, handler)
        for base in ("", "/v1"):
            app.router.add_get(f"{base}/models", self._list)
            app.router.add_get(f"{base}/bill", self._totals)
            app.router.add_get(f"{base}/stats", self._statistics)
            app.router.add_post(f"{base}/tokenize", self._tokenize)
        app.on_cleanup.append(lambda _: self.engine.close())
        return app

    async def _list(self, _: web.Request) -> web.Response:
        return deliver.answer(200, openai.models(sorted(self._models)))

    async def _totals(self, _: web.Request) -> web.Response:
        return deliver.answer(200, self.bill.totals())

    async def _statistics(self, _: web.Request) -> web.Response:
        return deliver.answer(200, self.gauge.statistics())

    async def _tokenize(self, request: web.Request) -> web.Response:
        """The tokens of a `content`, a `prompt` or `messages`, as llama.cpp and vllm tell them."""
        try:
            body = Call(path="/tokenize", raw=await request.read()).body()
            if "messages" in body:
                count = openai.read(Call(path="/chat/completions", raw=await request.read())).input
            else:
                count = tokens(words(body.get("content", body.get("prompt"))))
        except Wrong as wrong:
            return deliver.refusal(openai.error(Trouble(kind="request", message=str(wrong))))
        return deliver.answer(200, {"tokens": list(range(count)), "count": count})

    def _handler(self, dialect: Dialect, path: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.gauge.arrive(self._now())
            status: int | str = "dropped"
            try:
                response = await self._call(request, dialect, path)
                if not deliver.dropped(request):
                    status = response.status
                return response
            except ConnectionError:  # the client left: nobody is there to be told
                return web.Response(status=deliver.LEFT)
            finally:
                self.gauge.leave(status)

        return handle

    async def _call(self, request: web.Request, dialect: Dialect, path: str) -> web.StreamResponse:
        """One call: limits, a fault, an answer, the bill, the wire."""
        try:
            ask = dialect.read(await _read(request, path))
        except Wrong as wrong:
            self._charge(request, None, None, None)
            return deliver.refusal(dialect.error(Trouble(kind="request", message=str(wrong))))
        if ask.kind == "count":
            self._charge(request, ask, None, None)
            return deliver.answer(200, dialect.write(ask, Given(input=ask.input)))
        nth = self._came[ask.digest]
        self._came[ask.digest] += 1
        law = habit(self._seed, ask.model, self._models)
        fault = befall(self.faults, self._seed, ask.kind, ask.digest, nth)
        refusal = self._limits(request, dialect, ask, law)
        if refusal is not None:
            return refusal
        if fault is not None and not FAULTS[fault].billed:
            self._charge(request, ask, None, fault)
            await asyncio.sleep(law.first_s * self._pace)
            return self._refuse(request, dialect, fault)
        given = give(self._seed, law, ask)
        spoil.made(fault, ask, given)
        self._charge(request, ask, given, fault)  # from here the work is done, whoever still listens
        await asyncio.sleep(self._pace * latency(self._seed, law, ask, given, nth))
        if fault == "504":
            return self._refuse(request, dialect, fault)
        return await self._deliver(request, dialect, ask, given, fault)

    async def exchange(
        self, request: web.Request, dialect: Dialect, reply: Reply, *, submit: bytes | None = None
    ) -> web.StreamResponse:
        """One call of a batch API; with the body of a `submit` the faults of jobs may befall it too. It costs nothing by itself."""
        called = Call(path=f"{request.method} {request.path_qs}", raw=submit or b"")
        digest = called.path + called.digest
        nth = self._came[digest]
        self._came[digest] += 1
        fault = befall(self.faults, self._seed, "poll" if submit is None else "job", digest, nth)
        self.bill.enter(Given(), model="", fault=fault, billed=False, at=self._wall(), attempt=None, path=request.path)
        if fault is not None and not FAULTS[fault].billed:
            return self._refuse(request, dialect, fault)
        made = reply(fault)
        if fault == "504":
            return self._refuse(request, dialect, fault)
        if isinstance(made, Refused):
            return deliver.refusal(made)
        error = dialect.error(Trouble(kind="server", message="the upstream had a bad moment"))
        raw = made if isinstance(made, bytes) else orjson.dumps(made)
        parts = [spoil.written(fault, raw, error)]
        headers = {"Content-Type": "application/json"}
        try:
            return await deliver.success(request, parts, fault, headers, wall=self._wall(), flood=self._flood_bytes)
        except ConnectionError:  # the client left: nobody is there to be told
            return web.Response(status=deliver.LEFT)

    async def _deliver(
        self, request: web.Request, dialect: Dialect, ask: Ask, given: Given, fault: str | None
    ) -> web.StreamResponse:
        """The answer in the dialect's words, whole or as a stream, as the fault leaves it."""
        body = dialect.write(ask, given)
        if fault is not None and fault in dialect.SPOILS:
            dialect.SPOILS[fault](body)
        error = dialect.error(Trouble(kind="server", message="the upstream had a bad moment"))
        stated = self.gauge.stated(self._now()) if fault != "stated_limits" else NOTHING_LEFT
        headers = {"Content-Type": "application/json", **dialect.limits(stated, self._wall())}
        if ask.stream and dialect.STREAM is not None:
            headers["Content-Type"] = "text/event-stream; charset=utf-8"
            parts = spoil.streamed(fault, ask, body, dialect.STREAM, error)
        else:
            parts = [spoil.written(fault, orjson.dumps(body), error)]
        return await deliver.success(request, parts, fault, headers, wall=self._wall(), flood=self._flood_bytes)

    def _limits(self, request: web.Request, dialect: Dialect, ask: Ask, law: Law) -> web.Response | None:
        """The refusal of a call that comes too early or is too long."""
        wait = self.gauge.admit(self._now(), ask.model)
        if wait is not None:
            self._charge(request, ask, None, "limit")
            refused = dialect.error(Trouble(kind="limit", message="requests per minute exceeded", wait=wait))
            return deliver.refusal(refused, {"Retry-After": f"{wait:.3f}"})
        long = overlong(law, ask)
        if long is not None:
            self._charge(request, ask, None, "context")
            return deliver.refusal(dialect.error(long))
        return None

    def _refuse(self, request: web.Request, dialect: Dialect, fault: str) -> web.Response:
        """A fault instead of an answer."""
        match fault:
            case "drop_before":
                return deliver.drop(request)
            case "502":
                return web.Response(status=502, text="<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
            case "503":
                return web.Response(status=503)
        trouble = TROUBLES.get(fault)
        if trouble is not None:
            return deliver.refusal(dialect.error(trouble))
        wait = deliver.PATIENCE.get(fault)
        refused = dialect.error(Trouble(kind="limit", message="too many requests, slow down", wait=wait))
        if fault == "429_date":
            return deliver.refusal(refused, deliver.dated(self._wall()))
        return deliver.refusal(refused, None if wait is None else {"Retry-After": f"{wait:.0f}"})

    def _charge(self, request: web.Request, ask: Ask | None, given: Given | None, fault: str | None) -> None:
        """A row in the books; nothing is charged where nothing was made."""
        model = "" if ask is None else ask.model
        made = given if given is not None else Given()
        self.bill.enter(
            made,
            model=model,
            fault=fault,
            billed=given is not None,
            at=self._wall(),
            attempt=request.headers.get("x-judgerun-attempt"),
            path=request.path,
        )

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _read(request: web.Request, path: str) -> Call:
    return Call(
        path=path,
        raw=await request.read(),
        match=dict(request.match_info),
        query=dict(request.query),
        headers={name.lower(): value for name, value in request.headers.items()},
    )


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    bill: str | None = None,
    seed: int = 0,
    faults: str = "",
    prices: str | None = None,
    pace: float = 1.0,
    requests_per_minute: int | None = None,
) -> int:
    """Serve until SIGINT or SIGTERM. Prints one line of JSON on stdout when ready: {"ready": true, "url": base URL,
    "urls": {dialect: base URL}}.

    `bill`: a file that gets a line of JSON for each call. `faults` and `prices`: see `faults.parse` and `bill.read_tariffs`.
    Returns the exit code: 0, or 2 where an argument cannot be acted on (told on stderr).
    """
    with contextlib.ExitStack() as stack:
        try:
            if host not in LOOPBACK:
                raise ValueError(f"{host} is refused: the simulated provider serves this machine alone")
            tariffs = {} if prices is None else read_tariffs(prices)
            file = None if bill is None else stack.enter_context(Path(bill).open("ab"))
            simulator = Simulator(
                seed=seed,
                faults=parse(faults, seed),
                bill=Bill(tariffs, file),
                gauge=Gauge(requests_per_minute=requests_per_minute),
                pace=pace,
            )
        except (ValueError, OSError) as wrong:
            return _refused(wrong)
        try:
            asyncio.run(_serve(simulator, host, port))
        except OSError as wrong:  # the port is taken
            return _refused(wrong)
    return 0


def _refused(wrong: Exception) -> int:
    sys.stderr.write(f"judgerun simulate: {wrong}\n")
    return 2


async def _serve(simulator: Simulator, host: str, port: int) -> None:
    async with serving(simulator.app(), host=host, port=port, grace_s=1.0) as urls:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        ready = {"ready": True, "url": urls["openai"], "urls": urls}
        sys.stdout.write(orjson.dumps(ready).decode() + "\n")
        sys.stdout.flush()
        await stop.wait()
