"""Intervals: their definitions, their stream, what they refuse, and their coverage on synthetic data."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgerun.analysis import intervals
from judgerun.analysis.intervals import bootstrap, bootstrap_of, clustered, proportion, wilson


@given(st.integers(1, 2000), st.data(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_wilson_ends_lie_z_errors_from_the_share(n: int, data: st.DataObject, level: float) -> None:
    """Each end p satisfies |k/n - p| = z sqrt(p (1 - p) / n), and the share lies between."""
    k = data.draw(st.integers(0, n))
    low, high = wilson(k, n, level=level)
    assert 0 <= low <= k / n <= high <= 1
    z = float(stats.norm.ppf((1 + level) / 2))
    for end in (low, high):
        if end not in (0.0, 1.0):
            assert abs(k / n - end) == pytest.approx(z * sqrt(end * (1 - end) / n), rel=1e-9)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (11, 118), (0, 500), (500, 500), (7, 47), (15, 119)])
def test_wilson_equals_scipy(k: int, n: int) -> None:
    """The same ends as scipy's own score interval."""
    theirs = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_nothing_is_known_of_no_rows() -> None:
    """n = 0 gives the whole of 0..1 and no value."""
    assert wilson(0, 0) == (0.0, 1.0)
    assert proportion(0, 0).value is None
    assert proportion(0, 0).low is None
    assert proportion(3, 4).value == 0.75


def test_impossible_counts_and_levels_are_refused() -> None:
    """k above n, negative counts and levels outside (0, 1) are ValueErrors."""
    for k, n in ((2, 1), (-1, 3)):
        with pytest.raises(ValueError, match="cannot be"):
            wilson(k, n)
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="confidence"):
            wilson(1, 2, level=level)
        with pytest.raises(ValueError, match="confidence"):
            bootstrap([1, 2], seed=1, level=level)


@pytest.mark.parametrize("n", [2, 3, 118, 500, 70_000])
def test_bootstrap_draws_are_numpys_own_in_one_matrix(n: int) -> None:
    """Drawing in chunks gives, element for element, the matrix that numpy gives at once."""
    resamples = 200 if n > 1000 else 2000
    whole = np.random.default_rng(12345).integers(0, n, size=(resamples, n))
    chunks = list(intervals.draws(n, resamples=resamples, rng=np.random.default_rng(12345)))
    assert (np.concatenate(chunks) == whole).all()
    assert n > 1000 or max(map(len, chunks)) * n <= intervals.CHUNK


def test_bootstrap_is_the_percentile_interval_of_that_matrix() -> None:
    """The ends equal numpy's percentiles of the row means, bit for bit; n, seed and method are told."""
    values = np.random.default_rng(3).random(57)
    rows = np.random.default_rng(9).integers(0, 57, size=(10_000, 57))
    low, high = np.percentile(values[rows].mean(axis=1), [2.5, 97.5])
    found = bootstrap(values, seed=9)
    assert (found.low, found.high) == (low, high)
    assert (found.value, found.n, found.seed, found.level) == (values.mean(), 57, 9, 0.95)
    assert found.method == "bootstrap percentile/1"


def test_bootstrap_comes_out_again_and_depends_on_its_seed() -> None:
    """One seed, one interval; another seed, another."""
    values = np.random.default_rng(3).random(57)
    assert bootstrap(values, seed=1) == bootstrap(values.tolist(), seed=1)
    assert bootstrap(values, seed=1) != bootstrap(values, seed=2)


def test_bootstrap_of_too_few_rows_says_so() -> None:
    """No rows: no value; one row: no interval; equal rows: an interval of no width, with a note."""
    assert bootstrap([], seed=1).value is None
    assert bootstrap([], seed=1).note == "no rows"
    one = bootstrap([4], seed=1)
    assert (one.value, one.low, one.high, one.note) == (4, None, None, "one row: no interval")
    same = bootstrap([True] * 5, seed=1)
    assert (same.value, same.low, same.high, same.note) == (1, 1, 1, "all rows are equal")


@pytest.mark.parametrize("values", [[1.0, np.nan], [np.inf, 1.0], [[1, 2], [3, 4]], ["a", "b"], [None, 1], [1 + 2j]])
def test_what_is_no_column_of_numbers_is_refused(values: list[object]) -> None:
    """NaN, infinity, tables and words are ValueErrors, never dropped."""
    with pytest.raises(ValueError, match=r"."):
        bootstrap(values, seed=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"."):
        clustered(values, ["a", "b"], seed=1)  # type: ignore[arg-type]


def test_clusters_of_one_row_are_the_plain_bootstrap() -> None:
    """With every row its own cluster, in order, both intervals are the same."""
    values = np.random.default_rng(5).integers(0, 2, 80)
    plain, whole = bootstrap(values, seed=4), clustered(values, np.arange(80), seed=4)
    assert (plain.low, plain.high) == pytest.approx((whole.low, whole.high), abs=1e-12)
    assert whole.note == "80 clusters"


def test_clusters_that_agree_widen_the_interval() -> None:
    """Ten equal rows per cluster count as one: the interval is that of the cluster means."""
    means = np.random.default_rng(6).integers(0, 2, 40)
    rows, names = np.repeat(means, 10), np.repeat([f"c{place:02}" for place in range(40)], 10)
    found, once = clustered(rows, names, seed=8), bootstrap(means, seed=8)
    assert (found.low, found.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert found.n == 400
    assert found.high is not None
    assert found.low is not None
    narrow = bootstrap(rows, seed=8)
    assert narrow.high is not None
    assert narrow.low is not None
    assert found.high - found.low > 2 * (narrow.high - narrow.low)


def test_clusters_of_different_sizes_follow_the_definition() -> None:
    """Each resample is the sum over the drawn clusters divided by the number of their rows."""
    values, names = np.arange(12.0), np.array(list("abbcccddddee"))
    drawn = np.random.default_rng(21).integers(0, 5, size=(500, 5))
    groups = [values[names == name] for name in "abcde"]
    found = [np.concatenate([groups[place] for place in line]).mean() for line in drawn]
    low, high = np.percentile(found, [5, 95])
    told = clustered(values, names, seed=21, resamples=500, level=0.9)
    assert (told.low, told.high) == pytest.approx((low, high), abs=1e-12)


def test_every_row_of_a_cluster_counts_once() -> None:
    """The value is the mean over rows, not over clusters; one cluster has no interval."""
    assert clustered([1, 1, 1, 0], ["a", "a", "a", "b"], seed=1).value == 0.75
    assert clustered([1, 0], ["a", "a"], seed=1).low is None
    assert clustered([], [], seed=1).value is None
    with pytest.raises(ValueError, match="cluster names"):
        clustered([1, 2], ["a"], seed=1)


def test_any_statistic_over_paired_columns() -> None:
    """Columns are resampled together, with the same stream as a mean; what is not defined is left out and counted."""
    rng = np.random.default_rng(2)
    a, b = rng.random(30), rng.random(30)
    found = bootstrap_of(lambda x, y: float((x - y).mean()), a, b, seed=11, resamples=2000)
    plain = bootstrap(a - b, seed=11, resamples=2000)
    assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-12)
    some = bootstrap_of(lambda x: float(x.max()) if x.max() > 0 else None, [0, 0, 1], seed=1, resamples=900)
    assert some.value == 1
    assert 200 < int(some.note.split()[3]) < 330  # (2/3)^3 of 900 is 267
    assert bootstrap_of(lambda x: None, [1, 2], seed=1, resamples=10).note == "not defined on these rows"
    assert bootstrap_of(lambda x: 1.0, [], seed=1, resamples=10).note == "no rows"
    with pytest.raises(ValueError, match="differ in length"):
        bootstrap_of(lambda x, y: 1.0, [1], [1, 2], seed=1)


SEED = 20261130
TRIALS = 400


def covered(hits: int) -> tuple[float, float]:
    """The share of intervals that held the truth, with the range in which that share itself is sure (level .999)."""
    return wilson(hits, TRIALS, level=0.999)


@pytest.mark.parametrize(("n", "p"), [(20, 0.1), (60, 0.3), (200, 0.02), (200, 0.5)])
def test_wilson_covers_a_binomial_share(n: int, p: float) -> None:
    """Exact coverage, summed over all outcomes, lies within 93..98 percent at level .95."""
    held = [k for k in range(n + 1) if wilson(k, n)[0] <= p <= wilson(k, n)[1]]
    coverage = float(stats.binom.pmf(held, n, p).sum())
    assert 0.93 <= coverage <= 0.98, coverage


def test_bootstrap_covers_the_mean_of_a_normal_sample() -> None:
    """About 94 percent of 95 percent intervals hold the true mean at n = 60."""
    rng = np.random.default_rng(SEED)
    hits = 0
    for trial in range(TRIALS):
        found = bootstrap(rng.normal(5, 2, 60), seed=trial, resamples=1000)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 5 <= found.high
    low, high = covered(hits)
    assert low <= 0.94 <= high, (SEED, hits)


def test_clustered_bootstrap_covers_where_the_plain_one_does_not() -> None:
    """With rows that agree within clusters the clustered interval holds the mean, and the plain one far too seldom."""
    rng = np.random.default_rng(SEED)
    hits, plain = 0, 0
    for trial in range(TRIALS):
        centres = rng.normal(0, 1, 40)
        rows = np.repeat(centres, 8) + rng.normal(0, 0.3, 320)
        names = np.repeat(np.arange(40), 8)
        whole, single = clustered(rows, names, seed=trial, resamples=600), bootstrap(rows, seed=trial, resamples=200)
        assert whole.low is not None
        assert whole.high is not None
        assert single.low is not None
        assert single.high is not None
        hits += whole.low <= 0 <= whole.high
        plain += single.low <= 0 <= single.high
    low, high = covered(hits)
    assert low <= 0.935 <= high, (SEED, hits)
    assert plain < 0.7 * TRIALS, (SEED, plain)
