"""Expressions over rows: strict, pure, compiled once, and errors that name what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from judgerun.table.expression import Expression, ExpressionError


@dataclass(frozen=True)
class Solve:
    value: int
    reply: str


SCOPE: dict[str, Any] = {
    "tier": "hard",
    "score": "7.5",
    "blank": None,
    "solve": Solve(value=7, reply="so 7"),
    "pairs": {"role": "positive", "items": [1, 2]},
    "candidates": [{"id": "d1"}, {"id": "d2"}],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tier", "hard"),
        ("solve.value >= 6 and tier != 'skip'", True),
        ("solve.reply + '}}'", "so 7}}"),
        ("score|float > 7", True),
        ("score|float|int", 7),
        ("pairs.items", [1, 2]),
        ("pairs['role']", "positive"),
        ("candidates[1].id", "d2"),
        ("candidates|length", 2),
        ("blank is none", True),
        ("other is defined", False),
        ("other|default('none')", "none"),
        ("'x'|int(0)", 0),
        ("3 if tier == 'hard' else 4", 3),
        ("tier in ['hard', 'easy']", True),
    ],
)
def test_gives_the_value(text: str, value: Any) -> None:
    """An expression gives a Python value of its own type."""
    assert Expression(text).evaluate(SCOPE) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("other", "other"),
        ("other > 3", "other"),
        ("not other", "other"),
        ("other.value", "other"),
        ("solve.finish", "solve.finish"),
        ("pairs.expect == 'x'", "pairs.expect"),
        ("candidates[0].text", "text"),
        ("candidates[7]", "7"),
        ("range(3)", "range"),
    ],
)
def test_a_missing_name_is_named(text: str, name: str) -> None:
    """Wherever a name or an attribute is missing, the error tells which, dotted where the text is."""
    with pytest.raises(ExpressionError) as caught:
        Expression(text).evaluate(SCOPE)
    assert caught.value.name == name
    assert name in str(caught.value)
    assert caught.value.text == text


@pytest.mark.parametrize(
    "text",
    [
        "score > 7",
        "1 / 0",
        "blank + 1",
        "score|int",
        "blank|float",
        "''|float",
        "solve.__class__",
        "tier.title",
        "pairs.clear()",
        "tier if blank",
    ],
)
def test_an_operation_that_fails_is_an_error(text: str) -> None:
    """Wrong types, what is no number, forbidden attributes and methods not called are errors, never a default value."""
    with pytest.raises(ExpressionError) as caught:
        Expression(text).evaluate(SCOPE)
    assert caught.value.name is None


@pytest.mark.parametrize(
    "text",
    ["", "a b", "a ==", "{{ a }}", "a }} {{ b", "a|nofilter", "a|random", "[x for x in y]", "a is notest", "(" * 3],
)
def test_what_is_no_expression_is_refused_at_once(text: str) -> None:
    """Text that is no single expression is a ValueError when it is compiled, not when the first row comes."""
    with pytest.raises(ValueError, match="is no expression"):
        Expression(text)


def test_names_are_what_the_scope_must_bring() -> None:
    """Top-level names only, each once, strings and attributes left out."""
    assert Expression("solve.value >= low and tier != 'skip' and solve.reply").names == {"solve", "low", "tier"}
    assert Expression("3 + 4").names == frozenset()
    assert Expression("range(n)").names == {"range", "n"}


def test_rows_cannot_be_changed() -> None:
    """The sandbox refuses methods that change a value."""
    held = {"rows": [1]}
    with pytest.raises(ExpressionError):
        Expression("rows.append(2)").evaluate(held)
    assert held == {"rows": [1]}


def test_a_text_is_never_the_word_none() -> None:
    """Numbers are texts; a null is none, unless the expression says what it means."""
    assert Expression("n").rendered({"n": 7}) == "7"
    assert Expression("n or ''").rendered({"n": None}) == ""
    with pytest.raises(ExpressionError, match="null"):
        Expression("n").rendered({"n": None})
