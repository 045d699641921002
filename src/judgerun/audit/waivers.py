"""Which findings a person has waived; waivers come as values, this module reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from judgerun.audit.finding import Finding
from judgerun.model.waiver import Waiver


def waive(
    findings: Iterable[Finding], waivers: Sequence[Waiver], *, experiment: str, today: date | None = None
) -> tuple[Finding, ...]:
    """The findings, sorted, with the reason of the first waiver that covers each; a note for each waiver of the experiment that
    covers none, so that no stale excuse stays behind unseen, and a warning for each whose last day is over. `today` None: none is.
    """
    lapsed = {waiver for waiver in waivers if today is not None and waiver.lapsed(today)}
    waivers = [waiver for waiver in waivers if waiver not in lapsed]
    used: set[Waiver] = set()
    told: list[Finding] = []
    for finding in findings:
        place = {"experiment": experiment, "check": finding.check, "condition": finding.condition}
        found = [waiver for waiver in waivers if waiver.covers(**place)]
        used.update(found)
        told.append(replace(finding, waived=found[0].because) if found else finding)
    told.extend(
        Finding(
            check="waivers",
            severity="warning",
            condition=waiver.condition,
            message=f"a waiver of {waiver.check!r} held until {waiver.until} and holds no more",
            evidence=(waiver.because,),
        )
        for waiver in sorted(lapsed, key=lambda waiver: (waiver.check, waiver.condition))
        if waiver.experiment == experiment
    )
    told.extend(
        Finding(
            check="waivers",
            severity="note",
            condition=waiver.condition,
            message=f"a waiver of {waiver.check!r} covers no finding",
            evidence=(waiver.because,),
        )
        for waiver in waivers
        if waiver.experiment == experiment and waiver not in used
    )
    return tuple(sorted(told, key=lambda finding: finding.order))
