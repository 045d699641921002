"""Prompt files: messages, names, and what cannot be one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.errors import Refused
from judgerun.files.expressions import Wrong, of_expression, of_template
from judgerun.files.prompts import read_prompt

OPENERS = ("{{", "{%", "{#")
LINE = (
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)
    .filter(str.strip)
    .filter(lambda line: not any(opener in line for opener in OPENERS))
)
MARKS = ("[system]", "[user]", "[assistant]")


def messages(path: Path, text: str) -> tuple[tuple[str, str], ...]:
    """Role and text of each message of a prompt file with this text."""
    path.write_text(text, encoding="utf-8")
    return read_prompt(path, name="p", file="p.md").prompt.messages


def test_marks_alone_on_a_line_start_messages(tmp_path: Path) -> None:
    """Only a line that is exactly a mark starts a message; line ends around a message belong to the file."""
    text = "[system]\n\nBe brief.\n\n[user]\nSay [user] and\n [assistant]\nor [system].\n"
    assert messages(tmp_path / "p.md", text) == (
        ("system", "Be brief."),
        ("user", "Say [user] and\n [assistant]\nor [system]."),
    )


def test_a_file_without_marks_is_one_user_message(tmp_path: Path) -> None:
    """The whole text, but for line ends at its edges."""
    assert messages(tmp_path / "p.md", "\nHello\n\nthere \n") == (("user", "Hello\n\nthere "),)


@given(
    st.lists(
        st.tuples(st.sampled_from(MARKS), st.lists(LINE.filter(lambda line: line not in MARKS), min_size=1)), min_size=1
    )
)
def test_messages_come_back(tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, list[str]]]) -> None:
    """Whatever stands between marks is the message, in order."""
    text = "\n".join("\n".join([mark, *lines]) for mark, lines in parts)
    found = messages(tmp_path_factory.getbasetemp() / "prompt.md", text)
    assert found == tuple((mark[1:-1], "\n".join(lines)) for mark, lines in parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the prompt is empty"),
        ("Hello\n[user]\nthere", "before the first message"),
        ("[system]\n\n[user]\nthere", "line 1: the system message is empty"),
        ("[user]\nfine\n[assistant]\n{{ a b }}", "p.md: line 4"),
        ("one\ntwo {% if %}", "p.md: line 2"),
        ("{{ text | nofilter }}", "nofilter"),
        ("{% include 'x' %}", "one file"),
    ],
)
def test_a_wrong_prompt_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    """Empty messages, stray text and Jinja2 faults are refused with the line of the file."""
    (tmp_path / "p.md").write_text(text)
    with pytest.raises(Refused) as caught:
        read_prompt(tmp_path / "p.md", name="p", file="p.md")
    assert message in str(caught.value)


def test_names_are_read_from_the_tree(tmp_path: Path) -> None:
    """Free names, their attributes, and names that may be missing are told apart; names bound inside are no names."""
    (tmp_path / "p.md").write_text(
        "[system]\n{% set s = 1 %}{{ s }}{% for c in candidates %}{{ c.text }}{{ loop.index }}{% endfor %}\n"
        "[user]\n{{ solve.reply }} {{ note['text'] }} {{ hint | default('') }} {% if extra is defined %}{{ extra }}{% endif %}"
    )
    uses = read_prompt(tmp_path / "p.md", name="p", file="p.md").uses
    assert uses.names == {"candidates", "solve", "note", "hint", "extra"}
    assert uses.optional == {"hint", "extra"}
    assert uses.attributes == {("solve", "reply"), ("note", "text")}


def test_crlf_is_one_line_end(tmp_path: Path) -> None:
    """A prompt saved on Windows gives the same messages; its digest is that of its own bytes."""
    (tmp_path / "p.md").write_bytes(b"[user]\r\none\r\ntwo\r\n")
    assert read_prompt(tmp_path / "p.md", name="p", file="p.md").prompt.messages == (("user", "one\ntwo"),)


@pytest.mark.parametrize("text", ["", "a b", "a ==", "{{ a }}", "a | nofilter", "1 +"])
def test_what_is_no_expression_is_told(text: str) -> None:
    """An expression is one, and its filters exist."""
    with pytest.raises(Wrong):
        of_expression(text)


def test_an_expression_s_names() -> None:
    """Names and attribute chains of an expression."""
    uses = of_expression("solve.value >= 6 and tier != 'skip' and human|float > x['y']")
    assert uses.names == {"solve", "tier", "human", "x"}
    assert ("solve", "value") in uses.attributes
    assert of_template("no names").names == frozenset()
