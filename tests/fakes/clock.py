"""A Clock that follows the running loop, real or virtual; its wall time starts at a moment that the test names."""

from __future__ import annotations

import asyncio

EPOCH = 1_800_000_000.0
"""Wall time at loop time 0: some day in January 2027, sixteen hours before midnight UTC."""


class LoopClock:
    """Time as the loop has it."""

    def __init__(self, start: float = EPOCH) -> None:
        self.start = start

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self.start + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
