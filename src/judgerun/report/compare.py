"""Comparisons of two samples: the test that a question names, as Estimates; refusals as Estimates without a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judgerun.analysis.agreement import kappa, tau
from judgerun.analysis.estimate import Estimate, Significance
from judgerun.analysis.intervals import RESAMPLES, bootstrap_of, draws
from judgerun.analysis.paired import difference, discordant, mcnemar, wilcoxon
from judgerun.report.sample import Sample

SLOW_RESAMPLES = 2_000
"""Resamples of coefficients that have no fast form (kappa, tau)."""
SECOND = "second - first, paired by id, draws averaged"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two samples on the ids that both have, in blocks of which nothing is pending in either. `cut` counts the ids that both have
    in other blocks: of those a run that was stopped holds the ones that were answered first.
    """

    first: Sample
    second: Sample
    ids: tuple[str, ...]
    cut: int = 0

    @property
    def clusters(self) -> list[str] | None:
        """Block of each id; None where every id is a block of its own."""
        blocks = [self.first.blocks[id_] for id_ in self.ids]
        return blocks if len(set(blocks)) < len(blocks) else None

    def means(self) -> tuple[list[float], list[float]]:
        """The values of both, draws averaged, in the order of `ids`."""
        return [self.first.mean(i) for i in self.ids], [self.second.mean(i) for i in self.ids]

    @property
    def draws(self) -> int:
        """The most draws that any id has."""
        return max(self.first.draws, self.second.draws)


def paired(first: Sample, second: Sample, ids: frozenset[str] | None = None) -> Pairs:
    """The ids with a value in both, of `ids` where these are given."""
    common = set(first.values) & set(second.values)
    if ids is not None:
        common &= ids
    partial = first.partial | second.partial
    whole = tuple(sorted(id_ for id_ in common if first.blocks[id_] not in partial))
    return Pairs(first, second, whole, len(common) - len(whole))


def refused(why: str, *, n: int, method: str) -> Estimate:
    """A number that must not be told, and why."""
    return Estimate(value=None, n=n, method=method, note=why)


def of_test(pairs: Pairs, test: str | None, *, seed: int) -> Iterator[tuple[str, Estimate]]:
    """(measure, estimate): difference and p for mcnemar, paired-bootstrap, wilcoxon; the coefficient for kappa and tau."""
    n = len(pairs.ids)
    if not n:
        yield test or "difference", refused("no id has a value in both", n=0, method=test or "paired bootstrap")
        return
    if test in ("kappa", "tau"):
        yield test, _coefficient(pairs, test, seed)
        return
    if not (pairs.first.numeric and pairs.second.numeric):
        yield "difference", refused("values are labels: they have no mean", n=n, method=test or "paired bootstrap")
        return
    first, second = pairs.means()
    gap = difference(second, first, seed=seed, clusters=pairs.clusters)
    yield "difference", replace(gap, convention=SECOND)
    match test:
        case "mcnemar":
            yield "p", _mcnemar(pairs, first, second)
        case "wilcoxon":
            yield "p", _significant(wilcoxon(second, first), n)
        case "paired-bootstrap":
            gaps = [b - a for a, b in zip(first, second, strict=True)]
            yield "p", _bootstrapped(gaps, pairs.clusters or pairs.ids, seed=seed)


def _mcnemar(pairs: Pairs, first: Sequence[float], second: Sequence[float]) -> Estimate:
    n = len(pairs.ids)
    if pairs.draws > 1:
        return refused("several draws of one id: mcnemar wants one, fold them first", n=n, method="mcnemar exact")
    if not (pairs.first.binary and pairs.second.binary):
        return refused("values are not true or false", n=n, method="mcnemar exact")
    b, c = discordant(first, second)
    told = _significant(mcnemar(b, c), n)
    counts = f"true in the first alone {b}, in the second alone {c}"
    clustered = "; ids of one block are not independent" if pairs.clusters is not None else ""
    return replace(told, note="; ".join(filter(None, (counts + clustered, told.note))))


def _significant(told: Significance, n: int) -> Estimate:
    note = told.note if told.n == n else "; ".join(filter(None, (f"{told.n} of {n} pairs differ", told.note)))
    return Estimate(value=told.p, n=n, method=told.method, convention="two-sided", note=note)


def _bootstrapped(gaps: Sequence[float], clusters: Sequence[str], *, seed: int) -> Estimate:
    """Two-sided p of a mean difference of 0 by inverting the percentile interval of `difference` (the same draws): twice the
    smaller share of resamples on one side of 0, at least 1 / (R + 1) (A. Davison, D. Hinkley 1997, section 4.4).
    """
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(place, weights=np.asarray(gaps, dtype=np.float64))
    below = above = 0
    for drawn in draws(len(sums), resamples=RESAMPLES, rng=np.random.default_rng(seed)):
        totals = sums[drawn].sum(axis=1)
        below += int((totals <= 0).sum())
        above += int((totals >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (RESAMPLES + 1))
    return Estimate(value=p, n=len(gaps), method="paired bootstrap p/1", convention="two-sided", seed=seed)


def _coefficient(pairs: Pairs, test: str, seed: int) -> Estimate:
    n = len(pairs.ids)
    if test == "tau":
        if not (pairs.first.numeric and pairs.second.numeric):
            return refused("values are labels: they have no order", n=n, method="kendall tau-b")
        first, second = pairs.means()
        told = bootstrap_of(tau, first, second, seed=seed, resamples=SLOW_RESAMPLES)
        return replace(told, method=f"kendall tau-b, {told.method}", convention=f"{SLOW_RESAMPLES} resamples of ids")
    if pairs.draws > 1:
        return refused("several draws of one id: kappa wants one, fold them first", n=n, method="cohen kappa")
    one = [_category(pairs.first.values[id_][0]) for id_ in pairs.ids]
    other = [_category(pairs.second.values[id_][0]) for id_ in pairs.ids]
    told = bootstrap_of(_kappa, one, other, seed=seed, resamples=SLOW_RESAMPLES)
    return replace(told, method=f"cohen kappa, {told.method}", convention=f"{SLOW_RESAMPLES} resamples of ids")


def _kappa(one: Sequence[str], other: Sequence[str]) -> float | None:
    return kappa(list(one), list(other))


def _category(value: object) -> str:
    """A value as a category: 1, 1.0 and "1" are one, true and "true" are one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return text.lower() if text.lower() in ("true", "false") else text
