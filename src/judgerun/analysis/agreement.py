"""Agreement: how far two raters of the same items say the same. Point values; `intervals.bootstrap_of` gives intervals.

None stands where a coefficient is not defined (one of the raters never varies, or chance alone would agree always).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

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


def tau(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Kendall's tau-b (M. Kendall, Biometrika 1945): ties in either ranking shrink its pairs."""
    a, b = columns.pair(first, second)
    return _statistic(stats.kendalltau(a, b, variant="b")) if _varies(a, b) else None


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Spearman's rho (C. Spearman, Am. J. Psychol. 1904): Pearson's correlation of the ranks, ties sharing theirs."""
    a, b = columns.pair(first, second)
    return _statistic(stats.spearmanr(a, b)) if _varies(a, b) else None


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


def _statistic(result: Any) -> float | None:
    value = float(result.statistic)
    return value if np.isfinite(value) else None


def _same_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> None:
    if len(first) != len(second):
        raise ValueError(f"the columns differ in length: {len(first)} and {len(second)}")
