"""FORMAT refused: everything wrong named at once with file, key and what is right, by check, plan and run, before any call."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.place import Place, at_home, lines, stated

GOOD = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
"""
FILES = {"t.jsonl": lines({"id": "r0", "text": "x"}), "p.md": "{{ text }}\n" + stated(v=1)}
KEY = "parse = {"
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty workspace whose provider nobody answers for: a call would fail."""
    at_home(NOWHERE)
    return Place(tmp_path)


def refused(place: Place, text: str, files: dict[str, str] | None = None) -> list[str]:
    """The problems; the three commands name the same ones, end with 2 and leave no cache."""
    place.write(text, {**FILES, **(files or {})})
    told = [place.do(command, fine=(2,)).problems for command in ("check", "plan", "run")]
    assert told[0] == told[1] == told[2]
    assert not (place.root / "cache.db").exists()
    return told[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[data.t]", 'sets = ["a", "b"]\n[set.a]\nhint = "h"\n[data.t]'),
        (KEY, 'lineage = "other"\n' + KEY),
        (KEY, 'lineage = "other"\npanel = 2\n' + KEY),
        (KEY, 'rounds = { max = 24, until = "rows >= 600", carry = "pairs[*].topic", as = "covered" }\n' + KEY),
        ('value = "v" }\n', 'value = "v" }\n[stage.at."round=1"]\nmax_output_tokens = 5\n'),
    ],
    ids=["sets", "lineage", "panel", "rounds", "at round"],
)
def test_what_comes_later_says_so(place: Place, old: str, new: str) -> None:
    """Each construct of section 4 is read, and refused with the word `later`, as its only problem."""
    problems = refused(place, GOOD.replace(old, new, 1))
    assert problems
    assert all("later" in problem for problem in problems)


@pytest.mark.parametrize(
    ("old", "new", "near"),
    [
        (KEY, "rounds = { max = 0 }\n" + KEY, "rounds.max"),
        (KEY, 'rounds = { max = 2, untl = "rows > 3" }\n' + KEY, "'until'"),
        (KEY, "panel = 2\n" + KEY, "panel needs lineage"),
        (KEY, 'lineage = "same"\n' + KEY, "'other'"),
        (KEY, "canaries = 2\n" + KEY, "no share"),
        (KEY, 'canaries = "often"\n' + KEY, "is not a number"),
        (KEY, "canaries = 0.02\n" + KEY, "gives no reply that a canary could replace"),
    ],
)
def test_what_comes_later_is_checked_now(place: Place, old: str, new: str, near: str) -> None:
    """A construct of section 4 that is written wrong is told so already."""
    assert any(near in problem for problem in refused(place, GOOD.replace(old, new, 1)))


def test_everything_is_named_at_once(place: Place) -> None:
    """A misspelt key hides nothing else: not at the top, not in a stage, not below a pattern, not in a question."""
    text = (
        GOOD.replace("[data.t]", "seeds = 3\n[data.t]", 1)
        .replace('from = "t"', 'from = "tt"\ndraw = 2')
        .replace('models = ["one"]', 'models = ["on"]')
        + '[stage.at."two/x"]\ndrws = 1\nmax_output_tokens = 0\n'
        + '[[question]]\nname = "q"\nfrom = "k"\nvalue = "value"\ntest = "mcnemr"\nonli = "all"\n'
    )
    problems = refused(place, text)
    for wrong in (
        "seeds (line 4): unknown key 'seeds' (did you mean 'seed'?)",
        "unknown key 'draw' (did you mean 'draws'?)",
        "there is no table 'tt' (did you mean 't'?)",
        "there is no model 'on' (did you mean 'one'?)",
        "unknown key 'drws' (did you mean 'draws'?)",
        "max_output_tokens",
        "the pattern 'two/x' matches no arm",
        "there is no table 'k'",
        "'mcnemr' is none of its values",
        "unknown key 'onli' (did you mean 'only'?)",
    ):
        assert any(wrong in problem for problem in problems), wrong
    assert all("experiment.toml" in problem for problem in problems)


@pytest.mark.parametrize("name", ["reply", "value", "candidates", "round", "a", "b", "set", "t", "j"])
def test_reserved_names_are_refused_as_fields(place: Place, name: str) -> None:
    """A data field with the name of a stage, a table or a word of the format is refused; `columns` renames it."""
    rows = {"t.jsonl": lines({"id": "r0", "text": "x", name: "y"})}
    (problem,) = refused(place, GOOD, rows)
    assert f"the rows have a field '{name}'" in problem
    place.write(
        GOOD.replace('path = "t.jsonl"', f'path = "t.jsonl"\ncolumns = {{ own = "{name}" }}'), {**FILES, **rows}
    )
    place.do("check")


def test_a_stage_key_below_at_says_where_it_landed(place: Place) -> None:
    """A key of the stage that stands below `[stage.at]` belongs to that table; the message says to move it."""
    (problem,) = refused(place, GOOD + '[stage.at."one"]\nslices = ["text"]\n')
    assert "this key stands below [stage.at.one] and so belongs to it; move it above, into the stage" in problem


FOLDED = (
    GOOD.replace("parse = {", "draws = 3\nparse = {")
    + '[[stage]]\nname = "f"\nkind = "fold"\nfrom = "j"\nover = "draw"\nrule = "majority"\n'
)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            'over = "draw"',
            'over = "order"',
            "'order' is no coordinate of these rows (known: draw, model, prompt, rows)",
        ),
        ('over = "draw"', 'over = "modl"', "'modl' is no coordinate of these rows (did you mean 'model'?)"),
        ('over = "draw"', 'over = "rows"', "no explode upstream made rows (by = a field that groups them)"),
        ('rule = "majority"', 'rule = "mode"', "'mode' is none of its values"),
        ('rule = "majority"', 'rule = "mean"\notherwise = 1', "the rule 'mean' has no otherwise (majority or agree)"),
        ('rule = "majority"', 'rule = "majority"\notherwise = [1]', "[1] is no single value"),
        (
            'rule = "majority"',
            'rule = "mean"\nat_least = 4',
            "a group has 3 at most: every fold would be incomplete (at most 3)",
        ),
        (
            'rule = "majority"',
            'rule = "mean"\nvalue = "textt"',
            "names 'textt', which the rows do not have (did you mean 'text'?)",
        ),
    ],
)
def test_a_fold_that_cannot_be(place: Place, old: str, new: str, told: str) -> None:
    """What a fold is told wrong, with what its rows have; a coordinate that they lack is never offered as the right one."""
    (problem,) = refused(place, FOLDED.replace(old, new, 1))
    assert told in problem


@pytest.mark.parametrize("written", ['"q"', '{ query = 1, document = "d" }', '{ q = "x" }'])
def test_roles_of_an_embedder_are_told(place: Place, written: str) -> None:
    """An input_type that names no roles is one problem, with the two roles."""
    model = f'[models.e]\nprovider = "sim"\nmodel = "m"\ninput_type = {written}\n[data.t]'
    (problem,) = refused(place, GOOD.replace("[data.t]", model, 1))
    assert "models.e.input_type (line 33)" in problem
    assert '{ query = "...", document = "..." }' in problem
