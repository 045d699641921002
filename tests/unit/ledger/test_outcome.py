"""The outcome table, line by line, and how a bill is shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.errors import InvariantBroken
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ledger.outcome import TABLE, Case, apportion, outcome, total_usage
from judgerun.ledger.prices import Price
from judgerun.model.experiment import PriceSpec
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage

HOLD = Amount(nanos=9_000, calls=1, tokens=700, gpu_ms=50)
PRICE = Price(rates=PriceSpec(input=1_000_000_000, output=4_000_000_000), source="test")  # $1 and $4 per million
FREE = Price(rates=PriceSpec(input=0, output=0), source="test")


def answer(
    fresh: int | None, visible: int | None, *, vector: bytes | None = None, reasoning: int | None = None
) -> Reply:
    """A reply with such usage."""
    usage = Usage(input_fresh=fresh, output_visible=visible, reasoning=reasoning)
    return Reply(finish=Finish.STOP, text="" if vector else "x", vector=vector, usage=usage)


def failure(billable: Billable) -> Failure:
    """A failure that may have been charged, or not."""
    return Failure(cause=Cause.TIMED_OUT, billable=billable)


LINES = [
    ([answer(3, 1)], PRICE, Case.BILLED, EntryKind.SETTLE, Amount(7_000, 1, 4, 0), (7_000,)),
    ([answer(30, 100)], PRICE, Case.BILLED, EntryKind.SETTLE, Amount(430_000, 1, 130, 0), (430_000,)),  # an overrun, in full
    ([answer(3, None, reasoning=1)], PRICE, Case.BILLED, EntryKind.SETTLE, Amount(7_000, 1, 4, 0), (7_000,)),
    ([answer(3, 1)], FREE, Case.BILLED, EntryKind.SETTLE, Amount(0, 1, 4, 0), (0,)),
    ([answer(0, 0)], PRICE, Case.BILLED, EntryKind.SETTLE, Amount(0, 1, 0, 0), (0,)),  # said to be 0 is not unknown
    ([answer(None, 1)], PRICE, Case.UNBILLED, EntryKind.FORFEIT, HOLD, (None,)),
    ([answer(3, None)], PRICE, Case.UNBILLED, EntryKind.FORFEIT, HOLD, (None,)),
    ([answer(3, None)], FREE, Case.UNBILLED, EntryKind.FORFEIT, HOLD, (None,)),
    ([answer(3, 1)], None, Case.UNBILLED, EntryKind.FORFEIT, HOLD, (None,)),
    ([answer(3, None, vector=b"1234")], PRICE, Case.BILLED, EntryKind.SETTLE, Amount(3_000, 1, 3, 0), (3_000,)),
    ([answer(3, 1), answer(None, None)], PRICE, Case.UNBILLED, EntryKind.FORFEIT, HOLD, (None, None)),
    (failure(Billable.NO), PRICE, Case.NOT_CHARGED, EntryKind.VOID, Amount(), ()),
    (failure(Billable.YES), PRICE, Case.CHARGED, EntryKind.FORFEIT, HOLD, ()),
    (failure(Billable.UNKNOWN), PRICE, Case.DOUBTFUL, EntryKind.FORFEIT, HOLD, ()),
]  # fmt: skip


@pytest.mark.parametrize(("came", "price", "case", "kind", "amount", "shares"), LINES)
def test_one_line_per_case(
    came: list[Reply] | Failure,
    price: Price | None,
    case: Case,
    kind: EntryKind,
    amount: Amount,
    shares: tuple[int | None, ...],
) -> None:
    """What came back, with what is known of its price, ends a hold in the one way that the table gives."""
    told = outcome(came, price=price, hold=HOLD)
    assert (told.case, told.kind, told.amount, told.shares) == (case, kind, amount, shares)
    assert told.because == TABLE[case].because


def test_table_is_complete() -> None:
    """Every case has its line, and only a known bill is settled."""
    assert set(TABLE) == set(Case)
    assert [case for case, rule in TABLE.items() if rule.kind is EntryKind.SETTLE] == [Case.BILLED]
    assert [case for case, rule in TABLE.items() if rule.kind is EntryKind.VOID] == [Case.NOT_CHARGED]


def test_measured_gpu_time_is_booked() -> None:
    """A settle books the GPU time that was measured, not that which was held."""
    assert outcome([answer(3, 1)], price=FREE, hold=HOLD, gpu_ms=17).amount.gpu_ms == 17


def test_no_reply_and_no_failure_is_our_bug() -> None:
    """An answer is replies or a failure; neither is a bug of ours."""
    with pytest.raises(InvariantBroken):
        outcome([], price=PRICE, hold=HOLD)


def test_a_batch_is_rounded_once() -> None:
    """The bill of a batch is rounded up over its sum, not over each text; the shares add up to it."""
    cheap = Price(rates=PriceSpec(input=20_000, output=0), source="test")  # 1 token costs 0.02 nanos
    told = outcome([answer(10, 0, vector=b"1234") for _ in range(7)], price=cheap, hold=HOLD)
    assert told.amount.nanos == 2  # 70 tokens are 1.4 nanos; rounded apart they would be 7
    assert told.shares == (1, 1, 0, 0, 0, 0, 0)


def test_usage_adds_up_by_bucket() -> None:
    """Buckets that nobody reported stay unknown; those that some reported are summed."""
    one = Reply(finish=Finish.STOP, usage=Usage(input_fresh=3, cache_read=2, output_visible=1))
    two = Reply(finish=Finish.STOP, usage=Usage(input_fresh=4, output_visible=5))
    assert total_usage([one, two]) == Usage(input_fresh=7, cache_read=2, output_visible=6)


@given(total=st.integers(0, 10**15), weights=st.lists(st.integers(0, 10**7), min_size=1, max_size=64))
def test_shares_are_exact_and_fair(total: int, weights: list[int]) -> None:
    """Parts add up to the total, and each is within one of its proportional part."""
    parts = apportion(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    for part, weight in zip(parts, weights, strict=True):
        assert (
            abs(part * whole - total * weight) < whole
            if whole
            else part in (total // len(parts), -(-total // len(parts)))
        )


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (10, [1, 1, 1], [4, 3, 3]),
        (0, [3, 5], [0, 0]),
        (5, [0, 0], [3, 2]),
        (100, [0, 1], [0, 100]),
        (7, [1, 2, 4], [1, 2, 4]),
    ],
)
def test_shares_by_hand(total: int, weights: list[int], parts: list[int]) -> None:
    """Largest remainders first, ties to the earlier; all weights 0 means even parts."""
    assert apportion(total, weights) == parts


@pytest.mark.parametrize(("total", "weights"), [(-1, [1]), (1, []), (1, [-1, 2])])
def test_shares_refuse_nonsense(total: int, weights: list[int]) -> None:
    """A negative total, no weights or a negative weight has no shares."""
    with pytest.raises(ValueError, match="apportion"):
        apportion(total, weights)
