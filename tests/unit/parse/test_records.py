"""JSON and text rules: what is taken as it stands, and what is refused rather than repaired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.experiment import ParseRule
from judgerun.table.parse import parse
from judgerun.table.row import Verdict

SCHEMA = {
    "type": "object",
    "required": ["verdict"],
    "properties": {"verdict": {"enum": ["equivalent", "not_equivalent"]}, "reason": {"type": "string"}},
}
RULE = ParseRule(kind="json", schema=SCHEMA, value=("verdict",))
ANY = ParseRule(kind="json")


def read(text: str, rule: ParseRule = RULE, prompt: str = "") -> Verdict:
    return parse(rule, text, prompt=prompt, candidates=None)


@pytest.mark.parametrize(
    "text",
    [
        '{"verdict": "equivalent"}',
        '\n {"verdict": "equivalent", "reason": "one\\nand the same"} \n',
        '```json\n{"verdict": "equivalent"}\n```',
        '```\n{"verdict": "equivalent"}\n```\n',
        '~~~JSON\n{"verdict": "equivalent"}\n~~~',
        'Here it is:\n\n```json\n{"verdict": "equivalent"}\n```\nThat is all.',
        '{"verdict": "equivalent", "reason": "\\\\frac{1}{2} and \\\\theta"}',
        '{"verdict": "equivalent", "reason": "first\\nThen\\tnow\\rso"}',
    ],
)
def test_reads_a_record(text: str) -> None:
    """A JSON reply, bare or in one code fence, gives the named value."""
    assert read(text) == Verdict(parsed=True, value="equivalent", rule="json/1")


@pytest.mark.parametrize(
    "text",
    [
        "equivalent",
        'Sure: {"verdict": "equivalent"}',
        '{"verdict": "equivalent"} I hope this helps.',
        '{"verdict": "equivalent"',
        "{'verdict': 'equivalent'}",
        '{"verdict": "equivalent",}',
        '{"verdict": "equivalent", "verdict": "not_equivalent"}',
        '{"verdict": "equivalent", "confidence": NaN}',
        '{"verdict": "equivalent", "confidence": -Infinity}',
        '{"verdict": "equivalent", "reason": "\\ud800"}',
        '```json\n{"verdict": "equivalent"}\n```\n```json\n{"verdict": "not_equivalent"}\n```',
        '```json\n{"verdict": "equivalent"}',
        "[" * 100_000,
        '{"n": ' + "9" * 5000 + "}",
        '{"verdict": "equivalent", "reason": "two\nlines"}',
    ],
)
def test_repairs_nothing(text: str) -> None:
    """Prose around JSON, single quotes, doubled keys, numbers that are none and torn JSON are not parsed."""
    assert read(text).why == "not json"


@pytest.mark.parametrize(
    "text", ["{}", "[]", '"equivalent"', '{"verdict": "same"}', '{"verdict": "equivalent", "reason": 3}']
)
def test_the_schema_is_held(text: str) -> None:
    """JSON that does not meet the schema is not parsed."""
    assert read(text).why == "not schema"


LATEX = [
    *("frac", "forall", "beta", "binom", "bar", "mathbf"),
    *(
        "theta",
        "times",
        "tau",
        "text",
        "tan",
        "to",
        "nabla",
        "neq",
        "nu",
        "not",
        "rho",
        "right",
        "rangle",
        "alpha",
        "sum",
        "underline",
    ),
]


@pytest.mark.parametrize("command", LATEX)
def test_latex_that_json_would_swallow_is_told(command: str) -> None:
    """A single backslash before a LaTeX command is refused, whether JSON would fail on it or turn it into a control character."""
    text = f'{{"verdict": "equivalent", "reason": "so $\\{command}{{x}}$ holds"}}'
    assert read(text).why == "latex escape"


@pytest.mark.parametrize("command", LATEX)
def test_doubled_backslashes_are_latex_rightly_written(command: str) -> None:
    """A doubled backslash before a LaTeX command is kept."""
    text = json.dumps({"verdict": "equivalent", "reason": f"so $\\{command}{{x}}$ holds"})
    assert read(text).value == "equivalent"
    assert f"\\{command}" in read(text, ANY).value["reason"]


@pytest.mark.parametrize(
    "after", ["Then", "next", "result", "e) five", "i think", "Note", "the end", "1. one", "- one", "\\n", "\\u00e9"]
)
def test_line_breaks_are_no_latex(after: str) -> None:
    """Newlines, tabs and carriage returns before ordinary words stay what they are."""
    for escape in ("\\n", "\\r\\n", "\\n\\t"):
        assert read(f'{{"verdict": "equivalent", "reason": "one{escape}{after}"}}').parsed, (escape, after)


def test_one_name_gives_its_value_and_several_a_record() -> None:
    """`value` picks by name, dots go inside, no name takes everything, an absent name is not parsed."""
    text = '{"a": 1, "b": {"c": [2]}, "d.e": 3, "n": null}'
    assert read(text, ParseRule(kind="json", value=("a",))).value == 1
    assert read(text, ParseRule(kind="json", value=("b.c",))).value == [2]
    assert read(text, ParseRule(kind="json", value=("d.e",))).value == 3
    assert read(text, ParseRule(kind="json", value=("a", "b.c"))).value == {"a": 1, "b.c": [2]}
    assert read(text, ANY).value == json.loads(text)
    assert read(text, ParseRule(kind="json", value=("n",))) == Verdict(parsed=True, value=None, rule="json/1")
    for absent in ("x", "a.b", "b.x"):
        assert read(text, ParseRule(kind="json", value=(absent,))).why == "no value"


def test_a_schema_is_never_fetched() -> None:
    """A reference to another document is not followed over the network: it is an error of the schema."""
    rule = ParseRule(kind="json", schema={"$ref": "http://127.0.0.1:9/schema.json"})
    with pytest.raises(Exception, match="Unresolvable"):
        read("{}", rule)


def test_a_long_example_repeated_is_an_echo() -> None:
    """A record that repeats a long example of the prompt word for word is no answer; a short one may be right."""
    example = {
        "verdict": "equivalent",
        "reason": "Both problems ask for the same sum, once over squares and once over areas. " * 4,
    }
    prompt = f"Answer in JSON, for example: {json.dumps(example)}"
    assert read(json.dumps(example, indent=1), prompt=prompt.replace("{", "{\n ").replace("}", "\n}")).why == "echo"
    assert read(
        '{"verdict": "equivalent"}', prompt='Answer {"verdict": "equivalent"} or {"verdict": "not_equivalent"}'
    ).parsed


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\b\f\n\r\t")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, st.booleans())
def test_what_json_writes_is_read_back(value: Any, fenced: bool) -> None:
    """Every JSON value without control characters survives writing and reading, fenced or not."""
    text = json.dumps({"v": value}, ensure_ascii=False).replace("\x0c", "").replace("\x08", "")
    text = f"```json\n{text}\n```" if fenced else text
    assert read(text, ParseRule(kind="json", value=("v",))).value == value or "\\" in text


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (ParseRule(kind="text"), ' "a" ', ' "a" '),
        (ParseRule(kind="text", strip=True), " a b\n", "a b"),
        (ParseRule(kind="text", strip=True, unquote=True), ' "a b"\n', "a b"),
        (ParseRule(kind="text", unquote=True), '"a b"', "a b"),
        (
            ParseRule(kind="text", strip=True, unquote=True),
            "\N{LEFT DOUBLE QUOTATION MARK} a \N{RIGHT DOUBLE QUOTATION MARK}",
            "a",
        ),
        (ParseRule(kind="text", unquote=True), '"a" and "b"', '"a" and "b"'),
        (ParseRule(kind="text", unquote=True), '"', '"'),
        (ParseRule(kind="text", unquote=True), "it's", "it's"),
        (ParseRule(kind="text", strip=True, marker="Rewrite:"), "Thinking ...\nRewrite: a b", "a b"),
    ],
)
def test_text(rule: ParseRule, text: str, value: str) -> None:
    """A text is the reply, trimmed and freed of one pair of quotation marks where the rule says so."""
    assert read(text, rule).value == value


def test_a_text_of_nothing_is_empty() -> None:
    """Quotation marks around nothing leave nothing."""
    assert read('" "', ParseRule(kind="text", strip=True, unquote=True)).why == "empty"
