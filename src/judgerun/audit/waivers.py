"""Waiver: a person's reason why a finding does not block; handed in as values, this module reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from judgerun.audit.finding import Finding
from judgerun.model.condition import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One row of audits/waivers.toml. `condition` is a key as in budgets (empty: any condition)."""

    experiment: str
    check: str
    because: str
    condition: str = ""

    def covers(self, experiment: str, finding: Finding) -> bool:
        """Whether this waiver speaks of that finding."""
        return (
            self.experiment == experiment
            and self.check == finding.check
            and (not self.condition or matches(self.condition, finding.condition))
        )


def waive(findings: Iterable[Finding], waivers: Sequence[Waiver], *, experiment: str) -> tuple[Finding, ...]:
    """The findings with the reason of the first waiver that covers each; and a note for each waiver that covers none, so
    that no stale excuse stays behind unseen.
    """
    used: set[Waiver] = set()
    told: list[Finding] = []
    for finding in findings:
        found = [waiver for waiver in waivers if waiver.covers(experiment, finding)]
        used.update(found)
        told.append(replace(finding, waived=found[0].because) if found else finding)
    told.extend(
        Finding(
            check="waivers",
            severity="note",
            condition=waiver.condition,
            message=f"a waiver of {waiver.check} covers no finding",
            evidence=(waiver.because,),
        )
        for waiver in waivers
        if waiver.experiment == experiment and waiver not in used
    )
    return tuple(sorted(told, key=lambda finding: finding.order))
