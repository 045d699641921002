"""The built-in sheet: it tells what the package tells, exactly, and names what it cannot tell."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import pytest
from genai_prices import Usage as Theirs
from genai_prices.data import providers
from hypothesis import given, settings
from hypothesis import strategies as st

from judgerun.files.sheet import BATCH, SHEET_DAY, builtin_sheet, left_out
from judgerun.ledger.prices import Price
from judgerun.model.experiment import PriceSpec
from judgerun.model.reply import Usage

TODAY = date(2026, 11, 30)
MODELS: list[tuple[str, Any, Any]] = [
    (name, provider, model)
    for provider in providers
    for model in provider.models
    if (name := f"{provider.id}/{model.id}") in builtin_sheet().rows and name not in left_out()
]
TOKENS = st.one_of(
    st.integers(0, 2_000_000), st.sampled_from([1, 127_999, 128_000, 199_999, 200_000, 200_001, 272_000, 272_001])
)
MOMENTS = st.integers(1_767_225_600, 1_801_440_000).map(lambda second: datetime.fromtimestamp(second, UTC))
SLACK = Fraction(6, 10**9)
"""Dollars: each of at most five rates is rounded up to the ninth decimal of a million tokens, and the whole to a nano."""


def found(name: str, day: date = TODAY) -> Price:
    price = builtin_sheet().find(name, day)
    assert price is not None
    return price


def test_prices_stand_under_the_id_and_its_exact_other_names() -> None:
    """A model is found by its id and by the names that the package lists one by one; another name is unknown."""
    sheet = builtin_sheet()
    assert sheet.version == "genai-prices 0.2.3"
    assert found("openai/gpt-4o-mini").rates == PriceSpec(
        input=150_000_000,
        output=600_000_000,
        cache_read=75_000_000,
        batch=PriceSpec(input=75_000_000, output=300_000_000, cache_read=75_000_000),
    )
    assert found("openai/gpt-5.1-2025-11-13") == found("openai/gpt-5.1")
    assert found("openai/text-embedding-3-small").rates.output == 0
    assert sheet.find("openai/gpt-4o-mini-of-tomorrow", TODAY) is None


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("anthropic/claude-haiku-4-5-20251001", "anthropic/claude-haiku-4-5"),
        ("anthropic/claude-opus-5-20260401", "anthropic/claude-opus-5"),
        ("anthropic/claude-haiku-4-5-20251001-fast", None),
        ("anthropic/claude-haiku-4-5-mini", None),
        ("openai/gpt-4o-mini-audio-2024-12-17", None),
        ("nobody/claude-haiku-4-5-20251001", None),
    ],
)
def test_a_dated_name_is_that_of_the_model_without_the_date(name: str, same_as: str | None) -> None:
    """Only a date at the end is taken off, and only where one rule of the package fits the dated name: the model's own."""
    price = builtin_sheet().find(name, TODAY)
    assert price == (None if same_as is None else found(same_as))


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(MODELS), TOKENS, TOKENS, TOKENS, TOKENS, MOMENTS)
def test_a_cost_is_what_the_package_computes(
    known: tuple[str, Any, Any], fresh: int, read: int, write: int, output: int, at: datetime
) -> None:
    """For any model, tokens and time the cost is the package's own, rounded up, and no more than the bound."""
    name, provider, model = known
    price = found(name, at.date())
    theirs = model.calc_price(
        Theirs(
            input_tokens=fresh + read + write, cache_read_tokens=read, cache_write_tokens=write, output_tokens=output
        ),
        provider,
        genai_request_timestamp=at,
    ).total_price
    ours = price.cost(Usage(input_fresh=fresh, cache_read=read, cache_write=write, output_visible=output), at=at)
    assert ours is not None
    assert 0 <= Fraction(ours, 10**9) - Fraction(theirs) < SLACK
    assert ours <= price.bound(fresh + read + write, output)


def test_every_batch_price_of_the_package_is_told() -> None:
    """Where the package states rates of the batch lane they are used as they are, cached tokens at their own rate."""
    told = 0
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    for name, provider, model in MODELS:
        if not any(variant.when == BATCH for variant in model.price_variants or ()):
            continue
        price = found(name).batched("0.9")
        assert price is not None
        for tokens in (1_000, 300_000):
            theirs = model.calc_price(
                Theirs(input_tokens=3 * tokens, cache_read_tokens=tokens, output_tokens=tokens),
                provider,
                genai_request_timestamp=noon,
                price_context=BATCH,
            ).total_price
            ours = price.cost(Usage(input_fresh=2 * tokens, cache_read=tokens, output_visible=tokens), at=noon)
            assert ours is not None
            assert 0 <= Fraction(ours, 10**9) - Fraction(theirs) < SLACK, name
        told += 1
    assert told > 80


def test_tiers_begin_one_token_above_their_threshold() -> None:
    """gpt-5.4 costs twice as much for its input from 272,001 tokens on, and then for every token of the call."""
    price, noon = found("openai/gpt-5.4"), datetime(2026, 11, 30, 12, tzinfo=UTC)
    costs = [price.cost(Usage(input_fresh=n, output_visible=0), at=noon) for n in (272_000, 272_001)]
    assert costs == [680_000_000, 1_360_005_000]


@pytest.mark.parametrize(
    ("hour", "minute", "cost"), [(0, 59, 150), (1, 0, 300), (3, 59, 300), (4, 0, 150), (6, 0, 300), (10, 0, 150)]
)
def test_deepseek_costs_double_in_its_peak_hours(hour: int, minute: int, cost: int) -> None:
    """The hours are UTC, with their first minute and without their last."""
    at = datetime(2026, 11, 30, hour, minute, tzinfo=UTC)
    assert found("deepseek/deepseek-v4-flash").cost(Usage(input_fresh=1_000, output_visible=0), at=at) == cost * 1_000


def test_what_cannot_be_told_is_left_out_with_its_reason() -> None:
    """237 of the package's models have no price here; each says why."""
    kinds = Counter(reason.partition(":")[0] for reason in left_out().values())
    assert kinds == {
        "the package states no price for input tokens": 198,
        "the package states no price for output tokens": 27,
        "it has a rate that a price here cannot tell": 12,
    }
    assert "requests_kcount" in left_out()["perplexity/sonar"]
    assert all(name not in builtin_sheet().rows for name in left_out())


def test_the_sheet_says_when_it_was_checked() -> None:
    """The package tells no day for each price: its own last one stands for all."""
    assert {price.checked for prices in builtin_sheet().rows.values() for price in prices} == {SHEET_DAY}
    assert not any(price.written for prices in builtin_sheet().rows.values() for price in prices)
