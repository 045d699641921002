"""Choice and score rules: which whole numbers of a reply are answers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.errors import InvariantBroken
from judgerun.model.experiment import ParseRule
from judgerun.table.parse import parse
from judgerun.table.row import Verdict

CHOICE = ParseRule(kind="choice")


def choose(text: str, *, rule: ParseRule = CHOICE, prompt: str = "", candidates: int | None = 10) -> Verdict:
    return parse(rule, text, prompt=prompt, candidates=candidates)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("10", 10),
        (" 7\n", 7),
        ("3.", 3),
        ("(3)", 3),
        ("[3]", 3),
        ("[[3]]", 3),
        ("**3**", 3),
        ("**3**.", 3),
        ("$3$", 3),
        (r"\boxed{3}", 3),
        (r"\(3\)", 3),
        ("Answer:3", 3),
        ("<arg_value>3", 3),
        ("<answer>3</answer>", 3),
        ("Candidate #3", 3),
        ("3\N{EM DASH}because it is the same", 3),
        ("- 3", 3),
        ("The answer is 3!", 3),
        ("First 2, then 5", 5),
        ("Of the 12 candidates, 4", 4),
        ("4, since 11 and 12 do not exist", 4),
        ("1. It differs.\n2. It differs too.\nAnswer: 6", 6),
        ("Score 7, not 3,5", 7),
    ],
)
def test_reads_a_number_that_stands_alone(text: str, value: int) -> None:
    """The last whole number in range that stands alone is the choice."""
    assert choose(text) == Verdict(parsed=True, value=value, rule="choice/1")


@pytest.mark.parametrize(
    "text",
    [
        "None",
        "x3",
        "v3",
        "3rd",
        "3x",
        "a_3",
        "3.5",
        ".5",
        "No.3",
        "1.2.3",
        "3,5",
        "1,000",
        "1'000",
        "1\N{RIGHT SINGLE QUOTATION MARK}000",
        "1 000",
        "1\N{NO-BREAK SPACE}000",
        "1\N{NARROW NO-BREAK SPACE}000 000",
        "-3",
        "\N{MINUS SIGN}3",
        "+3",
        "1-10",
        "1\N{EN DASH}10",
        "10/10",
        "3/10",
        "10:30",
        "2*3",
        "2^3",
        "x^2",
        "7%",
        "7 %",
        "$5",
        "\N{EURO SIGN}5",
        "03",
        "00000003",
        "\N{ARABIC-INDIC DIGIT THREE}",
        "\N{FULLWIDTH DIGIT THREE}",
        "3\N{FULLWIDTH DIGIT THREE}",
        "\N{SUPERSCRIPT THREE}",
        "\N{CIRCLED DIGIT THREE}",
        "1. The first step.\n2. The second step.",
        "1) The first step.\n2) The second step.",
        "  3. because of that",
        "- 3. because of that",
        "**3.** because of that",
        "https://example.org/3/4",
    ],
)
def test_leaves_what_is_part_of_something_else(text: str) -> None:
    """Digits that belong to a word, a decimal, a range, a list marker or another script are no answer."""
    verdict = choose(text)
    assert (verdict.parsed, verdict.value, verdict.why) == (False, None, "no match")


@pytest.mark.parametrize("text", ["0", "11", "I choose 12.", "9" * 5000, "11 12 13"])
def test_numbers_out_of_range_are_told_apart_from_none(text: str) -> None:
    """A reply whose numbers all lie outside the range is not parsed, and says so."""
    assert choose(text).why == "out of range"


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\N{NO-BREAK SPACE}"])
@pytest.mark.parametrize("kind", ["choice", "score", "label", "json", "text"])
def test_an_empty_reply_never_parses(kind: str, text: str) -> None:
    """White space alone is empty under every rule."""
    rule = ParseRule(kind=kind, low=0, high=9, values=("A",))  # type: ignore[arg-type]
    assert choose(text, rule=rule).why == "empty"


def test_take_first() -> None:
    """With take = first the first number in range counts."""
    assert choose("12, 4 or 5", rule=ParseRule(kind="choice", take="first")).value == 4


def test_the_range_of_a_choice_can_be_written() -> None:
    """low and high of the rule stand before the number of candidates."""
    rule = ParseRule(kind="choice", low=0, high=3)
    assert choose("0", rule=rule, candidates=None).value == 0
    assert choose("4", rule=rule).why == "out of range"


def test_a_choice_among_none_is_never_parsed() -> None:
    """Without candidates no number is in range."""
    assert choose("1", candidates=0).why == "out of range"


def test_a_rule_without_a_range_is_our_bug() -> None:
    """Files refuse a choice or score without a range; one that arrives here ends the process."""
    for rule in (CHOICE, ParseRule(kind="score", low=1), ParseRule(kind="score")):
        with pytest.raises(InvariantBroken):
            choose("3", rule=rule, candidates=None)


@pytest.mark.parametrize(
    ("text", "value"), [("-1", -1), ("\N{MINUS SIGN}2", -2), ("I give 1", 1), ("0", 0), ("-2 or -1", -1)]
)
def test_a_score_below_zero(text: str, value: int) -> None:
    """Where the range goes below zero a sign before the digits is read."""
    assert choose(text, rule=ParseRule(kind="score", low=-2, high=2)).value == value


@pytest.mark.parametrize("text", ["1-2", "x-1", "--1", "3/-1"])
def test_a_hyphen_is_not_always_a_sign(text: str) -> None:
    """A hyphen inside a range or a word makes no negative number."""
    assert not choose(text, rule=ParseRule(kind="score", low=-2, high=2)).parsed


def test_the_last_marker_counts() -> None:
    """Only what follows the last marker is read, whatever its case."""
    rule = ParseRule(kind="choice", marker="FINAL ANSWER:")
    assert choose("Final answer: 2? No.\nFINAL ANSWER: 4", rule=rule).value == 4
    assert choose("2, then final answer: 4", rule=rule).value == 4
    assert choose("FINAL ANSWER: 2\nFINAL ANSWER: none", rule=rule).why == "no match"
    assert choose("I say 2", rule=rule).why == "no marker"
    assert choose("2\nFINAL ANSWER: none", rule=rule).why == "no match"
    assert choose("2\nFINAL ANSWER: ", rule=rule).why == "empty"


def test_a_marker_is_text_not_a_pattern() -> None:
    """Signs of regular expressions in a marker mean themselves."""
    rule = ParseRule(kind="choice", marker="[RESULT] (1-5)?")
    assert choose("7 [RESULT] (1-5)? 4", rule=rule).value == 4
    assert choose("R 4", rule=rule).why == "no marker"


@given(st.integers(1, 10), st.text(alphabet=st.characters(exclude_categories=("Nd", "Cs", "No", "Nl")), max_size=60))
def test_a_number_after_free_text_is_read_or_left_never_changed(number: int, before: str) -> None:
    """Text without digits before " N" cannot make another number of it."""
    verdict = choose(f"{before}\n\nAnswer: {number}")
    assert verdict.value == number


@given(st.text(max_size=200), st.integers(0, 12))
def test_a_value_always_lies_in_range_and_stands_in_the_reply(text: str, candidates: int) -> None:
    """Whatever the reply, a parsed choice is in range, and its digits stand in the reply between no other digits."""
    verdict = choose(text, candidates=candidates)
    assert verdict.parsed == (verdict.why == "") == (verdict.value is not None)
    if verdict.parsed:
        assert 1 <= verdict.value <= candidates
        assert re.search(rf"(?<![0-9]){verdict.value}(?![0-9])", text)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_decimals_shares_ranges_and_times_never_parse(left: int, right: int) -> None:
    """Two numbers joined by a sign without blanks are one thing, and not a whole number."""
    for sign in (".", ",", "/", "-", ":", "\N{EN DASH}", "^", "*"):
        assert not choose(f"{left}{sign}{right}", candidates=10**6).parsed, sign


@given(st.integers(1, 10), st.characters(categories=("Lu", "Ll", "Lt", "Lo", "Nd", "Nl", "No")))
def test_digits_beside_letters_or_digits_of_any_script_never_parse(number: int, beside: str) -> None:
    """A letter or a digit of any script beside the digits makes them part of a word."""
    for text in (f"{beside}{number}", f"{number}{beside}", f"x {beside}{number} y"):
        verdict = choose(text)
        longer = re.fullmatch(r"[0-9]", beside) is not None  # 1 beside 0 is the number 10
        assert longer or not verdict.parsed, text


@pytest.mark.parametrize(
    "text", ["1 " * 30_000, "11 " * 30_000, "- " * 40_000, "1. a\n" * 20_000, "1" * 100_000, "9," * 50_000]
)
@pytest.mark.timeout(10)
def test_long_replies_take_no_long_time(text: str) -> None:
    """Replies of a hundred thousand characters, made to be slow, are read in a moment."""
    assert choose(text, prompt="Choose one of these. " * 500).rule == "choice/1"
