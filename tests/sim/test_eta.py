"""The time left, in virtual time: for providers that are steady, limited, or become slow in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.flow import Arm, model
from fakes.provider import FakeProvider
from fakes.world import Knobs, World
from judgerun.dispatch.eta import Eta, Left, Open
from judgerun.dispatch.hours import Account, Hours, Stint
from judgerun.dispatch.progress import Progress
from judgerun.simulate import virtual


class Watched:
    """What the estimate said in each second of a run, and how long that took in the end."""

    def __init__(self) -> None:
        self.said: list[tuple[float, int, Left | None]] = []
        self.ended = 0.0

    def at(self, share: float, rows: int) -> tuple[float, Left]:
        """The truth and the estimate when so large a share of the rows was done."""
        now, left = next((now, left) for now, done, left in self.said if done >= share * rows)
        assert left is not None
        return self.ended - now, left


def watch(place: Path, knobs: Knobs, *, during: Callable[[World, float], None] = lambda world, now: None) -> Watched:
    """A run of one condition, with an estimate each second; `during` may change the world at any of them."""

    async def main() -> Watched:
        found, eta = Watched(), Eta()
        async with World(place, 3, knobs) as world:
            world.arms = [Arm(name="a", model=model("a", world.lab))]
            progress = Progress()
            running = asyncio.ensure_future(world.run(progress=progress))
            loop = asyncio.get_running_loop()
            while not running.done():
                await asyncio.sleep(1.0)
                during(world, loop.time())
                hours = progress.hours
                done = sum(account.answered for account in hours.accounts.values())
                part = Open(lanes=("lab",), level=0, cells=knobs.rows - done, alone_s=0.0)
                found.said.append((loop.time(), done, eta.step(hours, [part], loop.time())))
            await running
            found.ended = loop.time()
        return found

    return virtual.run(main())


def test_steady_provider(tmp_path: Path) -> None:
    """At a third of the run the estimate is within a tenth of the truth, and slots are what limits."""
    seen = watch(tmp_path, Knobs(rows=400, concurrency=4, latency=(5.0, 15.0)))
    truth, left = seen.at(0.3, 400)
    assert left.seconds == pytest.approx(truth, rel=0.1)
    assert (left.lane, left.cause) == ("lab", "sending")


def test_rate_limited_provider(tmp_path: Path) -> None:
    """Under thirty requests a minute the estimate is that of the limit, which it names."""
    seen = watch(tmp_path, Knobs(rows=200, concurrency=8, latency=(1.0, 3.0), requests_per_minute=30))
    truth, left = seen.at(0.3, 200)
    assert left.seconds == pytest.approx(truth, rel=0.1)
    assert left.limit == "lab (rate limit)"


def test_estimate_follows_a_provider_that_becomes_four_times_slower(tmp_path: Path) -> None:
    """A provider that slows down four times in the middle: five minutes later the estimate is within a quarter of the
    truth, although at the moment of the change it was four times too low.
    """

    def slow(world: World, now: float) -> None:
        if now > 300:
            assert isinstance(world.server, FakeProvider)
            world.server.latency = (20.0, 60.0)

    seen = watch(tmp_path, Knobs(rows=220, concurrency=4, latency=(5.0, 15.0), timeout_s=200), during=slow)
    before = next(left for now, _, left in seen.said if now > 298)
    after, later = next((now, left) for now, _, left in seen.said if now > 300 + 5 * 60)
    assert before is not None
    assert later is not None
    assert before.seconds < 0.4 * (seen.ended - 298)
    assert later.seconds == pytest.approx(seen.ended - after, rel=0.25)


def test_levels_come_one_after_the_other_and_lanes_side_by_side() -> None:
    """Two lanes of one level need as long as the slower; what must wait for them comes on top, at the quote's time until the lane
    has answered anything.
    """
    hours, eta = Hours(), Eta()
    for name, call in (("slow", 10.0), ("fast", 2.0)):
        account = hours.open(name, width=lambda: (2, 2), now=0.0)
        _answer(account, seconds=call)
    for account in hours.accounts.values():
        account.close(10.0, "nothing left")
    parts = [Open(lanes=(name,), level=0, cells=10, alone_s=0.0) for name in ("slow", "fast")]
    later = Open(lanes=("other",), level=1, cells=10, alone_s=7.0)
    left = eta.step(hours, [*parts, later], 10.0)
    assert left is not None
    assert left.seconds == pytest.approx(10 * 10.0 / 2 + 7.0)
    assert left.lane == "slow"


def test_what_limits_is_told_anew_soon_after_a_limit_is_lifted() -> None:
    """A lane that waited for its rate for ten minutes and has sent for twenty seconds is limited by sending, whatever the waits
    still weigh in the estimate of the time.
    """
    hours, eta = Hours(), Eta()
    account = hours.open("lab", width=lambda: (1, 1), now=0.0)
    part, now = Open(lanes=("lab",), level=0, cells=10, alone_s=0.0), 0.0
    causes = []
    for _ in range(620):
        stint = Stint((account,), now)
        stint.holds = 1
        stint.turn("rate limit" if now < 600 else "sending", now)
        stint.resolved = 1
        now += 1.0
        stint.end(now)
        account.close(now, "nothing left")
        left = eta.step(hours, [part], now)
        assert left is not None
        causes.append(left.cause)
    assert (causes[599], causes[-1]) == ("rate limit", "sending")


def test_answers_count_with_the_time_that_they_took() -> None:
    """What was answered since the accounts were last closed, whose time is not known yet, makes no cell look quicker."""
    hours, eta = Hours(), Eta()
    account = hours.open("lab", width=lambda: (2, 2), now=0.0)
    part = Open(lanes=("lab",), level=0, cells=10, alone_s=7.0)
    _answer(account, seconds=1.0)
    first = eta.step(hours, [part], 1.0)
    assert first is not None
    assert first.seconds == 7.0  # by the quote: nothing is closed
    account.close(1.0, "nothing left")
    _answer(account, seconds=1.0)
    second = eta.step(hours, [part], 1.0)
    assert second is not None
    assert second.seconds == 10 * 1.0 / 2


def test_nothing_left_is_no_time() -> None:
    """Without a cell that is open there is no estimate, and nothing limits."""
    assert Eta().step(Hours(), [Open(lanes=("lab",), level=0, cells=0, alone_s=5.0)], 1.0) is None


def _answer(account: Account, *, seconds: float) -> None:
    """One call of so many seconds that was answered."""
    stint = Stint((account,), 0.0)
    stint.holds = 1
    stint.turn("sending", 0.0)
    stint.resolved = 1
    stint.end(seconds)
