"""Lines of keys: every key of a TOML file is found where it stands."""

from __future__ import annotations

from judgerun.files.lines import find, locate

TEXT = '''\
name = "x"  # [not.a.table]
long = """
[stage]
a = 1
"""
list = [
  "one", # ]
  { k = "]" },
]
"a.b".c = 1

[models."gpt-5.1"]
model = 'm'
[[stage]]
name = "one"
with.key = { table = "t" }
[stage.at."*/long"]
skip = true
[[stage]]
name = "two"
[[stage.rows]]
each = "x"
[[stage.rows]]
each = "y"
'''


def test_keys_stand_where_they_are_written() -> None:
    """Strings over several lines, arrays, dotted and quoted keys and arrays of tables do not mislead."""
    places = locate(TEXT)
    assert places["name",] == 1
    assert places["long",] == 2
    assert places["list",] == 6
    assert places["a.b", "c"] == 10
    assert places["models", "gpt-5.1", "model"] == 13
    assert places["stage", 0, "name"] == 15
    assert places["stage", 0, "with", "key"] == 16
    assert places["stage", 0, "at", "*/long", "skip"] == 18
    assert places["stage", 1, "rows", 0, "each"] == 22
    assert places["stage", 1, "rows", 1, "each"] == 24
    assert ("stage",) not in places
    assert ("a",) not in places


def test_a_key_inside_an_inline_table_stands_with_its_owner() -> None:
    """The longest known beginning of a path is its place; an unknown path has none."""
    places = locate(TEXT)
    assert find(places, ("stage", 0, "with", "key", "table")) == 16
    assert find(places, ("nothing", "here")) is None


def test_one_line_triple_quotes_do_not_swallow_the_rest() -> None:
    """A multi-line string that ends on its own line, escaped quotes and a value after it are read right."""
    places = locate('a = """x \\""" y"""\nb = [ """p\nq""", 1 ]\nc = 1\n')
    assert (places["a",], places["b",], places["c",]) == (1, 2, 4)
