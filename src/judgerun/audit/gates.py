"""What the gates of an experiment did while it ran, and which conditions a person let go on, from the events of its cache."""

from __future__ import annotations

import json
from collections.abc import Iterator

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.table.gate import stopped


def check_gates(evidence: Evidence) -> Iterator[Finding]:
    """A condition that a gate has stopped is a warning, with the items that were bad; each one that was reopened is a note with
    the reason.
    """
    name = evidence.experiment.name
    held = stopped(evidence.books.events, name)
    last = {
        event.subject: event for event in evidence.books.events if event.kind == "gate" and event.experiment == name
    }
    for condition, why in held.items():
        told = json.loads(last[condition].detail)
        yield Finding(
            check="gate",
            severity="warning",
            condition=condition,
            message=f"a gate has stopped it: {why}",
            value=told["limit"],
            evidence=tuple(told["items"]),
        )
    for event in evidence.books.events:
        if event.kind == "resume" and event.experiment == name:
            told = json.loads(event.detail)
            yield Finding(
                check="reopened",
                severity="note",
                condition=event.subject,
                message=f"it went on although a gate had stopped it: {told['because']}",
                evidence=(told["was"],),
            )
