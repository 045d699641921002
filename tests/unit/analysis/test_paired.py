"""Paired tests, agreement and chance: definitions, scipy's numbers, corner cases, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgerun.analysis import agreement, chance, paired
from judgerun.analysis.intervals import bootstrap, clustered


@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_equals_the_binomial_test(b: int, c: int) -> None:
    """The exact p is the two-sided binomial one, symmetrical, and 1 without discordant pairs."""
    found = paired.mcnemar(b, c)
    assert found.p == paired.mcnemar(c, b).p
    assert found.n == b + c
    assert found.p == pytest.approx(stats.binomtest(min(b, c), b + c).pvalue if b + c else 1.0, rel=1e-10)


def test_mcnemar_of_many_pairs_neither_overflows_nor_vanishes() -> None:
    """Counts far beyond what floats can choose from give a p that is still right."""
    assert paired.mcnemar(5000, 5000).p == 1.0
    small = paired.mcnemar(600, 1000).p
    assert small == pytest.approx(float(Fraction(2 * sum(comb(1600, i) for i in range(601)), 2**1600)), rel=1e-12)


def test_discordant_counts_each_side() -> None:
    """b counts items true in the first alone, c those true in the second alone."""
    assert paired.discordant([True, True, False, False, True], [True, False, False, True, False]) == (2, 1)
    for bad in ([0, 2], [0.5, 1], [np.nan, 1]):
        with pytest.raises(ValueError, match=r"."):
            paired.discordant(bad, [0, 1])
    with pytest.raises(ValueError, match="differ in length"):
        paired.discordant([1], [1, 0])
    with pytest.raises(ValueError, match="not counts"):
        paired.mcnemar(-1, 3)


def test_difference_is_the_bootstrap_of_differences() -> None:
    """first - second per item, over items or over clusters."""
    rng = np.random.default_rng(4)
    a, b, names = rng.random(50), rng.random(50), np.repeat(np.arange(10), 5)
    found, plain = paired.difference(a, b, seed=3), bootstrap(a - b, seed=3)
    assert (found.value, found.low, found.high) == (plain.value, plain.low, plain.high)
    assert found.convention == "first - second"
    whole = paired.difference(a, b, seed=3, clusters=names)
    assert whole.low == clustered(a - b, names, seed=3).low
    with pytest.raises(ValueError, match="differ in length"):
        paired.difference([1, 2], [1], seed=1)


def test_wilcoxon_exact_equals_all_sign_patterns() -> None:
    """For few unequal items without ties, p counts the sign patterns that are no likelier."""
    gaps = [1.5, -0.5, 2.0, 3.0, -4.0, 5.0, 6.0]
    ranks = np.argsort(np.argsort(np.abs(gaps))) + 1
    observed = min(ranks[np.array(gaps) > 0].sum(), ranks[np.array(gaps) < 0].sum())
    sums = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=7)]
    expected = min(1.0, 2 * sum(each <= observed for each in sums) / len(sums))
    found = paired.wilcoxon(gaps, [0] * 7)
    assert found.p == pytest.approx(expected, abs=1e-12)
    assert (found.n, found.method, found.statistic) == (7, "wilcoxon exact", observed)


def test_wilcoxon_leaves_equal_items_out() -> None:
    """Equal items do not count; ties among sizes go to the approximation; no unequal item gives p = 1."""
    assert paired.wilcoxon([1, 2, 3], [1, 2, 3]).p == 1.0
    assert paired.wilcoxon([1, 2, 3], [1, 2, 3]).n == 0
    tied = paired.wilcoxon([2, 3, 4, 5, 1], [1, 2, 3, 4, 1])
    assert (tied.n, tied.method) == (4, "wilcoxon approx")
    far = paired.wilcoxon(np.arange(100) + 1.0, np.zeros(100))
    assert far.p is not None
    assert far.p < 1e-15


def test_cochran_with_two_conditions_is_mcnemars_chi_squared() -> None:
    """Q of two conditions is (b - c)^2 / (b + c)."""
    first = [1] * 20 + [0] * 12 + [1] * 9 + [0] * 30
    second = [1] * 20 + [1] * 12 + [0] * 9 + [0] * 30
    found = paired.cochran(np.column_stack((first, second)))
    assert found.statistic == pytest.approx((12 - 9) ** 2 / 21)
    assert found.p == pytest.approx(stats.chi2.sf(9 / 21, 1))
    assert found.n == 71


def test_cochran_of_rows_that_never_differ() -> None:
    """No row differs: p = 1. One column, or what is no truth value, is refused."""
    assert paired.cochran([[1, 1, 1], [0, 0, 0]]).p == 1.0
    for bad in ([[1], [0]], [1, 0], [[1, 2], [0, 1]]):
        with pytest.raises(ValueError, match=r"."):
            paired.cochran(bad)


def test_holm_by_hand() -> None:
    """.01, .04, .03, .005 of four become .03, .06, .06, .02; never above 1; the order is kept."""
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.6, 0.7]) == [1.0, 1.0]
    assert paired.holm([]) == []
    with pytest.raises(ValueError, match="p-value"):
        paired.holm([1.1])


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_a_p_and_keeps_the_order(ps: list[float]) -> None:
    """Adjusted values are at least the raw ones, at most Bonferroni's, and ordered as the raw ones."""
    adjusted = paired.holm(ps)
    assert all(p <= q <= min(1, p * len(ps)) + 1e-12 for p, q in zip(ps, adjusted, strict=True))
    assert all(adjusted[i] <= adjusted[j] for i in range(len(ps)) for j in range(len(ps)) if ps[i] < ps[j])


@given(st.tuples(*[st.integers(0, 12)] * 4))
def test_fisher_sums_all_tables_that_are_no_likelier(table: tuple[int, int, int, int]) -> None:
    """p is the sum over tables of the same margins whose probability is at most the observed one."""
    a, b, c, d = table
    row, column, n = a + b, a + c, a + b + c + d
    chances = {
        x: Fraction(comb(row, x) * comb(n - row, column - x), comb(n, column))
        for x in range(max(0, column - (n - row)), min(row, column) + 1)
    }
    expected = float(sum(each for each in chances.values() if each <= chances[a]))
    assert paired.fisher(a, b, c, d).p == pytest.approx(expected, rel=1e-12)


def test_kappa_by_hand() -> None:
    """45 and 15 yes-yes and no-no of 100, 25 and 15 apart: (.6 - .54) / (1 - .54)."""
    first = ["yes"] * 70 + ["no"] * 30
    second = ["yes"] * 45 + ["no"] * 25 + ["yes"] * 15 + ["no"] * 15
    assert agreement.exact(first, second) == 0.6
    assert agreement.kappa(first, second) == pytest.approx((0.6 - 0.54) / (1 - 0.54))


def test_agreement_that_is_not_defined_is_none() -> None:
    """Raters who both say one thing always have no kappa; constant rankings have no tau and no rho; no items, nothing."""
    assert agreement.kappa(["a"] * 5, ["a"] * 5) is None
    assert agreement.kappa([], []) is None
    assert agreement.exact([], []) is None
    assert agreement.weighted_kappa([1, 1], [1, 1]) is None
    assert agreement.tau([1, 1, 1], [1, 2, 3]) is None
    assert agreement.spearman([1], [2]) is None
    with pytest.raises(ValueError, match="differ in length"):
        agreement.kappa(["a"], [])


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_weighted_kappa_of_two_values_is_kappa(pairs: list[tuple[int, int]]) -> None:
    """With two values there is one distance, so all weightings agree."""
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    plain = agreement.kappa(a, b)
    for weights in ("linear", "quadratic"):
        assert agreement.weighted_kappa(a, b, weights=weights) == (plain if plain is None else pytest.approx(plain))


def test_weighted_kappa_counts_distance() -> None:
    """Scores one apart agree better than scores far apart; weights are those of the numbers."""
    first = [1, 2, 3, 4, 5] * 4
    near = [2, 2, 3, 4, 4] * 4
    far = [5, 2, 3, 4, 1] * 4
    assert (agreement.weighted_kappa(first, near) or 0) > 0.8 > 0 > (agreement.weighted_kappa(first, far) or 0)
    assert agreement.weighted_kappa(first, first) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25))
def test_tau_counts_pairs(pairs: list[tuple[int, int]]) -> None:
    """Tau-b is concordant less discordant pairs over the root of the pairs untied in each ranking."""
    signs = [(np.sign(a - c), np.sign(b - d)) for place, (a, b) in enumerate(pairs) for c, d in pairs[place + 1 :]]
    left, right = sum(x != 0 for x, _ in signs), sum(y != 0 for _, y in signs)
    found = agreement.tau([a for a, _ in pairs], [b for _, b in pairs])
    if left and right:
        assert found == pytest.approx(sum(x * y for x, y in signs) / (left * right) ** 0.5, abs=1e-12)
    else:
        assert found is None


@pytest.mark.parametrize("n", [30, agreement.PAIRED_MAX, agreement.PAIRED_MAX + 1])
def test_rank_correlations_equal_scipy(n: int) -> None:
    """Tau and rho of rankings with ties equal scipy's, on both sides of the size at which tau changes its way of counting."""
    rng = np.random.default_rng(n)
    a = rng.integers(0, 9, n)
    b = a + rng.integers(0, 9, n)
    assert agreement.tau(a, b) == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12)
    assert agreement.spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


def test_spearman_is_the_correlation_of_ranks() -> None:
    """A monotone relation has rho 1, its reverse -1."""
    assert agreement.spearman([1, 2, 30], [1, 4, 9]) == pytest.approx(1)
    assert agreement.spearman([1, 2, 30], [9, 4, 1]) == pytest.approx(-1)


@given(st.integers(1, 40), st.data())
def test_chance_of_a_hit_is_hypergeometric(n: int, data: st.DataObject) -> None:
    """1 - P(none), by scipy's hypergeometric law; sure with all relevant, impossible with none."""
    relevant, k = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    assert chance.hit(n, relevant, k) == pytest.approx(1 - stats.hypergeom.pmf(0, n, relevant, k), abs=1e-12)
    assert chance.hit(n, 0, k) == 0
    assert chance.hit(n, n, k) == (1 if k else 0)


def test_chance_refuses_what_cannot_be() -> None:
    """More relevant documents, or places, than documents are refused."""
    for n, relevant, k in ((5, 6, 1), (5, 1, 6), (5, -1, 1)):
        with pytest.raises(ValueError, match="cannot be"):
            chance.hit(n, relevant, k)
