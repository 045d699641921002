"""Tables on screens of any width: nothing is lost, no number is cut."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.cli.columns import GAP, NARROW, layout
from judgerun.cli.words import Words

HEADS = (
    "condition", "planned", "done", "failed", "pending", "cached", "shared", "finish", "truncated", "empty", "unparsed",
    "spend USD",
)  # fmt: skip
ROWS = [
    (f"grade/two/quality@solve/{name}/p", 1000, 999, 1, 0, 0, 12, "length 120 stop 879", 120, 3, 7, "1.234567891")
    for name in ("one", "another", "a-model-with-a-rather-long-name")
]


Draw = Callable[..., str]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Draw:
    """The table on a screen of so many columns."""

    def drawn(width: int, *, title: str | None = None) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        Words(json=False).table(HEADS, ROWS, title=title)
        out = capsys.readouterr().out
        print(out)
        return out

    return drawn


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_a_table_fits_the_screen_with_its_numbers_whole(width: int, draw: Draw) -> None:
    """No line is wider than the screen; each number of each row stands in it; the title is told once."""
    out = draw(width, title="how it stands")
    assert max(map(len, out.splitlines())) <= width
    for number in ("1000", "999", "12", "120", "1.234567891"):
        assert len(re.findall(rf"(?<![\d.]){re.escape(number)}(?![\d.])", out)) >= len(ROWS), number
    assert out.count("how it stands") == 1


def test_a_table_that_fits_is_in_one_piece(draw: Draw) -> None:
    """A line of heads and a line of each row."""
    assert len(draw(200).splitlines()) == 1 + len(ROWS)


@given(
    st.lists(st.tuples(st.integers(1, 90), st.booleans()), min_size=1, max_size=14),
    st.integers(20, 250),
)
def test_every_column_is_drawn_once_and_numbers_are_whole(columns: list[tuple[int, bool]], room: int) -> None:
    """Each piece begins with the first column, the others come once and in order; a piece that is too wide cannot be smaller."""
    widths, texts = [width for width, _ in columns], [text for _, text in columns]
    pieces = layout(widths, texts, room)
    assert [piece[0].number for piece in pieces] == [0] * len(pieces)
    assert [column.number for piece in pieces for column in piece[1:]] == list(range(1, len(columns)))
    for piece in pieces:
        for column in piece:
            assert column.width <= widths[column.number]
            assert texts[column.number] or column.width == widths[column.number]
        if sum(column.width for column in piece) + GAP * (len(piece) - 1) > room:
            assert len(piece) <= 2
            assert all(not texts[column.number] or column.width <= max(NARROW, room // 2) for column in piece)
