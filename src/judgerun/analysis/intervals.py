"""Intervals: Wilson's for a share; bootstraps of a mean, of clusters, and of any statistic over paired columns.

The draws of a bootstrap are frozen, since a number must come out again: row r of resample i is element (i, r) of
`numpy.random.default_rng(seed).integers(0, n, size=(resamples, n))`, the stream that most studies in Python have used. It is
drawn in chunks, which give the same elements (numpy takes one 32-bit word after another for n below 2^32; int16 would be faster
by a tenth and another stream, hence another interval of the same seed). The name of the method carries the version of all that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from judgerun.analysis import columns
from judgerun.analysis.columns import Floats
from judgerun.analysis.estimate import Estimate

RESAMPLES = 10_000
PERCENTILE = "bootstrap percentile/1"
CLUSTERS = "cluster bootstrap percentile/1"

#: Row numbers drawn at once: small enough to stay in a core's own cache, with the values that they fetch.
CHUNK = 1 << 16

Indices = npt.NDArray[np.int64]


def wilson(k: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """The score interval of a share k of n (E. B. Wilson, JASA 22, 1927; eq. 4 of Brown, Cai, DasGupta, Stat. Sci. 2001).

    Its ends are the shares p at which k/n lies z standard errors sqrt(p (1 - p) / n) from p. (0, 1) for n = 0: nothing is known.
    """
    columns.share(k, n)
    z = NormalDist().inv_cdf((1 + columns.level(level)) / 2)
    if n == 0:
        return 0.0, 1.0
    middle = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * sqrt(k * (n - k) / n + z * z / 4)
    # At the ends the two terms are equal by algebra, which rounding does not know.
    return (0.0 if k == 0 else max(0.0, middle - half)), (1.0 if k == n else min(1.0, middle + half))


def garwood(count: int, *, level: float = 0.95) -> float:
    """The upper bound, one-sided, of a Poisson mean of which `count` events were seen (F. Garwood, Biometrika 1936): half the
    chi-squared quantile with 2 count + 2 degrees, which is the gamma quantile of shape count + 1.
    """
    if count < 0:
        raise ValueError(f"{count} is no count")
    return float(gammaincinv(count + 1, columns.level(level)))


def proportion(k: int, n: int, *, level: float = 0.95) -> Estimate:
    """A share with its Wilson interval; no value for n = 0."""
    low, high = wilson(k, n, level=level)
    if n == 0:
        return Estimate(value=None, n=0, level=level, method="wilson", note="no rows")
    return Estimate(value=k / n, low=low, high=high, n=n, level=level, method="wilson")


def draws(n: int, *, resamples: int, rng: np.random.Generator) -> Iterator[Indices]:
    """Row numbers of `resamples` resamples of n rows, with replacement, as arrays of some resamples by n."""
    step = max(1, CHUNK // max(1, n))
    for start in range(0, resamples, step):
        yield rng.integers(0, n, size=(min(step, resamples - start), n))


def bootstrap(
    values: npt.ArrayLike, *, seed: int, level: float = 0.95, resamples: int = RESAMPLES, convention: str = ""
) -> Estimate:
    """The mean with a percentile bootstrap interval (B. Efron, R. Tibshirani 1993, eq. 13.5; linear interpolation).

    No value for an empty column; no interval for one row. ValueError for NaN.
    """
    rows = columns.column(values)
    columns.level(level)
    described: dict[str, Any] = {
        "n": len(rows),
        "level": level,
        "method": PERCENTILE,
        "seed": seed,
        "convention": convention,
    }
    if len(rows) == 0:
        return Estimate(value=None, note="no rows", **described)
    if len(rows) == 1:
        return Estimate(value=float(rows[0]), note="one row: no interval", **described)
    low, high = _ends(means(rows, resamples=resamples, rng=np.random.default_rng(seed)), level)
    note = "all rows are equal" if rows.min() == rows.max() else ""
    return Estimate(value=float(rows.mean()), low=low, high=high, note=note, **described)


def means(rows: Floats, *, resamples: int, rng: np.random.Generator) -> Floats:
    """The means of `resamples` resamples of a column."""
    found = np.empty(resamples)
    at = 0
    for indices in draws(len(rows), resamples=resamples, rng=rng):
        np.mean(rows[indices], axis=1, out=found[at : at + len(indices)])
        at += len(indices)
    return found


def clustered(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    seed: int,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    convention: str = "",
) -> Estimate:
    """The mean over rows, with whole clusters resampled (A. Davison, D. Hinkley 1997, section 3.8, strategy 1).

    Every row counts once, so a large cluster weighs more; each resample is the sum of the drawn clusters over their rows.
    `n` is the rows; the note says how many clusters they are in. No interval for one cluster.
    """
    rows = columns.column(values)
    names = np.asarray(clusters)
    if names.shape != rows.shape:
        raise ValueError(f"{len(rows)} values in {names.size} cluster names")
    columns.level(level)
    _, place = np.unique(names, return_inverse=True)
    sizes = np.bincount(place).astype(np.float64)
    sums = np.bincount(place, weights=rows, minlength=len(sizes))
    described: dict[str, Any] = {
        "n": len(rows),
        "level": level,
        "method": CLUSTERS,
        "seed": seed,
        "convention": convention,
    }
    if len(rows) == 0:
        return Estimate(value=None, note="no rows", **described)
    value = float(rows.mean())
    if len(sizes) == 1:
        return Estimate(value=value, note="one cluster: no interval", **described)
    rng = np.random.default_rng(seed)
    found = np.concatenate(
        [
            sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
            for drawn in draws(len(sizes), resamples=resamples, rng=rng)
        ]
    )
    low, high = _ends(found, level)
    return Estimate(value=value, low=low, high=high, note=f"{len(sizes)} clusters", **described)


def bootstrap_of(
    statistic: Callable[..., float | None],
    *data: npt.ArrayLike,
    seed: int,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    convention: str = "",
) -> Estimate:
    """Any statistic of columns whose rows belong together, with a percentile interval over resampled rows.

    `statistic` gets the columns, resampled alike, and gives None where it is not defined; such resamples are left out of the
    interval and counted in the note. ValueError for columns of different lengths.
    """
    held = [np.asarray(each) for each in data]
    size = {len(each) for each in held}
    if len(size) != 1:
        raise ValueError("the columns differ in length" if size else "there is no column")
    n = size.pop()
    columns.level(level)
    described: dict[str, Any] = {"n": n, "level": level, "method": PERCENTILE, "seed": seed, "convention": convention}
    value = statistic(*held) if n else None
    if value is None:
        return Estimate(value=None, note="no rows" if n == 0 else "not defined on these rows", **described)
    rng = np.random.default_rng(seed)
    told = [
        statistic(*(each[rows] for each in held)) for drawn in draws(n, resamples=resamples, rng=rng) for rows in drawn
    ]
    kept = np.array([each for each in told if each is not None])
    lost = resamples - len(kept)
    note = f"not defined in {lost} of {resamples} resamples" if lost else ""
    if len(kept) == 0 or n == 1:
        return Estimate(value=float(value), note=note or "one row: no interval", **described)
    low, high = _ends(kept, level)
    return Estimate(value=float(value), low=low, high=high, note=note, **described)


def _ends(found: Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
