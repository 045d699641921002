"""The program on a machine that is odd: its wall clock is set while it runs, its disk is nearly full, or its waits are short.

Run as a program, with the command line of `judgerun`. In the environment stand
ODD_WALL=2.5:-3600 (after so many seconds the wall clock is set by so many), ODD_PAGES=40 (so many pages may be added to the
cache) and ODD_SPEED=20 (the run's own clock, that of its waits, is so many times faster; timeouts of sockets are not).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any


def _set_wall(told: str) -> None:
    after, by = (float(part) for part in told.split(":"))
    start, monotonic, real = time.monotonic(), time.monotonic, time.time

    def wall() -> float:
        return real() + (by if monotonic() - start >= after else 0.0)

    time.time = wall
    time.time_ns = lambda: int(wall() * 10**9)


def _limited(open_writer: Callable[..., sqlite3.Connection], pages: int) -> Callable[..., sqlite3.Connection]:
    def opened(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = open_writer(*arguments, **options)
        (there,) = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {there + pages}")
        return connection

    return opened


def _hasten(speed: float) -> None:
    from judgerun.dispatch.clock import WallClock

    async def sleep(_: WallClock, seconds: float) -> None:
        await asyncio.sleep(seconds / speed)

    def now(_: WallClock) -> float:
        return time.monotonic() * speed

    WallClock.now = now  # type: ignore[method-assign, assignment]
    WallClock.sleep = sleep  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    if told := os.environ.get("ODD_WALL"):
        _set_wall(told)
    from judgerun.cli.main import main  # after the clock was set: what is imported may keep it
    from judgerun.store import cache, schema

    if told := os.environ.get("ODD_PAGES"):
        cache.open_writer = _limited(schema.open_writer, int(told))  # type: ignore[attr-defined]
    if told := os.environ.get("ODD_SPEED"):
        _hasten(float(told))
    main()
