"""The real clock: the only place of dispatch where the machine's time is read."""

from __future__ import annotations

import asyncio
import time


class WallClock:
    """Time of this machine, as the Clock port asks for it.

    `now` does not run while the machine is suspended and `wall` does: paces and deadlines use `now`, so that no burst
    follows a wake-up; what must hold across processes and restarts (windows of the cache, days) uses `wall`.
    """

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)
