"""Watching: what a run tells, each second, to the cache, to whoever watches it and to the log, and the signals that it hears."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from judgerun.dispatch.progress import Progress
from judgerun.dispatch.run import Run
from judgerun.ledger.budget import Budget
from judgerun.plan.flow import Flow
from judgerun.ports import Clock
from judgerun.store.front import Front

SAY_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a watcher of a run is given, each second."""

    progress: Progress
    flow: Flow
    cache: Front
    budget: Budget
    goal: Mapping[str, int]  # cells by condition that this run is to bring to an end; rows not yet known at their bound
    now: float


@asynccontextmanager
async def saying(
    watched: Watch, clock: Clock, watch: Callable[[Watch], None] | None, log: Callable[[str], None]
) -> AsyncIterator[None]:
    """Tell the cache (for `status` elsewhere) and the watcher, each second, how the run stands."""

    def tell() -> None:
        while watched.progress.news:
            log(watched.progress.news.pop(0))

    async def say() -> None:
        while True:
            await asyncio.sleep(SAY_EVERY_S)
            now = clock.now()
            tell()
            await watched.cache.progress(orjson.dumps(live(watched.progress, now)).decode())
            if watch is not None:
                watch(replace(watched, now=now))

    task = asyncio.create_task(say())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        tell()


def live(progress: Progress, now: float) -> Mapping[str, Any]:
    """What a running process says of itself."""
    calls, tokens = progress.rates(now)
    troubles = progress.troubles(now)
    return {
        "in_flight": progress.in_flight,
        "calls_per_s": round(calls, 2),
        "tokens_per_s": round(tokens, 1),
        "waiting": dict(progress.waits()),
        "next_try_s": {name: round(after, 1) for name, (_, after) in troubles.items()},
        "trouble": {name: why for name, (why, _) in troubles.items()},
        "idle": {cause: round(seconds, 1) for cause, seconds in progress.idle.items() if seconds},
    }


@asynccontextmanager
async def hearing(runner: Run, wanted: bool, log: Callable[[str], None]) -> AsyncIterator[None]:
    """While inside, SIGINT and SIGTERM drain; a second one stops now."""
    if not wanted:
        yield
        return
    loop = asyncio.get_running_loop()
    asked = 0

    def hear() -> None:
        nonlocal asked
        asked += 1
        log(
            "stopping: nothing new is sent, calls in flight finish; once more stops at once"
            if asked == 1
            else "stopping: what is in flight is forfeited"
        )
        runner.stop()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)  # asyncio leaves the system's own, by which SIGTERM kills without a word
