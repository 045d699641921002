"""Virtual time: an event loop whose clock stands still while anything can run, and jumps to the next timer when nothing can.

Sockets on 127.0.0.1 are real: what one end has sent, the other can read at once, so polling them without waiting is enough
and a run is the same each time. Work in threads is not seen; nothing here may use it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


CREEP_S = 1e-9
"""Time passes by this much in each round of the loop: code that waits for a moment and is woken a rounding error too early
would ask again for ever if the clock stood quite still.
"""


class Deadlock(RuntimeError):
    """Everything is blocked, and no timer is set: nothing will ever happen again."""


class _Selector(selectors.BaseSelector):
    """Polls; when nothing is ready it moves the loop's clock by the time that it was asked to wait."""

    def __init__(self) -> None:
        self._inner = selectors.DefaultSelector()
        self.advance: Callable[[float], None] = lambda seconds: None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.get_key(fileobj)

    def close(self) -> None:
        self._inner.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._inner.select(0)
        self.advance(CREEP_S)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Deadlock("nothing can happen any more: all tasks wait, and no timer is left")
        self.advance(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds cost nothing."""

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self._virtual_now = 0.0
        selector.advance = self._advance

    def time(self) -> float:
        return self._virtual_now

    def _advance(self, seconds: float) -> None:
        self._virtual_now += max(seconds, 0.0)


@dataclass(frozen=True, slots=True)
class LoopClock:
    """Time as the running loop has it, virtual or not; its wall time starts at `start`, in Unix seconds."""

    start: float

    def now(self) -> float:
        """Seconds of the loop."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Unix seconds."""
        return self.start + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Return after so many of the loop's seconds."""
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
