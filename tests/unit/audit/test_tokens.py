"""Token checks: usage that does not add up, usage that nobody told, and bills against the input bounds they were reserved by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.evidence import Ending, chat, evidence, plain
from judgerun.audit.books import Attempt, Bought
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.ledger.entry import Amount
from judgerun.model.profile import Profile
from judgerun.model.reply import Usage

ANN = "pick/ann/terse@items"
CAP = 300


def spoilt(given: Evidence, spoil: Callable[[Bought], Bought]) -> Evidence:
    """The evidence with each reply of ann's books changed."""
    ann = {attempt.id for attempt in given.books.attempts if attempt.leaf.condition == ANN}
    bought = tuple(spoil(one) if one.attempt in ann else one for one in given.books.bought)
    return replace(given, books=replace(given.books, bought=bought))


def told(given: Evidence, *checks: str) -> list[Finding]:
    """The findings of these checks."""
    return [finding for finding in audit(given).findings if finding.check in checks]


def test_a_usage_that_adds_up_is_no_finding() -> None:
    """Every bucket counts; a provider that reports no total is not judged."""
    usage = Usage(input_fresh=60, cache_read=20, cache_write=12, cache_write_1h=8, output_visible=4, reasoning=6)
    assert not told(spoilt(evidence(plain), lambda b: replace(b, usage=usage, reported_tokens=110)), "usage")
    assert not told(evidence(plain), "usage", "usage unknown", "cost without tokens")


def test_a_usage_that_does_not_add_up_is_a_warning_with_examples() -> None:
    """A token of difference is one: the sums are exact. The condition, the count and both numbers are told."""
    (finding,) = told(spoilt(evidence(plain), lambda b: replace(b, reported_tokens=111)), "usage")
    assert (finding.severity, finding.condition, finding.value) == ("warning", ANN, 40)
    assert len(finding.evidence) == 11
    assert "100 + 10 tokens, the provider says 111" in finding.evidence[0]


def test_an_embedding_adds_up_without_an_output() -> None:
    """An embedding has no output tokens; that its provider does not say so is no doubt."""
    usage = Usage(input_fresh=100)
    whole = spoilt(evidence(plain), lambda b: replace(b, usage=usage, embedding=True, reported_tokens=100))
    assert not told(whole, "usage", "usage unknown")


@pytest.mark.parametrize("usage", [Usage(), Usage(input_fresh=100), Usage(output_visible=10)])
def test_a_usage_that_nobody_told_is_counted(usage: Usage) -> None:
    """Input and output must both be known; nothing is assumed to be 0."""
    (finding,) = told(spoilt(evidence(plain), lambda b: replace(b, usage=usage, cost=None)), "usage", "usage unknown")
    assert (finding.check, finding.severity, finding.value) == ("usage unknown", "warning", 40)


@pytest.mark.parametrize(("asked", "found"), [("off", 1), ("low", 0), (None, 0)])
def test_thinking_that_nobody_asked_for_is_a_warning(asked: str | None, found: int) -> None:
    """Reasoning tokens under `thinking = "off"` are counted; where it was asked for, or left to the provider, not."""
    usage = Usage(input_fresh=100, output_visible=4, reasoning=6)
    given = spoilt(evidence(plain), lambda b: replace(b, usage=usage))
    experiment = given.experiment.remodelled(lambda model: replace(model, thinking=asked))
    findings = told(replace(given, experiment=experiment), "thinking")
    assert len(findings) == found
    for finding in findings:
        assert (finding.severity, finding.condition, finding.value) == ("warning", ANN, 240)


@pytest.mark.parametrize("usage", [Usage(), Usage(input_fresh=0, output_visible=0)])
def test_a_cost_without_tokens_is_a_warning(usage: Usage) -> None:
    """What the provider charged for nothing that it counted."""
    (finding,) = told(
        spoilt(evidence(plain), lambda b: replace(b, usage=usage, reported_cost=5)), "cost without tokens"
    )
    assert (finding.severity, finding.value) == ("warning", 40)


def bounded(*, cap: int | None = CAP, reasoning: str = "inside", by: str = "bytes", bound: int = 200) -> Evidence:
    """Forty bills of ann with 100 input tokens each, on reservations of `bound` and the cap."""
    stage = chat(("ann",))
    stage = replace(stage, arms=tuple(replace(a, model=replace(a.model, max_output_tokens=cap)) for a in stage.arms))
    given = evidence(plain, stage=stage)
    profile = Profile(dialect="openai", adapter="openai/1", reasoning=reasoning)  # type: ignore[arg-type]
    return replace(reserved(given, bound + CAP, by), profiles={"ann": profile})


def reserved(given: Evidence, tokens: int, by: str) -> Evidence:
    """The evidence with other token needs."""

    def changed(attempt: Attempt) -> Attempt:
        need = Amount(nanos=attempt.need.nanos, calls=1, tokens=tokens)
        return replace(attempt, need=need, bound_by=by)

    return replace(given, books=replace(given.books, attempts=tuple(map(changed, given.books.attempts))))


def test_the_tightness_of_a_bound_is_noted_by_what_it_was_known() -> None:
    """Half of the bytes were billed: the note says so, and by what the input was bounded."""
    (finding,) = told(bounded(by="tokens:tokenizer.json"), "input bound", "bound tightness")
    assert (finding.check, finding.severity, finding.value) == ("bound tightness", "note", 0.5)
    assert "40 bills took 0.50" in finding.message
    assert "at most 0.50" in finding.message
    assert finding.message.endswith("bounded by tokens:tokenizer.json")


def test_a_bill_beyond_its_input_bound_is_an_error_even_where_the_whole_hold_was_enough() -> None:
    """100 tokens on a bound of 99: the output's share covered it this time."""
    found = told(bounded(bound=99), "input bound", "overrun")
    assert [(f.check, f.severity, f.value) for f in found] == [("input bound", "error", 40)]
    assert "100 tokens, at most 99 were expected" in found[0].evidence[0]


@pytest.mark.parametrize(("cap", "reasoning"), [(None, "inside"), (CAP, "outside"), (CAP, "unknown")])
def test_a_reservation_by_a_ceiling_tells_no_input_bound(cap: int | None, reasoning: str) -> None:
    """Where only the budget's ceiling bounds the output, the reservation cannot be told apart: nothing is said."""
    assert not told(bounded(cap=cap, reasoning=reasoning, bound=99), "input bound", "bound tightness")


def test_a_batch_of_texts_is_bounded_as_a_whole() -> None:
    """The texts of one embedding call share its reservation, which holds no output."""
    given = reserved(evidence(plain, n=2, stage=chat(("ann",))), 250, "bytes")
    first = replace(given.books.attempts[0], keys=tuple(key for a in given.books.attempts for key in a.keys))
    bought = tuple(replace(b, attempt=1, embedding=True) for b in given.books.bought)
    batch = replace(given, books=replace(given.books, attempts=(first,), bought=bought))
    (finding,) = told(batch, "input bound", "bound tightness")
    assert finding.value == 200 / 250


def test_answers_found_elsewhere_are_noted_by_condition() -> None:
    """Which rule found how many; a condition that has only visible text is not named."""
    given = evidence(
        lambda model, id_, draw: Ending(found="reasoning" if model == "ann" and id_ < "q003" else "content")
    )
    (finding,) = told(given, "answer")
    assert (finding.severity, finding.condition, finding.value) == ("note", ANN, 3 / 40)
    assert finding.evidence == ("content: 37", "reasoning: 3")
