"""What a failed gate does to a number: the banner in its note, and the bounds between which the truth must lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from judgerun.analysis.estimate import Estimate
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Finding
from judgerun.audit.words import percent
from judgerun.report.sample import Sample

Span = tuple[float, float]
BOUNDS = "worst-case bounds"
CONVENTION = "every cell without a value taken as the least value, and as the greatest; no sampling error"


def banner(audit: Audit, conditions: Iterable[str]) -> str:
    """Why numbers that rest on these conditions are not to be trusted; "" when every gate holds."""
    findings = {_short(finding): None for name in conditions for finding in audit.gate(name)}
    return "GATE FAILED: " + "; ".join(findings) if findings else ""


def left_out(evidence: Evidence, conditions: Iterable[str]) -> str:
    """Which of these conditions a person has left out, and why; "" where none is."""
    found = {str(one): None for name in conditions for one in evidence.exclusions if one.covers(name)}
    return "EXCLUDED: " + "; ".join(found) if found else ""


def _short(finding: Finding) -> str:
    value = percent(finding.value) if isinstance(finding.value, float) else finding.value
    return f"{finding.condition} {finding.check} {value}"


def span_of(sample: Sample) -> Span | None:
    """The range of a sample's values where it is known from their kind: truth values."""
    return (0.0, 1.0) if sample.binary and sample.values else None


def worst(sample: Sample, span: Span, ids: Sequence[str] | None = None) -> Span:
    """The mean over all ids tried when every draw without a value had the least value, and when it had the greatest. Ids that
    are pending, or whose value is null, stay out.
    """
    low = high = 0.0
    known = sorted(set(sample.values) | set(sample.open)) if ids is None else ids
    for id_ in known:
        held = [float(value) for value in sample.values.get(id_, ())]
        total = len(held) + sample.open.get(id_, 0)
        more = sample.open.get(id_, 0) + sample.assumed.get(id_, 0)  # an assumed False adds 0 to the sum
        low += (sum(held) + more * span[0]) / total
        high += (sum(held) + more * span[1]) / total
    hidden = sample.hidden if ids is None else 0
    n = len(known) + hidden
    return ((low + hidden * span[0]) / n, (high + hidden * span[1]) / n) if n else span


def worst_difference(one: Sample, other: Sample, span: Span) -> tuple[Span, int]:
    """Bounds of mean(other) - mean(one) over the ids that both conditions have, and how many these are."""
    ids = sorted((set(one.values) | set(one.open)) & (set(other.values) | set(other.open)))
    first, second = worst(one, span, ids), worst(other, span, ids)
    return (second[0] - first[1], second[1] - first[0]), len(ids)


def bounds(value: float | None, span: Span, n: int) -> Estimate:
    """Worst-case bounds as an estimate: `low` and `high` are no confidence interval, so they have no level."""
    return Estimate(value=value, low=span[0], high=span[1], n=n, method=BOUNDS, convention=CONVENTION)
