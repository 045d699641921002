"""Sequential bounds and tests: definitions, and how often they err over whole runs of looks."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.analysis import sequential
from judgerun.analysis.intervals import wilson

RUNS = 400


def test_levels_spend_their_error_over_doublings() -> None:
    """The first looks are at 95%, each doubling is stricter, and the one-sided errors of all doublings sum to 5%."""
    assert sequential.level(20, after=20) == sequential.level(39, after=20) == 0.95
    levels = [sequential.level(20 * 2**k, after=20) for k in range(60)]
    assert levels == sorted(levels)
    assert sum((1 - level) / 2 for level in levels) == pytest.approx(0.05, abs=0.001)
    with pytest.raises(ValueError, match="judged after 20"):
        sequential.level(19, after=20)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_even_mixture(b: int, c: int) -> None:
    """The p-value is (n + 1) C(n, b) / 2^n, at most 1, whichever condition is named first."""
    exact = min(Fraction(1), Fraction((b + c + 1) * comb(b + c, b), 2 ** (b + c)))
    assert sequential.mcnemar(b, c) == pytest.approx(float(exact), rel=1e-9)
    assert sequential.mcnemar(b, c) == sequential.mcnemar(c, b)


def test_mcnemar_errs_rarely_over_a_whole_run_of_looks() -> None:
    """Of runs of 1,000 discordant pairs between equal conditions, looked at after each one, at most 5% ever tell a difference."""
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(RUNS):
        first = rng.integers(0, 2, 1000).cumsum()
        wrong += any(sequential.mcnemar(int(b), n + 1 - int(b)) < 0.05 for n, b in enumerate(first))
    assert wrong <= 0.05 * RUNS


@given(st.integers(1, 400), st.data())
def test_a_difference_has_its_reverse(n: int, data: st.DataObject) -> None:
    """The interval holds the observed difference, lies in [-1, 1], and is mirrored when the conditions change places."""
    b = data.draw(st.integers(0, n))
    c = data.draw(st.integers(0, n - b))
    low, high = sequential.difference(n, b, c, level=0.95)
    assert -1 <= low <= (b - c) / (n + 2) <= high <= 1
    assert sequential.difference(n, c, b, level=0.95) == pytest.approx((-high, -low))


def test_of_no_pairs_nothing_is_known() -> None:
    """The interval of a difference over no pairs is everything; more discordant pairs than pairs are refused."""
    assert sequential.difference(0, 0, 0, level=0.95) == (-1.0, 1.0)
    with pytest.raises(ValueError, match="discordant"):
        sequential.difference(3, 2, 2, level=0.95)
    with pytest.raises(ValueError, match="not counts"):
        sequential.mcnemar(-1, 2)


def test_a_paired_difference_is_agresti_and_min() -> None:
    """With 30 of 100 pairs one way and 10 the other: (30 - 10) / 102 -+ 1.96 sqrt(41 - 400 / 102) / 102."""
    low, high = sequential.difference(100, 30, 10, level=0.95)
    half = 1.959964 * (41 - 400 / 102) ** 0.5 / 102
    assert (low, high) == pytest.approx((20 / 102 - half, 20 / 102 + half))


def test_the_lower_bound_of_a_mean() -> None:
    """Values 1, 2, 3, 4: 2.5 - 1.96 x sqrt(5/3) / 2; one value has no spread."""
    assert sequential.mean_low(4, 10, 30.0, level=0.95) == pytest.approx(2.5 - 1.959964 * (5 / 3) ** 0.5 / 2)
    with pytest.raises(ValueError, match="no spread"):
        sequential.mean_low(1, 3, 9.0, level=0.95)


@pytest.mark.parametrize(("share", "most"), [(0.10, 0.14), (0.08, 0.06), (0.05, 0.015)])
def test_shares_within_a_limit_pass_it_rarely_over_a_whole_run(share: float, most: float) -> None:
    """Of runs of 2,000 replies looked at every 8, those whose true share is the limit of 10% pass it in about one of eight, at 8%
    in one of twenty, at 5% in one of a hundred.
    """
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(2 * RUNS):
        bad = (rng.random(2000) < share).cumsum()
        wrong += any(
            wilson(int(bad[n - 1]), n, level=sequential.level(n, after=20))[0] > 0.10 for n in range(20, 2001, 8)
        )
    assert wrong <= most * 2 * RUNS
