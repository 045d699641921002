"""What an audit says: Rate, Finding, Completion, Table and Audit, frozen values; and the one order in which findings stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from judgerun.analysis.intervals import wilson
from judgerun.errors import invariant
from judgerun.model.condition import FOLDED

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
LEVEL = 0.95
"""Confidence level of every interval that an audit prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that an audit saw. `condition` is empty where it concerns the whole experiment; `evidence` names cells,
    attempts, entries or raw words, at most a few of each; `waived` holds the reason of a waiver, or None.
    """

    check: str
    severity: Severity
    condition: str = ""
    message: str
    value: float | int | str | None = None
    evidence: tuple[str, ...] = ()
    waived: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether this finding ends `audit` with exit 8 and forbids a seal: an error that nobody waived."""
        return self.severity == "error" and self.waived is None

    @property
    def order(self) -> tuple[int, str, str, str, tuple[str, ...]]:
        """Errors first, then by check and condition: the order in which findings are printed."""
        return (SEVERITIES.index(self.severity), self.check, self.condition, self.message, self.evidence)

    def record(self) -> dict[str, Any]:
        """The finding as it stands in audit.json."""
        return {
            "check": self.check,
            "severity": self.severity,
            "condition": self.condition or None,
            "message": self.message,
            "value": self.value,
            "evidence": list(self.evidence),
            "waived": self.waived,
        }


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n`, with its Wilson interval at 95%. Nothing is known of a rate over no cells: its share is None."""

    count: int
    n: int

    def __post_init__(self) -> None:
        invariant(0 <= self.count <= self.n, f"a rate of {self.count} in {self.n}")

    @property
    def share(self) -> float | None:
        """The point rate."""
        return self.count / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Low and high Wilson bounds."""
        return wilson(self.count, self.n, level=LEVEL) if self.n else None

    def record(self) -> dict[str, Any]:
        """The rate as it stands in audit.json."""
        low, high = self.interval or (None, None)
        return {"count": self.count, "n": self.n, "rate": self.share, "low": low, "high": high}


RATES = ("truncated", "empty", "unparsed", "refused", "failed")
"""The shares by which a condition is judged; `failed` is over the cells tried, the others over the replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How the cells of one condition, or of one slice of it, ended. `n` counts replies (cells done)."""

    condition: str
    stage: str
    slice: tuple[str, str] | None = None  # (name, value)
    n: int = 0
    failed: int = 0
    pending: int = 0
    cached: int = 0
    shared: int = 0
    concluded: int = 0
    input_cut: int = 0
    finish: Mapping[str, int] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)  # truncated empty unparsed refused, over the replies
    told: int = 0  # replies that told their output, where a gate limits lengths; "length" among the marks is over these
    reasons: Mapping[str, int] = field(default_factory=dict)  # why failed
    escalated: int = 0  # replies that were given under a higher cap
    diverted: int = 0  # replies of a model that stood in

    @property
    def other(self) -> tuple[str, ...]:
        """How many of the replies are to other requests than the condition's own, in words."""
        held = ((self.escalated, "answered under a higher cap"), (self.diverted, "served by another model"))
        return tuple(f"{count} of {self.n} items {what}" for count, what in held if count)

    @property
    def planned(self) -> int:
        """All cells."""
        return self.n + self.failed + self.pending

    @property
    def starved(self) -> int:
        """Failed cells to which nothing came: their upstream failed or was not admitted."""
        return sum(count for reason, count in self.reasons.items() if reason.startswith("upstream"))

    def rate(self, name: str) -> Rate:
        """One of RATES, or `concluded`, `input_cut`, `length`, with its denominator."""
        if name == "failed":
            return Rate(self.failed, self.n + self.failed)
        if name in ("concluded", "input_cut"):
            return Rate(self.concluded if name == "concluded" else self.input_cut, self.n)
        return Rate(self.marks.get(name, 0), self.told if name == "length" else self.n)

    def record(self) -> dict[str, Any]:
        """The condition as it stands in audit.json."""
        told: dict[str, Any] = {"condition": self.condition, "stage": self.stage}
        if self.slice is not None:
            told |= {"slice": self.slice[0], "value": self.slice[1]}
        return told | {
            "planned": self.planned,
            "done": self.n,
            "pending": self.pending,
            "cached": self.cached,
            "shared": self.shared,
            "n": self.n,
            "finish": dict(sorted(self.finish.items())),
            **{name: self.rate(name).record() for name in (*RATES, "concluded", "input_cut")},
            "reasons": dict(sorted(self.reasons.items())),
        }


Cell = str | int | float | None
"""What stands in a table: text, a count, a share or a statistic; money as decimal text; None where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers that an audit lays open beside its findings, right or wrong. `name` is its key in audit.json, `title` its heading,
    `note` says how to read it. Each row is as long as `columns`.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        invariant(
            all(len(row) == len(self.columns) for row in self.rows), f"a row of {self.name} is not as wide as its head"
        )

    def record(self) -> dict[str, Any]:
        """The table as it stands in audit.json."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"name": self.name, "title": self.title, "note": self.note, "rows": rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Everything that an audit says of an experiment."""

    experiment: str
    findings: tuple[Finding, ...]
    conditions: tuple[Completion, ...]
    slices: tuple[Completion, ...] = ()
    tables: tuple[Table, ...] = ()
    seal: str | None = None

    @property
    def blocked(self) -> bool:
        """Whether any error is not waived (exit 8; no seal)."""
        return any(finding.blocks for finding in self.findings)

    @property
    def verdict(self) -> Literal["pass", "findings"]:
        """`findings` when the audit blocks; warnings and notes alone pass."""
        return "findings" if self.blocked else "pass"

    def gate(self, condition: str) -> tuple[Finding, ...]:
        """The unwaived completion errors of a condition and of all conditions that fed it: why a comparison that rests on
        it is not to be trusted. Upstream conditions are the tails of a name after each "@"; a folded coordinate stands for
        all its values.
        """
        parts = condition.split("@")
        tails = [parts[n:] for n in range(len(parts))]
        return tuple(
            finding
            for finding in self.findings
            if finding.blocks
            and finding.check in GATED
            and any(_covers(tail, finding.condition.split("@")) for tail in tails)
        )


def _covers(tail: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a tail of a condition's name, with its folded coordinates, means the condition of these parts."""
    if len(tail) != len(parts):
        return False
    pairs = [(one.split("/"), other.split("/")) for one, other in zip(tail, parts, strict=True)]
    return all(
        len(one) == len(other) and all(a in (b, FOLDED) for a, b in zip(one, other, strict=True))
        for one, other in pairs
    )


GATED = frozenset({*RATES, "finish", "served", "unequal", "pile-up"})
"""Checks whose errors close the gate for comparisons. Pending cells do not: blocks are asked in seeded order, so those that
are missing then are missing at random; the banner of a draft, or of an unfinished seal, speaks of them."""
