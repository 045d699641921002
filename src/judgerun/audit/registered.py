"""What was fixed before the first reply and what was not, and what a person has left out since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Table
from judgerun.audit.words import few
from judgerun.model.registration import Item, Registration, items, registrations, standings


def standing(evidence: Evidence) -> list[Item]:
    """How each question, gate and rule of the experiment stands to what was registered; nothing where nothing was."""
    held = registrations(evidence.books.events, evidence.experiment.name)
    return standings(items(evidence.experiment), held) if held else []


def tables(evidence: Evidence) -> Iterator[Table]:
    """How each question, gate and rule stands, and what was registered when. Of an experiment that was never registered one row."""
    told, held = standing(evidence), registrations(evidence.books.events, evidence.experiment.name)
    named = [(item.name, item.standing, item.why) for item in told]
    yield Table(
        name="registration",
        title="What was fixed before the first reply",
        columns=("item", "standing", "why"),
        rows=tuple(named) or (("every question, gate and rule", "never registered", ""),),
    )
    if held:
        yield Table(
            name="registrations",
            title="Registrations and their amendments",
            columns=("at", "replies", "digest", "items changed", "because"),
            rows=tuple(_row(one, held[place - 1] if place else None) for place, one in enumerate(held)),
            note="How many replies of the experiment were there at each. One that comes after the first reply fixes nothing.",
        )


def _row(one: Registration, before: Registration | None) -> tuple[str, int, str, str, str]:
    was = {} if before is None else before.items
    changed = [name for name in sorted({*was, *one.items}) if was.get(name) != one.items.get(name)]
    at = datetime.fromtimestamp(one.at, UTC).isoformat(sep=" ", timespec="seconds")
    return (at, one.replies, one.digest[:16], "all" if before is None else "; ".join(few(changed)), one.because)


def check_registered(evidence: Evidence) -> Iterator[Finding]:
    """Of an experiment that was registered: questions, gates and rules that are as they were before the first reply are a note;
    those that were changed, added, registered later or dropped are post hoc, a warning that says what changed.
    """
    told = standing(evidence)
    kept = [item.name for item in told if item.standing == "registered"]
    if kept:
        yield Finding(
            check="registered",
            severity="note",
            message=f"{len(kept)} of {len(told)} questions, gates and rules are as registered before the first reply",
            value=len(kept),
            evidence=few(kept),
        )
    late = [item for item in told if item.standing in ("post hoc", "dropped")]
    if late:
        yield Finding(
            check="post hoc",
            severity="warning",
            message=f"{len(late)} questions, gates and rules are not as registered before the first reply",
            value=len(late),
            evidence=few(f"{item.name}: {item.why}" for item in late),
        )


def check_excluded(evidence: Evidence) -> Iterator[Finding]:
    """What a person has left out of every comparison, with the reason; decided when replies were there it is a warning, since the
    decision may rest on them.
    """
    for one in evidence.exclusions:
        yield Finding(
            check="excluded",
            severity="warning" if one.replies else "note",
            message=str(one),
            value=one.replies,
        )
