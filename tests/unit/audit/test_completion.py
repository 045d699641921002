"""Completion checks: limits, failed and pending cells, unknown finishes, differences; planted one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.evidence import FAILED, PENDING, TRUNCATED, Ending, chat, evidence, ids, plain
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.model.experiment import Gate
from judgerun.model.reply import Finish

BOB = "pick/bob/terse@items"
EMPTY = Ending(text=" ", parsed=False)
UNPARSED = Ending(text="perhaps", parsed=False)
REFUSED = Ending(finish=Finish.REFUSAL, finish_raw="refusal", text="I cannot", parsed=False)


def spoilt(ending: Ending, n: int, **more: object) -> Evidence:
    """Forty items; the first `n` of bob's cells end otherwise."""
    bad = set(ids(n))
    return evidence(lambda model, id_, draw: ending if model == "bob" and id_ in bad else Ending(), **more)  # type: ignore[arg-type]


def found(given: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(given).findings if finding.check == check]


def test_a_clean_experiment_has_no_finding() -> None:
    """Where every cell concluded and the books are whole, nothing is said and the verdict is pass."""
    told = audit(evidence(plain))
    assert told.findings == ()
    assert told.verdict == "pass"
    assert [completion.n for completion in told.conditions] == [40, 40]


@pytest.mark.parametrize(
    ("ending", "check", "limit"), [(TRUNCATED, "truncated", 4), (EMPTY, "empty", 0), (UNPARSED, "unparsed", 0)]
)
def test_a_rate_above_its_limit_is_an_error(ending: Ending, check: str, limit: int) -> None:
    """The default limits are 10% truncated, 2% empty, 2% unparsed, on the point rate; at the limit nothing is said."""
    assert found(spoilt(ending, limit), check) == []
    (finding,) = found(spoilt(ending, limit + 1), check)
    assert (finding.severity, finding.condition) == ("error", BOB)
    assert finding.value == (limit + 1) / 40
    assert audit(spoilt(ending, limit + 1)).verdict == "findings"


def test_a_gate_of_its_own_replaces_the_limit() -> None:
    """A stage that says truncated = 0.5 accepts 40%; refused has a limit only where a gate gives one."""
    gate = Gate(limits={"truncated": 0.5, "refused": 0.05})
    assert found(spoilt(TRUNCATED, 16, stage=chat(gate=gate)), "truncated") == []
    assert found(spoilt(TRUNCATED, 21, stage=chat(gate=gate)), "truncated")[0].value == 21 / 40
    assert found(spoilt(REFUSED, 3), "refused") == []
    assert found(spoilt(REFUSED, 3, stage=chat(gate=gate)), "refused")[0].severity == "error"


def test_a_parsed_but_unfinished_reply_is_counted_as_truncated_not_as_unparsed() -> None:
    """A verdict that was read out of a cut reply does not conclude, whatever it says."""
    told = audit(spoilt(TRUNCATED, 8))
    bob = told.conditions[1]
    assert (bob.marks["truncated"], bob.marks["unparsed"], bob.concluded, bob.n) == (8, 0, 32, 40)


def test_failed_cells_are_errors_where_no_gate_allows_them() -> None:
    """One cell without a reply is an error; under a gate with a `failed` limit it is a warning until the limit is passed."""
    (finding,) = found(spoilt(FAILED, 1), "failed")
    assert (finding.severity, finding.evidence) == ("error", ("timed out: 1",))
    gate = chat(gate=Gate(limits={"failed": 0.1}))
    assert found(spoilt(FAILED, 4, stage=gate), "failed")[0].severity == "warning"
    assert found(spoilt(FAILED, 5, stage=gate), "failed")[0].severity == "error"


def test_cells_that_nothing_reached_are_not_called_failed_calls() -> None:
    """A cell whose upstream was truncated is a warning of its own: the cause is judged where it arose."""
    given = spoilt(Ending(state="failed", reason="upstream truncated"), 4)
    assert found(given, "failed") == []
    assert [finding.severity for finding in found(given, "starved")] == ["warning"]
    assert audit(given).verdict == "pass"


def test_pending_cells_are_an_error() -> None:
    """An audit of an unfinished run does not pass."""
    (finding,) = found(spoilt(PENDING, 3), "pending")
    assert (finding.severity, finding.value, finding.condition) == ("error", 3, BOB)


@pytest.mark.parametrize(("n", "severity"), [(1, "error"), (0, None)])
def test_an_unknown_finish_reason_is_a_finding_with_the_providers_own_word(n: int, severity: str | None) -> None:
    """A finish reason never seen before is told with its raw word; above 2% it is an error."""
    ending = Ending(finish=Finish.UNKNOWN, finish_raw="content_overflow")
    findings = found(spoilt(ending, n), "finish")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all("content_overflow" in finding.evidence[0] for finding in findings)


def test_the_words_of_a_finish_are_counted_once_however_many_conditions_a_stage_has() -> None:
    """Three of bob's replies end so, beside another model's condition: the evidence says three, as the message does."""
    (finding,) = found(spoilt(Ending(finish=Finish.UNKNOWN, finish_raw="content_overflow"), 3), "finish")
    assert finding.evidence == ("'content_overflow': 3",)


def test_a_rare_unknown_finish_is_a_warning() -> None:
    """One in a hundred is told, but does not block."""
    bad = set(ids(1))
    given = evidence(
        lambda model, id_, draw: (
            Ending(finish=Finish.UNKNOWN, finish_raw=None) if model == "bob" and id_ in bad else Ending()  # type: ignore[arg-type]
        ),
        n=100,
    )
    assert [finding.severity for finding in found(given, "finish")] == ["warning"]


def test_conditions_that_are_truncated_at_different_rates_are_told() -> None:
    """Two conditions: exact McNemar, paired by id; 8 against 0 of 40 is p = 0.0078."""
    (finding,) = found(spoilt(TRUNCATED, 8, stage=chat(gate=Gate(limits={"truncated": 0.5}))), "difference")
    assert finding.severity == "warning"
    assert finding.value == pytest.approx(2 / 2**8)
    assert found(spoilt(TRUNCATED, 5), "difference") == []


def test_three_conditions_are_compared_by_cochran() -> None:
    """Three conditions: Cochran's Q, with the counts of each as evidence."""
    bad = set(ids(20))
    given = evidence(
        lambda model, id_, draw: TRUNCATED if model == "cyd" and id_ in bad else Ending(),
        stage=chat(("ann", "bob", "cyd")),
    )
    (finding,) = found(given, "difference")
    assert "cochran" in finding.message
    assert "pick/cyd/terse@items: 20 of 40" in finding.evidence


def test_slices_are_counted_apart() -> None:
    """A stage with slices has each value's own counts; a slice above a limit is a warning that names it."""
    told = audit(spoilt(TRUNCATED, 4, stage=chat(slices=("tier",))))
    assert [part.slice for part in told.slices] == [("tier", "easy"), ("tier", "hard")] * 2
    (easy,) = [part for part in told.slices if part.condition == BOB and part.slice == ("tier", "easy")]
    assert (easy.n, easy.marks["truncated"]) == (5, 4)
    (finding,) = [finding for finding in told.findings if finding.check == "truncated"]
    assert (finding.severity, finding.condition) == ("warning", BOB)
    assert "tier is easy" in finding.message
    assert (
        found(spoilt(TRUNCATED, 1, stage=chat(slices=("tier",))), "truncated") == []
    )  # 1 of 5 is not certainly above 10%


def test_cut_inputs_are_counted() -> None:
    """Texts that an embedder cut are a warning with their share."""
    given = evidence(plain)
    counts = (replace(given.counts[0], input_cut=5), given.counts[1])
    (finding,) = found(replace(given, counts=counts), "input cut")
    assert (finding.severity, finding.value) == ("warning", 5 / 40)


def test_a_stage_that_asks_nothing_is_told() -> None:
    """Where no row passes, nothing can fail: a warning with the expression that dropped them."""
    stage = replace(chat(), where="tier == 'none'")
    (finding,) = found(replace(evidence(plain, stage=stage), counts=(), rows={}), "nothing asked")
    assert finding.severity == "warning"
    assert "every row was dropped by where = \"tier == 'none'\"" in finding.message
    assert found(evidence(plain, stage=stage), "nothing asked") == []
