"""A run and a provider that suffers, in virtual time: how fast it goes, whom it asks, what it wastes, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.ailing import Ailing, slope
from fakes.clock import EPOCH
from fakes.flow import Arm, FakeFlow, deployment, model
from fakes.judge import judge_books, rows_of
from fakes.world import Knobs, Outcome, World
from judgerun.errors import Exit
from judgerun.model.experiment import Deployment
from judgerun.model.kept import Kept, Lost
from judgerun.simulate import virtual


class Suspended:
    """The loop's clock, of which wall time may jump."""

    def __init__(self) -> None:
        self.start = EPOCH

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self.start + self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Ward(World):
    """A world around a provider that suffers; with a second, healthy one where its models are wanted."""

    def __init__(
        self,
        place: Path,
        server: Ailing,
        *,
        rows: int = 300,
        concurrency: int = 32,
        timeout_s: float = 60.0,
        attempts_max: int = 4,
        failovers: Mapping[str, str] | None = None,
        second: bool = False,
    ) -> None:
        knobs = Knobs(rows=rows, concurrency=concurrency, timeout_s=timeout_s, attempts_max=attempts_max)
        super().__init__(place, 1, knobs)
        self.server = server
        self.clock = Suspended()  # type: ignore[assignment]
        self.second = Ailing() if second else None
        self._failovers = failovers or {}

    def default_arms(self, lab: Deployment) -> list[Arm]:
        arms = [Arm(name="a", model=model("a", lab))]
        if self.second is not None:
            arms.append(Arm(name="b", model=model("b", deployment("bay", self.second.url))))
        return arms

    def models(self) -> dict[str, Any]:
        held = super().models()
        for name, other in self._failovers.items():
            held[name] = replace(held[name], failover=other)
        return held

    def flow(self, lookup: Any, rows: int) -> FakeFlow:
        made = FakeFlow(self.arms, rows, lookup, text=self.text)
        made.failovers = {name: self.models()[other] for name, other in self._failovers.items()}
        return made


def lived(ward: Ward, *also: Callable[[Ward], Any]) -> Outcome:
    """One run in that world, with what happens besides; its books are judged, and no hold is left."""

    async def life() -> Outcome:
        if ward.second is not None:
            await ward.second.start()
        async with ward:
            others = [asyncio.ensure_future(one(ward)) for one in also]
            outcome = await ward.run()
            for other in others:
                other.cancel()
            bills = [server.bill for server in (ward.server, ward.second) if server is not None]
        if ward.second is not None:
            await ward.second.stop()
        assert ward.findings == []
        if len(bills) == 1:
            await asyncio.sleep(0)
            assert judge_books(ward.path, bills[0]) == []
        return outcome

    return virtual.run(life())


def events(ward: Ward, kind: str) -> list[tuple[str, str]]:
    """(subject, detail) of the events of a kind."""
    return [
        (str(row[0]), str(row[1]))
        for row in rows_of(ward.path, f"select subject, detail from event where kind = '{kind}' order by id")
    ]


def replies(outcome: Outcome) -> int:
    return sum(isinstance(one, Kept) for one in outcome.flow.outcomes.values())


def lost(outcome: Outcome) -> list[Lost]:
    return [one for one in outcome.flow.outcomes.values() if isinstance(one, Lost)]


def done(outcome: Outcome) -> bool:
    return outcome.ending is not None and outcome.ending.code is Exit.DONE and outcome.complete


def test_a_run_starts_at_a_rising_rate(tmp_path: Path) -> None:
    """A few calls at once, then more and more, 200 in a tenth of a second at most; and all slots are in use within a second."""
    ward = Ward(tmp_path, Ailing(latency=(5.0, 5.0)), rows=900, concurrency=800)
    assert done(lived(ward))
    times = [at for at, _ in ward.server.faults if at < 4.0]
    assert sum(at < 0.05 for at in times) <= 40
    assert max(sum(at <= other < at + 0.1 for other in times) for at in times) <= 260
    assert sum(at < 1.0 for at in times) == 800


def test_a_limit_on_the_slope_sees_a_slope(tmp_path: Path) -> None:
    """A provider that sends away who comes twice as often as a moment ago has nobody to send away."""
    ward = Ward(tmp_path, Ailing(slope(), latency=(5.0, 5.0)), rows=400, concurrency=400)
    assert done(lived(ward))
    assert ward.server.suffered("429 bare") == 0


def test_width_finds_what_a_provider_bears(tmp_path: Path) -> None:
    """Of a hundred slots twenty are answered at once: the others are cut away, and few calls are refused."""
    ward = Ward(tmp_path, Ailing(lambda at, load: "429 bare" if load >= 20 else ""), rows=3000, concurrency=100)
    assert done(lived(ward))
    late = [fault for at, fault in ward.server.faults if at > 30]
    assert late.count("429 bare") < len(late) / 6
    assert len(ward.server.faults) < 3000 * 1.3
    assert ward.server.faults[-1][0] < 3000 / 20 * 2.0


def test_long_hints_do_not_pin_the_width(tmp_path: Path) -> None:
    """Each refusal of five minutes names 89 seconds: few calls go out meanwhile, and once answers come the run is wide again."""
    server = Ailing(lambda at, load: "429" if at < 300 else "", retry_after="89", latency=(0.9, 1.1))
    ward = Ward(tmp_path, server, rows=6000, concurrency=32)
    outcome = lived(ward)
    assert done(outcome)
    assert server.came(1, 300) < 150
    assert outcome.progress.bearings["lab"].width == 32
    ending = [at for at, fault in server.faults if not fault]
    assert ending[-1] - ending[0] < 6000 / 32 * 1.6


def test_those_sent_away_together_come_back_apart(tmp_path: Path) -> None:
    """All slots are refused in one moment with one hint; the next calls do not come in one moment."""
    server = Ailing(lambda at, load: "429" if at < 1 else "", retry_after="20", latency=(1.0, 1.0))
    ward = Ward(tmp_path, server, rows=64, concurrency=64)
    assert done(lived(ward))
    times = sorted(at for at, _ in server.faults if at > 10)
    assert times[0] >= 20
    assert max(sum(at <= other < at + 0.01 for other in times) for at in times) <= 16


@pytest.mark.parametrize("fault", ["drop before", "502"])
def test_a_provider_that_is_dead_for_ten_minutes(tmp_path: Path, fault: str) -> None:
    """A probe goes to it now and then, and no cell uses up its tries; when it is back the run goes on and finishes."""
    server = Ailing(lambda at, load: fault if 5 <= at < 605 else "")
    ward = Ward(tmp_path, server, rows=1000, attempts_max=2)
    outcome = lived(ward)
    assert done(outcome)
    assert len(lost(outcome)) <= 4  # their tries fell into the moment before it was known
    assert server.came(10, 605) <= 25
    told = [detail for subject, detail in events(ward, "open")]
    assert [detail.split()[0] for detail in told] == ["no", "it", "it"]


def test_a_provider_that_stays_dead_is_given_up(tmp_path: Path) -> None:
    """After ten minutes without an answer it is closed: exit 9, the cells stay pending, and few calls were wasted."""
    server = Ailing(lambda at, load: "502" if at >= 5 else "")
    outcome = lived(Ward(tmp_path, server, rows=1000))
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.PROVIDER
    assert lost(outcome) == []
    assert server.came(10, 10_000) <= 25
    assert 600 <= server.faults[-1][0] <= 620


def test_a_provider_that_answers_500_is_there(tmp_path: Path) -> None:
    """An internal error uses up a try of its cell; the provider stays open, and every cell ends with its reason."""
    server = Ailing(lambda at, load: "500")
    ward = Ward(tmp_path, server, rows=40, attempts_max=3)
    outcome = lived(ward)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.DONE
    assert len(lost(outcome)) == 40
    assert len(server.faults) == 3 * 40
    assert events(ward, "open") == []


def test_an_address_where_nobody_listens(tmp_path: Path) -> None:
    """Nothing is sent, nothing is lost; after ten minutes the run ends with 9."""
    ward = Ward(tmp_path, Ailing(), rows=100)

    async def life() -> Outcome:
        async with ward:
            await ward.server.stop()
            return await ward.run()

    outcome = virtual.run(life())
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.PROVIDER
    assert lost(outcome) == []
    assert len(rows_of(ward.path, "select id from attempt")) < 80


@pytest.mark.parametrize("seed", range(3))
def test_a_fifth_of_all_connections_reset(tmp_path: Path, seed: int) -> None:
    """The run goes on as wide as it is written, the breaker stays out of it, and what was billed is in the books."""
    server = Ailing(seed=seed)
    server.weights = {"drop after": 0.25}
    ward = Ward(tmp_path, server, rows=500, attempts_max=9)
    outcome = lived(ward)
    assert done(outcome), f"seed {seed}"
    assert events(ward, "open") == [], f"seed {seed}"
    assert outcome.progress.bearings["lab"].width == 32


def test_a_provider_that_accepts_and_never_answers(tmp_path: Path) -> None:
    """Answers came and come no more: the stall is told long before the deadline of a call, and the run ends with 9."""
    server = Ailing(lambda at, load: "stall" if at >= 20 else "", latency=(0.5, 1.0))
    ward = Ward(tmp_path, server, rows=2000, timeout_s=300.0)
    outcome = lived(ward)
    assert outcome.ending is not None
    assert outcome.ending.code is Exit.PROVIDER
    (first, *_) = events(ward, "stall")
    assert "no answer for 3" in first[1]
    assert lost(outcome) == []
    assert server.came(60, 10_000) <= 60


def test_a_provider_that_becomes_slower_and_slower(tmp_path: Path) -> None:
    """Its latency doubles every minute: it is asked less at once each time it is twice as slow, which is told; then it is quick
    again, and asked as before.
    """
    server = Ailing(slowness=lambda at: 2 ** (at // 60) if at < 300 else 1.0, latency=(0.8, 1.2))
    ward = Ward(tmp_path, server, rows=9000, concurrency=32, timeout_s=600.0)
    outcome = lived(ward)
    assert done(outcome)
    told = [detail for subject, detail in events(ward, "slow")]
    assert 2 <= len([one for one in told if "slower" in one]) <= 4
    assert "at most 16 calls at once" in told[0]
    assert "no longer slow" in told[-1]
    assert outcome.progress.bearings["lab"].width == 32


@pytest.mark.parametrize("named", [False, True])
def test_one_of_two_providers_is_dead(tmp_path: Path, named: bool) -> None:
    """The other goes on to its end. The cells of the dead one stay pending, exit 9; or they go to the model that is named for
    that, which is told once, and the run is complete.
    """
    server = Ailing(lambda at, load: "502" if at >= 5 else "")
    ward = Ward(tmp_path, server, rows=200, second=True, failovers={"a": "b"} if named else {})
    outcome = lived(ward)
    assert outcome.ending is not None
    kept = {condition for (condition, _), one in outcome.flow.outcomes.items() if isinstance(one, Kept)}
    assert kept == {"solve/a@rows", "solve/b@rows"}
    assert sum(condition == "solve/b@rows" for condition, _ in outcome.flow.outcomes) == 200
    assert lost(outcome) == []
    told = events(ward, "failover")
    if named:
        assert outcome.ending.code is Exit.DONE
        assert replies(outcome) == 400
        assert [subject for subject, _ in told] == ["a"]
        assert server.faults[-1][0] < 120
    else:
        assert outcome.ending.code is Exit.PROVIDER
        assert told == []
        assert replies(outcome) < 400


@pytest.mark.parametrize("named", [False, True])
def test_out_of_credit_stops_one_provider_at_once(tmp_path: Path, named: bool) -> None:
    """Nothing more is sent to it; the other goes on, with its cells where that is written."""
    server = Ailing(lambda at, load: "quota" if at >= 5 else "", latency=(1.0, 1.0))
    ward = Ward(tmp_path, server, rows=300, second=True, failovers={"a": "b"} if named else {})
    outcome = lived(ward)
    assert outcome.ending is not None
    assert outcome.ending.code is (Exit.DONE if named else Exit.PROVIDER)
    assert server.came(6.1, 10_000) == 0
    assert sum(condition == "solve/b@rows" for condition, _ in outcome.flow.outcomes) == 300
    assert outcome.complete == named


def test_a_suspended_machine(tmp_path: Path) -> None:
    """Eight hours pass on the wall alone: it is told with its seconds, and the run goes on from a slow start to its end."""

    async def night(ward: Ward) -> None:
        await asyncio.sleep(10.0)
        ward.clock.start += 8 * 3600.0  # type: ignore[misc]

    ward = Ward(tmp_path, Ailing(latency=(2.0, 3.0)), rows=400, concurrency=64)
    outcome = lived(ward, night)
    assert done(outcome)
    assert events(ward, "suspend") == [("e", "the machine was asleep for 28800 s")]


def test_a_stopped_process(tmp_path: Path) -> None:
    """An hour passes in which nothing runs: calls in flight are not taken to be late, and no hold is lost."""

    async def stopped(ward: Ward) -> None:
        await asyncio.sleep(10.0)
        asyncio.get_running_loop()._virtual_now += 3600.0  # type: ignore[attr-defined]

    ward = Ward(tmp_path, Ailing(latency=(20.0, 30.0)), rows=200, concurrency=64, timeout_s=60.0)
    outcome = lived(ward, stopped)
    assert done(outcome)
    assert len(events(ward, "suspend")) == 1
    assert rows_of(ward.path, "select count(*) from entry where kind = 'forfeit'") == [(0,)]
