"""Lanes learn: what a provider states of its limits becomes a wait or a pace of the model, and nothing written is raised."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from fakes.clock import LoopClock
from fakes.waiting import ONE, settle, waits
from judgerun.dispatch.lane import Lanes, Route
from judgerun.model.lane import LaneSpec, Limit
from judgerun.simulate import virtual

MINUTE = 60.0
DAY = 86_400.0


def lanes(*specs: LaneSpec) -> Lanes:
    """Lanes of two models and of a second name of the first."""
    ids = {"a": "id-a", "b": "id-b", "again": "id-a"}
    return Lanes({spec.name: spec for spec in specs}, clock=LoopClock(), waits=waits(), ids=ids, rng=random.Random(1))


def requests(limit: int, *, window: float | None = MINUTE, remaining: int | None = None) -> Limit:
    return Limit(unit="requests", limit=limit, remaining=remaining, window_s=window)


def now() -> float:
    return asyncio.get_running_loop().time()


async def turns(route: Route, count: int, *, tokens: int = 1) -> list[float]:
    """When so many turns of what the provider states were given."""
    given: list[float] = []

    async def take(rank: int) -> None:
        await route.stated.pace.turn((rank,), tokens, ONE)
        given.append(now())

    await asyncio.gather(*(take(rank) for rank in range(count)))
    return given


def test_what_states_nothing_costs_nothing() -> None:
    """Before a limit is stated nobody waits, and afterwards only who must."""

    async def life() -> None:
        held = lanes()
        route = held.route("lab", "a")
        assert route.stated.learn(()) == []
        assert max(await turns(route, 1000)) == pytest.approx(0.0, abs=0.001)
        await held.aclose()

    virtual.run(life())


def test_a_limit_that_is_used_up_is_waited_for() -> None:
    """Nothing leaves before the reset, whatever the concurrency; then all may go, and it is no news for people."""

    async def life() -> None:
        held = lanes()
        route = held.route("lab", "a")
        used = Limit(unit="tokens", limit=None, remaining=0, reset_s=30.0)
        assert route.stated.learn([used]) == []
        assert route.stated.pace.postponed
        given = await turns(route, 20)
        assert min(given) == pytest.approx(30.0, abs=0.01)
        assert max(given) == pytest.approx(30.0, abs=0.01)
        assert not route.stated.pace.postponed
        await held.aclose()

    virtual.run(life())


@pytest.mark.parametrize(
    ("limit", "wait"),
    [
        (Limit(unit="requests", limit=10, remaining=0, reset_s=40.0, window_s=MINUTE), 40.0),
        (Limit(unit="requests", limit=10, remaining=0, reset_s=40.0), 40.0),
        (Limit(unit="output tokens", limit=10, remaining=0, reset_s=40.0, window_s=MINUTE), 40.0),
        (Limit(unit="requests", limit=14_400, remaining=0, reset_s=900.0, window_s=DAY), 6.0),
        (Limit(unit="requests", limit=0, remaining=0, reset_s=40.0, window_s=DAY), 40.0),
        (Limit(unit="requests", limit=10, remaining=1, reset_s=40.0, window_s=MINUTE), 0.0),
        (Limit(unit="requests", limit=10, remaining=0, window_s=MINUTE), 0.0),
    ],
)
def test_how_long_is_waited(limit: Limit, wait: float) -> None:
    """Until the reset; of a day's limit until one more is there, since it fills up evenly; without a reset not at all."""

    async def life() -> None:
        held = lanes()
        route = held.route("lab", "a")
        route.stated.learn([limit])
        assert (await turns(route, 1))[0] == pytest.approx(wait, abs=0.01)
        await held.aclose()

    virtual.run(life())


def test_a_stated_limit_becomes_the_pace_and_is_told_once() -> None:
    """Even, within a minute and its guard; said again it is no news."""

    async def life() -> None:
        held = lanes()
        route = held.route("lab", "a")
        said = [requests(30, remaining=29), Limit(unit="tokens", limit=90_000, window_s=MINUTE)]
        assert route.stated.learn(said) == [
            "lab/a: the provider states 30 requests a minute; no more are sent",
            "lab/a: the provider states 90,000 tokens a minute; no more are sent",
        ]
        assert route.stated.learn(said) == []
        given = await turns(route, 10)
        assert all(later - sooner == pytest.approx(61 / 30, abs=0.1) for sooner, later in pairwise(given))
        assert route.stated.learn([requests(60)]) == []
        started = now()
        assert (await turns(route, 11))[-1] - started == pytest.approx(10 * 61 / 60, abs=2.1)
        await held.aclose()

    virtual.run(life())


def test_tokens_are_paced_by_the_lowest_of_their_limits() -> None:
    """Whoever sends no more tokens than input tokens are allowed keeps to both; output alone is only waited for."""

    async def life() -> None:
        held = lanes()
        route = held.route("lab", "a")
        news = route.stated.learn(
            [
                Limit(unit="tokens", limit=38_000, window_s=MINUTE),
                Limit(unit="input tokens", limit=30_000, window_s=MINUTE),
                Limit(unit="output tokens", limit=8_000, window_s=MINUTE),
            ]
        )
        assert news == ["lab/a: the provider states 30,000 tokens a minute; no more are sent"]
        given = await turns(route, 5, tokens=15_000)
        assert given[-1] == pytest.approx(4 * 30.5, abs=31)
        await held.aclose()

    virtual.run(life())


def test_a_limit_of_a_second_is_a_pace_too() -> None:
    """Two a second are 120 a minute."""

    async def life() -> None:
        held = lanes()
        news = held.route("lab", "a").stated.learn([requests(2, window=1.0)])
        assert news == ["lab/a: the provider states 120 requests a minute; no more are sent"]
        await held.aclose()

    virtual.run(life())


@pytest.mark.parametrize("limit", [requests(5, window=None), requests(5, window=DAY), requests(0)])
def test_what_is_no_rate_of_a_minute_is_no_pace(limit: Limit) -> None:
    """Over an unknown time, over a day, or none at all."""

    async def life() -> None:
        held = lanes()
        route = held.route("lab", "a")
        assert route.stated.learn([limit]) == []
        assert max(await turns(route, 50)) == pytest.approx(0.0, abs=0.001)
        await held.aclose()

    virtual.run(life())


def test_what_is_written_is_never_raised() -> None:
    """A higher limit changes nothing; a lower one is kept to beside it, until it is higher again."""

    async def life() -> None:
        held = lanes(LaneSpec(name="lab", requests_per_minute=60), LaneSpec(name="lab/a", requests_per_minute=30))
        route = held.route("lab", "a")
        assert route.stated.learn([requests(500)]) == []
        assert route.stated.learn([requests(30)]) == []
        assert max(await turns(route, 50)) == pytest.approx(0.0, abs=0.001)
        assert route.stated.learn([requests(6)]) == ["lab/a: the provider states 6 requests a minute; no more are sent"]
        assert (await turns(route, 3))[-1] == pytest.approx(2 * 61 / 6, abs=0.5)
        assert route.stated.learn([requests(500)]) == []
        began = now()
        assert max(await turns(route, 50)) == pytest.approx(began, abs=0.001)
        paces = [lane.pace for lane in route.paced]
        assert [lane.spec.requests_per_minute for lane in route.paced] == [30, 60]
        assert all(pace is not None and not pace.postponed for pace in paces)
        await held.aclose()

    virtual.run(life())


def test_limits_belong_to_the_providers_model() -> None:
    """Two names of one model share them; another model of the same provider is not held up."""

    async def life() -> None:
        held = lanes(LaneSpec(name="lab", concurrency=2), LaneSpec(name="lab/again", requests_per_minute=5))
        a, again, b = held.route("lab", "a"), held.route("lab", "again"), held.route("lab", "b")
        assert a.stated is again.stated is not b.stated
        assert held.route("other", "a").stated is not a.stated
        assert len(again.stated.learn([requests(10)])) == 1  # written lower for one name, not at all for the other
        again.stated.learn([Limit(unit="requests", remaining=0, reset_s=20.0)])
        assert max(await turns(b, 3)) == pytest.approx(0.0, abs=0.001)
        assert (await turns(a, 1))[0] == pytest.approx(20.0, abs=0.1)
        await held.aclose()

    virtual.run(life())


def test_who_came_first_in_plan_order_goes_first_after_a_reset() -> None:
    """And nobody who asks in the moment of the reset passes those who wait."""

    async def life() -> None:
        held = lanes()
        stated = held.route("lab", "a").stated
        stated.learn([Limit(unit="requests", remaining=0, reset_s=10.0)])
        order: list[int] = []

        async def take(rank: int) -> None:
            await stated.pace.turn((rank,), 1, ONE)
            order.append(rank)

        tasks = [asyncio.ensure_future(take(rank)) for rank in (3, 1, 2)]
        await settle()
        await asyncio.gather(*tasks)
        assert order == [1, 2, 3]
        await held.aclose()

    virtual.run(life())


def test_a_turn_of_no_rate_is_none_to_give_back() -> None:
    """It took nobody's place: returned once a rate is known, it would let one more through. What is new raises the version."""

    async def life() -> None:
        held = lanes()
        stated = held.route("lab", "a").stated
        assert not await stated.pace.turn((0,), 1, ONE)
        assert stated.version == 0
        stated.learn([requests(6)])
        assert stated.version == 1
        assert await stated.pace.turn((1,), 1, ONE)
        stated.learn([requests(6)])
        assert stated.version == 1
        stated.learn([requests(6), Limit(unit="tokens", remaining=0, reset_s=1.0)])
        assert stated.version == 2
        await held.aclose()

    virtual.run(life())
