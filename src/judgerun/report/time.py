"""Where the time went: the slot-seconds of each lane by cause, as a section of the page."""

from __future__ import annotations

from judgerun.audit.evidence import Evidence
from judgerun.report.page import Section, Table, Text

SAID = (
    "Minutes of slots (as many as were written for a lane, times the minutes in which a run had it open) over the experiment's "
    "whole life, by what they went to; causes under half a per cent are left out."
)
LEAST = 0.005


def section(evidence: Evidence) -> Section | None:
    """The section; None where no lane spent any time. These numbers are no part of estimates.json."""
    rows = []
    for lane, spent in sorted(evidence.lanes.items()):
        whole = sum(spent.values())
        for cause, seconds in sorted(spent.items(), key=lambda item: (-item[1], item[0])):
            if whole and seconds / whole >= LEAST:
                rows.append((lane, cause, f"{seconds / 60:.1f}", f"{100 * seconds / whole:.1f} %"))
    if not rows:
        return None
    return Section("Where the time went", (Text(SAID), Table(("lane", "cause", "slot-minutes", "share"), tuple(rows))))
