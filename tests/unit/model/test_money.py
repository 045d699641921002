"""Money: exact parsing, plain printing, one rounding."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.money import format_usd, parse_usd, round_up


@given(st.integers(min_value=0, max_value=2**62))
def test_format_and_parse_are_inverse(nanos: int) -> None:
    """What is printed reads back as the same number of nanos."""
    assert parse_usd(format_usd(nanos)) == nanos


@given(st.integers(min_value=-(2**62), max_value=2**62))
def test_format_is_a_plain_decimal_string(nanos: int) -> None:
    """A printed amount has no exponent, at least two decimals, and the exact value."""
    text = format_usd(nanos)
    assert "e" not in text.lower()
    assert len(text.split(".")[1]) >= 2
    assert Decimal(text) * 10**9 == nanos


@pytest.mark.parametrize("text", ["", "ten", "1e", "-1", "nan", "inf", "0.0000000001", "1,5"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    """A text that is not an exact, non-negative amount of dollars raises ValueError."""
    with pytest.raises(ValueError, match=r"dollars|decimals"):
        parse_usd(text)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**12)), min_size=1, max_size=6))
def test_rounding_happens_once_and_upwards(buckets: list[tuple[int, int]]) -> None:
    """The cost of all buckets is within one nano above the exact cost, never below it."""
    exact = sum(tokens * price for tokens, price in buckets)
    cost = round_up(exact)
    assert 0 <= cost * 10**6 - exact < 10**6
