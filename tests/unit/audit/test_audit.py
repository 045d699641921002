"""The audit as a whole: its files, waivers, gate, and that neither order nor repetition changes it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.evidence import TRUNCATED, Ending, chat, evidence, ids, plain
from judgerun.audit.checks import CHECKS, audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Finding, Rate
from judgerun.audit.render import files
from judgerun.model.waiver import Waiver

BOB = "pick/bob/terse@items"


def spoilt() -> Evidence:
    """Bob is truncated in 8 of 40."""
    bad = set(ids(8))
    return evidence(
        lambda model, id_, draw: TRUNCATED if model == "bob" and id_ in bad else Ending(), stage=chat(slices=("tier",))
    )


def test_the_json_has_the_shape_that_other_tools_read() -> None:
    """audit.json: experiment, verdict, findings with all their keys, conditions with every rate and its interval."""
    told = json.loads(files(audit(spoilt()))["audit.json"])
    assert (told["experiment"], told["verdict"]) == ("exp", "findings")
    keys = {"check", "severity", "condition", "message", "value", "evidence", "waived"}
    assert all(set(finding) == keys for finding in told["findings"])
    bob = next(line for line in told["conditions"] if line["condition"] == BOB)
    assert (bob["n"], bob["finish"]) == (40, {"length": 8, "stop": 32})
    for rate in ("truncated", "empty", "unparsed", "refused", "failed"):
        assert set(bob[rate]) == {"count", "n", "rate", "low", "high"}
    assert bob["truncated"]["count"] == 8
    assert bob["truncated"]["low"] < 0.2 < bob["truncated"]["high"]


def test_a_waiver_lets_an_error_stand_and_names_its_reason() -> None:
    """A waived error no longer blocks; the reason is printed."""
    waiver = Waiver(experiment="exp", check="truncated", condition="pick/bob", because="graded cut answers on purpose")
    told = audit(replace(spoilt(), waivers=(waiver,)))
    assert told.verdict == "pass"
    assert {f.waived for f in told.findings if f.check == "truncated"} == {"graded cut answers on purpose"}
    assert b"graded cut answers on purpose" in files(told)["audit.md"]


def test_a_waiver_of_another_experiment_or_condition_changes_nothing() -> None:
    """A waiver covers only what it names; one of this experiment that covers nothing is noted."""
    others = (
        Waiver(experiment="other", check="truncated", because="x"),
        Waiver(experiment="exp", check="truncated", condition="pick/ann", because="x"),
    )
    told = audit(replace(spoilt(), waivers=others))
    assert told.verdict == "findings"
    assert [f.condition for f in told.findings if f.check == "waivers"] == ["pick/ann"]


def test_the_gate_of_a_condition_asks_its_upstream_too() -> None:
    """A grader of truncated answers fails the gate, also where a coordinate of the solver was folded away."""
    finding = Finding(check="truncated", severity="error", condition="solve/ds/s/gold@items", message="m", value=0.5)
    told = Audit(experiment="exp", findings=(finding,), conditions=())
    assert told.gate("grade/g/p@solve/ds/s/gold@items") == (finding,)
    assert told.gate("verdict@solve/-/s/gold@items") == (finding,)
    assert told.gate("solve/ds/s/gold@items") == (finding,)
    assert told.gate("grade/g/p@solve/ds/s/none@items") == ()
    assert told.gate("items") == ()
    assert (
        Audit(experiment="exp", findings=(replace(finding, waived="yes"),), conditions=()).gate(finding.condition) == ()
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_changes_nothing(seed: int) -> None:
    """The same rows in any order give the same bytes."""
    given_ = spoilt()
    rows = list(given_.rows["pick"])
    random.Random(seed).shuffle(rows)
    assert files(audit(replace(given_, rows={"pick": rows}))) == files(audit(given_)), f"seed {seed}"


def test_two_audits_are_byte_identical() -> None:
    """Nothing of the clock or of chance stands in an audit."""
    assert files(audit(spoilt())) == files(audit(spoilt()))


def test_a_waiver_holds_until_its_last_day() -> None:
    """On its last day it still waives; the day after it does not, and that it lapsed is a warning."""
    waiver = Waiver(experiment="exp", check="truncated", because="for now", until=date(2026, 3, 31))
    held = replace(spoilt(), waivers=(waiver,))
    assert audit(replace(held, today=date(2026, 3, 31))).verdict == "pass"
    after = audit(replace(held, today=date(2026, 4, 1)))
    assert after.verdict == "findings"
    (lapsed,) = [finding for finding in after.findings if finding.check == "waivers"]
    assert (lapsed.severity, lapsed.message) == (
        "warning",
        "a waiver of 'truncated' held until 2026-03-31 and holds no more",
    )


def test_an_unsealed_cache_is_called_a_draft() -> None:
    """The page says DRAFT where there is no seal, and names the seal where there is one."""
    sealed = evidence(plain)
    assert b"DRAFT" not in files(audit(sealed))["audit.md"]
    assert b"DRAFT" in files(audit(replace(sealed, seal=None)))["audit.md"]


def test_every_check_says_what_it_proves_and_under_which_names() -> None:
    """The list of checks can be printed: each has a sentence, and no two findings of different checks share a name."""
    names = [name for check in CHECKS for name in check.emits]
    assert len(names) == len(set(names))
    assert all(len(check.proves) > 20 for check in CHECKS)


def test_a_rate_over_nothing_is_unknown() -> None:
    """No cells, no share: None, never 0."""
    assert Rate(0, 0).record() == {"count": 0, "n": 0, "rate": None, "low": None, "high": None}
