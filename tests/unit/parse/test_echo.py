"""Echoes: the prompt repeated is never an answer, and an answer in the prompt's own words is no echo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.experiment import ParseRule
from judgerun.table.echo import Echo, squeeze
from judgerun.table.parse import parse

CHOICE = ParseRule(kind="choice")
RATING = ParseRule(kind="label", values=("1", "2", "3", "4", "5"), between=("[[", "]]"))
RULES = [
    CHOICE,
    ParseRule(kind="choice", marker="FINAL ANSWER:"),
    ParseRule(kind="score", low=0, high=9),
    RATING,
    ParseRule(kind="label", values=("A", "B")),
    ParseRule(kind="label", values=("yes", "no"), take="first"),
    ParseRule(kind="json"),
    ParseRule(kind="text", strip=True),
]
PROMPT = """You are given a problem and ten candidates. Which candidate can be solved by the same idea?

Problem: put a clean mug in the coffee machine
[1] Task: clean some bowl and put it in cabinet.
[2] Task: look at the cup under the desk lamp.
[3] Task: cool some bread and put it on the counter top.

Rate from 1 to 5. Answer strictly in this form, for example: "Rating: [[5]]" and nothing else.
FINAL ANSWER: <number>"""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}-{rule.marker}")
def test_the_whole_prompt_is_an_echo(rule: ParseRule) -> None:
    """A reply that is the prompt again never parses, whatever its white space and case."""
    for reply in (PROMPT, PROMPT + "\n", PROMPT.upper(), " ".join(PROMPT.split())):
        assert not parse(rule, reply, prompt=PROMPT, candidates=10).parsed


@given(st.text(min_size=1), st.sampled_from(RULES))
def test_no_prompt_parses_as_its_own_answer(prompt: str, rule: ParseRule) -> None:
    """Whatever the prompt and the rule: the prompt as the reply is not parsed."""
    assert not parse(rule, prompt, prompt=prompt, candidates=10).parsed


@given(st.data(), st.text(alphabet="aAbß İς.\n\u00a0 "))
def test_a_quote_is_found_whatever_its_white_space_and_case(data: st.DataObject, prompt: str) -> None:
    """A piece stands in the prompt exactly where it does once both are squeezed; any slice of the prompt does."""
    start = data.draw(st.integers(0, len(prompt)))
    end = data.draw(st.integers(start, len(prompt)))
    piece = data.draw(st.sampled_from([prompt[start:end], prompt[start:end].upper(), prompt[start:end][::-1]]))
    stands = Echo(piece, prompt, None).quotes(0, len(piece))
    assert stands == (squeeze(piece) in squeeze(prompt))
    assert stands or piece != prompt[start:end]


@pytest.mark.parametrize(
    ("rule", "reply"),
    [
        (RATING, 'Answer strictly in this form, for example: "Rating: [[5]]" and nothing else.'),
        (RATING, 'for example: "Rating: [[5]]" and'),
        (CHOICE, "[1] Task: clean some bowl and put it in cabinet."),
        (CHOICE, PROMPT[120:]),
        (CHOICE, PROMPT[:400]),
        (CHOICE, "Rate from 1 to 5. Answer strictly in this form"),
        (ParseRule(kind="score", low=1, high=5), "RATE from 1  to 5.\nAnswer strictly in this form"),
    ],
)
def test_a_piece_of_the_prompt_is_an_echo(rule: ParseRule, reply: str) -> None:
    """The prompt's own example, list or range, repeated with the words around it, is an echo."""
    assert parse(rule, reply, prompt=PROMPT, candidates=10).why == "echo"


@pytest.mark.parametrize(
    ("rule", "reply", "value"),
    [
        (CHOICE, "3", 3),
        (CHOICE, "[3]", 3),
        (CHOICE, "Candidate 3", 3),
        (CHOICE, "The best match is [3] Task: cool some bread", 3),
        (RATING, "[[5]]", "5"),
        (RATING, "Rating: [[5]]", "5"),
        (RATING, "The steps differ, yet the idea is the same.\nRating: [[5]]", "5"),
        (RATING, 'For example: "Rating: [[5]]" and nothing else. My rating: [[2]]', "2"),
        (CHOICE, PROMPT + "\n2", 2),
        (ParseRule(kind="choice", marker="FINAL ANSWER:"), PROMPT + "\nI think.\nFINAL ANSWER: 2", 2),
        (ParseRule(kind="choice", marker="FINAL ANSWER:"), "FINAL ANSWER: 2", 2),
    ],
)
def test_an_answer_is_no_echo(rule: ParseRule, reply: str, value: object) -> None:
    """The form that the prompt asks for, an answer after an echo, and an answer that quotes a candidate are answers."""
    assert parse(rule, reply, prompt=PROMPT, candidates=10).value == value


def test_the_bare_form_of_an_example_is_an_answer_for_every_value() -> None:
    """A prompt's example does not make one value less sayable than another."""
    for grade in "12345":
        assert parse(RATING, f"Rating: [[{grade}]]", prompt=PROMPT, candidates=None).value == grade


def test_a_few_short_words_prove_no_echo() -> None:
    """Two short words around the number stand in many prompts by chance."""
    assert parse(CHOICE, "It is 3.", prompt="Say which. It is 3. or it is 4.", candidates=10).value == 3


def test_an_echoed_match_gives_way_to_the_one_before() -> None:
    """The last match that is no echo counts, not merely the last."""
    reply = (
        'My rating: [[2]]. I was told to answer strictly in this form, for example: "Rating: [[5]]" and nothing else.'
    )
    assert parse(RATING, reply, prompt=PROMPT, candidates=None).value == "2"


@given(st.integers(0, len(PROMPT)), st.integers(60, len(PROMPT)))
def test_no_long_piece_of_the_prompt_parses_as_a_rating(start: int, size: int) -> None:
    """Any stretch of the prompt of sixty characters or more gives no rating."""
    piece = PROMPT[start : start + size]
    if len(piece) >= 60:
        assert not parse(RATING, piece, prompt=PROMPT, candidates=None).parsed
