"""A Clock that follows the running loop, real or virtual; its wall time starts at a moment that the test names."""

from __future__ import annotations

from judgerun.simulate import virtual

EPOCH = 1_800_000_000.0
"""Wall time at loop time 0: some day in January 2027, sixteen hours before midnight UTC."""


class LoopClock(virtual.LoopClock):
    """Time as the loop has it."""

    def __init__(self, start: float = EPOCH) -> None:
        super().__init__(start)
