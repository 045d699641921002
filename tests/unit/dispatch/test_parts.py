"""The small parts of dispatch: claims, lanes, gates, progress, the real clock, what is shared by a run."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Mapping

import pytest

from fakes.clock import LoopClock
from fakes.flow import chat, deployment, embedding, model
from fakes.waiting import waits
from fakes.world import PRICE
from judgerun.dispatch import claim as claims
from judgerun.dispatch.clock import WallClock
from judgerun.dispatch.gates import EVERY, Gates, Rule
from judgerun.dispatch.lane import Lanes
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.work import Work
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Hours, PriceSpec, Tier
from judgerun.model.kept import Cell
from judgerun.model.lane import LaneSpec
from judgerun.model.profile import Profile
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.plan.counts import Counts
from judgerun.ports import Answer, Window
from judgerun.simulate import virtual
from judgerun.table.gate import Fired, Sums

LAB = deployment("lab", "http://127.0.0.1:9/v1")
A = model("a", LAB)
PROFILE = Profile(dialect="openai", adapter="openai/1", embed=True)


def lanes(*specs: LaneSpec) -> Lanes:
    """Lanes on the loop's clock."""
    ids = {"a": "id-a", "b": "id-b"}
    return Lanes({spec.name: spec for spec in specs}, clock=LoopClock(), waits=waits(), ids=ids, rng=random.Random(1))


def work(*cells: Cell) -> Work:
    """Work of these cells."""
    return Work(
        cells=list(cells),
        embed=cells[0].request.kind == "embed",
        rank=cells[0].rank,
        model=A,
        route=lanes(LaneSpec(name="lab", requests_per_day=9)).route("lab", "a"),
        scopes=(),
        conditions=(cells[0].condition,),
    )


def asked(n: int) -> Cell:
    """A chat cell: eight bytes and as many of allowance."""
    return chat(A, f"row {n:04}", stage="solve", condition="solve/a@rows", item=f"r{n}", rank=(n,))


def embedded(n: int) -> Cell:
    """An embedding cell of the same length."""
    return embedding(A, f"row {n:04}", stage="v", condition="v/a@rows", item=f"r{n}", rank=(n,))


def test_claim_holds_the_worst_case_as_one_call() -> None:
    """Input bound and output cap at the price; a batch is the sum of its texts, and one call; windows go along."""
    one = claims.claim(work(asked(0)), PRICE, None, PROFILE)
    assert one.need == Amount(nanos=16 * 1000 + 16 * 4000, calls=1, tokens=32)
    assert one.windows == (Window(provider="lab", model=None, requests_per_day=9),)
    batch = claims.claim(work(embedded(0), embedded(1), embedded(2)), PRICE, None, PROFILE)
    assert batch.need == Amount(nanos=3 * 16 * 1000, calls=1, tokens=48)
    assert len(batch.requests) == 3


def test_expected_tokens_are_no_bound() -> None:
    """A rate window is debited what a call probably uses: a quarter of its bytes, and its cap where nothing is expected."""
    assert claims.tokens_expected(asked(0)) == 16 // 4 + 1 + 16


@pytest.mark.parametrize(
    ("billable", "kind"),
    [(Billable.NO, EntryKind.VOID), (Billable.YES, EntryKind.FORFEIT), (Billable.UNKNOWN, EntryKind.FORFEIT)],
)
def test_failure_ends_its_hold_as_it_may_have_been_billed(billable: Billable, kind: EntryKind) -> None:
    """Nothing is booked only where nothing can have been charged."""
    claimed = claims.claim(work(asked(0)), PRICE, None, PROFILE)
    answer = Answer(failure=Failure(cause=Cause.DISCONNECTED, billable=billable))
    closing = claims.closing(claimed, 7, answer, PRICE, at=0.0)
    assert (closing.attempt, closing.kind, closing.sent) == (7, kind, True)
    assert closing.amount == (Amount() if kind is EntryKind.VOID else claimed.need)


def test_what_was_not_sent_says_so() -> None:
    """A try of which no byte left is no try of the experiment."""
    claimed = claims.claim(work(asked(0)), PRICE, None, PROFILE)
    answer = Answer(failure=Failure(cause=Cause.NOT_SENT, billable=Billable.NO))
    assert not claims.closing(claimed, 7, answer, PRICE, at=0.0).sent
    assert not claims.unsent(7).sent
    assert claims.interrupted(claimed, 7).amount == claimed.need


def test_bill_of_a_batch_is_shared_to_the_nano() -> None:
    """The shares of a batch add up to its bill."""
    claimed = claims.claim(work(embedded(0), embedded(1), embedded(2)), PRICE, None, PROFILE)
    replies = tuple(
        Reply(finish=Finish.STOP, vector=b"\0\0\0\0", usage=Usage(input_fresh=n, output_visible=0)) for n in (1, 2, 4)
    )
    closing = claims.closing(claimed, 1, Answer(replies=replies), PRICE, at=0.0)
    assert closing.kind is EntryKind.SETTLE
    assert closing.amount == Amount(nanos=7000, calls=1, tokens=7)
    assert [share for _, _, share in closing.replies] == [1000, 2000, 4000]


def test_a_batch_is_held_in_the_tier_of_all_its_texts() -> None:
    """Texts that are short alone make one long call: its hold covers the rates of long calls."""
    tier = Tier(above=20, input=3_000_000_000, output=0)
    price = Price(rates=PriceSpec(input=1_000_000_000, output=0, tiers=(tier,)), source="test")
    texts = [embedded(n) for n in range(3)]
    tokens = sum(text.input_bound for text in texts)
    assert max(text.input_bound for text in texts) < 20 < tokens
    assert claims.claim(work(*texts), price, None, PROFILE).need.nanos == tokens * 3_000


@pytest.mark.parametrize(("at", "nanos"), [(0.0, 2_000), (3_600.0, 1_000)])
def test_a_bill_is_that_of_the_hour_of_the_answer(at: float, nanos: int) -> None:
    """The hold covers the dearest hour; what is settled is the price at the time of the answer, and that time is kept."""
    off_peak = Hours(start=60, end=120, input=1_000_000_000, output=0)
    price = Price(rates=PriceSpec(input=2_000_000_000, output=0, hours=(off_peak,)), source="test")
    claimed = claims.claim(work(embedded(0)), price, None, PROFILE)
    reply = Reply(finish=Finish.STOP, vector=b"\0\0\0\0", usage=Usage(input_fresh=1, output_visible=0))
    closing = claims.closing(claimed, 1, Answer(replies=(reply,)), price, at=at)
    assert (closing.amount.nanos, closing.at) == (nanos, at)
    assert claimed.need.nanos == price.bound(embedded(0).input_bound, 0)


def test_route_passes_the_models_lane_and_then_the_providers() -> None:
    """Two models of one provider share its slots; what is not written in the inner lane is the outer one's."""

    async def life() -> None:
        held = lanes(
            LaneSpec(name="lab", concurrency=6, timeout_s=100.0, attempts_max=3),
            LaneSpec(name="lab/a", concurrency=2, requests_per_minute=10, attempts_max=7),
        )
        a, b = held.route("lab", "a"), held.route("lab", "b")
        assert [lane.spec.name for lane in a.lanes] == ["lab/a", "lab"]
        assert [lane.spec.name for lane in b.lanes] == ["lab"]
        assert a.lanes[1].slots is b.lanes[0].slots
        assert (a.timeout_s, a.attempts_max, a.batch_size) == (100.0, 7, 32)
        assert (b.timeout_s, b.attempts_max) == (100.0, 3)
        assert a.windows == (Window(provider="lab", model="a", requests_per_minute=10),)
        assert [lane.spec.name for lane in a.paced] == ["lab/a"]
        assert b.paced == ()
        await held.aclose()

    virtual.run(life())


def test_width_counts_what_can_be_in_flight() -> None:
    """The provider's slots, or those of its models' lanes where these are fewer; eight where nothing is written."""
    held = lanes(LaneSpec(name="lab", concurrency=64), LaneSpec(name="lab/a", concurrency=4))
    assert held.width([("lab", "a")]) == 4
    assert held.width([("lab", "a"), ("lab", "b")]) == 64
    assert held.width([("lab", "a"), ("other", "c")]) == 12


def more_than(limit: int) -> Rule:
    """Stops what has more replies than that since it was reopened."""

    def look(counts: Collection[Counts], since: Mapping[str, Sums], stopped: Collection[str]) -> list[Fired]:
        return [
            Fired(condition=held.condition, limit="done", why="bad")
            for held in counts
            if held.condition not in stopped and held.done - since.get(held.condition, Sums()).done > limit
        ]

    return look


def test_gate_fires_once_and_holds_for_all_downstream() -> None:
    """A condition that was stopped is not judged again; a cell is stopped by any of the conditions that feed it."""
    gates = Gates(more_than(3))
    good, bad = Counts(condition="x", stage="s", done=2), Counts(condition="y", stage="s", done=9)
    assert [fired.condition for fired in gates.look([good, bad])] == ["y"]
    assert gates.look([good, bad]) == []
    assert gates.stopped(("g@y", "y"))
    assert not gates.stopped(("g@x", "x"))


def test_a_reopened_condition_is_judged_by_what_comes_after() -> None:
    """It goes on, and fires again once as much that is bad has come as at first; what was not stopped tells nothing."""
    gates = Gates(more_than(3))
    gates.look([Counts(condition="y", stage="s", done=9)])
    at = [Counts(condition="y", stage="s", done=10)]
    assert gates.reopen("y", Sums(done=9), at) == "bad"
    assert not gates.stopped(("y",))
    assert gates.look([Counts(condition="y", stage="s", done=13)]) == []
    assert gates.look([Counts(condition="y", stage="s", done=14)]) != []
    assert gates.reopen("x", Sums(), at) is None


def test_failures_of_an_ended_run_are_no_baseline() -> None:
    """A run tries failed cells anew: those that had failed when a person reopened the condition hide none of its failures."""
    seen: list[Sums] = []

    def look(counts: Collection[Counts], since: Mapping[str, Sums], stopped: Collection[str]) -> list[Fired]:
        seen.append(since["y"])
        return []

    gates = Gates(look)
    gates.resume({"y": Sums(done=3, failed=7)}, [Counts(condition="y", stage="s", done=3)])
    gates.look([])
    assert seen == [Sums(done=3)]
    gates.reopen("y", Sums(done=3, failed=7), [Counts(condition="y", stage="s", done=3, failed=2)])
    gates.look([])
    assert seen[-1] == Sums(done=3, failed=2)


def test_a_baseline_above_what_is_there_is_of_other_requests() -> None:
    """A changed prompt makes new requests: their replies are judged from the first one on."""
    gates = Gates(more_than(3))
    gates.resume({"y": Sums(done=500)}, [Counts(condition="y", stage="s", done=0)])
    assert gates.look([Counts(condition="y", stage="s", done=4)]) != []


def test_gates_are_looked_at_after_some_replies() -> None:
    """Not at each reply, and never where there is no gate."""
    gates = Gates(more_than(3))
    assert [gates.due(1) for _ in range(EVERY)] == [False] * (EVERY - 1) + [True]
    gates.look([])
    assert not gates.due(1)
    assert not Gates(None).due(1000)


def test_progress_tells_rates_of_the_last_seconds() -> None:
    """Calls and tokens per second over ten seconds; what is older does not count; nothing yet is nothing."""
    progress = Progress()
    assert progress.rates(0.0) == (0.0, 0.0)
    for n in range(40):
        progress.count(now=n / 2, tokens=10)
    calls, tokens = progress.rates(20.0)
    assert calls == pytest.approx(2.0, rel=0.15)
    assert tokens == pytest.approx(20.0, rel=0.15)
    assert progress.rates(100.0) == (0.0, 0.0)
    assert (progress.calls, progress.tokens) == (40, 400)


def test_progress_tells_the_next_try_of_a_provider() -> None:
    """The earliest moment still to come, and the latest reason; nothing once the moment has passed."""
    progress = Progress()
    progress.backoff("lab", 30.0, 0.0, "overloaded")
    progress.backoff("lab", 20.0, 0.0, "overloaded")
    progress.backoff("lab", 40.0, 0.0, "overloaded")
    assert progress.next_try == {"lab": 20.0}
    progress.backoff("lab", 40.0, 25.0, "not sent")
    assert progress.next_try == {"lab": 40.0}
    assert progress.troubles(30.0) == {"lab": ("not sent", 10.0)}
    assert progress.troubles(40.0) == {}


async def test_wall_clock_is_this_machines() -> None:
    """Monotonic and Unix seconds, and a sleep that lasts."""
    clock = WallClock()
    before = clock.now()
    await clock.sleep(0.01)
    assert 0.009 <= clock.now() - before < 5
    assert abs(clock.wall() - time.time()) < 5
    assert asyncio.get_running_loop().time() > 0
