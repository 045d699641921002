"""What waits in tests of dispatch: a waiter without a cell, and the waits of a run without one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fakes.clock import LoopClock
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.waits import Waits


@dataclass(frozen=True, slots=True)
class Somebody:
    """A waiter with so many cells."""

    size: int = 1
    provider: str = "lab"
    conditions: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()


ONE = Somebody()


def waits() -> Waits:
    """The waits of a run that is about to begin."""
    return Waits(clock=LoopClock(), progress=Progress())


async def settle(rounds: int = 5) -> None:
    """Let everything that can run do so, without time passing."""
    for _ in range(rounds):
        await asyncio.sleep(0)
