"""What waits in tests of dispatch: a waiter without a cell, and the waits of a run without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fakes.clock import LoopClock
from judgerun.dispatch.hours import OUTSIDE, Stint
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.waits import Waiter, Waits


@dataclass(frozen=True, slots=True)
class Somebody:
    """A waiter with so many cells."""

    size: int = 1
    provider: str = "lab"
    conditions: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    stint: Stint = OUTSIDE
    asks: str = ""


ONE = Somebody()


def waits() -> Waits:
    """The waits of a run that is about to begin."""
    return Waits(clock=LoopClock(), progress=Progress())


def end(held: Waits, lost: Callable[[Waiter], bool]) -> None:
    """End the waits of those who are lost now; who comes later is not."""
    before, held.lost = held.lost, lost
    held.end()
    held.lost = before


async def settle(rounds: int = 5) -> None:
    """Let everything that can run do so, without time passing."""
    for _ in range(rounds):
        await asyncio.sleep(0)
