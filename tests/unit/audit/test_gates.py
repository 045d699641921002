"""What the audit says of gates: who is stopped and why, who was let go on, and lengths beyond their limit."""

from __future__ import annotations

from dataclasses import replace

from fakes.evidence import chat, evidence, plain
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.model.event import Event
from judgerun.model.experiment import Gate
from judgerun.table.gate import Fired, reopening, unfired

BOB = "pick/bob/terse@items"
FIRED = Fired(condition=BOB, limit="truncated", why="truncated 9 of 20", items=("q001", "q002")).detail()


def told(*events: tuple[str, str, str | None]) -> Evidence:
    """An experiment whose record holds these events of bob: (kind, detail, experiment)."""
    rows = tuple(Event(n, float(n), kind, BOB, detail, name) for n, (kind, detail, name) in enumerate(events))
    made = evidence(plain)
    return replace(made, books=replace(made.books, events=rows))


def found(given: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(given).findings if finding.check == check]


def test_a_stopped_condition_is_a_warning_with_its_items() -> None:
    """The last word of its gate, with the bad items; gates of other experiments and of older versions say nothing here."""
    (finding,) = found(told(("gate", "in old words", None), ("gate", FIRED, "other"), ("gate", FIRED, "exp")), "gate")
    assert (finding.severity, finding.condition, finding.value) == ("warning", BOB, "truncated")
    assert finding.message.endswith("truncated 9 of 20")
    assert finding.evidence == ("q001", "q002")


def test_a_reopened_condition_is_a_note_with_the_reason() -> None:
    """Each time that it was let go on, by a person or by a run that found it good; it is no longer told as stopped."""
    counts = evidence(plain).counts[1]
    by_hand = reopening("the items are hard, we know", "truncated 9 of 20", counts)
    given = told(
        ("gate", FIRED, "exp"), ("resume", by_hand, "exp"), ("gate", FIRED, "exp"), ("resume", unfired("x"), "exp")
    )
    assert found(given, "gate") == []
    first, second = sorted(found(given, "reopened"), key=lambda finding: finding.evidence)
    assert (first.severity, first.condition, first.evidence) == ("note", BOB, ("truncated 9 of 20",))
    assert first.message.endswith("the items are hard, we know")
    assert second.message.endswith("it is within its gate now")


def test_lengths_beyond_their_limit_are_an_error() -> None:
    """By the point rate over the replies that told their output, as for the other shares."""
    made = evidence(plain, stage=chat(gate=Gate(limits={"length": 0.2})))
    counts = tuple(replace(each, length=far, told=30) for each, far in zip(made.counts, (6, 7), strict=True))
    (finding,) = found(replace(made, counts=counts), "length")
    assert (finding.severity, finding.condition, finding.value) == ("error", BOB, 7 / 30)
    assert "7 of 30 replies are far from the expected length" in finding.message
