"""Paired comparisons: differences and tests between conditions on the same items, and the correction for many of them.

NaN is refused (see columns). The caller brings the items of both conditions in one order. scipy is imported where it is used:
it takes a second, which no command should pay that only counts pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from judgerun.analysis import columns, intervals
from judgerun.analysis.estimate import Estimate, Significance


def discordant(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[int, int]:
    """(b, c): items true in the first alone, and in the second alone."""
    a, b = columns.flags(first, "the first values"), columns.flags(second, "the second values")
    if len(a) != len(b):
        raise ValueError(f"the columns differ in length: {len(a)} and {len(b)}")
    return int((a & ~b).sum()), int((~a & b).sum())


def mcnemar(b: int, c: int) -> Significance:
    """The exact two-sided test of b against c discordant pairs (Q. McNemar, Psychometrika 1947; exact by the binomial law).

    p = 2 P(X <= min(b, c)), X binomial(b + c, 1/2), at most 1; summed in whole numbers. p = 1 where no pair is discordant.
    `n` counts the discordant pairs, on which alone the test rests.
    """
    if b < 0 or c < 0:
        raise ValueError(f"{b} and {c} are not counts")
    n = b + c
    term, tail = 1, 0
    for i in range(min(b, c) + 1):
        tail += term
        term = term * (n - i) // (i + 1)  # C(n, i + 1), exact
    p = min(1.0, 2 * tail / 2**n)
    return Significance(
        p=p, n=n, method="mcnemar exact", statistic=float(min(b, c)), note="" if n else "no discordant pair"
    )


def difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    seed: int,
    level: float = 0.95,
    resamples: int = intervals.RESAMPLES,
    clusters: npt.ArrayLike | None = None,
) -> Estimate:
    """Mean of first - second per item, with a bootstrap interval over items, or over whole clusters of items."""
    a, b = columns.pair(first, second)
    if clusters is None:
        return intervals.bootstrap(a - b, seed=seed, level=level, resamples=resamples, convention="first - second")
    return intervals.clustered(
        a - b, clusters, seed=seed, level=level, resamples=resamples, convention="first - second"
    )


def wilcoxon(first: npt.ArrayLike, second: npt.ArrayLike) -> Significance:
    """The signed-rank test, two-sided (F. Wilcoxon, Biometrics 1945): equal items are left out, equal sizes share ranks.

    Exact up to 50 unequal items without ties among the sizes, else the normal approximation, without continuity correction.
    `n` counts the unequal items. p = 1 where there are none.
    """
    a, b = columns.pair(first, second)
    gaps = (a - b)[a != b]
    if len(gaps) == 0:
        return Significance(p=1.0, n=0, method="wilcoxon", note="no item differs")
    from scipy import stats

    exact = len(gaps) <= 50 and len(np.unique(np.abs(gaps))) == len(gaps)
    method = "exact" if exact else "approx"
    result: Any = stats.wilcoxon(gaps, method=method, correction=False)
    return Significance(
        p=float(result.pvalue), n=len(gaps), method=f"wilcoxon {method}", statistic=float(result.statistic)
    )


def cochran(table: npt.ArrayLike) -> Significance:
    """Cochran's Q over items (rows) and conditions (columns) of truth values (W. G. Cochran, Biometrika 1950).

    Q = (m - 1) (m sum C_j^2 - N^2) / (m N - sum R_i^2) with column sums C, row sums R, N of all; chi squared with m - 1
    degrees. `n` counts the rows. p = 1 where every row is constant.
    """
    held = np.asarray(table)
    if held.ndim != 2 or held.shape[1] < 2:
        raise ValueError("a table of items by at least two conditions is needed")
    true = columns.flags(held.reshape(-1)).reshape(held.shape).astype(np.int64)
    m = held.shape[1]
    by_column, by_row, total = true.sum(axis=0), true.sum(axis=1), int(true.sum())
    from scipy.special import chdtrc

    below = m * total - int((by_row**2).sum())
    if below == 0:
        return Significance(p=1.0, n=len(true), method="cochran q", note="no item differs")
    q = (m - 1) * (m * int((by_column**2).sum()) - total**2) / below
    return Significance(p=float(chdtrc(m - 1, q)), n=len(true), method="cochran q", statistic=float(q))


def fisher(a: int, b: int, c: int, d: int) -> Significance:
    """Fisher's exact test of the table [[a, b], [c, d]], two-sided (R. A. Fisher, J. R. Stat. Soc. 1935).

    p is the share, among all tables with its margins weighted by C(a + b, x) C(c + d, a + c - x), of those that are no likelier
    than the one observed; compared in whole numbers. The statistic is the odds ratio a d / (b c), None where that is no number.
    """
    if min(a, b, c, d) < 0:
        raise ValueError(f"{(a, b, c, d)} are not counts")
    upper, lower, left = a + b, c + d, a + c
    weights = {x: comb(upper, x) * comb(lower, left - x) for x in range(max(0, left - lower), min(upper, left) + 1)}
    p = sum(weight for weight in weights.values() if weight <= weights[a]) / sum(weights.values())
    return Significance(p=p, n=a + b + c + d, method="fisher exact", statistic=a * d / (b * c) if b * c else None)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given (S. Holm, Scand. J. Stat. 1979): the i-th smallest times (m - i + 1), made
    monotone, at most 1.
    """
    if not all(0 <= p <= 1 for p in ps):
        raise ValueError("a p-value lies within 0..1")
    adjusted = [0.0] * len(ps)
    bar = 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        bar = max(bar, min(1.0, (len(ps) - place) * ps[index]))
        adjusted[index] = bar
    return adjusted
