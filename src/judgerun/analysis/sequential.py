"""Sequential: bounds and tests for counts that are looked at again and again while they grow, with the error of all looks told.

What may live here: rules for looks at a stream. What is looked at once has its intervals and tests beside this module.
"""

from __future__ import annotations

from math import exp, lgamma, log, sqrt
from statistics import NormalDist

from judgerun.analysis import columns

ALPHA = 0.05
"""One-sided error of all looks at one stream together."""


def level(n: int, *, after: int) -> float:
    """The confidence level of a two-sided interval over n results of a stream that is judged from `after` results on.

    Of the one-sided error ALPHA, 1 / ((k + 1) (k + 2)) is spent on the looks between the k-th doubling of `after` and the next:
    the sum over all k is ALPHA (spending over looks: K. Lan, D. DeMets, Biometrika 1983; over doublings, since looks between
    two of them see nearly the same results). 0.95 up to the first doubling. ValueError below `after`.
    """
    if n < max(1, after):
        raise ValueError(f"{n} results of a stream that is judged after {after}")
    doublings = (n // max(1, after)).bit_length() - 1
    return 1 - 2 * ALPHA / ((doublings + 1) * (doublings + 2))


def mcnemar(b: int, c: int) -> float:
    """McNemar's test of b against c discordant pairs, exact and good at any number of looks: the p-value is at most the inverse
    of the likelihood of the order seen, mixed evenly over all shares, against that of equal shares, which is a martingale
    (H. Robbins, Ann. Math. Stat. 1970, by J. Ville's inequality, 1939): (n + 1) C(n, b) / 2^n with n = b + c, at most 1.
    """
    if b < 0 or c < 0:
        raise ValueError(f"{b} and {c} are not counts")
    n, b, c = b + c, min(b, c), max(b, c)  # so that rounding is the same whichever comes first
    return min(1.0, exp(log(n + 1) + lgamma(n + 1) - lgamma(b + 1) - lgamma(c + 1) - n * log(2)))


def difference(n: int, b: int, c: int, *, level: float) -> tuple[float, float]:
    """The interval of the paired difference (b - c) / n of two shares over n pairs, b and c of them discordant: normal, with
    half a pair added to each cell of the table (A. Agresti, Y. Min, Stat. Med. 2005). (-1, 1) for n = 0.
    """
    if min(n - b - c, b, c) < 0:
        raise ValueError(f"{b} and {c} discordant pairs of {n}")
    if n == 0:
        return -1.0, 1.0
    z = NormalDist().inv_cdf((1 + columns.level(level)) / 2)
    gap, size = b - c, n + 2
    half = z * sqrt(max(0.0, b + c + 1 - gap * gap / size)) / size
    return max(-1.0, gap / size - half), min(1.0, gap / size + half)


def mean_low(n: int, total: float, squares: float, *, level: float) -> float:
    """The lower bound of a mean of n values with this sum and sum of squares, normal with the sample's variance. Costs lean to
    the right, where it errs low. ValueError below two values: nothing is known of their spread.
    """
    if n < 2:
        raise ValueError(f"{n} values have no spread")
    z = NormalDist().inv_cdf((1 + columns.level(level)) / 2)
    variance = (n * squares - total * total) / (n * (n - 1))
    return total / n - z * sqrt(max(0.0, variance) / n)
