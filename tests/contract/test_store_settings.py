"""What is set in the place of a file: in force for whoever reserves, never below what is spent, until the file says otherwise."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.store import HandClock, budget, chat, check_books, claim, forfeit, reply, settle, void
from judgerun.errors import Refused
from judgerun.ledger.account import stand
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.entry import Decision
from judgerun.model.lane import LaneSpec, lanes_in_force
from judgerun.store.cache import Cache
from judgerun.store.inline import Inline

Front = Cache | Inline

LAB = Cap("nanos", "provider", "lab", 600)
CALLS = Cap("calls", "total", "", 9)
DAY = Cap("nanos", "day", "", 800)
PURSE = budget(LAB, CALLS, DAY, total=1_000)


def limited(cap: Cap, limit: int) -> Cap:
    """A cap with another limit."""
    return replace(cap, limit=limit)


TOTAL = PURSE.caps[0]


@pytest.fixture(params=["inline", "aiosqlite"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Front, Front]]:
    """A process that runs under the purse, and one that gives commands."""
    clock, path = HandClock(), tmp_path / "cache.db"
    runs: Front = (
        await Cache.open(path, clock=clock) if request.param == "aiosqlite" else Inline.open(path, clock=clock)
    )
    await runs.enter(experiment="utility", budget=PURSE)
    commands = Inline.open(path, clock=clock)
    yield runs, commands
    await commands.aclose()
    await runs.aclose()


async def test_a_raised_cap_lets_a_running_process_go_on(stores: tuple[Front, Front]) -> None:
    """What was exhausted is reserved once the cap is raised by another process."""
    runs, commands = stores
    said = await runs.reserve(claim(chat(1), nanos=700))
    assert (said.decision, said.scope) == (Decision.EXHAUSTED, "provider lab")
    await commands.cap(PURSE, [limited(LAB, 700)])
    assert (await runs.reserve(claim(chat(1), nanos=700))).decision is Decision.RESERVED


async def test_a_lowered_cap_binds_a_running_process(stores: tuple[Front, Front]) -> None:
    """What would have been reserved must wait once the cap is lowered by another process."""
    runs, commands = stores
    assert (await runs.reserve(claim(chat(1), nanos=100))).decision is Decision.RESERVED
    await commands.cap(PURSE, [limited(TOTAL, 150)])
    assert (await runs.reserve(claim(chat(2), nanos=100))).decision is Decision.WAIT


async def test_a_cap_is_never_set_below_what_is_spent(stores: tuple[Front, Front]) -> None:
    """The refusal tells settled, forfeited and held; of several caps none is set when one is refused."""
    runs, commands = stores
    attempts = [(await runs.reserve(claim(chat(n), nanos=100))).attempt for n in (1, 2, 3)]
    assert all(attempts)
    await runs.close(settle(attempts[0] or 0, (chat(1), reply(), 60)))
    await runs.close(forfeit(attempts[1] or 0))
    with pytest.raises(Refused) as refused:
        await commands.cap(PURSE, [limited(LAB, 500), limited(TOTAL, 259)])
    (problem,) = refused.value.problems
    assert problem.place == "total"
    assert "settled 0.00000006, forfeited 0.0000001, held 0.0000001" in problem.wrong
    assert problem.right == "0.00000026 or more"
    assert [event.kind for event in commands.events(0)] == []
    await commands.cap(PURSE, [limited(TOTAL, 260)])
    assert (await runs.reserve(claim(chat(4), nanos=1))).decision is Decision.WAIT


async def test_what_is_set_is_an_event_and_outlives_the_process(stores: tuple[Front, Front]) -> None:
    """A later run under the same file goes by it; one whose file says something else goes by its file."""
    runs, commands = stores
    await commands.cap(PURSE, [limited(TOTAL, 150)])
    (event,) = commands.events(0)
    assert (event.kind, event.subject, event.experiment) == ("set", "budget purse", None)
    assert json.loads(event.detail) == {"key": "total", "was": 1_000, "now": 150}
    await runs.leave({}, {})
    await runs.enter(experiment="utility", budget=PURSE)
    assert (await runs.reserve(claim(chat(1), nanos=151))).decision is Decision.EXHAUSTED
    await runs.leave({}, {})
    await runs.enter(experiment="utility", budget=replace(PURSE, caps=(limited(TOTAL, 500), *PURSE.caps[1:])))
    assert (await runs.reserve(claim(chat(1), nanos=151))).decision is Decision.RESERVED


async def test_a_setting_over_a_file_that_the_process_never_read_binds_it(stores: tuple[Front, Front]) -> None:
    """The file was changed after the process started, and then a cap was set: the person knew that file."""
    runs, commands = stores
    edited = replace(PURSE, caps=(limited(TOTAL, 900), *PURSE.caps[1:]))
    await commands.cap(edited, [limited(TOTAL, 50)])
    assert (await runs.reserve(claim(chat(1), nanos=51))).decision is Decision.EXHAUSTED


async def test_a_process_may_set_its_own_cap(stores: tuple[Front, Front]) -> None:
    """What a process sets through its own connection binds it too, and its holds are known."""
    runs, _ = stores
    assert (await runs.reserve(claim(chat(1), nanos=100))).decision is Decision.RESERVED
    with pytest.raises(Refused):
        await runs.cap(PURSE, [limited(TOTAL, 99)])
    await runs.cap(PURSE, [limited(TOTAL, 110)])
    assert (await runs.reserve(claim(chat(2), nanos=11))).decision is Decision.WAIT


async def test_a_setting_that_is_refused_changes_nothing_of_a_purse_in_use(stores: tuple[Front, Front]) -> None:
    """The transaction is rolled back whole: the process goes on under the cap that it had."""
    runs, _ = stores
    grant = await runs.reserve(claim(chat(1), nanos=100))
    with pytest.raises(Refused):
        await runs.cap(PURSE, [limited(CALLS, 20), limited(TOTAL, 1)])
    await runs.close(settle(grant.attempt or 0, (chat(1), reply(), 60)))
    assert (await runs.reserve(claim(chat(2), nanos=500))).decision is Decision.RESERVED


async def test_lanes_are_set_while_their_file_stands(stores: tuple[Front, Front]) -> None:
    """A limit that is set is in force while the file says what it said; the newest counts, and None is no limit."""
    _, commands = stores
    lab = LaneSpec(name="lab", concurrency=8, requests_per_minute=60)
    await commands.lane(lab, {"concurrency": 3, "requests_per_minute": None})
    told = commands._reader.settings(HandClock().wall())
    found = lanes_in_force({"lab": lab}, told)["lab"]
    assert (found.concurrency, found.requests_per_minute, found.filed) == (3, None, lab)
    assert found.amendments == ["concurrency = 3, 8 in the file", "requests_per_minute = none, 60 in the file"]
    edited = replace(lab, concurrency=20)
    assert lanes_in_force({"lab": edited}, told)["lab"].concurrency == 20
    await commands.lane(found, {"concurrency": 8})
    again = lanes_in_force({"lab": found}, commands._reader.settings(HandClock().wall()))["lab"]
    assert again.amendments == ["requests_per_minute = none, 60 in the file"]


async def test_a_provider_has_a_lane_that_no_file_names(stores: tuple[Front, Front]) -> None:
    """What is set of it makes the lane; a lane of one model is made by a file alone."""
    _, commands = stores
    await commands.lane(LaneSpec(name="lab"), {"concurrency": 2})
    await commands.lane(LaneSpec(name="lab/m"), {"concurrency": 1})
    found = lanes_in_force({}, commands._reader.settings(HandClock().wall()))
    assert {name: lane.concurrency for name, lane in found.items()} == {"lab": 2}


def _in_force(caps: dict[str, int], purse: Budget) -> Budget:
    return replace(purse, caps=tuple(replace(cap, limit=caps[cap.path]) for cap in purse.caps))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 1), st.sampled_from(["lab", "house"]), st.integers(1, 400)),
        st.tuples(
            st.just("close"), st.integers(0, 1), st.sampled_from(["settle", "void", "forfeit"]), st.integers(0, 9)
        ),
        st.tuples(st.just("set"), st.integers(0, 2), st.sampled_from(PURSE.caps), st.integers(0, 1_500)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
async def test_no_commit_passes_a_cap_in_force(steps: list[tuple[str, int, object, int]]) -> None:
    """Two processes reserve and close, three set caps, in any order: after each commit settled + forfeited + held is within every
    cap as it is then, and a cap is refused exactly where it would not be.
    """
    with tempfile.TemporaryDirectory() as folder:
        clock, path = HandClock(), Path(folder) / "cache.db"
        fronts = [Inline.open(path, clock=clock, durable=False) for _ in range(3)]
        for front in fronts[:2]:
            await front.enter(experiment="utility", budget=PURSE)
        caps = {cap.path: cap.limit for cap in PURSE.caps}
        opened: list[list[tuple[int, int, int]]] = [[], []]  # attempt, hold, number of its request
        for number, (what, who, which, size) in enumerate(steps):
            front = fronts[who]
            before = fronts[2]._books.balances("purse")
            if what == "reserve":
                grant = await front.reserve(claim(chat(number), nanos=size, provider=str(which)))
                if grant.attempt is not None:
                    opened[who].append((grant.attempt, size, number))
            elif what == "close" and opened[who]:
                attempt, hold, asked = opened[who].pop(size % len(opened[who]))
                made = {
                    "settle": settle(attempt, (chat(asked), reply(), hold // 2), nanos=hold // 2),
                    "void": void(attempt),
                    "forfeit": forfeit(attempt, nanos=hold),
                }
                await front.close(made[str(which)])
            elif what == "set":
                assert isinstance(which, Cap)
                spent = stand(which, before, front._books.today(clock.wall())).high(which.unit)
                try:
                    await front.cap(PURSE, [limited(which, size)])
                except Refused:
                    assert size < spent
                else:
                    assert size >= spent
                    caps[which.path] = size
            stands, today = fronts[2]._books.balances("purse"), front._books.today(clock.wall())
            for cap in _in_force(caps, PURSE).caps:
                assert stand(cap, stands, today).high(cap.unit) <= cap.limit, (cap, steps[: number + 1])
        check_books(fronts[2]._books.connection)
        for front in fronts:
            await front.aclose()
