"""Attempts and the scheduler between a store and a provider that can be made to do anything."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import pytest

from fakes.clock import LoopClock
from fakes.flow import chat, deployment, embedding, model
from fakes.quick import PROFILE, QuickProvider, QuickStore, reply
from fakes.world import PRICE
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.run import Ending, Run
from judgerun.dispatch.scheduler import window
from judgerun.dispatch.work import NEXT, State, Work, ancestry
from judgerun.errors import Exit, InvariantBroken, Problem, Refused, StoreError
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.entry import Decision, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Experiment, Model
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.lane import LaneSpec
from judgerun.model.reply import Billable, Cause, Failure, Usage
from judgerun.plan.counts import Counts
from judgerun.ports import Answer, Closed, Closing, Grant
from judgerun.simulate import virtual

LAB = deployment("lab", "http://127.0.0.1:9/v1")
A = model("a", LAB)
V = model("v", LAB)


@dataclass
class Line:
    """A flow of cells that are made when they are taken."""

    make: Callable[[int], Cell]
    size: int
    taken: int = 0
    outcomes: dict[str, Kept | Lost] = field(default_factory=dict)
    abandoned: list[str] = field(default_factory=list)
    on_take: Callable[[int], None] = lambda n: None

    def take(self, *, blocks: int | None = None) -> Cell | None:
        if self.taken >= self.size:
            return None
        self.on_take(self.taken)
        self.taken += 1
        return self.make(self.taken - 1)

    @property
    def drained(self) -> bool:
        return self.taken >= self.size

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        self.outcomes[cell.id] = outcome

    def forgo(self, cell: Cell) -> None:
        self.abandoned.append(cell.id)

    def divert(self, cell: Cell) -> Cell | None:
        return None

    def counts(self) -> tuple[Counts, ...]:
        return ()


def asked(n: int) -> Cell:
    """A chat cell."""
    return chat(A, f"row {n}", stage="solve", condition="solve/a@rows", item=f"r{n}", rank=(n, 0))


def embedded(n: int) -> Cell:
    """An embedding cell."""
    return embedding(V, f"text {n}", stage="vectors", condition="vectors/v@rows", item=f"r{n}", rank=(n, 0))


@dataclass
class Bench:
    """One run between quick fakes."""

    flow: Line
    store: QuickStore = field(default_factory=QuickStore)
    provider: QuickProvider = field(default_factory=QuickProvider)
    lanes: Mapping[str, LaneSpec] = field(default_factory=lambda: {"lab": LaneSpec(name="lab", concurrency=4)})
    caps: Sequence[Cap] = (Cap("nanos", "total", "", 10**15),)
    price: Callable[[Model, date], Price | None] = lambda held, day: PRICE
    scrub: Callable[[str], str] = str
    progress: Progress = field(default_factory=Progress)

    def run(self) -> Ending:
        """To its end, in virtual time."""

        async def life() -> Ending:
            return await Run(
                self.flow,
                store=self.store,
                providers={"lab": self.provider},
                models={"a": A, "v": V},
                clock=LoopClock(),
                lanes=self.lanes,
                budget=Budget(name="b", caps=tuple(self.caps)),
                prices=self.price,
                rng=random.Random(1),
                experiment=Experiment(name="e", folder="", seed=1),
                progress=self.progress,
                scrub=self.scrub,
            ).main()

        return virtual.run(life())


def failed(cause: Cause, billable: Billable = Billable.UNKNOWN) -> Answer:
    """An answer that is a failure."""
    return Answer(failure=Failure(cause=cause, billable=billable))


# -- what comes back


def test_reply_is_settled_and_handed_on() -> None:
    """The bill is the price of the usage, rounded up once; the flow gets the reply with its cost, without the raw body."""
    bench = Bench(Line(asked, 3))
    assert bench.run() == Ending(code=Exit.DONE, reason=None, codes={})
    assert bench.store.kinds() == {EntryKind.SETTLE: 3}
    assert {closing.amount.nanos for closing in bench.store.closings} == {3 * 1000 + 2 * 4000}
    kept = bench.flow.outcomes["r0"]
    assert isinstance(kept, Kept)
    assert kept.cost == 11_000
    assert kept.experiment == "e"
    assert kept.reply.raw == b""
    assert bench.progress.calls == 3
    assert bench.progress.tokens == 15
    assert bench.store.idle is not None


def test_reply_without_usage_is_kept_and_its_hold_forfeited() -> None:
    """The tokens are not known: the whole hold is spent, the reply counts, and the request is not repeated."""
    bare = Answer(replies=(replace(reply(asked(0).request), usage=Usage()),), status=200)
    bench = Bench(Line(asked, 1), provider=QuickProvider(answers=[bare]))
    assert bench.run().code is Exit.DONE
    assert len(bench.provider.sent) == 1
    (closing,) = bench.store.closings
    assert closing.kind is EntryKind.FORFEIT
    assert closing.amount.nanos > 11_000
    assert len(closing.replies) == 1
    kept = bench.flow.outcomes["r0"]
    assert isinstance(kept, Kept)
    assert kept.cost is None


def test_each_retry_is_an_attempt_of_its_own() -> None:
    """Two failures and a reply are three reservations with three ends."""
    answers = [failed(Cause.TIMED_OUT), failed(Cause.OVERLOADED, Billable.NO)]
    bench = Bench(Line(asked, 1), provider=QuickProvider(answers=answers))
    assert bench.run().code is Exit.DONE
    assert [closing.kind for closing in bench.store.closings] == [EntryKind.FORFEIT, EntryKind.VOID, EntryKind.SETTLE]
    assert bench.store.calls["reserve"] == 3
    assert [closing.sent for closing in bench.store.closings] == [True, True, True]


def test_refused_request_is_lost_without_a_second_try() -> None:
    """The same request would be refused again: it is recorded as lost, with the reason."""
    bench = Bench(Line(asked, 1), provider=QuickProvider(answers=[failed(Cause.REJECTED, Billable.NO)]))
    assert bench.run().code is Exit.DONE
    assert len(bench.provider.sent) == 1
    ((_, reason),) = bench.store.losses
    assert reason == "rejected"
    assert bench.flow.outcomes["r0"] == Lost("rejected")


# -- the window and the slots


@pytest.mark.parametrize("width", [1, 4, 9])
def test_no_more_in_flight_than_slots_nor_open_than_the_window(width: int) -> None:
    """Never more calls at once than slots, all of which are used; and no cell is taken beyond the window."""
    flow = Line(asked, 60)
    bench = Bench(flow, provider=QuickProvider(pause=1.0), lanes={"lab": LaneSpec(name="lab", concurrency=width)})
    seen: list[int] = []
    ahead: list[int] = []

    def look(n: int) -> None:
        seen.append(bench.progress.in_flight)
        ahead.append(n - len(flow.outcomes))

    flow.on_take = look
    assert bench.run().code is Exit.DONE
    assert max(seen) <= width
    assert max(ahead) < window(width)
    assert sorted(flow.outcomes) == sorted(f"r{n}" for n in range(60))


def test_hundred_thousand_pending_prompts_cost_little_memory() -> None:
    """100,000 prompts of 2 KB that wait behind 100 slots add less than 60 MB: they do not exist before their turn."""
    text = "x" * 2000
    flow = Line(lambda n: chat(A, f"{text}{n}", stage="s", condition="s/a@rows", item=f"r{n}", rank=(n,)), 100_000)

    def stop(n: int) -> None:
        if n == 2000:
            raise StoreError("enough")

    flow.on_take = stop
    store = QuickStore()
    store.keep = False
    provider = QuickProvider(pause=1.0)
    provider.keep = False
    tracemalloc.start()
    try:
        bench = Bench(flow, store=store, provider=provider, lanes={"lab": LaneSpec(name="lab", concurrency=100)})
        assert bench.run().code is Exit.STORE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert flow.taken == 2000
    assert peak < 60 * 2**20


# -- batches


def test_embedding_cells_go_in_full_batches() -> None:
    """70 texts at 32 a batch are three calls, each one reservation with all of its requests."""
    bench = Bench(Line(embedded, 70), provider=QuickProvider(pause=1.0))
    assert bench.run().code is Exit.DONE
    assert sorted(map(len, bench.provider.sent)) == [6, 32, 32]
    assert bench.store.calls["reserve"] == 3
    assert len(bench.flow.outcomes) == 70
    shares = [sum(share or 0 for _, _, share in closing.replies) for closing in bench.store.closings]
    assert shares == [closing.amount.nanos for closing in bench.store.closings]


def test_batch_grows_while_all_slots_are_busy() -> None:
    """Cells that become ready one by one are sent at once while a slot is free, and gathered while none is."""
    flow = Line(embedded, 1)

    def more(cell: Cell, outcome: Kept | Lost) -> None:
        flow.outcomes[cell.id] = outcome
        if flow.size < 21:
            flow.size = 21

    flow.resolve = more  # type: ignore[method-assign]
    lanes = {"lab": LaneSpec(name="lab", concurrency=1, batch_size=32)}
    bench = Bench(flow, provider=QuickProvider(pause=1.0), lanes=lanes)
    assert bench.run().code is Exit.DONE
    assert [len(batch) for batch in bench.provider.sent] == [1, 20]


@pytest.mark.parametrize(
    ("texts", "tokens", "sizes"),
    [(5, None, [5, 5, 2]), (None, 45, [3, 3, 3, 3]), (2, 45, [2] * 6), (100, None, [8, 4]), (None, 3, [1] * 12)],
)
def test_batches_keep_to_what_the_provider_takes(texts: int | None, tokens: int | None, sizes: list[int]) -> None:
    """By the number of texts and by their tokens, whatever batch_size says; a text above the limit goes alone."""
    bench = Bench(Line(embedded, 12), lanes={"lab": LaneSpec(name="lab", concurrency=20, batch_size=8)})
    bench.provider.profile = replace(PROFILE, texts_max=texts, texts_tokens_max=tokens)
    assert bench.run().code is Exit.DONE
    assert [len(batch) for batch in bench.provider.sent] == sizes
    assert len(bench.flow.outcomes) == 12


def test_refused_batch_is_halved_until_the_guilty_text_is_alone() -> None:
    """One text that the provider refuses does not lose the others of its batch."""
    bench = Bench(Line(embedded, 8), lanes={"lab": LaneSpec(name="lab", concurrency=1, batch_size=8)})
    guilty = embedded(5).request.key
    told = bench.provider.send

    async def send(requests: Sequence[object], *, timeout_s: float, attempt: int) -> Answer:
        if any(request.key == guilty for request in requests):  # type: ignore[attr-defined]
            return failed(Cause.TOO_LONG, Billable.NO)
        return await told(requests, timeout_s=timeout_s, attempt=attempt)  # type: ignore[arg-type]

    bench.provider.send = send  # type: ignore[method-assign, assignment]
    assert bench.run().code is Exit.DONE
    assert [key for key, outcome in bench.flow.outcomes.items() if isinstance(outcome, Lost)] == ["r5"]
    assert len(bench.flow.outcomes) == 8


# -- what the ledger says instead of `reserved`


def test_frozen_budget_sends_nothing() -> None:
    """Told that it is frozen, the run ends with 4 and the reason."""
    store = QuickStore()
    store.grants = [Grant(decision=Decision.FROZEN, scope="attempt 7 was billed too much")]
    bench = Bench(Line(asked, 5), store=store, lanes={"lab": LaneSpec(name="lab", concurrency=1)})
    ending = bench.run()
    assert ending.code is Exit.FROZEN
    assert "attempt 7" in (ending.reason or "")
    assert bench.provider.sent == []


def test_wait_for_money_gives_the_slot_back() -> None:
    """While the first waits for money that another process holds, its slot is free; the tick lets it try again."""
    store = QuickStore()
    store.grants = [Grant(decision=Decision.WAIT, scope="total")]
    bench = Bench(Line(asked, 3), store=store, lanes={"lab": LaneSpec(name="lab", concurrency=1)})
    assert bench.run().code is Exit.DONE
    assert bench.progress.idle["money"] > 0
    assert [batch[0].key for batch in bench.provider.sent] == [asked(n).request.key for n in range(3)]


def test_rate_window_of_the_day_is_slept_without_a_slot() -> None:
    """A lane that has only a daily limit has no pace: who is told to come back later sleeps, and others use the slot."""
    store = QuickStore()
    store.grants = [Grant(decision=Decision.RATE, delay=500.0)]
    bench = Bench(Line(asked, 2), store=store, lanes={"lab": LaneSpec(name="lab", concurrency=1, requests_per_day=100)})
    assert bench.run().code is Exit.DONE
    assert bench.progress.idle["rate"] == pytest.approx(500.0, abs=1)
    assert [batch[0].key for batch in bench.provider.sent] == [asked(1).request.key, asked(0).request.key]


# -- trouble


def test_bug_in_an_adapter_ends_with_seventy_and_clean_books() -> None:
    """An exception where none may be: exit 70 with the traceback, without secrets; every hold has had its end."""
    bug = ValueError("it was hunter2hunter2, Bearer abcdefghijklmnop")
    bench = Bench(
        Line(asked, 30),
        provider=QuickProvider(pause=1.0, answers=[bug]),
        scrub=lambda text: text.replace("hunter2hunter2", "[key]"),
    )
    ending = bench.run()
    assert ending.code is Exit.BUG
    assert "ValueError: it was [key], Bearer [key]" in (ending.reason or "")
    assert "test_attempt" not in (ending.reason or "").splitlines()[0]
    assert bench.store.open == set()
    assert bench.store.kinds()[EntryKind.FORFEIT] >= 1
    assert bench.store.idle is not None


def test_bugs_in_one_moment_are_one_end() -> None:
    """All calls in flight meet the bug at once: exit 70 all the same, and every hold has had its end."""

    class Slow(QuickStore):
        async def close(self, closing: Closing) -> Closed:
            await asyncio.sleep(0.1)
            return await super().close(closing)

    bench = Bench(Line(asked, 30), store=Slow(), provider=QuickProvider(pause=1.0, answers=[ValueError("bug")] * 30))
    assert bench.run().code is Exit.BUG
    assert bench.store.open == set()
    assert bench.store.idle is not None


def test_provider_that_answers_for_others_is_our_bug() -> None:
    """Two replies to one request: the hold is forfeited and the run ends with 70."""
    two = Answer(replies=(reply(asked(0).request), reply(asked(0).request)))
    bench = Bench(Line(asked, 1), provider=QuickProvider(answers=[two]))
    assert bench.run().code is Exit.BUG
    assert bench.store.kinds() == {EntryKind.FORFEIT: 1}


@pytest.mark.parametrize("method", ["enter", "recover", "reserve", "close", "leave", "lose"])
def test_trouble_of_the_store_ends_with_six(method: str) -> None:
    """Whatever the store cannot do, the run stops sending and says so; it does not hang, and raises nothing."""
    answers = [failed(Cause.REJECTED, Billable.NO)] if method == "lose" else []
    at = 3 if method in ("reserve", "close") else 1
    bench = Bench(
        Line(asked, 50),
        store=QuickStore(fail=(method, at, StoreError("disk full"))),
        provider=QuickProvider(pause=1.0, answers=answers),
    )
    ending = bench.run()
    assert ending.code is Exit.STORE
    assert ending.reason == "disk full"
    if method != "leave":
        assert len(bench.provider.sent) < 12


def test_price_that_ended_refuses() -> None:
    """Without a price in force nothing is sent."""
    bench = Bench(Line(asked, 2), price=lambda held, day: None)
    ending = bench.run()
    assert ending.code is Exit.REFUSED
    assert "lab/id-a" in (ending.reason or "")
    assert bench.provider.sent == []


def test_price_is_that_of_the_day_of_the_attempt() -> None:
    """A run that goes past midnight pays the new day's price."""
    dear = replace(PRICE, rates=replace(PRICE.rates, input=10**10, output=10**10))
    bench = Bench(
        Line(asked, 20),
        provider=QuickProvider(pause=3600.0),
        lanes={"lab": LaneSpec(name="lab", concurrency=1)},
        price=lambda held, day: PRICE if day == date(2027, 1, 15) else dear,
    )
    assert bench.run().code is Exit.DONE
    bills = [closing.amount.nanos for closing in bench.store.closings]
    assert bills == [11_000] * 16 + [50_000] * 4


def test_refusal_of_the_flow_ends_the_run() -> None:
    """A row that a template cannot render: what is in flight finishes, the run ends with 2."""

    def refuse(n: int) -> None:
        if n == 17:
            raise Refused(Problem("p.md", "line 2", "'x' is undefined"))

    flow = Line(asked, 30, on_take=refuse)
    bench = Bench(flow, provider=QuickProvider(pause=1.0))
    ending = bench.run()
    assert ending.code is Exit.REFUSED
    assert "'x' is undefined" in (ending.reason or "")
    done = sorted(flow.outcomes, key=lambda name: int(name[1:]))
    assert 4 <= len(done) < 17
    assert done == [f"r{n}" for n in range(len(done))]
    assert bench.store.open == set()


# -- the table


def test_states_are_left_only_by_the_table() -> None:
    """A step that the table does not have is our bug; from every state an end can be reached."""
    for state, following in NEXT.items():
        reached, frontier = {state}, set(following)
        while frontier:
            reached |= frontier
            frontier = {after for at in frontier for after in NEXT[at]} - reached
        assert reached & {State.DONE, State.PENDING}
    work = Work.__new__(Work)
    work.state = State.SENT
    with pytest.raises(InvariantBroken):
        work.enter(State.DONE)


def test_ancestry_names_the_conditions_upstream() -> None:
    """A condition and its feeds, nearest first."""
    assert ancestry("grade/g@solve/a@rows") == ("grade/g@solve/a@rows", "solve/a@rows", "rows")


def test_run_is_cancelled_before_it_began() -> None:
    """A caller that is cancelled at once leaves nothing behind."""

    async def life() -> None:
        bench = Bench(Line(asked, 5))
        run = Run(
            bench.flow,
            store=bench.store,
            providers={"lab": bench.provider},
            models={"a": A},
            clock=LoopClock(),
            lanes=bench.lanes,
            budget=Budget(name="b", caps=tuple(bench.caps)),
            prices=bench.price,
            rng=random.Random(1),
            experiment=Experiment(name="e", folder="", seed=1),
            progress=bench.progress,
        )
        task = asyncio.ensure_future(run.main())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.store.open == set()
        assert len(asyncio.all_tasks()) == 1

    virtual.run(life())
