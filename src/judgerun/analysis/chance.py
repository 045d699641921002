"""Chance: what a ranking in random order would reach."""

from __future__ import annotations

from math import comb


def hit(n: int, relevant: int, k: int) -> float:
    """P(at least one of `relevant` documents among the first k of n in random order) = 1 - C(n - relevant, k) / C(n, k).

    The complement of the hypergeometric probability of none. ValueError unless 0 <= relevant <= n and 0 <= k <= n.
    """
    if not (0 <= relevant <= n and 0 <= k <= n):
        raise ValueError(f"{relevant} relevant and the first {k} of {n} documents cannot be")
    return 1 - comb(n - relevant, k) / comb(n, k)
