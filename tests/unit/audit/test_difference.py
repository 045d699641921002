"""Differences between the conditions of a stage in how their replies ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.evidence import TRUNCATED, Ending, chat, evidence, ids
from judgerun.analysis.paired import fisher, mcnemar
from judgerun.audit.checks import audit
from judgerun.audit.difference import contrast
from judgerun.audit.evidence import Evidence
from judgerun.model.experiment import Gate

BOB = "pick/bob/terse@items"


def spoilt(n: int, gate: Gate | None = None, models: tuple[str, ...] = ("ann", "bob")) -> Evidence:
    """Forty items; the first `n` replies of bob are truncated."""
    bad = set(ids(n))
    rule = lambda model, id_, draw: TRUNCATED if model == "bob" and id_ in bad else Ending()  # noqa: E731
    return evidence(rule, stage=chat(models, gate=gate))


def test_two_conditions_of_the_same_ids_are_paired() -> None:
    """Exact McNemar over the common ids: nine truncated on one side alone."""
    flags = {id_: place < 9 for place, id_ in enumerate(ids(40))}
    told = contrast("pick", "truncated", {"a": flags, "b": dict.fromkeys(flags, False)})
    assert told.method == "mcnemar exact"
    assert told.p == mcnemar(9, 0).p
    assert (told.pairs[0].paired, told.pairs[0].n, told.pairs[0].counts) == (True, 40, (9, 0))


def test_two_conditions_of_other_ids_are_not_paired() -> None:
    """Fisher's exact test where no id is common."""
    first = {f"a{place}": place < 9 for place in range(40)}
    second = {f"b{place}": False for place in range(30)}
    told = contrast("pick", "truncated", {"a": first, "b": second})
    assert told.method == "fisher exact"
    assert told.p == fisher(9, 31, 0, 30).p
    assert (told.pairs[0].paired, told.pairs[0].n) == (False, 70)


def test_pairs_are_adjusted_by_holm() -> None:
    """Three conditions: Cochran's Q over all, and each pair's p-value adjusted for three pairs."""
    bad = {id_: place < 12 for place, id_ in enumerate(ids(40))}
    none = dict.fromkeys(bad, False)
    told = contrast("pick", "truncated", {"a": bad, "b": none, "c": none})
    assert told.method == "cochran q"
    first, second, third = told.pairs
    assert first.adjusted == second.adjusted == pytest.approx(3 * first.p)
    assert third.adjusted == third.p == 1.0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_the_order_of_conditions_does_not_matter(columns: list[tuple[bool, bool]]) -> None:
    """The same p-value whichever condition is named first; it lies within 0..1."""
    one = {str(place): a for place, (a, _) in enumerate(columns)}
    other = {str(place): b for place, (_, b) in enumerate(columns)}
    told = contrast("s", "empty", {"a": one, "b": other})
    assert told.p == contrast("s", "empty", {"a": other, "b": one}).p
    assert 0 <= told.p <= 1


def test_a_registered_limit_closes_the_gate_of_both_conditions() -> None:
    """With gate.difference = 0.05 a gap of 7.5 points is an error of both conditions, and their comparison is under the banner; at
    the limit nothing is said, and without one nothing is closed.
    """
    gate = Gate(limits={"truncated": 0.5}, difference=0.05)
    told = audit(spoilt(3, gate))
    errors = [finding for finding in told.findings if finding.check == "unequal"]
    assert {finding.condition for finding in errors} == {BOB, "pick/ann/terse@items"}
    assert all(finding.severity == "error" and finding.value == pytest.approx(3 / 40) for finding in errors)
    assert told.gate(BOB)
    assert not audit(spoilt(2, gate)).gate(BOB)
    assert not audit(spoilt(4, replace(gate, difference=None))).gate(BOB)


def test_every_pair_stands_in_the_table() -> None:
    """The table has each pair of conditions, with both counts and p-values."""
    (table,) = [table for table in audit(spoilt(8, models=("ann", "bob", "cyd"))).tables if table.name == "differences"]
    assert [row[:7] for row in table.rows] == [
        ("pick", "truncated", "pick/ann/terse@items", BOB, 40, 0, 8),
        ("pick", "truncated", "pick/ann/terse@items", "pick/cyd/terse@items", 40, 0, 0),
        ("pick", "truncated", BOB, "pick/cyd/terse@items", 40, 8, 0),
    ]
