"""Price: whole tokens times whole rates, in the tier and at the hour of the call, rounded up once; never above its bound."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.ledger.prices import STALE_DAYS, Price, PriceSheet
from judgerun.model.experiment import Hours, PriceSpec, Tier
from judgerun.model.reply import BUCKETS, Usage

USD = 1_000_000_000
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def price(rates: PriceSpec) -> Price:
    return Price(rates=rates, source="test")


RATE = st.integers(0, 100 * USD)
MAYBE = st.none() | RATE
RATES = {
    "input": RATE,
    "output": RATE,
    "cache_read": MAYBE,
    "cache_write": MAYBE,
    "cache_write_1h": MAYBE,
    "reasoning": MAYBE,
}
TIERS = st.dictionaries(st.integers(1, 5_000), st.fixed_dictionaries(RATES), max_size=3).map(
    lambda held: tuple(Tier(**held[above], above=above) for above in sorted(held))
)

HOURS = st.builds(Hours, **RATES, tiers=TIERS, start=st.integers(0, 1439), end=st.integers(0, 1439))
SPECS = st.builds(PriceSpec, **RATES, tiers=TIERS, hours=st.lists(HOURS, max_size=2).map(tuple))
USAGES = st.builds(
    Usage,
    input_fresh=st.integers(0, 3_000),
    output_visible=st.integers(0, 3_000),
    **{name: st.none() | st.integers(0, 3_000) for name in BUCKETS if name not in ("input_fresh", "output_visible")},
)
MOMENTS = st.none() | st.integers(0, 86_399).map(lambda second: datetime.fromtimestamp(second, UTC))
FACTORS = st.sampled_from(["0.5", "0.333", "1", "0.123456789"])


@given(SPECS, USAGES, MOMENTS, FACTORS, st.integers(0, 500), st.integers(0, 500))
def test_no_cost_passes_the_bound(
    rates: PriceSpec, usage: Usage, at: datetime | None, factor: str, more_in: int, more_out: int
) -> None:
    """Whatever the tier, the hour, the buckets and the lane, a call within its tokens costs no more than was reserved."""
    for held in (price(rates), price(rates).batched(factor)):
        assert held is not None
        cost = held.cost(usage, at=at)
        assert cost is None or cost <= held.bound((usage.input or 0) + more_in, (usage.output or 0) + more_out)


@given(SPECS, st.integers(0, 6_000), st.integers(0, 6_000), st.integers(0, 100), st.integers(0, 100))
def test_a_bound_never_falls_when_tokens_are_added(
    rates: PriceSpec, given_in: int, given_out: int, more_in: int, more_out: int
) -> None:
    """Even where longer calls have lower rates."""
    held = price(rates)
    assert held.bound(given_in, given_out) <= held.bound(given_in + more_in, given_out + more_out)


@given(st.builds(PriceSpec, **RATES), USAGES, st.sampled_from(BUCKETS), st.integers(0, 1_000))
def test_a_cost_never_falls_when_tokens_are_added(rates: PriceSpec, usage: Usage, bucket: str, more: int) -> None:
    """Inside one tier and hour."""
    buckets = {name: getattr(usage, name) for name in BUCKETS}
    longer = Usage(**{**buckets, bucket: (buckets[bucket] or 0) + more})
    before, after = price(rates).cost(usage), price(rates).cost(longer)
    assert before is None or after is None or before <= after


@given(st.builds(PriceSpec, input=RATE, output=RATE), st.integers(0, 10**7), st.integers(0, 10**7), FACTORS)
def test_a_factor_is_exact_and_rounded_once(rates: PriceSpec, fresh: int, output: int, factor: str) -> None:
    """The cost in the batch lane is the exact product, rounded up at the very end."""
    held = price(rates).batched(factor)
    assert held is not None
    exact = Fraction(fresh * rates.input + output * rates.output, 10**6) * Fraction(factor)
    assert held.cost(Usage(input_fresh=fresh, output_visible=output)) == ceil(exact)
    assert held.bound(fresh, output) == ceil(exact)


@given(SPECS, USAGES)
def test_at_an_unknown_time_the_dearest_hour_counts(rates: PriceSpec, usage: Usage) -> None:
    """A cost without its time is that of no cheaper hour."""
    held = price(rates)
    dearest = held.cost(usage)
    for hour in range(24):
        cost = held.cost(usage, at=datetime(2026, 11, 30, hour, tzinfo=UTC))
        assert dearest is None or (cost is not None and cost <= dearest)


def test_every_bucket_has_its_rate() -> None:
    """A million tokens of each kind cost what the price says of that kind."""
    rates = PriceSpec(
        input=1 * USD,
        output=2 * USD,
        cache_read=3 * USD,
        cache_write=4 * USD,
        cache_write_1h=5 * USD,
        reasoning=6 * USD,
    )
    zero = dict.fromkeys(BUCKETS, 0)
    costs = {name: price(rates).cost(Usage(**{**zero, name: 10**6})) for name in BUCKETS}
    assert costs == {
        "input_fresh": 1 * USD,
        "cache_read": 3 * USD,
        "cache_write": 4 * USD,
        "cache_write_1h": 5 * USD,
        "output_visible": 2 * USD,
        "reasoning": 6 * USD,
    }


def test_a_bucket_without_a_rate_costs_as_its_kind() -> None:
    """Cached tokens cost as fresh ones and reasoning as output where the price names no rate of their own."""
    plain = price(PriceSpec(input=1 * USD, output=2 * USD))
    usage = Usage(
        input_fresh=0, cache_read=10**6, cache_write=10**6, cache_write_1h=10**6, output_visible=0, reasoning=10**6
    )
    assert plain.cost(usage) == 5 * USD


def test_an_hour_s_cache_is_not_priced_at_the_rate_of_five_minutes() -> None:
    """It costs more: where only the five-minute rate is known, the cost is not."""
    held = price(PriceSpec(input=1 * USD, output=0, cache_write=USD + USD // 4))
    assert held.cost(Usage(input_fresh=5, cache_write=5, output_visible=0)) is not None
    assert held.cost(Usage(input_fresh=5, cache_write_1h=5, output_visible=0)) is None


@pytest.mark.parametrize("usage", [Usage(), Usage(input_fresh=5), Usage(output_visible=5)])
def test_unknown_tokens_have_no_cost(usage: Usage) -> None:
    """Absent is unknown, never 0."""
    assert price(PriceSpec(input=1, output=1)).cost(usage) is None


@pytest.mark.parametrize(("tokens", "rate"), [(200_000, 1), (200_001, 2), (500_000, 2), (500_001, 3)])
def test_a_tier_holds_from_one_token_above_its_threshold_and_for_the_whole_call(tokens: int, rate: int) -> None:
    """All input tokens count towards it, cached ones included, and output has the tier's rate too."""
    tiers = (
        Tier(above=200_000, input=2 * USD, output=20 * USD, cache_read=2 * USD),
        Tier(above=500_000, input=3 * USD, output=30 * USD, cache_read=3 * USD),
    )
    held = price(PriceSpec(input=1 * USD, output=10 * USD, cache_read=1 * USD, tiers=tiers))
    usage = Usage(input_fresh=1, cache_read=tokens - 1, output_visible=1_000)
    assert held.cost(usage) == rate * (tokens * 1_000 + 1_000 * 10_000)


@pytest.mark.parametrize(
    ("moment", "cheap"), [("16:29", False), ("16:30", True), ("23:59", True), ("00:29", True), ("00:30", False)]
)
def test_hours_may_pass_midnight(moment: str, cheap: bool) -> None:
    """They hold from their first minute to before their last, in UTC whatever the zone of the moment."""
    off_peak = Hours(start=990, end=30, input=1 * USD, output=0)
    held = price(PriceSpec(input=2 * USD, output=0, hours=(off_peak,)))
    at = datetime.fromisoformat(f"2026-11-30T{moment}:00+00:00").astimezone(timezone(timedelta(hours=8)))
    assert held.cost(Usage(input_fresh=1, output_visible=0), at=at) == (1_000 if cheap else 2_000)


def test_the_batch_lane_costs_what_is_known_of_it() -> None:
    """A written factor comes first, then batch rates told one by one, then the provider's usual factor; else there is no price."""
    usage = Usage(input_fresh=10**6, output_visible=0)
    told = PriceSpec(input=7, output=0)

    def batched(rates: PriceSpec, usual: str | None) -> int | None:
        held = price(rates).batched(usual)
        return None if held is None else held.cost(usage, at=NOON)

    assert batched(PriceSpec(input=100, output=0, batch_factor="0.25", batch=told), "0.5") == 25
    assert batched(PriceSpec(input=100, output=0, batch=told), "0.5") == 7
    assert batched(PriceSpec(input=100, output=0), "0.5") == 50
    assert batched(PriceSpec(input=100, output=0), None) is None


def test_a_price_is_stale_after_ninety_days() -> None:
    """On the ninetieth day it is not yet; one that says no day is never."""
    checked = date(2026, 1, 1)
    held = Price(rates=PriceSpec(input=1, output=1), source="test", checked=checked)
    assert not held.stale(checked + timedelta(days=STALE_DAYS))
    assert held.stale(checked + timedelta(days=STALE_DAYS + 1))
    assert not price(PriceSpec(input=1, output=1)).stale(date(2036, 1, 1))


def test_a_sheet_finds_the_price_of_a_day() -> None:
    """The last to start wins; the first day belongs to a price, the day of its end does not."""
    rows = [
        Price(rates=PriceSpec(input=1, output=1), source="test", end=date(2026, 2, 1)),
        Price(rates=PriceSpec(input=2, output=1), source="test", start=date(2026, 2, 1), end=date(2026, 3, 1)),
    ]
    sheet = PriceSheet({"lab/m": rows})
    found = [sheet.find("lab/m", day) for day in (date(2026, 1, 31), date(2026, 2, 1), date(2026, 3, 1))]
    assert [None if one is None else one.rates.input for one in found] == [1, 2, None]
    assert sheet.find("lab/n", date(2026, 1, 1)) is None
