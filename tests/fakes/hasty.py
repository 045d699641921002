"""The program under a clock that runs faster than the machine's: jobs are looked at every fifteen seconds.

Run as a program, with the command line of `judgerun`. Only the run's own clock is fast: its waits. Days, and the timeouts of
sockets, are those of the machine.
"""

from __future__ import annotations

import asyncio
import time

from judgerun.cli.main import main
from judgerun.dispatch.clock import WallClock

SPEED = 100.0


def _now(_: WallClock) -> float:
    return time.monotonic() * SPEED


async def _sleep(_: WallClock, seconds: float) -> None:
    await asyncio.sleep(seconds / SPEED)


if __name__ == "__main__":
    WallClock.now = _now  # type: ignore[method-assign, assignment]
    WallClock.sleep = _sleep  # type: ignore[method-assign, assignment]
    main()
