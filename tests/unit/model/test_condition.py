"""Condition names and the keys that match them."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.condition import Condition, Segment, matches

GRADE = Condition(
    (
        Segment("grade", (("model", "gemini-g"), ("prompt", "grade"))),
        Segment("solve", (("model", "ds"), ("prompt", "solve"), ("variant", "gold"))),
        Segment("problems"),
    )
)


def test_a_name_lists_every_segment_from_the_nearest() -> None:
    """The name is stage/model/prompt/variant, then @ and what fed it, down to the data table."""
    assert GRADE.name == "grade/gemini-g/grade@solve/ds/solve/gold@problems"
    assert GRADE.feed is not None
    assert GRADE.feed.name == "solve/ds/solve/gold@problems"


def test_a_data_table_with_conditions_prints_with_a_colon() -> None:
    """A table's condition value stands after a colon."""
    assert Condition((Segment("answers", (("condition", "sysA"),), ":"),)).name == "answers:sysA"


def test_a_folded_coordinate_is_a_dash() -> None:
    """Folding writes a dash where the coordinate stood, in that table only."""
    assert GRADE.fold("solve", "model").name == "grade/gemini-g/grade@solve/-/solve/gold@problems"


def test_a_coordinate_is_that_of_the_nearest_stage() -> None:
    """A coordinate named alone comes from the nearest segment that has it, a named table's from that table."""
    assert GRADE.get("model") == "gemini-g"
    assert GRADE.get("model", "solve") == "ds"
    assert GRADE.get("variant") == "gold"
    assert GRADE.get("order") is None


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("pick", "pick/glm/cot@top", True),
        ("pick/glm", "pick/glm/cot@top", True),
        ("pick/gl", "pick/glm/cot@top", False),
        ("pick/glm/cot", "pick/glm/cot@top", True),
        ("pick/glm/cot@top", "pick/glm/cot@top", True),
        ("pick/glm/cot@to", "pick/glm/cot@top", False),
        ("glm", "pick/glm/cot@top", False),
        ("*", "anything", True),
        ("*/cot@*", "pick/glm/cot@top", True),
        ("*/cot", "pick/glm/cot@top", False),
        ("pick/*/cot@top", "pick/glm/cot@top", True),
        ("", "pick", False),
        ("a*a", "a", False),
    ],
)
def test_keys_match_whole_leading_segments_or_the_whole_name(pattern: str, name: str, expected: bool) -> None:
    """Without a star a key names whole leading segments; with one it must cover the whole name."""
    assert matches(pattern, name) is expected


@given(st.text("ab*/@", max_size=8).filter(lambda text: "*" in text), st.text("ab/@", max_size=10))
def test_a_star_is_any_characters(pattern: str, name: str) -> None:
    """A pattern with stars agrees with a regular expression in which each star is `.*`."""
    regex = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    assert matches(pattern, name) is (regex.fullmatch(name) is not None)
    assert fnmatch.fnmatchcase(name, pattern) is matches(pattern, name)
