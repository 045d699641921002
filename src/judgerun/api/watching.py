"""Watching: what a run tells, each second, to the cache, to whoever watches it and to the log, and the signals that it hears."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from judgerun.dispatch.eta import Eta, Open
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.run import Run
from judgerun.ledger.budget import Budget
from judgerun.plan.counts import Counts
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
    opened: Mapping[str, Open] = field(default_factory=dict)  # by condition, as they were quoted
    whole: bool = True  # the run is of all conditions and blocks

    def planned(self, count: Counts) -> int:
        """The cells of a condition that this run is to end: by the quote, until all rows are known. The flow knows only what it
        has opened so far.
        """
        goal = self.goal.get(count.condition, 0)
        return max(count.done + count.failed, min(goal, count.planned) if self.flow.drained else goal)

    def counts(self) -> tuple[Counts, ...]:
        """How the cells stand, those that are not opened yet among the pending."""
        whole = ((count, self.planned(count)) for count in self.flow.counts())
        return tuple(replace(count, planned=cells, pending=cells - count.done - count.failed) for count, cells in whole)

    def left(self) -> Iterator[Open]:
        """What is still to be asked of the lanes whose providers are not closed."""
        for count in self.flow.counts():
            part = self.opened.get(count.condition)
            cells = self.planned(count) - count.done - count.failed
            if part is not None and cells and not any(lane in self.progress.closed for lane in part.lanes):
                yield replace(part, cells=cells, alone_s=part.alone_s * cells / max(1, part.cells))


@asynccontextmanager
async def saying(
    watched: Watch, clock: Clock, watch: Callable[[Watch], None] | None, log: Callable[[str], None]
) -> AsyncIterator[None]:
    """Tell the cache (for `status` elsewhere) and the watcher, each second, how the run stands."""

    def tell() -> None:
        while watched.progress.news:
            log(watched.progress.news.pop(0))

    eta = Eta()

    async def say() -> None:
        while True:
            await asyncio.sleep(SAY_EVERY_S)
            now = clock.now()
            tell()
            left = eta.step(watched.progress.hours, watched.left(), now)
            watched.progress.left = None if watched.progress.paused else left  # nobody knows for how long
            await watched.cache.progress(
                orjson.dumps({**live(watched.progress, now), "counts": _counts(watched)}).decode()
            )
            if watch is not None:
                watch(replace(watched, now=now, budget=watched.cache.budget or watched.budget))

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
        "paused": progress.paused,
        "in_flight": progress.in_flight,
        "calls_per_s": round(calls, 2),
        "tokens_per_s": round(tokens, 1),
        "waiting": dict(progress.waits()),
        "next_try_s": {name: round(after, 1) for name, (_, after) in troubles.items()},
        "trouble": {name: why for name, (why, _) in troubles.items()},
        "providers": {
            name: {"width": one.width, "ceiling": one.ceiling, "state": one.breaker, "slow": round(one.slow, 1)}
            for name, one in progress.bearings.items()
        },
        "idle": {cause: round(seconds, 1) for cause, seconds in progress.idle.items() if seconds},
        "lanes": {
            lane: {cause: round(seconds, 1) for cause, seconds in spent.items()}
            for lane, spent in progress.hours.spent().items()
        },
        "slots": {lane: {"size": size, **doing} for lane, size, doing in progress.hours.present()},
        "left_s": None if progress.left is None else round(progress.left.seconds),
        "limited_by": None if progress.left is None else progress.left.limit,
        "longest": [
            {"condition": cell.condition, "item": cell.id, "seconds": round(seconds, 1), "attempt": attempt}
            for cell, seconds, attempt in progress.longest(now)
        ],
        "lag_ms": {"recent": _ms(progress.lateness.recent), "most": _ms(progress.lateness.most)},
    }


COUNTED = (
    *("condition", "stage", "planned", "done", "failed", "pending", "cached", "shared", "finish", "truncated", "empty"),
    *("unparsed", "refused", "concluded", "input_cut", "escalated", "owed", "lapsed", "diverted", "reasons"),
)
"""What of its counts a run tells each second, so that `status` need not survey the files while it lives."""


def _counts(watched: Watch) -> list[dict[str, Any]] | None:
    """The counts per condition; None of a run that leaves some out, which cannot tell how the whole stands."""
    if not watched.whole:
        return None
    return [{name: getattr(count, name) for name in COUNTED} for count in watched.counts()]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@asynccontextmanager
async def hearing(runner: Run, wanted: bool, log: Callable[[str], None]) -> AsyncIterator[None]:
    """While inside, SIGINT and SIGTERM drain; a second one stops now."""
    if not wanted:
        yield
        return
    loop = asyncio.get_running_loop()

    def hear() -> None:
        if runner.stop():
            log("stopping: what is in flight is forfeited")
        else:
            log("stopping: nothing new is sent, calls in flight finish; once more stops at once")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)  # asyncio leaves the system's own, by which SIGTERM kills without a word
