"""Http: the one place that touches the network (the only importer of aiohttp); bytes out, bytes or a Failure back."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from judgerun.errors import invariant
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.providers.secrets import Scrub
from judgerun.providers.wire import BODY_BYTES_MAX, WireCall, WireReply

LATE_S = 5.0
"""A timer that rings so much too late did not ring at its time because nothing ran."""
LARGE_BYTES = 2**20
CONNECT_S = 30.0
KEEP_ALIVE_S = 4.0
"""Shorter than the five seconds of common servers: a call on a connection that the server is just closing would be in doubt."""

URLS_MAX = 1000
"""Addresses that are kept made; one for each path, and a path may hold a model's name."""

RAMP_WAIT_S = 30.0
"""So long may a turn to connect take, in seconds."""

RAMP_CONNECTS = 200
RAMP_S = 0.1
"""At most so many new connections in so many seconds: a burst starves the loop, and calls then time out by our own fault."""


class Ramp:
    """Spreads new connections over time: `RAMP_CONNECTS` in each `RAMP_S` seconds, in order of arrival."""

    def __init__(self, connects: int = RAMP_CONNECTS, seconds: float = RAMP_S) -> None:
        self._connects, self._seconds = connects, seconds
        self._window = float("-inf")
        self._taken = 0

    async def turn(self) -> None:
        """Wait for a turn to connect."""
        now = asyncio.get_running_loop().time()
        if now >= self._window + self._seconds:
            self._window, self._taken = now, 0
        elif self._taken >= self._connects:  # this window is full: the turn belongs to the next
            self._window, self._taken = self._window + self._seconds, 0
        self._taken += 1
        if self._window > now:
            await asyncio.sleep(self._window - now)


class Deadlines:
    """One timer for all exchanges that are open, set to the earliest end or before it: a timer for each, set and cancelled,
    costs a tenth of an exchange.
    """

    def __init__(self) -> None:
        self._ends: dict[asyncio.Timeout, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, deadline: asyncio.Timeout, seconds: float) -> None:
        """From now on the block of `deadline` has so many seconds."""
        end = self._ends[deadline] = asyncio.get_running_loop().time() + seconds
        if self._timer is None or end < self._timer.when():
            self._arm(end)

    def drop(self, deadline: asyncio.Timeout) -> None:
        """The block is over."""
        self._ends.pop(deadline, None)
        if not self._ends:
            self._arm(None)

    def shift(self, seconds: float) -> None:
        """Every block that is open has so many seconds more."""
        self._ends = {deadline: end + seconds for deadline, end in self._ends.items()}
        self._arm(min(self._ends.values(), default=None))

    def _arm(self, end: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if end is None else asyncio.get_running_loop().call_at(end, self._ring)

    def _ring(self) -> None:
        end = asyncio.get_running_loop().time()
        if self._timer is not None and end - self._timer.when() > LATE_S:
            self._arm(end + LATE_S)  # the process did not run: whoever sees for how long says so in this time
            return
        for deadline in [deadline for deadline, at in self._ends.items() if at <= end]:
            del self._ends[deadline]
            deadline.reschedule(end)
        self._arm(min(self._ends.values(), default=None))


@dataclass(slots=True)
class _Exchange:
    """How far one exchange has come. `sent` is set before the first byte may leave: from then on it is in doubt."""

    timeout_s: float
    deadline: asyncio.Timeout
    deadlines: Deadlines
    sent: bool = False
    status: int | None = None

    def connected(self) -> None:
        """There is a connection: the next thing that happens is the sending."""
        self.sent = True
        self.deadlines.add(self.deadline, self.timeout_s)


_CURRENT: ContextVar[_Exchange] = ContextVar("exchange")
"""The exchange of this task: the connector serves all of them. (A TraceConfig would tell the same at 30 microseconds a call.)"""


class _Connector(aiohttp.TCPConnector):
    """Ramps new connections, and tells an exchange when it has one, new or kept."""

    def __init__(self, ramp: Ramp) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE_S)
        self._ramp = ramp

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        _CURRENT.get().connected()
        return connection

    def drop(self) -> None:
        """Close the connections that nobody uses now."""
        held, self._conns = self._conns, defaultdict(deque)
        for idle in held.values():
            for protocol, _ in idle:
                protocol.close()

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        await self._ramp.turn()
        return await super()._create_connection(req, traces, timeout)


class Http:
    """One session to one deployment. Never retries, never follows a redirect, reads no proxy or .netrc from the environment."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        scrub: Scrub,
        ramp: Ramp,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self._base = URL(base_url)
        self._headers = headers
        self._scrub = scrub
        self._ramp = ramp
        self._body_bytes_max = body_bytes_max
        self._deadlines = Deadlines()
        self._urls: dict[str, URL] = {}
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(
        self, call: WireCall, *, headers: Mapping[str, str], timeout_s: float, body_bytes_max: int | None = None
    ) -> WireReply | Failure:
        """Make the exchange. `headers` are this call's own. `timeout_s` counts from the moment at which the connection is there;
        connecting has its own limit. `body_bytes_max` goes before that of all calls.

        What the world does comes back as a Failure; cancellation passes through.
        """
        exchange = _Exchange(timeout_s, asyncio.timeout(None), self._deadlines)  # set when the connection is there
        token = _CURRENT.set(exchange)
        try:
            async with exchange.deadline:
                return await self._exchange(call, headers, exchange, body_bytes_max or self._body_bytes_max)
        except TimeoutError:  # the deadline, or aiohttp's own limit on connecting
            missing = f"no whole answer in {timeout_s:g} s" if exchange.sent else "no connection in time"
            return self._failure(exchange, Cause.TIMED_OUT, missing)
        except aiohttp.ClientResponseError as error:
            return self._failure(exchange, Cause.MALFORMED, f"{type(error).__name__}: not a valid HTTP response")
        except (aiohttp.ClientError, OSError) as error:
            return self._failure(exchange, Cause.DISCONNECTED, _told(error))
        finally:
            self._deadlines.drop(exchange.deadline)
            _CURRENT.reset(token)  # else task, context, exchange and deadline hold each other until the collector comes

    async def _exchange(
        self, call: WireCall, headers: Mapping[str, str], exchange: _Exchange, most: int
    ) -> WireReply | Failure:
        session = self._opened()
        async with session.request(
            call.method,
            self._url(call),
            data=_data(call),
            headers={**headers, **call.headers} if call.headers else headers,
            allow_redirects=False,
        ) as response:
            exchange.status = response.status
            body = await _read(response, most)
            if body is None:
                return Failure(
                    cause=Cause.OVERSIZED,
                    billable=Billable.UNKNOWN if response.status < 400 else Billable.NO,
                    status=response.status,
                    detail=f"a body above {most} bytes",
                )
            return WireReply(status=response.status, headers=response.headers, body=body, at=time.time())

    def _failure(self, exchange: _Exchange, cause: Cause, detail: str) -> Failure:
        """Classed by how far the exchange had come: before the first byte nothing can have been charged."""
        detail = self._scrub.text(detail)
        if not exchange.sent:
            return Failure(cause=Cause.NOT_SENT, billable=Billable.NO, detail=detail)
        if exchange.status is not None and exchange.status >= 400:  # the refusal arrived, its reasons did not
            told = Cause.RATE_LIMITED if exchange.status == 429 else Cause.OVERLOADED
            return Failure(
                cause=told,
                billable=Billable.NO,
                status=exchange.status,
                detail=f"HTTP {exchange.status}, then {detail}",
            )
        return Failure(cause=cause, billable=Billable.UNKNOWN, status=exchange.status, detail=detail)

    def _url(self, call: WireCall) -> URL:
        if call.rooted or call.query:  # of jobs: rare, and each another
            path = call.path if call.rooted else self._base.path.rstrip("/") + call.path
            return self._base.with_path(path, keep_query=True).update_query(call.query)
        url = self._urls.get(call.path)
        if url is None:
            url = self._base.with_path(self._base.path.rstrip("/") + call.path, keep_query=True)
            if len(self._urls) < URLS_MAX:
                self._urls[call.path] = url
        return url

    def _opened(self) -> aiohttp.ClientSession:
        invariant(not self._closed, "a provider was used after it was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._ramp),
                headers={"content-type": "application/json", "user-agent": "judgerun", **self._headers},
                timeout=aiohttp.ClientTimeout(total=None, connect=RAMP_WAIT_S + CONNECT_S, sock_connect=CONNECT_S),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                raise_for_status=False,
            )
        return self._session

    def reset(self, asleep: float) -> None:
        """Drop idle connections; exchanges that are open have so many seconds more."""
        self._deadlines.shift(asleep)
        if self._session is not None and isinstance(self._session.connector, _Connector):
            self._session.connector.drop()

    async def aclose(self) -> None:
        """Close the connections; a second time is nothing."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _data(call: WireCall) -> bytes | BytesIO | None:
    """What is sent: a large body as a file, so that it goes out in pieces between which the loop can do other work."""
    if call.method != "POST":
        return None
    return call.body if len(call.body) < LARGE_BYTES else BytesIO(call.body)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The whole body, decompressed; None as soon as it is above the limit, and then the connection is closed."""
    if (response.content_length or 0) > most:
        response.close()
        return None
    first = await response.content.readany()
    if response.content.at_eof() and len(first) <= most:
        return first
    whole = BytesIO()  # gives its bytes away without a copy
    size = whole.write(first)
    while size <= most:
        if response.content.at_eof():
            return whole.getvalue()
        size += whole.write(await response.content.readany())
    response.close()
    return None


def _told(error: BaseException) -> str:
    """A detail from the class and the system's error number alone: the repr of an aiohttp exception holds request headers."""
    system = getattr(error, "os_error", error)
    number = getattr(system, "strerror", None) if isinstance(system, OSError) else None
    return type(error).__name__ + (f": {number}" if isinstance(number, str) else "")
