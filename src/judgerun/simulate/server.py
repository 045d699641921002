"""The server: HTTP on this machine, one handler for every dialect's calls, the bill, the gauges, and the process that serves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
from aiohttp import web

from judgerun.simulate import deliver, openai, spoil
from judgerun.simulate.ask import Ask, Given, Wrong
from judgerun.simulate.bill import Bill, read_tariffs
from judgerun.simulate.faults import FAULTS, befall, parse
from judgerun.simulate.gauge import Gauge
from judgerun.simulate.law import Law, give, habit, latency

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FLOOD_BYTES = 33 * 2**20
REQUEST_BYTES_MAX = 64 * 2**20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Dialect(Protocol):
    """What a dialect's module offers; a new dialect is one new file and one more entry in DIALECTS."""

    @property
    def PATHS(self) -> Mapping[str, Any]: ...

    @property
    def SPOILS(self) -> Mapping[str, Callable[[dict[str, Any]], None]]: ...

    def read(self, path: str, raw: bytes) -> Ask: ...

    def write(self, ask: Ask, given: Given) -> dict[str, Any]: ...

    def error(self, kind: str, message: str, code: str | None = None) -> dict[str, Any]: ...


DIALECTS: tuple[Dialect, ...] = (openai,)


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

    def app(self) -> web.Application:
        """The application: every path both at the root and under /v1."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX)
        for base in ("", "/v1"):
            for dialect in DIALECTS:
                for path in dialect.PATHS:
                    app.router.add_post(base + path, self._handler(dialect, path))
            app.router.add_get(f"{base}/models", self._list)
            app.router.add_get(f"{base}/bill", self._totals)
            app.router.add_get(f"{base}/stats", self._statistics)
        return app

    async def _list(self, _: web.Request) -> web.Response:
        return deliver.answer(200, openai.models(sorted(self._models)))

    async def _totals(self, _: web.Request) -> web.Response:
        return deliver.answer(200, self.bill.totals())

    async def _statistics(self, _: web.Request) -> web.Response:
        return deliver.answer(200, self.gauge.statistics())

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
            ask = dialect.read(path, await request.read())
        except Wrong as wrong:
            self._charge(request, None, None, None)
            return deliver.answer(400, dialect.error("invalid_request_error", str(wrong)))
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
        raw = spoil.written(fault, dialect.write(ask, given), dialect.SPOILS)
        return await deliver.success(request, raw, fault, wall=self._wall(), flood=self._flood_bytes)

    def _limits(self, request: web.Request, dialect: Dialect, ask: Ask, law: Law) -> web.Response | None:
        """The refusal of a call that comes too early or is too long."""
        wait = self.gauge.admit(self._now(), ask.model)
        if wait is not None:
            self._charge(request, ask, None, "limit")
            body = dialect.error("rate_limit_error", "requests per minute exceeded", "rate_limit_exceeded")
            return deliver.answer(429, body, {"Retry-After": f"{wait:.3f}"})
        needed = ask.input + (ask.cap or 0)
        if needed > law.context:
            self._charge(request, ask, None, "context")
            told = f"this model's maximum context length is {law.context} tokens; the request needs {needed}"
            return deliver.answer(400, dialect.error("invalid_request_error", told, "context_length_exceeded"))
        return None

    def _refuse(self, request: web.Request, dialect: Dialect, fault: str) -> web.Response:
        """A fault before anything was generated."""
        match fault:
            case "drop_before":
                return deliver.drop(request)
            case "quota":
                told = "You exceeded your current quota, please check your plan and billing details."
                return deliver.answer(429, dialect.error("insufficient_quota", told, "insufficient_quota"))
            case "401":
                told = "Incorrect API key provided."
                return deliver.answer(401, dialect.error("invalid_request_error", told, "invalid_api_key"))
            case "502":
                return web.Response(status=502, text="<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
            case "503":
                return web.Response(status=503)
            case "500" | "529":
                return deliver.answer(int(fault), dialect.error("server_error", "the server had an error"))
        body = dialect.error("rate_limit_error", "too many requests, slow down", "rate_limit_exceeded")
        return deliver.limited(fault, body, self._wall())

    def _charge(self, request: web.Request, ask: Ask | None, given: Given | None, fault: str | None) -> None:
        """A row in the books; nothing is charged where nothing was made."""
        model = "" if ask is None else ask.model
        made = given if given is not None else Given()
        nanos = self.bill.tariff(model).charge(
            fresh=made.input - made.cached, cached=made.cached, visible=made.visible, reasoning=made.reasoning
        )
        self.bill.write(
            {
                "at": self._wall(),
                "attempt": request.headers.get("x-judgerun-attempt"),
                "path": request.path,
                "model": model,
                "input": made.input,
                "cached": made.cached,
                "output": made.output,
                "reasoning": made.reasoning,
                "nanos": nanos,
                "finish": None if given is None else made.finish,
                "fault": fault,
                "billed": given is not None,
            }
        )

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


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
    """Serve until SIGINT or SIGTERM. Prints one line of JSON on stdout when ready: {"ready": true, "url": base URL}.

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
    runner = web.AppRunner(simulator.app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=4096).start()
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        name, bound = runner.addresses[0][:2]
        ready = {"ready": True, "url": f"http://{f'[{name}]' if ':' in name else name}:{bound}/v1"}
        sys.stdout.write(orjson.dumps(ready).decode() + "\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()
