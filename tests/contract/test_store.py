"""The Store port: one suite, run on every implementation (inline in memory, inline on a file, aiosqlite on a file)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fakes.store import (
    HandClock,
    budget,
    chat,
    check_books,
    claim,
    embedding,
    forfeit,
    reply,
    settle,
    text,
    void,
)
from judgerun.errors import InvariantBroken, Refused, StoreError
from judgerun.ledger.budget import Cap
from judgerun.ledger.entry import Amount, Decision
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Finish, Usage
from judgerun.ports import Grant, Order, Spend, Store, Window
from judgerun.store.cache import Cache
from judgerun.store.inline import Inline
from judgerun.store.seal import Stated

Front = Cache | Inline


@dataclass(slots=True)
class World:
    """One cache under test: its store, its clock, and a view of its rows."""

    kind: str
    path: Path
    clock: HandClock
    store: Front

    def sql(self) -> sqlite3.Connection:
        """A connection that sees what is committed."""
        return self.store._books.connection if self.kind == "memory" else sqlite3.connect(self.path)

    async def second(self) -> Front:
        """Another process's store on the same cache."""
        if self.kind == "memory":
            pytest.skip("a cache in memory has one process")
        return await open_store(self.kind, self.path, self.clock)

    def check(self, total: int | None = 10_000) -> None:
        """The books are sound."""
        connection = self.sql()
        check_books(connection, total=total)
        if self.kind != "memory":
            connection.close()


async def open_store(kind: str, path: Path, clock: HandClock) -> Front:
    """A store of one of the three kinds."""
    if kind == "aiosqlite":
        return await Cache.open(path, clock=clock)
    return Inline.open(":memory:" if kind == "memory" else path, clock=clock, durable=False)


@pytest.fixture(params=["memory", "inline", "aiosqlite"])
async def bare(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A fresh cache that no process has entered."""
    clock = HandClock()
    path = tmp_path / "cache.db"
    world = World(request.param, path, clock, await open_store(request.param, path, clock))
    yield world
    await world.store.aclose()


@pytest.fixture
async def world(bare: World) -> World:
    """A cache entered for the experiment `utility` under 10,000 nanos."""
    await bare.store.enter(experiment="utility", budget=budget())
    return bare


async def reserved(store: Store, grant: Grant | None = None, **parts: object) -> int:
    """The attempt of a reservation that must succeed."""
    number = parts.pop("number", 1)
    grant = grant or await store.reserve(claim(chat(str(number)), **parts))  # type: ignore[arg-type]
    assert grant.decision is Decision.RESERVED
    assert grant.attempt is not None
    return grant.attempt


async def test_reserve_then_settle(world: World) -> None:
    """A reservation holds its need; its settle books the bill and keeps the reply, which is then answered from the cache."""
    store, request = world.store, chat(1)
    assert store.lookup(request.key) is None
    attempt = await reserved(store)
    assert store.is_open(request.key)
    assert store.standing().experiment == Spend(held=100)
    closed = await store.close(settle(attempt, (request, reply("seven"), 60)))
    assert not closed.overrun
    kept = store.lookup(request.key)
    assert isinstance(kept, Kept)
    assert (kept.attempt, kept.experiment, kept.cost) == (attempt, "utility", 60)
    assert kept.reply.text == "seven"
    assert kept.reply.usage == Usage(input_fresh=8, output_visible=2)
    assert (kept.reply.finish, kept.reply.finish_raw, kept.reply.raw) == (Finish.STOP, "stop", b"")
    assert not store.is_open(request.key)
    assert store.standing().experiment == Spend(settled=60)
    again = await store.reserve(claim(request))
    assert (again.decision, again.keys) == (Decision.KEPT, (request.key,))
    world.check()


async def test_held_key_is_not_bought_again(world: World) -> None:
    """While a request has an open attempt nobody else gets one; after a void it is free again."""
    attempt = await reserved(world.store)
    grant = await world.store.reserve(claim(chat(1)))
    assert (grant.decision, grant.keys) == (Decision.HELD, (chat(1).key,))
    await world.store.close(void(attempt))
    assert await reserved(world.store) > attempt
    world.check()


async def test_wait_then_reserved_then_exhausted(world: World) -> None:
    """Held money is waited for; money that is gone is not."""
    first = await reserved(world.store, number=1, nanos=9_000)
    grant = await world.store.reserve(claim(chat(2), nanos=2_000))
    assert (grant.decision, grant.scope) == (Decision.WAIT, "total")
    await world.store.close(settle(first, (chat(1), reply(), 8_000), nanos=8_000))
    second = await reserved(world.store, number=2, nanos=2_000)
    await world.store.close(forfeit(second, nanos=2_000))
    grant = await world.store.reserve(claim(chat(3), nanos=1))
    assert (grant.decision, grant.scope) == (Decision.EXHAUSTED, "total")
    assert await reserved(world.store, number=3, nanos=0) > second  # a free call goes on
    world.check()


async def test_forfeit_with_reply_keeps_it(world: World) -> None:
    """A reply without usage is kept, its cost unknown and not 0, and its hold is spent, in one commit."""
    attempt = await reserved(world.store)
    await world.store.close(forfeit(attempt, replies=[(chat(1), reply(usage=Usage()))]))
    kept = world.store.lookup(chat(1).key)
    assert isinstance(kept, Kept)
    assert kept.cost is None
    assert kept.reply.usage == Usage()
    assert world.store.standing().experiment == Spend(forfeited=100)
    world.check()


async def test_second_closing_is_our_bug(world: World) -> None:
    """Exactly one closing for each reserve: a second, or one of an attempt that never was, changes nothing."""
    attempt = await reserved(world.store)
    await world.store.close(void(attempt))
    for closing in (void(attempt), forfeit(attempt), settle(attempt, (chat(1), reply(), 60)), void(999)):
        with pytest.raises(InvariantBroken):
            await world.store.close(closing)
    assert world.store.lookup(chat(1).key) is None
    world.check()


async def test_void_gives_its_call_back(bare: World) -> None:
    """A cap on calls counts what may have been charged; tries count what left."""
    await bare.store.enter(experiment="utility", budget=budget(Cap("calls", "total", "", 1)))
    first = await reserved(bare.store)
    assert (await bare.store.reserve(claim(chat(2)))).decision is Decision.WAIT
    await bare.store.close(void(first, sent=True))
    second = await reserved(bare.store, number=2)
    await bare.store.close(void(second, sent=False))
    assert bare.store.standing().attempts == 1
    third = await reserved(bare.store, number=3)
    await bare.store.close(forfeit(third))
    assert bare.store.standing().attempts == 2
    grant = await bare.store.reserve(claim(chat(4)))
    assert (grant.decision, grant.scope) == (Decision.EXHAUSTED, "calls of total")


async def test_overrun_is_booked_and_freezes(world: World) -> None:
    """A bill above its hold is recorded in full and freezes the budget, until it is unfrozen with a reason."""
    attempt = await reserved(world.store, nanos=100)
    closed = await world.store.close(settle(attempt, (chat(1), reply(), 250), nanos=250))
    assert closed.overrun
    assert world.store.standing().experiment == Spend(settled=250)
    frozen = world.store.standing().frozen
    assert frozen is not None
    assert "250 nanos on a hold of 100" in frozen
    grant = await world.store.reserve(claim(chat(2)))
    assert (grant.decision, grant.scope) == (Decision.FROZEN, frozen)
    with pytest.raises(Refused):
        await world.store.unfreeze("purse", " ")
    assert await world.store.unfreeze("purse", "the price sheet was a month old")
    assert not await world.store.unfreeze("purse", "twice")
    assert world.store.standing().frozen is None
    await reserved(world.store, number=2)
    world.check()


async def test_overrun_in_capped_tokens_freezes(bare: World) -> None:
    """Tokens above the bound freeze where the budget caps tokens, and nowhere else."""
    await bare.store.enter(experiment="utility", budget=budget())
    first = await reserved(bare.store, tokens=5)
    assert not (await bare.store.close(settle(first, (chat(1), reply(), 60), tokens=10))).overrun
    await bare.store.leave({}, {})
    await bare.store.enter(experiment="utility", budget=budget(Cap("tokens", "total", "", 1000), name="other"))
    second = await reserved(bare.store, number=2, tokens=5)
    assert (await bare.store.close(settle(second, (chat(2), reply(), 60), tokens=10))).overrun


async def test_batch_of_embeddings(world: World) -> None:
    """A batch is one attempt; each text keeps its own reply, share and vector; those already there are named."""
    vectors = np.arange(12, dtype="<f4").reshape(3, 4)
    texts = [text(n) for n in range(3)]
    attempt = await reserved(world.store, await world.store.reserve(claim(*texts, stage="vectors")))
    assert all(world.store.is_open(request.key) for request in texts)
    shares = (20, 20, 20)
    answers = [
        (request, embedding(row.tobytes()), share) for request, row, share in zip(texts, vectors, shares, strict=True)
    ]
    await world.store.close(settle(attempt, *answers))
    kept = world.store.lookup(texts[1].key)
    assert isinstance(kept, Kept)
    assert not kept.reply.empty
    assert kept.cost == 20
    assert world.store.standing().attempts == 1
    matrix = world.store.matrix([texts[2].key, texts[0].key, texts[2].key])
    assert np.array_equal(matrix, vectors[[2, 0, 2]])
    assert matrix.dtype == np.float32
    grant = await world.store.reserve(claim(text(7), texts[0], texts[2]))
    assert (grant.decision, grant.keys) == (Decision.KEPT, (texts[0].key, texts[2].key))
    with pytest.raises(StoreError, match="no vector"):
        world.store.matrix([chat(1).key])
    world.check()


async def test_batch_is_refused_whole(world: World) -> None:
    """A batch that overlaps an open attempt holds nothing; the keys that are open are named."""
    attempt = await reserved(world.store, await world.store.reserve(claim(text(1))))
    grant = await world.store.reserve(claim(text(0), text(1)))
    assert (grant.decision, grant.keys) == (Decision.HELD, (text(1).key,))
    assert not world.store.is_open(text(0).key)
    await world.store.close(void(attempt))
    world.check()


async def test_reply_to_a_request_not_carried_is_our_bug(world: World) -> None:
    """A reply must answer a request of its attempt; else nothing of the closing is written."""
    attempt = await reserved(world.store)
    with pytest.raises(InvariantBroken):
        await world.store.close(settle(attempt, (chat(2), reply(), 60)))
    assert world.store.is_open(chat(1).key)
    assert world.store.standing().experiment == Spend(held=100)
    world.check()


async def test_scopes_of_the_port(bare: World) -> None:
    """Caps by experiment, stage, condition, provider and day stop what they name and nothing else."""
    caps = [
        Cap("nanos", "experiment", "second", 50), Cap("nanos", "stage", "grade", 50),
        Cap("nanos", "condition", "pick/cheap", 50), Cap("nanos", "provider", "dear", 50), Cap("nanos", "day", "", 250),
    ]  # fmt: skip
    await bare.store.enter(experiment="utility", budget=budget(*caps))
    store = bare.store
    for parts, scope in (
        ({"stage": "grade"}, "stage grade"),
        ({"condition": "pick/cheap/terse@rows"}, "condition pick/cheap"),
        ({"provider": "dear"}, "provider dear"),
    ):
        grant = await store.reserve(claim(chat("x"), **parts))  # type: ignore[arg-type]
        assert (grant.decision, grant.scope) == (Decision.EXHAUSTED, scope)
    await reserved(store, number=1)
    await reserved(store, number=2)
    assert (await store.reserve(claim(chat(3)))).scope == "day"
    bare.clock.time += 86_400
    await reserved(store, number=3)
    await store.leave({}, {})
    await store.enter(experiment="second", budget=budget(*caps))
    grant = await store.reserve(claim(chat(4)))
    assert (grant.decision, grant.scope) == (Decision.EXHAUSTED, "experiment second")
    bare.check()


async def test_new_cap_sees_old_spend(bare: World) -> None:
    """A budget file that changes between runs judges all that was spent under its name; another budget is another account."""
    await bare.store.enter(experiment="utility", budget=budget())
    attempt = await reserved(bare.store)
    await bare.store.close(settle(attempt, (chat(1), reply(), 60)))
    await bare.store.leave({}, {})
    await bare.store.enter(experiment="utility", budget=budget(Cap("nanos", "stage", "pick", 100)))
    assert (await bare.store.reserve(claim(chat(2)))).decision is Decision.EXHAUSTED
    await bare.store.leave({}, {})
    await bare.store.enter(experiment="utility", budget=budget(total=60))
    assert (await bare.store.reserve(claim(chat(2), nanos=1))).decision is Decision.EXHAUSTED
    await bare.store.leave({}, {})
    await bare.store.enter(experiment="utility", budget=budget(total=100, name="other"))
    await reserved(bare.store, number=2)
    standing = bare.store.standing()
    assert (standing.experiment, standing.budget) == (Spend(settled=60, held=100), Spend(held=100))


def window(**limits: int) -> Window:
    """A window of the provider lab."""
    return Window(provider="lab", model=None, **limits)


async def test_request_window(world: World) -> None:
    """No more requests than the limit in any 61 seconds; the delay says exactly when the next one fits."""
    limit = (window(requests_per_minute=2),)
    await reserved(world.store, number=1, windows=limit)
    world.clock.time += 20
    await reserved(world.store, number=2, windows=limit)
    world.clock.time += 20
    grant = await world.store.reserve(claim(chat(3), windows=limit))
    assert grant.decision is Decision.RATE
    assert grant.delay == pytest.approx(21.0)
    world.clock.time += grant.delay
    await reserved(world.store, number=3, windows=limit)
    grant = await world.store.reserve(claim(chat(4), windows=limit))
    assert grant.delay == pytest.approx(20.0)
    assert (await world.store.reserve(claim(chat(4), provider="elsewhere"))).decision is Decision.RESERVED


async def test_token_window(world: World) -> None:
    """Tokens count as expected until the settle says better; a call larger than the window fits an empty one."""
    limit = (window(tokens_per_minute=100),)
    first = await reserved(world.store, number=1, expected=60, windows=limit)
    grant = await world.store.reserve(claim(chat(2), expected=60, windows=limit))
    assert (grant.decision, grant.delay) == (Decision.RATE, pytest.approx(61.0))
    await world.store.close(settle(first, (chat(1), reply(), 60), tokens=30))
    world.clock.time += 1
    await reserved(world.store, number=2, expected=60, windows=limit)
    grant = await world.store.reserve(claim(chat(3), expected=500, windows=limit))
    assert grant.delay == pytest.approx(61.0)
    world.clock.time += grant.delay
    await reserved(world.store, number=3, expected=500, windows=limit)


async def test_void_and_unsent_in_windows(world: World) -> None:
    """An attempt of which no byte left does not count; a 429 does."""
    limit = (window(requests_per_minute=1),)
    first = await reserved(world.store, number=1, windows=limit)
    await world.store.close(void(first, sent=False))
    second = await reserved(world.store, number=1, windows=limit)
    await world.store.close(void(second, sent=True))
    assert (await world.store.reserve(claim(chat(1), windows=limit))).decision is Decision.RATE


async def test_day_and_model_windows(world: World) -> None:
    """Requests per day roll over 24 hours; a model's window counts that model alone; the longest delay wins."""
    limits = (window(requests_per_day=3), Window(provider="lab", model="m", requests_per_minute=1))
    await reserved(world.store, number=1, windows=limits)
    await reserved(world.store, number=2, model="n", windows=limits[:1])
    assert (await world.store.reserve(claim(chat(3), windows=limits))).delay == pytest.approx(61.0)
    world.clock.time += 3_600
    await reserved(world.store, number=3, windows=limits)
    grant = await world.store.reserve(claim(chat(4), windows=limits))
    assert grant.delay == pytest.approx(86_400 - 3_600)


async def test_windows_survive_the_process(bare: World) -> None:
    """A new process counts what its forerunner sent; an attempt that died open counts as sent."""
    limit = (window(requests_per_minute=2),)
    await bare.store.enter(experiment="utility", budget=budget())
    await reserved(bare.store, number=1, windows=limit)
    await bare.store.leave({}, {})
    await bare.store.enter(experiment="utility", budget=budget())
    await reserved(bare.store, number=2, windows=limit)
    bare.clock.time += 10
    grant = await bare.store.reserve(claim(chat(3), windows=limit))
    assert (grant.decision, grant.delay) == (Decision.RATE, pytest.approx(51.0))


async def test_unsent_attempts_are_not_counted_by_the_next_process(world: World) -> None:
    """A new process leaves out of its windows what an earlier one never sent."""
    await world.store.close(void(await reserved(world.store), sent=False))
    other = await world.second()
    await other.enter(experiment="utility", budget=budget())
    limit = (window(requests_per_minute=1),)
    await reserved(other, number=1, windows=limit)
    assert (await other.reserve(claim(chat(2), windows=limit))).decision is Decision.RATE
    await other.aclose()


async def test_window_after_a_rollback(world: World) -> None:
    """Ids of a transaction that was rolled back are given to another process, whose attempts under them are counted."""
    other = await world.second()
    await other.enter(experiment="utility", budget=budget())
    limit = (window(requests_per_minute=2),)

    def broken() -> None:
        for number in range(3):
            world.store._books.reserve(
                claim(chat(number), windows=(window(requests_per_minute=9),)), world.clock.wall()
            )
        raise StoreError("the disk said no")

    with pytest.raises(StoreError, match="said no"):
        await world.store._do(broken)
    await reserved(world.store, number=4, windows=limit)  # reads the window, and finds it empty
    await reserved(other, number=5, windows=limit)
    assert (await world.store.reserve(claim(chat(6), windows=limit))).decision is Decision.RATE
    await other.aclose()
    world.check()


async def test_two_processes_share_windows_and_accounts(world: World) -> None:
    """What one process reserves, settles or voids is seen by the other's next decision."""
    other = await world.second()
    await other.enter(experiment="utility", budget=budget())
    limit = (window(requests_per_minute=2, tokens_per_minute=100),)
    mine = await reserved(world.store, number=1, nanos=6_000, windows=limit)
    assert (await other.reserve(claim(chat(1)))).decision is Decision.HELD
    assert (await other.reserve(claim(chat(2), nanos=6_000))).decision is Decision.WAIT
    theirs = await reserved(other, number=2, windows=limit)
    assert (await world.store.reserve(claim(chat(3), windows=limit))).decision is Decision.RATE
    await other.close(void(theirs, sent=False))
    await world.store.close(settle(mine, (chat(1), reply(), 50), nanos=50, tokens=95))
    assert (await other.reserve(claim(chat(1)))).decision is Decision.KEPT
    assert (await other.reserve(claim(chat(4), windows=limit))).decision is Decision.RATE  # 95 of 100 tokens are used
    assert await reserved(other, number=4, nanos=9_000) > theirs
    assert other.standing().budget == world.store.standing().budget == Spend(settled=50, held=9_000)
    await other.aclose()
    world.check()


async def test_freeze_reaches_the_other_process(world: World) -> None:
    """A budget that one process freezes is frozen for all."""
    other = await world.second()
    await other.enter(experiment="second", budget=budget())
    await reserved(other, number=9)
    attempt = await reserved(world.store, nanos=10)
    await world.store.close(settle(attempt, (chat(1), reply(), 60), nanos=60))
    assert (await other.reserve(claim(chat(2)))).decision is Decision.FROZEN
    await other.aclose()


async def test_leave_forfeits_what_is_open(world: World) -> None:
    """Leaving spends the holds that were left open and adds idle seconds to the experiment's life."""
    await reserved(world.store, number=1)
    await world.store.leave({"money": 1.5, "rate": 2.0}, {})
    await world.store.enter(experiment="utility", budget=budget())
    await world.store.leave({"money": 0.5}, {})
    await world.store.enter(experiment="utility", budget=budget())
    standing = world.store.standing()
    assert standing.experiment == Spend(forfeited=100)
    assert standing.idle == {"money": 2.0, "rate": 2.0}
    assert not world.store.is_open(chat(1).key)
    world.check()


async def test_who_stays_is_the_same_owner_when_it_enters_again(world: World) -> None:
    """What a part left is booked like that of any other; nobody recovers the owner; its time counts once, also when it dies."""
    await reserved(world.store, number=1)
    owner = world.store.owner
    await world.store.progress('{"idle": {"money": 1.5}}')
    await world.store.leave({"money": 1.5}, {}, stays=True)
    assert not world.store.is_open(chat(1).key)
    assert await world.store.recover() == 0
    assert await world.store.enter(experiment="utility", budget=budget()) == owner
    assert (await world.store.reserve(claim(chat(2)))).decision is Decision.RESERVED
    await world.store.leave({"money": 0.5}, {})
    assert world.store.standing().idle == {"money": 2.0}
    assert await world.store.enter(experiment="utility", budget=budget()) != owner
    world.check()


async def test_recover_spares_the_living(world: World) -> None:
    """Recovery forfeits what a dead owner left open, once, and nothing of a living one."""
    other = await world.second()
    await other.enter(experiment="utility", budget=budget())
    await reserved(other, number=1)
    await reserved(world.store, number=2)
    assert await world.store.recover() == 0
    await other.aclose()  # without leave(): as a kill would end it
    assert world.store.is_open(chat(1).key)
    assert await world.store.recover() == 1
    assert await world.store.recover() == 0
    assert not world.store.is_open(chat(1).key)
    assert world.store.is_open(chat(2).key)
    assert world.store.standing().budget == Spend(forfeited=100, held=100)
    world.check()


async def test_the_time_of_a_dead_process_is_not_lost(world: World) -> None:
    """Recovery adds what a dead owner last said of its time to that of its experiment, once; a living one's stays its own."""
    other = await world.second()
    await other.enter(experiment="utility", budget=budget())
    await other.progress('{"idle": {"rate": 1.0}, "lanes": {"lab": {"sending": 5.0}}}')
    await other.progress('{"idle": {"rate": 2.0}, "lanes": {"lab": {"sending": 7.0, "cut": 1.0}}}')
    await world.store.recover()
    assert world.store.standing().lanes == {}
    await other.aclose()  # without leave(): as a kill would end it
    await world.store.recover()
    await world.store.recover()
    await world.store.leave({"rate": 1.0}, {"lab": {"sending": 3.0}})
    await world.store.enter(experiment="utility", budget=budget())
    standing = world.store.standing()
    assert standing.idle == {"rate": 3.0}
    assert standing.lanes == {"lab": {"cut": 1.0, "sending": 10.0}}


async def test_recover_books_on_another_budget(world: World) -> None:
    """A dead owner's hold is forfeited on its own budget's account, not on the recoverer's."""
    other = await world.second()
    await other.enter(experiment="second", budget=budget(name="theirs"))
    await reserved(other, number=1)
    await other.aclose()
    assert await world.store.recover() == 1
    assert world.store.standing().budget == Spend()
    world.check()


async def test_lost_until_a_reply_comes(world: World) -> None:
    """A request that was given up says why; a reply that comes later outranks it."""
    await world.store.lose(chat(1), "timed out 5 times")
    await world.store.lose(chat(1), "timed out 10 times")
    assert world.store.lookup(chat(1).key) == Lost("timed out 10 times")
    attempt = await reserved(world.store)
    await world.store.close(settle(attempt, (chat(1), reply(), 60)))
    assert isinstance(world.store.lookup(chat(1).key), Kept)


async def test_what_is_done_together_is_seen_together(world: World) -> None:
    """Two adjusts and a seal that share a transaction: each rests on the lines of those before it."""
    attempt = await reserved(world.store)
    await world.store.close(forfeit(attempt))
    stated = Stated(plan="d", prices="p", files={})
    await asyncio.gather(
        world.store.adjust(attempt, Amount(nanos=40, calls=1), document="invoice 7"),
        world.store.adjust(attempt, Amount(nanos=30, calls=1), document="invoice 7, corrected"),
        world.store.seal("utility", [chat(1).key], stated=stated),
    )
    world.check()
    assert world.sql().execute("select settled_nanos, forfeited_nanos from account").fetchall() == [(30, 0)]
    assert world.sql().execute("select entry = (select max(id) from entry) from seal").fetchall() == [(1,)]


async def test_adjust_lowers_a_forfeit(world: World) -> None:
    """A document says what a forfeited attempt really cost; without one, or while it is open, nothing is adjusted."""
    attempt = await reserved(world.store)
    with pytest.raises(Refused, match="not a closed attempt"):
        await world.store.adjust(attempt, Amount(nanos=1, calls=1), document="invoice 7")
    await world.store.close(forfeit(attempt))
    with pytest.raises(Refused, match="no document"):
        await world.store.adjust(attempt, Amount(nanos=1, calls=1), document="")
    await world.store.adjust(attempt, Amount(nanos=40, calls=1), document="invoice 7, line 3")
    assert world.store.standing().experiment == Spend(settled=40)
    await world.store.adjust(attempt, Amount(nanos=30, calls=1), document="invoice 7, corrected")
    assert world.store.standing().experiment == Spend(settled=30)
    assert (await world.store.adjust(attempt, Amount(nanos=300, calls=1), document="invoice 8")).overrun
    world.check()


async def test_an_order_names_the_living_processes_of_one_experiment(world: World) -> None:
    """An order is an event for the living processes of an experiment: where there is none, nothing is left behind."""
    owner = world.store.owner
    assert await world.store.ask("another", Order.STOP, by="a test") == 0
    assert world.store.events(0) == ()
    assert await world.store.ask("utility", Order.STOP, by="a test", within=60.0) == 1
    (asked,) = world.store.events(0)
    assert (asked.kind, asked.subject, asked.experiment) == ("ask", "utility", "utility")
    said = {"what": "stop", "owners": [owner], "until": world.clock.wall() + 60.0, "by": "a test"}
    assert json.loads(asked.detail) == said
    await world.store.leave({}, {})
    assert await world.store.ask("utility", Order.STOP, by="a test") == 0
    assert await world.store.enter(experiment="utility", budget=budget()) not in said["owners"]


async def test_conditions_stand_apart(world: World) -> None:
    """Spend is told for each condition of the experiment."""
    first = await reserved(world.store, number=1, condition="pick/a@rows")
    await reserved(world.store, number=2, condition="pick/b@rows")
    await world.store.close(settle(first, (chat(1), reply(), 60)))
    assert world.store.standing().conditions == {"pick/a@rows": Spend(settled=60), "pick/b@rows": Spend(held=100)}


async def test_pins_and_plans(world: World) -> None:
    """A file that changed is named with its old digest, once; a plan is recorded when it differs from the last."""
    assert await world.store.pin("utility", {"terse.md": "aa", "rows.csv": "bb"}) == {}
    assert await world.store.pin("utility", {"terse.md": "cc", "rows.csv": "bb"}) == {"terse.md": "aa"}
    assert await world.store.pin("utility", {"terse.md": "cc"}) == {}
    assert await world.store.plan("utility", "d1", {"terse.md": "aa"})
    assert not await world.store.plan("utility", "d1", {"terse.md": "aa"})
    assert await world.store.plan("utility", "d2", {"terse.md": "aa"})


async def test_nothing_without_an_owner(bare: World) -> None:
    """Reservations need an owner; one store is one owner at a time."""
    with pytest.raises(InvariantBroken, match="enter"):
        await bare.store.reserve(claim(chat(1)))
    with pytest.raises(InvariantBroken, match="enter"):
        await bare.store.leave({}, {})
    await bare.store.enter(experiment="utility", budget=budget())
    with pytest.raises(InvariantBroken, match="already"):
        await bare.store.enter(experiment="utility", budget=budget())


async def test_odd_text_is_kept(world: World) -> None:
    """A reply with a lone surrogate, a zero byte or no text at all is still settled: a paid reply is never lost."""
    for number, words in enumerate(("\ud800x", "a\x00b", "", "naïve 東京")):
        attempt = await reserved(world.store, number=number)
        answer = reply("x")
        odd = type(answer)(finish=Finish.UNKNOWN, finish_raw=words, text=words, raw=b"\xff\x00", raw_digest="00")
        await world.store.close(forfeit(attempt, replies=[(chat(str(number)), odd)]))
        kept = world.store.lookup(chat(str(number)).key)
        assert isinstance(kept, Kept)
        assert kept.reply.text == words.replace("\ud800", "?")
    world.check()


async def test_one_bad_operation_spares_its_group(world: World) -> None:
    """Operations that are queued together are answered apart: one that fails rolls back nothing but itself."""
    good = [world.store.reserve(claim(chat(n))) for n in range(5)]
    grants = await asyncio.gather(*good[:3], world.store.close(void(999)), *good[3:], return_exceptions=True)
    assert [type(grant) for grant in grants] == [Grant, Grant, Grant, InvariantBroken, Grant, Grant]
    assert {grant.decision for grant in grants if isinstance(grant, Grant)} == {Decision.RESERVED}
    assert world.store.standing().experiment == Spend(held=500)
    world.check()


async def test_many_at_once(world: World) -> None:
    """Hundreds of concurrent calls end with sound books, every reply there, and the cap kept at every turn."""

    async def call(number: int) -> Decision:
        grant = await world.store.reserve(claim(chat(number), nanos=40))
        if grant.attempt is not None:
            await world.store.close(settle(grant.attempt, (chat(number), reply(), 20), nanos=20))
        return grant.decision

    decisions = await asyncio.gather(*[call(number) for number in range(700)])
    bought = decisions.count(Decision.RESERVED)
    assert bought + decisions.count(Decision.WAIT) + decisions.count(Decision.EXHAUSTED) == 700
    assert world.store.standing().budget.settled == 20 * bought
    assert sum(isinstance(world.store.lookup(chat(n).key), Kept) for n in range(700)) == bought
    world.check()


async def test_cancelled_caller_loses_nothing(world: World) -> None:
    """A caller cancelled at any await: its closing is done all the same; its reservation is voided, for nobody will send it."""
    if world.kind != "aiosqlite":
        pytest.skip("an inline store never suspends")
    attempt = await reserved(world.store)
    closing = asyncio.ensure_future(world.store.close(settle(attempt, (chat(1), reply(), 60))))
    asking = asyncio.ensure_future(world.store.reserve(claim(chat(2))))
    await asyncio.sleep(0)
    closing.cancel()
    asking.cancel()
    await asyncio.gather(closing, asking, return_exceptions=True)
    assert closing.cancelled()
    assert asking.cancelled()
    await world.store.note("probe", "x", "after both")
    await world.store.note("probe", "x", "after the giving back")
    assert isinstance(world.store.lookup(chat(1).key), Kept)
    assert not world.store.is_open(chat(2).key)
    assert world.store.standing().budget == Spend(settled=60)
    assert world.store.standing().attempts == 1
    world.check()


async def test_a_reservation_told_to_a_cancelled_caller_is_voided(world: World) -> None:
    """Cancelled in the moment between the writer's answer and its own waking, a reserver sends nothing: the hold comes back."""
    if world.kind != "aiosqlite":
        pytest.skip("an inline store never suspends")
    asking: list[asyncio.Task[object]] = []

    async def first() -> None:
        await world.store.note("probe", "x", "answered in one group with the reservation, and before it")
        asking[0].cancel()

    leading = asyncio.ensure_future(first())
    asking.append(asyncio.ensure_future(world.store.reserve(claim(chat(1)))))
    await asyncio.gather(leading, *asking, return_exceptions=True)
    assert asking[0].cancelled()
    await world.store.note("probe", "x", "after the giving back")
    assert not world.store.is_open(chat(1).key)
    assert world.store.standing().budget == Spend()
    world.check()


async def test_closed_store_says_so(tmp_path: Path) -> None:
    """What is queued before `aclose` is done; what comes after is refused."""
    store = await Cache.open(tmp_path / "cache.db", clock=HandClock())
    queued = asyncio.ensure_future(store.note("probe", "x", "y"))
    await asyncio.sleep(0)
    await store.aclose()
    await queued
    with pytest.raises(StoreError, match="closed"):
        await store.note("probe", "x", "z")


def as_store(store: Cache | Inline) -> Store:
    """Does not type-check unless both implementations satisfy the port."""
    return store


async def test_implementations_have_the_whole_port(bare: World) -> None:
    """Every method of the port is there, as the type checker also sees it."""
    names = [name for name in vars(Store) if not name.startswith("_")]
    assert [name for name in names if not callable(getattr(as_store(bare.store), name, None))] == []
    assert len(names) >= 12
