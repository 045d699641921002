"""Precision: how wide the interval of a mean is, and how wide it will be when there is more of the same; arrays in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from judgerun.analysis import columns
from judgerun.analysis.intervals import wilson

DRAWS = 1_000
SPAN = (0.05, 0.5, 0.95)
"""Quantiles of the forecast: it is one of its own, and holds in nine of ten cases."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Widths (high - low) of intervals at one level: now over `n` clusters, and at `at` clusters in nine of ten cases within
    [low, high], half of them below `middle`.
    """

    now: float
    n: int
    at: int
    low: float
    middle: float
    high: float
    method: str


def forecast(
    values: npt.ArrayLike, clusters: npt.ArrayLike, *, more: int, seed: int, level: float = 0.95
) -> Forecast | None:
    """The width of the interval of a mean of `values`, whose clusters are drawn together, now and after `more` further clusters.

    The width is 2 z times the linearised standard error of a ratio of cluster sums (W. Cochran, Sampling Techniques 1977,
    section 6.3). How the variance of the residuals may still turn out follows a scaled chi-square law whose degrees of freedom
    match the kurtosis so far, as var(s^2) = sigma^4 (kurtosis - 1) / n (G. Box, Biometrika 1953): tails that were not seen yet
    are not foreseen. None for fewer than two clusters, and for residuals that are all 0, which say nothing of the variance.
    ValueError for columns of different lengths and for NaN.
    """
    column = columns.column(values)
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    if len(place) != len(column):
        raise ValueError(f"the columns differ in length: {len(column)} and {len(place)}")
    n = int(place.max()) + 1 if len(place) else 0
    if n < 2:
        return None
    sums = np.bincount(place, weights=column, minlength=n)
    sizes = np.bincount(place, minlength=n).astype(np.float64)
    residuals = sums - sums.sum() / sizes.sum() * sizes
    variance = float((residuals**2).sum() / (n - 1))
    if variance <= (1e-12 * float(np.abs(sums).max())) ** 2:  # what rounding leaves
        return None
    now = 2 * _z(level) * float(np.sqrt(variance * n) / sizes.sum())
    ratios = _later(residuals, more, np.random.default_rng(seed))
    low, middle, high = (float(now * np.sqrt(q * n / (n + more))) for q in np.quantile(ratios, SPAN))
    return Forecast(now=now, n=n, at=n + more, low=low, middle=middle, high=high, method="linearised, chi-square/1")


def _later(residuals: Floats, more: int, rng: np.random.Generator) -> Floats:
    """Draws of the variance at the end over that of now, when `more` further residuals have come."""
    n = len(residuals)
    if not more:
        return np.ones(1)
    kurtosis = float((residuals**4).mean() / (residuals**2).mean() ** 2)
    degrees = min(2 * n / max(kurtosis - 1, 1e-9), 1e9)
    true = degrees / rng.chisquare(degrees, DRAWS)
    further = degrees * more / n
    return (n + more * true * rng.chisquare(further, DRAWS) / further) / (n + more)


def share(k: int, n: int, *, more: int, seed: int, level: float = 0.95) -> Forecast | None:
    """The same of a share of `k` in `n` with Wilson's interval: further ones follow the beta-binomial law under Jeffreys' prior.
    None for n = 0.
    """
    columns.share(k, n)
    if not n:
        return None
    rng = np.random.default_rng(seed)
    further = rng.binomial(more, rng.beta(k + 0.5, n - k + 0.5, size=DRAWS))
    counts, often = np.unique(further, return_counts=True)
    widths = [_wilson(k + int(found), n + more, level) for found in counts]
    low, middle, high = (float(q) for q in np.quantile(np.repeat(widths, often), SPAN))
    return Forecast(
        now=_wilson(k, n, level), n=n, at=n + more, low=low, middle=middle, high=high, method="wilson, beta-binomial/1"
    )


def _wilson(k: int, n: int, level: float) -> float:
    low, high = wilson(k, n, level=level)
    return high - low


def _z(level: float) -> float:
    columns.level(level)
    return NormalDist().inv_cdf((1 + level) / 2)
