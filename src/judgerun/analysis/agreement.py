"""Agreement: how far two raters of the same items say the same. Point values; `intervals.bootstrap_of` gives intervals.

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
