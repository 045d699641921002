"""Whether the conditions of a stage ended alike: tests of how often each was truncated, empty, unparsed or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from judgerun.analysis.paired import cochran, discordant, fisher, holm, mcnemar
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Table
from judgerun.audit.tally import MARKS, conditions, flags
from judgerun.audit.words import few, percent
from judgerun.model.experiment import Gate

ALPHA = 0.01
"""A difference between conditions is told below this p-value."""

Flags = Mapping[str, bool]
"""By id, whether a row bears a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two conditions and one mark. Paired: `n` ids that both have; else all that each has, and `n` is their sum."""

    first: str
    second: str
    n: int
    counts: tuple[int, int]
    shares: tuple[float, float]
    paired: bool
    p: float
    adjusted: float = 1.0  # Holm, over the pairs of the stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One mark over all conditions of a stage: the test of all at once, and each pair."""

    stage: str
    mark: str
    method: str
    n: int
    p: float
    pairs: tuple[Pair, ...]
    totals: Mapping[str, tuple[int, int]]  # by condition: how many of how many ids bear it


def contrasts(evidence: Evidence) -> Iterator[Contrast]:
    """Every mark that any reply of a stage with several conditions bears."""
    for stage in dict.fromkeys(counts.stage for counts in evidence.counts):
        for mark in MARKS:
            held = flags(evidence.rows.get(stage, ()), mark)
            if len(held) > 1 and any(any(of.values()) for of in held.values()):
                yield contrast(stage, mark, held)


def contrast(stage: str, mark: str, held: Mapping[str, Flags]) -> Contrast:
    """The test of one mark. Conditions that were asked of the same ids are paired: exact McNemar for two, Cochran's Q for more,
    each over the ids that all have; without common ids Fisher's exact test, and then the least adjusted p-value of the pairs is
    that of all.
    """
    names = sorted(held)
    pairs = [_pair(held, one, other) for one, other in combinations(names, 2)]
    adjusted = holm([pair[-1] for pair in pairs])
    told = tuple(
        Pair(first=one, second=other, n=n, counts=counts, shares=shares, paired=paired, p=p, adjusted=more)
        for (one, other, n, counts, shares, paired, p), more in zip(pairs, adjusted, strict=True)
    )
    common = sorted(set.intersection(*(set(held[name]) for name in names)))
    if len(names) > 2 and common:
        found = cochran(list(zip(*([held[name][id_] for id_ in common] for name in names), strict=True)))
        method, n, p = found.method, len(common), found.p
    else:
        method = "mcnemar exact" if told[0].paired else "fisher exact"
        method += "" if len(told) == 1 else ", Holm over pairs"
        n, p = sum(pair.n for pair in told), min(adjusted)
    totals = {name: (sum(of.values()), len(of)) for name, of in held.items()}
    return Contrast(stage=stage, mark=mark, method=method, n=n, p=1.0 if p is None else p, pairs=told, totals=totals)


def _pair(
    held: Mapping[str, Flags], one: str, other: str
) -> tuple[str, str, int, tuple[int, int], tuple[float, float], bool, float]:
    first, second = held[one], held[other]
    common = sorted(first.keys() & second.keys())
    if common:
        a, b = [first[id_] for id_ in common], [second[id_] for id_ in common]
        p, n = mcnemar(*discordant(a, b)).p, len(common)
        sizes = (n, n)
    else:
        a, b = list(first.values()), list(second.values())
        p, n = fisher(sum(a), len(a) - sum(a), sum(b), len(b) - sum(b)).p, len(a) + len(b)
        sizes = (len(a), len(b))
    counts = (sum(a), sum(b))
    shares = (counts[0] / max(1, sizes[0]), counts[1] / max(1, sizes[1]))
    return one, other, n, counts, shares, bool(common), 1.0 if p is None else p


def check_differences(evidence: Evidence) -> Iterator[Finding]:
    """Whether conditions of one stage differ in how often they were truncated, empty, unparsed or refused: exact McNemar or
    Cochran's Q where the same ids were asked, Fisher's test where not, Holm over pairs. A difference is a warning: a score would
    compare endings, not answers.
    """
    for told in contrasts(evidence):
        if told.p < ALPHA:
            how = "paired by id" if told.pairs[0].paired else "not paired: they have no id in common"
            yield Finding(
                check="difference",
                severity="warning",
                message=f"the conditions of {told.stage} are not equally often {told.mark} ({told.method}, {how}, "
                f"n = {told.n}, p = {told.p:.2g})",
                value=told.p,
                evidence=(*_rates(told), *few(_said(pair) for pair in _worst(told.pairs) if pair.adjusted < ALPHA)),
            )


def _rates(told: Contrast) -> Iterator[str]:
    """How often each condition bears the mark, of all its ids."""
    return (f"{name}: {count} of {n}" for name, (count, n) in sorted(told.totals.items()))


def _worst(pairs: Sequence[Pair]) -> Sequence[Pair]:
    return sorted(pairs, key=lambda pair: (pair.adjusted, pair.first, pair.second))


def _said(pair: Pair) -> str:
    (a, b), (x, y) = pair.counts, pair.shares
    return f"{pair.first}: {a} ({percent(x)}); {pair.second}: {b} ({percent(y)}); n = {pair.n}, p Holm = {pair.adjusted:.2g}"


def check_registered(evidence: Evidence) -> Iterator[Finding]:
    """A condition that is truncated oftener than another of its stage by more than its gate's `difference` is an error, of both:
    until it is waived, what compares them stands under a banner.
    """
    limits = {name: gate.difference for name, gate in _gates(evidence) if gate.difference is not None}
    for told in contrasts(evidence):
        for pair in told.pairs if told.mark == "truncated" else ():
            limit = min((limits[name] for name in (pair.first, pair.second) if name in limits), default=None)
            gap = abs(pair.shares[0] - pair.shares[1])
            if limit is None or gap <= limit:
                continue
            for own, other in ((pair.first, pair.second), (pair.second, pair.first)):
                yield Finding(
                    check="unequal",
                    severity="error",
                    condition=own,
                    message=f"truncation differs from that of {other} by {percent(gap)}, limit {percent(limit)} (p = {pair.p:.2g})",
                    value=gap,
                    evidence=(_said(pair),),
                )


def _gates(evidence: Evidence) -> Iterator[tuple[str, Gate]]:
    for name, condition in conditions(evidence).items():
        held = dict(condition.segments[0].coordinates)
        arm = evidence.arm(condition.stage, held.get("model"), held.get("prompt"))
        if arm is not None and arm.settings.gate is not None:
            yield name, arm.settings.gate


def differences(evidence: Evidence) -> Iterator[Table]:
    """Each pair of conditions with its test, where any reply bears a mark."""
    rows = [
        (
            told.stage,
            told.mark,
            pair.first,
            pair.second,
            pair.n,
            *pair.counts,
            "yes" if pair.paired else "no",
            pair.p,
            pair.adjusted,
        )
        for told in contrasts(evidence)
        for pair in told.pairs
    ]
    if rows:
        yield Table(
            name="differences",
            title="Did the conditions end alike?",
            columns=("stage", "mark", "first", "second", "n", "of first", "of second", "paired", "p", "p Holm"),
            rows=tuple(rows),
            note="Exact McNemar over the ids that both have; Fisher's exact test where they have none in common. Holm over the "
            "pairs of a stage and mark.",
        )
