"""Agreement: how far two raters of the same items say the same. Point values, for which `intervals.bootstrap_of` gives
intervals; `coefficients` gives all of two raters with theirs.

None stands where a coefficient is not defined (one of the raters never varies, or chance alone would agree always).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from judgerun.analysis import columns
from judgerun.analysis.columns import Floats
from judgerun.analysis.estimate import Estimate


def exact(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """The share of items on which both say the same; None without items."""
    _same_length(first, second)
    return sum(a == b for a, b in zip(first, second, strict=True)) / len(first) if len(first) else None


def kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Cohen's kappa (J. Cohen, Educ. Psychol. Meas. 1960): (observed - chance) / (1 - chance), chance from both margins."""
    _same_length(first, second)
    names = {value: place for place, value in enumerate(dict.fromkeys((*first, *second)))}
    return _kappa([names[a] for a in first], [names[b] for b in second], 1 - np.eye(len(names)))


def weighted_kappa(
    first: npt.ArrayLike, second: npt.ArrayLike, *, weights: Literal["linear", "quadratic"] = "quadratic"
) -> float | None:
    """Kappa of scores, disagreements weighted by their distance or its square (J. Cohen, Psychol. Bull. 1968).

    1 - sum(w observed) / sum(w expected). Distances are those of the numbers, so a scale with gaps keeps them.
    """
    a, b = columns.pair(first, second)
    scale, places = np.unique(np.concatenate((a, b)), return_inverse=True)
    apart = np.abs(scale[:, None] - scale[None, :])
    return _kappa(places[: len(a)], places[len(a) :], apart if weights == "linear" else apart**2)


#: Up to so many items tau counts pairs in a matrix, which a bootstrap of thousands needs; beyond, scipy sorts.
PAIRED_MAX = 512


def tau(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Kendall's tau-b: concordant less discordant pairs / sqrt(pairs untied in the first x in the second).

    M. Kendall, Biometrika 1945, section 3. None where a ranking is all ties.
    """
    a, b = columns.pair(first, second)
    if not _varies(a, b):
        return None
    if len(a) > PAIRED_MAX:
        from scipy import stats  # takes a second to import: see paired

        result: Any = stats.kendalltau(a, b, variant="b")
        return float(result.statistic)
    x, y = np.sign(a[:, None] - a), np.sign(b[:, None] - b)
    return float((x * y).sum() / sqrt(float((x * x).sum()) * float((y * y).sum())))


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Spearman's rho (C. Spearman, Am. J. Psychol. 1904): Pearson's correlation of the ranks, ties sharing theirs."""
    a, b = columns.pair(first, second)
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1]) if _varies(a, b) else None


def _ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def _kappa(
    first: Sequence[int] | npt.NDArray[np.intp], second: Sequence[int] | npt.NDArray[np.intp], cost: Floats
) -> float | None:
    if len(first) == 0:
        return None
    counts = np.zeros_like(cost, dtype=np.float64)
    np.add.at(counts, (np.asarray(first), np.asarray(second)), 1)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(first)
    chance = float((cost * expected).sum())
    return 1 - float((cost * counts).sum()) / chance if chance > 0 else None


def _varies(a: Floats, b: Floats) -> bool:
    return len(a) > 1 and a.min() < a.max() and b.min() < b.max()


def _same_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> None:
    if len(first) != len(second):
        raise ValueError(f"the columns differ in length: {len(first)} and {len(second)}")


Metric = Literal["nominal", "ordinal", "interval"]
METHOD = "multinomial bootstrap percentile/1"


def krippendorff(ratings: Sequence[Sequence[float | None]], metric: Metric = "nominal") -> float | None:
    """Krippendorff's alpha of any number of raters, with gaps (K. Krippendorff, Content Analysis, 3rd ed., chapter 11):
    1 - observed / expected disagreement, over the coincidences of values within units. `ratings` has a row for each unit and a
    number, or None, for each rater; units with fewer than two ratings say nothing. None where nothing varies.
    """
    held = [[value for value in unit if value is not None] for unit in ratings]
    held = [unit for unit in held if len(unit) > 1]
    scale = sorted({value for unit in held for value in unit})
    places = {value: place for place, value in enumerate(scale)}
    found = np.zeros((len(scale), len(scale)))
    for unit in held:
        for one, first in enumerate(unit):
            for other, second in enumerate(unit):
                if one != other:
                    found[places[first], places[second]] += 1 / (len(unit) - 1)
    (alpha,) = _alpha(found[None], np.asarray(scale, dtype=np.float64), metric) if scale else (np.nan,)
    return None if np.isnan(alpha) else float(alpha)


def _alpha(coincidences: Floats, scale: Floats, metric: Metric) -> Floats:
    """Alpha of each of many coincidence matrices (count x values x values); nan where nothing varies."""
    margins = coincidences.sum(axis=2)
    total = margins.sum(axis=1)
    apart = _apart(margins, scale, metric)
    observed = (coincidences * apart).sum(axis=(1, 2)) / total
    expected = (margins[:, :, None] * margins[:, None, :] * apart).sum(axis=(1, 2)) / (total * (total - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha: Floats = np.where(expected > 0, 1 - observed / expected, np.nan)
    return alpha


def _apart(margins: Floats, scale: Floats, metric: Metric) -> Floats:
    """The squared distance of each two values; of ordinal ones by how many ratings lie between them, half the ends counted."""
    if metric == "nominal":
        return np.broadcast_to(1 - np.eye(len(scale)), (len(margins), len(scale), len(scale)))
    if metric == "interval":
        return np.broadcast_to((scale[:, None] - scale[None, :]) ** 2, (len(margins), len(scale), len(scale)))
    ranks = margins.cumsum(axis=1) - margins / 2
    ordinal: Floats = (ranks[:, :, None] - ranks[:, None, :]) ** 2
    return ordinal


def coefficients(
    first: Sequence[float],
    second: Sequence[float],
    *,
    metric: Metric,
    seed: int,
    level: float = 0.95,
    resamples: int = 10_000,
) -> dict[str, Estimate]:
    """Two raters of the same items: exact agreement, kappa, weighted kappa (quadratic; of numbers alone) and alpha, each with an
    interval over resampled items. All rest on the table of their values, which is resampled as a multinomial.
    """
    _same_length(first, second)
    scale, places = np.unique(np.concatenate((first, second)), return_inverse=True)
    n, size = len(first), len(scale)
    cells = np.bincount(places[:n] * size + places[n:], minlength=size * size)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n, cells / n, size=resamples) if n else np.zeros((0, size * size))
    tables = np.vstack([cells, drawn]).reshape(-1, size, size).astype(np.float64)
    square = (scale[:, None] - scale[None, :]) ** 2
    told = {
        "exact": np.trace(tables, axis1=1, axis2=2) / max(n, 1),
        "kappa": _kappas(tables, 1 - np.eye(size)),
        **({} if metric == "nominal" else {"weighted kappa": _kappas(tables, square)}),
        "alpha": _alpha(tables + tables.transpose(0, 2, 1), scale, metric),
    }
    return {name: _estimated(values, n=n, level=level, seed=seed, name=name) for name, values in told.items()}


def _kappas(tables: Floats, cost: Floats) -> Floats:
    """Kappa of each of many tables; nan where chance alone would agree always."""
    n = tables.sum(axis=(1, 2))
    expected = tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :] / np.maximum(n, 1)[:, None, None]
    chance = (cost * expected).sum(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        kappas: Floats = np.where(chance > 0, 1 - (cost * tables).sum(axis=(1, 2)) / chance, np.nan)
    return kappas


def _estimated(values: Floats, *, n: int, level: float, seed: int, name: str) -> Estimate:
    """The first value, with the interval of the others; those that are not defined are left out and counted."""
    described: dict[str, Any] = {"n": n, "level": level, "method": METHOD, "seed": seed, "convention": name}
    if n == 0 or np.isnan(values[0]):
        return Estimate(value=None, note="no items" if n == 0 else "not defined on these items", **described)
    kept = values[1:][~np.isnan(values[1:])]
    lost = len(values) - 1 - len(kept)
    low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2]) if len(kept) else (None, None)
    note = f"not defined in {lost} of {len(values) - 1} resamples" if lost else ""
    return Estimate(
        value=float(values[0]), low=None if low is None else float(low), high=None if high is None else float(high), note=note,
        **described,
    )  # fmt: skip
