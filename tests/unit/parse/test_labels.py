"""Label rules: which word of a reply is the verdict, and when none can be taken at its word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.experiment import ParseRule
from judgerun.table.parse import parse
from judgerun.table.row import Verdict

DRIFT = ParseRule(kind="label", values=("PRESERVED", "DRIFTED", "UNCERTAIN"))
PAIR = ParseRule(kind="label", values=("A", "B"))
BRACKETS = ParseRule(kind="label", values=("A", "B", "C"), between=("[[", "]]"))
YES = ParseRule(kind="label", values=("yes", "no"))
EQUIVALENT = ParseRule(kind="label", values=("equivalent", "not_equivalent"))


def read(rule: ParseRule, text: str, prompt: str = "") -> Verdict:
    return parse(rule, text, prompt=prompt, candidates=None)


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (DRIFT, "DRIFTED", "DRIFTED"),
        (DRIFT, "drifted.", "DRIFTED"),
        (DRIFT, "**Verdict: Preserved**", "PRESERVED"),
        (DRIFT, "First I thought it DRIFTED. But it is PRESERVED.", "PRESERVED"),
        (DRIFT, "The documents do not change, so PRESERVED", "PRESERVED"),
        (DRIFT, "This is not the same question.\nDRIFTED", "DRIFTED"),
        (DRIFT, "It isn't clear; UNCERTAIN", "UNCERTAIN"),
        (DRIFT, "DRIFTED\nPRESERVED", "PRESERVED"),
        (PAIR, "A", "A"),
        (PAIR, "The better one is B.", "B"),
        (PAIR, "A is better", "A"),
        (PAIR, "A good answer is short. B", "B"),
        (PAIR, "**A**", "A"),
        (BRACKETS, "[[A]]", "A"),
        (BRACKETS, "B is better than [[C]], not [[ A ]]", "A"),
        (BRACKETS, "[[A]] was my guess, [[D]] is none, so [[B]]", "B"),
        (YES, "No.", "no"),
        (YES, "No, no", "no"),
        (YES, "Yes, no doubt about it.", "yes"),
        (EQUIVALENT, "not_equivalent", "not_equivalent"),
        (EQUIVALENT, "NOT_EQUIVALENT", "not_equivalent"),
        (EQUIVALENT, "equivalent", "equivalent"),
        (ParseRule(kind="label", values=("not drifted", "drifted")), "It is not\n drifted", "not drifted"),
        (ParseRule(kind="label", values=("0", "1", "10")), "I give 10.", "10"),
        (ParseRule(kind="label", values=("a", "A")), "a", "a"),
        (ParseRule(kind="label", values=("C", "C++")), "It is C++", "C++"),
        (ParseRule(kind="label", values=("PRESERVED", "DRIFTED"), take="first"), "DRIFTED.\nPRESERVED.", "DRIFTED"),
    ],
)
def test_reads_a_label(rule: ParseRule, text: str, value: str) -> None:
    """A label that stands as a whole word, and is neither denied nor disputed, is the verdict, as written in the rule."""
    assert read(rule, text) == Verdict(parsed=True, value=value, rule="label/1")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (DRIFT, "not drifted"),
        (DRIFT, "It's not drifted"),
        (DRIFT, "It is not really DRIFTED."),
        (DRIFT, "It isn't DRIFTED"),
        (DRIFT, "It isn\N{RIGHT SINGLE QUOTATION MARK}t DRIFTED"),
        (DRIFT, "This can never be called DRIFTED"),
        (DRIFT, "hardly a case of DRIFTED"),
        (DRIFT, "DRIFTED: no"),
        (DRIFT, "**DRIFTED**: **No**"),
        (DRIFT, "DRIFTED? No."),
        (DRIFT, "DRIFTED = false"),
        (DRIFT, "PRESERVED or DRIFTED"),
        (DRIFT, "PRESERVED rather than DRIFTED"),
        (DRIFT, "Verdict (PRESERVED / DRIFTED / UNCERTAIN):"),
        (PAIR, "A or B"),
        (PAIR, "A is as good as B"),
        (EQUIVALENT, "not equivalent"),
        (EQUIVALENT, "They are NOT EQUIVALENT."),
        (YES, "yes or no"),
    ],
)
def test_refuses_a_label_that_is_denied_or_disputed(rule: ParseRule, text: str) -> None:
    """A negation before the label, or another label in its sentence, makes the reply ambiguous, never the bare label."""
    verdict = read(rule, text)
    assert (verdict.parsed, verdict.why) == (False, "ambiguous")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (DRIFT, "FAITHFUL"),
        (DRIFT, "undrifted"),
        (DRIFT, "non-drifted"),
        (DRIFT, "DRIFTED_2"),
        (DRIFT, "pre/DRIFTED"),
        (PAIR, "a"),
        (PAIR, "A good answer would be longer."),
        (PAIR, "Answer-A"),
        (PAIR, "ABBA"),
        (BRACKETS, "A"),
        (BRACKETS, "[A]"),
        (BRACKETS, "[[D]]"),
        (BRACKETS, "[[A or B]]"),
        (BRACKETS, "[[a]]"),
        (YES, "There is no doubt"),
        (YES, "yesterday, nothing"),
        (ParseRule(kind="label", values=("0", "1")), "0.5"),
        (ParseRule(kind="label", values=("0", "1")), "10"),
        (ParseRule(kind="label", values=("0", "1")), "1/10"),
        (ParseRule(kind="label", values=("a", "A", "bc")), "BC"),
    ],
)
def test_leaves_what_is_no_label(rule: ParseRule, text: str) -> None:
    """Parts of words, articles, other brackets and other numbers are no labels."""
    assert read(rule, text).why == "no match"


def test_a_marker_cuts_what_came_before() -> None:
    """Labels before the last marker are neither answers nor disputes."""
    rule = ParseRule(kind="label", values=("A", "B"), marker="Verdict:")
    assert read(rule, "A or B, hard to say. Verdict: B").value == "B"
    assert read(rule, "A").why == "no marker"


words = st.sampled_from(
    ["the", "query", "asks", "for", "other", "papers", "so", "verdict", "is", "clearly", "now", "that", "both"]
)


@given(st.lists(words, max_size=12), st.sampled_from(DRIFT.values), st.sampled_from(["", ".", "!", "**", "\n"]))
def test_plain_prose_around_one_label_gives_that_label(before: list[str], label: str, after: str) -> None:
    """Prose without negations or other labels leaves the label as it is."""
    assert read(DRIFT, " ".join([*before, label]) + after).value == label


@given(
    st.sampled_from(["not", "never", "isn't", "is NOT", "cannot be", "doesn't look"]),
    st.lists(words, max_size=2),
    st.sampled_from(DRIFT.values),
)
def test_a_negation_just_before_a_label_never_gives_that_label(negation: str, between: list[str], label: str) -> None:
    """Up to two words between a negation and the label do not hide it."""
    assert not read(DRIFT, " ".join(["It", negation, *between, label])).parsed


@pytest.mark.parametrize(
    "text", ["DRIFTED " * 10_000, "not " * 30_000, "A good. " * 10_000, "no x. " * 10_000, "DRIFTED.\n" * 10_000]
)
@pytest.mark.timeout(10)
def test_long_replies_take_no_long_time(text: str) -> None:
    """Long replies, made to be slow, are read in a moment."""
    for rule in (DRIFT, PAIR, YES):
        assert read(rule, text).rule == "label/1"
