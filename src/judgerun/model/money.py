"""Nanos, the only form in which money exists, and its one rounding rule."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

Nanos = int
"""US dollars x 1e-9 as an int."""

NANOS_PER_USD = 1_000_000_000
TOKENS_PER_MILLION = 1_000_000
WHOLE = Fraction(1)


def parse_usd(text: str) -> Nanos:
    """Nanos of a decimal string of dollars, exact to the ninth decimal.

    Raises ValueError when the text is no plain decimal number, is negative, or has more than nine decimals.
    """
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is not an amount of dollars") from None
    if not amount.is_finite() or amount < 0:
        raise ValueError(f"{text!r} is not an amount of dollars")
    scaled = amount * NANOS_PER_USD
    if scaled != scaled.to_integral_value():
        raise ValueError(f"{text!r} has more than nine decimals")
    return int(scaled)


def format_usd(nanos: Nanos) -> str:
    """A plain decimal string of dollars: at least two decimals, no more than needed, no exponent."""
    sign, whole = ("-", -nanos) if nanos < 0 else ("", nanos)
    dollars, rest = divmod(whole, NANOS_PER_USD)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{dollars}.{decimals}"


def round_up(nano_tokens: int, share: Fraction = WHOLE) -> Nanos:
    """Nanos of a sum of tokens x (nanos per million tokens) of which a share is charged, rounded up once."""
    return -(-nano_tokens * share.numerator // (share.denominator * TOKENS_PER_MILLION))
