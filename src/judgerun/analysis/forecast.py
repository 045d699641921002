"""Forecast: what the rest of a run will take, from its first items, and how many of its replies will be bad; laws in, draws out.

Theory. The items are exchangeable (they come in a seeded order), and each costs between nothing and a known most. Of the n + 1
stretches into which n observed items cut the law of an item, the shares are Dirichlet(1, ..., 1), whatever that law is. So n
shares go to what was seen, as in the Bayesian bootstrap (D. Rubin, Ann. Stat. 9, 1981), and one to what was not: it lies anywhere
between nothing and the most. Both ends are kept (P. Walley, J. R. Stat. Soc. B 58, 1996, with s = 1). With it at the most, a
quantile of the mean is the upper bound of E. Learned-Miller and P. Thomas (arXiv:1905.06208), which no bounded law has been found
to break. A plain bootstrap is broken by every law with a long tail: of a dozen costs, the tail is what was not seen. The rest is
then drawn from these shares, so that the chance of the sum itself is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, gammaln

from judgerun.analysis.columns import Floats, share

SUMS = "imprecise Bayesian bootstrap/1"
COUNTS = "beta-binomial, Jeffreys/1"
RESAMPLES = 4_000

#: Elements of a matrix of draws that are held at once.
CHUNK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What the observed items took in one group of cells, in any number of units, and how many cells of it are left.

    `most` is what a cell can take at most, by unit. Costs of an item in several groups hang together, so the items are the same
    in all groups that are forecast at once; an item without cells of a group has weight 0 there.
    """

    weights: Floats  # (items,): cells of each
    amounts: Floats  # (items, units): what all of them took
    most: Floats  # (units,)
    left: float

    @property
    def means(self) -> Floats:
        """What is expected of all cells that are left, by unit: the observed mean of a cell; the most where none was observed."""
        cells = self.weights.sum()
        return self.left * (self.amounts.sum(axis=0) / cells if cells else self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Draws of what all cells of a group that are left take, each (resamples, units): with what was not seen at nothing, left
    out, and at its most. The same row of all groups belongs together.
    """

    low: Floats
    plain: Floats
    high: Floats


def forecast(groups: Sequence[Group], *, rng: np.random.Generator, resamples: int = RESAMPLES) -> list[Sums]:
    """Draws for each group. ValueError where the groups differ in their items."""
    items = {len(group.weights) for group in groups}
    if len(items) > 1:
        raise ValueError("the groups differ in their items")
    n = items.pop() if items else 0
    futures = [_futures(group) for group in groups]
    most = max(futures, default=0)
    parts: list[list[tuple[Floats, Floats, Floats]]] = [[] for _ in groups]
    step = max(1, CHUNK // (n + 1))
    for start in range(0, resamples, step):
        shares = rng.standard_exponential((min(step, resamples - start), n + 1))
        drawn = rng.multinomial(most, shares / shares.sum(axis=1, keepdims=True))
        for group, own, found in zip(groups, futures, parts, strict=True):
            found.append(_sums(group, drawn if own == most else rng.binomial(drawn, own / most)))
    return [
        Sums(low=np.concatenate(low), plain=np.concatenate(plain), high=np.concatenate(high))
        for low, plain, high in (zip(*found, strict=True) for found in parts)
    ]


def _futures(group: Group) -> int:
    """How many further items the cells that are left make."""
    mean = group.weights.mean() if len(group.weights) else 0.0
    return ceil(group.left / mean - 1e-9) if mean else ceil(group.left)


def _sums(group: Group, drawn: npt.NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """The sums of drawn items (the unseen one last), brought to the number of cells that are left."""
    seen, unseen = drawn[:, :-1].astype(np.float64), drawn[:, -1:].astype(np.float64)
    taken, cells = seen @ group.amounts, (seen @ group.weights)[:, None]
    mean = float(group.weights.mean()) if group.weights.any() else 1.0
    every = cells + unseen * mean
    with np.errstate(invalid="ignore", divide="ignore"):  # where no drawn item has a cell here, nothing was seen
        low = np.where(every > 0, group.left * taken / every, 0.0)
        plain = np.where(cells > 0, group.left * taken / cells, group.means)
        high = np.where(every > 0, group.left * (taken + unseen * mean * group.most) / every, group.left * group.most)
    return low, plain, high


def later(k: int, n: int, *, more: int) -> Floats:
    """The probabilities of 0, 1, ... `more` bad ones among so many more, after k of n: beta-binomial, from Jeffreys' prior
    (J. M. Bernardo, A. Smith 1994, section 5.4; the prior of Brown, Cai, DasGupta, Stat. Sci. 2001).
    """
    share(k, n)
    a, b = k + 0.5, n - k + 0.5
    x = np.arange(more + 1, dtype=np.float64)
    choose = gammaln(more + 1) - gammaln(x + 1) - gammaln(more - x + 1)
    found = np.exp(choose + betaln(x + a, more - x + b) - betaln(a, b))
    return np.asarray(found / found.sum(), dtype=np.float64)


def middle(chances: Floats, *, level: float) -> tuple[int, int]:
    """The ends of the central interval of a count with these probabilities: at least `level` lies within, ends included."""
    below = np.cumsum(chances)
    low, high = np.searchsorted(below, [(1 - level) / 2, (1 + level) / 2 - 1e-12])
    return int(low), min(int(high), len(chances) - 1)


def beyond(chances: Floats, above: float) -> float:
    """The probability of a count greater than `above`."""
    return float(min(1.0, chances[np.arange(len(chances)) > above].sum()))
