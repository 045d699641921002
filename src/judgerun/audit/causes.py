"""Causes: findings of one check, severity and stage together, so that a fault that hits every condition is read once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from judgerun.audit.finding import Finding

SHOWN = 3
"""So many findings of one cause are read in full; one more is not hidden for the sake of a line that says so."""
_TAIL = re.compile(r"[/@].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cause:
    """Findings that differ in their condition alone: check, severity, stage, and whether they are waived, are the same."""

    findings: tuple[Finding, ...]

    @property
    def shown(self) -> tuple[Finding, ...]:
        """Those to be read: all of a few; of many those of the greatest values, in the order of the audit."""
        if len(self.findings) <= SHOWN + 1:
            return self.findings
        worst = sorted(range(len(self.findings)), key=lambda n: (-_size(self.findings[n]), n))[:SHOWN]
        return tuple(self.findings[n] for n in sorted(worst))

    @property
    def rest(self) -> str:
        """What is not shown, in words; empty where all is."""
        hidden = len(self.findings) - len(self.shown)
        if not hidden:
            return ""
        stage = stage_of(self.findings[0])
        waived = ", waived" * (self.findings[0].waived is not None)
        return f"and {hidden} more{f' in {stage}' if stage else ''}{waived}"


def causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """The findings by cause, each cause where its first finding stood."""
    held: dict[tuple[str, str, str, bool], list[Finding]] = {}
    for one in findings:
        held.setdefault((one.severity, one.check, stage_of(one), one.waived is not None), []).append(one)
    return tuple(Cause(tuple(group)) for group in held.values())


def stage_of(finding: Finding) -> str:
    """The stage of the finding's condition; empty where it concerns the whole experiment."""
    return _TAIL.sub("", finding.condition)


def _size(finding: Finding) -> float:
    return float(finding.value) if isinstance(finding.value, int | float) else 0.0
