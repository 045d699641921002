"""Two sets of estimates side by side: what belongs together, and whether it is apart."""

from __future__ import annotations

from typing import Any

import pytest

from judgerun.model.study import Published
from judgerun.report.beside import beside, printed


def line(value: float | None, low: float | None = None, high: float | None = None, **coords: str) -> dict[str, Any]:
    """A line of estimates.json on the question `share`."""
    return {
        "question": "share",
        "coords": coords,
        "value": value,
        "low": low,
        "high": high,
        "n": 10,
        "seal": None,
        "note": "",
    }


@pytest.mark.parametrize(
    ("first", "second", "standing"),
    [
        (line(0.5), line(0.5), "equal"),
        (line(0.5, 0.4, 0.6), line(0.6), "inside"),
        (line(0.7), line(0.5, 0.4, 0.8), "inside"),
        (line(0.5, 0.4, 0.6), line(0.61, 0.55, 0.9), "apart"),
        (line(0.5, 0.4, 0.6), line(0.7), "apart"),
        (line(0.5), line(0.7), "differs"),
        (line(None), line(0.7, 0.6, 0.8), "not told"),
    ],
)
def test_a_number_is_apart_when_it_lies_in_neither_interval(
    first: dict[str, Any], second: dict[str, Any], standing: str
) -> None:
    """A value inside the interval of either side is no difference; without intervals two values only differ."""
    (found,) = beside([first], [second]).both
    assert found.standing == standing


def test_names_of_conditions_are_left_aside_where_other_coordinates_tell_the_lines_apart() -> None:
    """The same arm under another condition name is the same number; where names alone tell two lines apart they must agree."""
    one, other = line(1, model="a", condition="pick/a@x"), line(2, model="a", condition="pick/a@y")
    assert [held.difference for held in beside([one], [other]).both] == [1]
    held = beside([one, other], [other])
    assert [both.coords["condition"] for both in held.both] == ["pick/a@y"]
    assert held.first == (one,)


def test_what_one_side_alone_tells_is_kept() -> None:
    """Lines without a partner are listed on their side."""
    held = beside([line(1, model="a"), line(2, model="b")], [line(3, model="b"), line(4, model="c")])
    assert ([one["value"] for one in held.first], [one["value"] for one in held.second]) == ([1], [4])
    assert [(one.first["value"], one.second["value"], one.difference) for one in held.both] == [(2, 3, 1)]


def test_printed_numbers_are_lines_with_their_source() -> None:
    """What a paper printed meets the answer of equal question, measure and coordinates."""
    paper = [Published(question="share", measure="yes", coords={"model": "a"}, value=0.4, source="Table 1")]
    (found,) = beside([line(0.5, 0.3, 0.6, model="a", measure="yes")], printed(paper)).both
    assert (found.standing, found.second["note"]) == ("inside", "Table 1")
