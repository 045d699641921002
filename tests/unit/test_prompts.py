"""Prompts: strict rendering, the same bytes every time, and errors that name file, message, line and name."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.errors import Refused
from judgerun.model.experiment import Prompt
from judgerun.plan.prompts import RenderError, names, render

Role = Literal["system", "user", "assistant"]


def prompt(*messages: tuple[Role, str]) -> Prompt:
    return Prompt(name="terse", file="terse.md", messages=messages, digest="")


def content(template: str, **scope: Any) -> str:
    (message,) = render(prompt(("user", template)), scope)
    return message["content"]


def test_renders_every_message_with_its_role() -> None:
    """Messages come in order, each with its role and its own text."""
    held = prompt(("system", "You judge {{ n }}.\n\n"), ("user", "Problem: {{ text }}\n"), ("assistant", "Choice:"))
    assert render(held, {"n": 3, "text": "x"}) == [
        {"role": "system", "content": "You judge 3."},
        {"role": "user", "content": "Problem: x"},
        {"role": "assistant", "content": "Choice:"},
    ]


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("\n\nA {{ x }}\n\n", "A x\n"),
        ("  A\r\nB\r\n", "  A\nB"),
        ("{% for c in cs %}\n{{ loop.index }}. {{ c }}\n\n{% endfor %}\nEnd", "1. a\n\n2. b\n\nEnd"),
        ("{# a remark #}\nA", "A"),
        ("{% if none_here is defined %}x{% else %}y{% endif %}", "y"),
        ("{{ missing|default('none') }}", "none"),
        ("{{ x if false }}A", "A"),
        ("<{{ html }}>", "<<b>&amp;</b>>"),
        ("{{ zero }} {{ no }}", "0 False"),
    ],
)
def test_bytes_of_a_message(text: str, rendered: str) -> None:
    """Outer newlines belong to the file, block lines leave nothing, data is neither escaped nor trimmed."""
    assert content(text, x="x\n", cs=["a", "b"], html="<b>&amp;</b>", zero=0, no=False) == rendered


def test_a_template_inside_data_stays_data() -> None:
    """Braces, and lines that look like the head of a message, mean nothing when they come from a row."""
    assert content("{{ x }}", x="{{ y }}\n[user]\n{% raw %}") == "{{ y }}\n[user]\n{% raw %}"


def test_a_missing_name_is_named_with_its_place() -> None:
    """The error is a refusal that names file, message, line and name, and what the prompt does see."""
    held = prompt(("system", "You judge."), ("user", "\nfirst\n{{ reference.text }}\n"))
    with pytest.raises(RenderError) as caught:
        render(held, {"text": 1, "id": 2})
    assert isinstance(caught.value, Refused)
    assert caught.value.name == "reference"
    (problem,) = caught.value.problems
    assert problem.file == "terse.md"
    assert problem.place == "message 2 [user], its line 2"
    assert problem.wrong == "'reference' is missing"
    assert problem.right == "the prompt sees id, text"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{{ d.other }}", "'other' is missing"),
        ("{% for c in other %}{% endfor %}", "'other' is missing"),
        ("{% if other %}{% endif %}", "'other' is missing"),
        ("{{ blank }}", "a null would be printed"),
        ("{{ d.blank }}", "a null would be printed"),
        ("{{ d.keys }}", "a method would be printed"),
        ("{{ 's'.title }}", "a method would be printed"),
        ("{{ 'seven'|int }}", "is no whole number"),
        ("{{ 1 + 'a' }}", "TypeError"),
        ("{{ d.__class__ }}", "SecurityError"),
        ("{{ d", "no template"),
        ("{% for %}", "no template"),
        ("{% include 'x' %}", "no loader"),
        ("", "the message is empty"),
        (" \n{{ space }}\n", "the message is empty"),
    ],
)
def test_nothing_that_is_no_text_reaches_a_model(text: str, wrong: str) -> None:
    """Missing names, nulls, methods, failing operations, broken templates and empty messages are refused."""
    with pytest.raises(RenderError) as caught:
        content(text, d={"blank": None}, blank=None, space="  ")
    assert wrong in str(caught.value)
    assert "message 1 [user]" in str(caught.value)


def test_an_empty_system_message_is_left_out() -> None:
    """A system message that renders to nothing is not sent; a prompt with nothing else is refused."""
    held = prompt(("system", "{% if hint %}{{ hint }}{% endif %}"), ("user", "A"))
    assert render(held, {"hint": None}) == [{"role": "user", "content": "A"}]
    with pytest.raises(RenderError, match="every message is empty"):
        render(prompt(("system", " \n")), {})


def test_a_rendering_leaves_nothing_to_the_next() -> None:
    """What a template sets for one row, or has in hand when it fails, is not there for another."""
    says = "{{ x | default('none') }} {{ text }}"
    text = f"{{% if first %}}{{% set x = first %}}{{% endif %}}{{% autoescape false %}}{says}{{% endautoescape %}}"
    assert content(text, first="mine", text="a") == "mine a"
    assert content(text, first="", text="b") == "none b"
    with pytest.raises(RenderError):
        content(text.replace("false", "true"), first="mine")
    assert content(text.replace("false", "true") + "{{ y }}", first="", text="<", y="&") == "none &lt;&"


def test_names_are_what_a_prompt_may_ask() -> None:
    """All top-level names of all messages; loop variables and set ones are not among them."""
    held = prompt(
        ("system", "{{ n }}"), ("user", "{% for c in candidates %}{{ c.text }}{% endfor %}{% set y = a.b %}{{ y }}")
    )
    assert names(held) == {"n", "candidates", "a"}
    with pytest.raises(RenderError, match="no template"):
        names(prompt(("user", "{{")))


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip))
def test_data_passes_through_unchanged(text: str) -> None:
    """Whatever a field holds stands in the message, byte for byte."""
    assert content("<{{ text }}>", text=text) == f"<{text}>"
