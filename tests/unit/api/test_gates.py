"""What calls were quoted at: pinned when a condition first runs, replaced by a later certificate, never by a later quote."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fakes.clock import LoopClock
from judgerun.api.gates import quote_first, quoted_calls
from judgerun.plan.quote import Line
from judgerun.store.inline import Inline


def line(condition: str, *, to_send: int, expected: int) -> Line:
    """A line of a quote."""
    return Line(
        condition=condition,
        stage="s",
        model="m",
        cells=to_send,
        cached=0,
        shared=0,
        to_send=to_send,
        failed=0,
        unknown=0,
        expected=expected,
        worst=expected,
        bound=expected,
        seconds=1.0,
        days=0,
        longest=1,
        tokens=1,
    )


def test_the_first_quote_of_a_condition_stays(tmp_path: Path) -> None:
    """A call is quoted at its share of what is expected, rounded up; a rerun adds only conditions that are new; nothing changes
    where nothing is new, and other experiments see nothing of it.
    """

    async def life() -> None:
        async with Inline.open(tmp_path / "cache.db", clock=LoopClock()) as store:
            first = [line("a", to_send=3, expected=10), line("b", to_send=0, expected=0)]
            assert await quote_first(store, "e", first) == {"a": 4}
            later = [line("a", to_send=2, expected=100), line("b", to_send=1, expected=7)]
            assert await quote_first(store, "e", later) == {"a": 4, "b": 7}
            events = len(store.events(0))
            assert await quote_first(store, "e", later) == {"a": 4, "b": 7}
            assert len(store.events(0)) == events == 2
            assert quoted_calls(store.events(0), "e") == {"a": 4, "b": 7}
            assert quoted_calls(store.events(0), "other") == {}

    asyncio.run(life())
