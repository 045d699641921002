"""The account: caps hold at every step, and the fold of entries is the running account."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from judgerun.errors import InvariantBroken
from judgerun.ledger.account import EMPTY, Account, Balance, change, fold
from judgerun.ledger.budget import Cap, Leaf
from judgerun.ledger.entry import Amount, Decision, Entry, EntryKind

LEAF = Leaf("purse", "utility", "pick", "pick/glm/cot@rows", "lab", "2027-01-15")


def leaf(**parts: str) -> Leaf:
    """LEAF with some parts changed."""
    return LEAF._replace(**parts)


def entry(attempt: int, kind: EntryKind, nanos: int = 0, *, calls: int = 1, where: Leaf = LEAF) -> Entry:
    """An entry in dollars and calls."""
    amount = Amount() if kind is EntryKind.VOID else Amount(nanos=nanos, calls=calls)
    return Entry(attempt=attempt, kind=kind, leaf=where, amount=amount)


R, S, V, F, A = (EntryKind.RESERVE, EntryKind.SETTLE, EntryKind.VOID, EntryKind.FORFEIT, EntryKind.ADJUST)


@pytest.mark.parametrize(
    ("events", "settled", "forfeited", "held", "calls"),
    [
        ([(R, 400)], 0, 0, 400, 1),
        ([(R, 400), (S, 306)], 306, 0, 0, 1),
        ([(R, 400), (S, 700)], 700, 0, 0, 1),  # an overrun is booked in full
        ([(R, 400), (V, 0)], 0, 0, 0, 0),  # a void gives its call back
        ([(R, 400), (F, 400)], 0, 400, 0, 1),
        ([(R, 400), (F, 400), (A, 120)], 120, 0, 0, 1),  # a forfeit falls only by an adjust
        ([(R, 400), (F, 400), (A, 120), (A, 0)], 0, 0, 0, 1),
        ([(R, 400), (S, 306), (A, 310)], 310, 0, 0, 1),
        ([(R, 400), (V, 0), (A, 90)], 90, 0, 0, 1),  # it was billed after all
    ],
)
def test_one_line_per_event(
    events: list[tuple[EntryKind, int]], settled: int, forfeited: int, held: int, calls: int
) -> None:
    """Each kind of entry moves money between held, settled and forfeited as the ledger's table says."""
    balance = fold([entry(1, kind, nanos) for kind, nanos in events])[LEAF]
    assert (balance.settled.nanos, balance.forfeited.nanos, balance.held.nanos) == (settled, forfeited, held)
    assert balance.settled.calls + balance.forfeited.calls + balance.held.calls == calls


@pytest.mark.parametrize(
    "events",
    [
        [(S, 1)],
        [(R, 1), (R, 1)],
        [(R, 1), (S, 1), (S, 1)],
        [(R, 1), (V, 0), (F, 1)],
        [(R, 1), (A, 1)],
        [(R, 1), (S, 1), (R, 1)],
    ],
)
def test_what_is_no_ledger(events: list[tuple[EntryKind, int]]) -> None:
    """A closing without its reserve, a second one, or an adjust of an open attempt cannot be folded."""
    with pytest.raises(InvariantBroken):
        fold([entry(1, kind, nanos) for kind, nanos in events])


SCOPES = [
    (Cap("nanos", "total", "", 100), leaf(stage="other", provider="other")),
    (Cap("nanos", "provider", "lab", 100), leaf(stage="other")),
    (Cap("nanos", "stage", "pick", 100), leaf(provider="other")),
    (Cap("nanos", "experiment", "utility", 100), leaf(provider="other")),
    (Cap("nanos", "condition", "pick/glm", 100), leaf(condition="pick/glm/terse@rows")),
    (Cap("nanos", "condition", "*/cot@rows", 100), leaf(condition="pick/haiku/cot@rows")),
    (Cap("nanos", "day", "", 100), leaf(provider="other", experiment="other")),
]


@pytest.mark.parametrize(("cap", "elsewhere"), SCOPES, ids=[str(cap) for cap, _ in SCOPES])
def test_scope_is_a_sum_of_leaves(cap: Cap, elsewhere: Leaf) -> None:
    """Spend on another leaf of a cap's scope counts; a cap written down later sees it all the same."""
    account = Account([cap], {elsewhere: Balance(settled=Amount(nanos=60))})
    assert account.decide(LEAF, Amount(nanos=40)) == (Decision.RESERVED, "")
    assert account.decide(LEAF, Amount(nanos=41)) == (Decision.EXHAUSTED, str(cap))
    outside = LEAF._replace(
        experiment="x", stage="x", condition="x", provider="x", day="2027-01-16" if cap.kind == "day" else LEAF.day
    )
    if cap.kind != "total":
        assert account.decide(outside, Amount(nanos=100)) == (Decision.RESERVED, "")


def test_wait_and_exhausted() -> None:
    """Money that is held may come back: wait; money that is gone does not: exhausted, whatever is held."""
    account = Account([Cap("nanos", "total", "", 100)])
    account.book(LEAF, Balance(held=Amount(nanos=60)))
    assert account.decide(LEAF, Amount(nanos=41)) == (Decision.WAIT, "total")
    assert account.decide(LEAF, Amount(nanos=101)) == (Decision.EXHAUSTED, "total")
    account.book(LEAF, change(EntryKind.FORFEIT, Amount(nanos=60), hold=Amount(nanos=60)))
    assert account.decide(LEAF, Amount(nanos=41)) == (Decision.EXHAUSTED, "total")


def test_exhausted_is_looked_for_everywhere_before_wait() -> None:
    """A need that one scope will never fit is exhausted, though an earlier scope only says wait."""
    account = Account([Cap("nanos", "total", "", 100), Cap("nanos", "stage", "pick", 50)])
    account.book(leaf(stage="solve"), Balance(held=Amount(nanos=90)))
    assert account.decide(LEAF, Amount(nanos=51)) == (Decision.EXHAUSTED, "stage pick")


def test_free_calls_pass_when_the_money_is_gone() -> None:
    """A need of 0 is never refused by a dollar cap, even by one below what is spent; a cap on calls still counts it."""
    account = Account(
        [Cap("nanos", "total", "", 10), Cap("calls", "total", "", 1)], {LEAF: Balance(settled=Amount(nanos=50))}
    )
    assert account.decide(LEAF, Amount(calls=1)) == (Decision.RESERVED, "")
    account.book(LEAF, Balance(held=Amount(calls=1)))
    assert account.decide(LEAF, Amount(calls=1)) == (Decision.WAIT, "calls of total")


def test_each_unit_has_its_own_cap() -> None:
    """Tokens and GPU time are capped like dollars."""
    account = Account([Cap("tokens", "total", "", 100), Cap("gpu_ms", "total", "", 1000)])
    assert account.decide(LEAF, Amount(nanos=10**12, tokens=100, gpu_ms=1000))[0] is Decision.RESERVED
    assert account.decide(LEAF, Amount(tokens=101)) == (Decision.EXHAUSTED, "tokens of total")
    assert account.decide(LEAF, Amount(gpu_ms=1001)) == (Decision.EXHAUSTED, "gpu_ms of total")


CAPS = (
    Cap("nanos", "total", "", 1000),
    Cap("nanos", "provider", "lab", 600),
    Cap("nanos", "condition", "pick/glm", 400),
    Cap("nanos", "day", "", 700),
    Cap("calls", "stage", "pick", 9),
)
LEAVES = [
    LEAF,
    leaf(provider="other"),
    leaf(stage="solve", condition="solve/ds@rows"),
    leaf(day="2027-01-16"),
    leaf(condition="pick/haiku/cot@rows", experiment="second"),
]


class Ledger(RuleBasedStateMachine):
    """Random reservations and closings against a model that keeps plain lists and sums them anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.account = Account(CAPS)
        self.entries: list[Entry] = []
        self.open: dict[int, tuple[Leaf, Amount]] = {}
        self.closed: dict[int, tuple[Leaf, Amount, Amount]] = {}  # leaf, settled, forfeited
        self.frozen = False

    def sums(self, cap: Cap, day: str) -> tuple[int, int]:
        """Gone and held of a scope, by going through everything."""

        def inside(where: Leaf) -> bool:
            return cap.covers(where, day)

        gone = sum(getattr(s, cap.unit) + getattr(f, cap.unit) for where, s, f in self.closed.values() if inside(where))
        return gone, sum(getattr(need, cap.unit) for where, need in self.open.values() if inside(where))

    @rule(where=st.sampled_from(LEAVES), nanos=st.integers(0, 300))
    def reserve(self, where: Leaf, nanos: int) -> None:
        """The decision is the model's; what is reserved is held."""
        need = Amount(nanos=nanos, calls=1)
        expected = Decision.RESERVED
        for cap in (cap for cap in CAPS if cap.covers(where, where.day)):
            gone, held = self.sums(cap, where.day)
            want = getattr(need, cap.unit)
            if want and gone + want > cap.limit:
                expected = Decision.EXHAUSTED
                break
            if want and gone + held + want > cap.limit:
                expected = Decision.WAIT
        decision, scope = self.account.decide(where, need)
        assert decision is expected
        assert (scope != "") == (decision is not Decision.RESERVED)
        if decision is Decision.RESERVED and not self.frozen:
            attempt = len(self.open) + len(self.closed) + 1
            self.open[attempt] = (where, need)
            self.write(attempt, EntryKind.RESERVE, where, need)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kind=st.sampled_from([S, V, F]), part=st.integers(0, 110))
    def close(self, data: st.DataObject, kind: EntryKind, part: int) -> None:
        """A settle books the bill (now and then above its hold), a forfeit the hold, a void nothing."""
        attempt = data.draw(st.sampled_from(sorted(self.open)))
        where, need = self.open.pop(attempt)
        bill = Amount(nanos=need.nanos * part // 100, calls=1)
        amount = {S: bill, F: need, V: Amount()}[kind]
        self.frozen = self.frozen or amount.nanos > need.nanos
        self.closed[attempt] = (where, amount if kind is S else Amount(), amount if kind is F else Amount())
        self.write(attempt, kind, where, amount, hold=need)

    @precondition(lambda self: self.closed)
    @rule(data=st.data(), nanos=st.integers(0, 300))
    def adjust(self, data: st.DataObject, nanos: int) -> None:
        """A document replaces what a closed attempt booked."""
        attempt = data.draw(st.sampled_from(sorted(self.closed)))
        where, settled, forfeited = self.closed[attempt]
        amount = Amount(nanos=min(nanos, settled.nanos + forfeited.nanos), calls=settled.calls + forfeited.calls)
        self.closed[attempt] = (where, amount, Amount())
        self.write(attempt, A, where, amount, stands=Balance(settled, forfeited))

    def write(
        self,
        attempt: int,
        kind: EntryKind,
        where: Leaf,
        amount: Amount,
        hold: Amount | None = None,
        stands: Balance = EMPTY,
    ) -> None:
        """An entry in the list, and its change in the running account."""
        self.entries.append(Entry(attempt=attempt, kind=kind, leaf=where, amount=amount, document="invoice"))
        self.account.book(where, change(kind, amount, hold=hold or Amount(), stands=stands))

    @invariant()
    def caps_hold(self) -> None:
        """settled + forfeited + held <= cap in every scope, unless an overrun has frozen the budget."""
        for cap in CAPS:
            for day in {where.day for where in LEAVES} if cap.kind == "day" else {LEAF.day}:
                committed = self.account.committed(cap, day)
                assert committed == sum(self.sums(cap, day))
                assert self.frozen or committed <= cap.limit

    @invariant()
    def fold_is_account(self) -> None:
        """Folding the entries from zero gives the running account: an account opened on it says the same of every cap."""
        opened = Account(CAPS, fold(self.entries))
        for cap in CAPS:
            for day in {where.day for where in LEAVES}:
                assert opened.committed(cap, day) == self.account.committed(cap, day)


TestLedger = Ledger.TestCase
TestLedger.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
