"""claims: a file of claims, by command."""

from __future__ import annotations

from pathlib import Path

from fakes.place import Place, lines, stated

TEXT = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
[[question]]
name = "ones"
from = "j"
value = "value == 1"
"""
FILES = {
    "t.jsonl": lines(*({"id": f"r{n}", "text": f"thing {n}"} for n in range(8))),
    "p.md": "{{ id }} {{ text }}\n" + stated(v=1),
}
CLAIMS = """
[[percent]]
name = "Table 1"
values = { hit_1 = "9.3", hit_10 = 50.0, other = "9.4" }
of = 118
[[percent]]
name = "Table 2"
file = "table.csv"
column = "share"
of = "n"
[[sum]]
name = "roll-up"
parts = [40, 78]
total = 118
[[change]]
name = "adjectives"
before = 13.6
after = 45.5
change = "18.2"
[[same]]
name = "finished = correct"
a = ["q1", "q2", "q3"]
b = "correct.txt"
[[number]]
name = "ones"
value = "100.0"
run = "x"
question = "ones"
times = 100
[[equal]]
name = "x and y"
runs = ["x", "y"]
but = "models.one.max_output_tokens"
"""


def test_false_claims_are_named(place: Place, tmp_path: Path) -> None:
    """Percentages that no count gives, a change that is another, lists that differ, runs that differ beyond what is said: 8, each
    named; what is true is not.
    """
    place.write(TEXT, FILES)
    other = place.beside("y")
    other.write(TEXT, FILES)
    path = other.folder / "experiment.toml"
    path.write_text(
        path.read_text().replace("max_output_tokens = 300", "max_output_tokens = 200").replace("seed = 5", "seed = 6")
    )
    place.do("run")
    place.do("report")
    claims = tmp_path / "claims.toml"
    claims.write_text(CLAIMS)
    (tmp_path / "table.csv").write_text("system,share,n\na,25.0,8\nb,26.0,8\nc,,8\n")
    (tmp_path / "correct.txt").write_text("q1\nq2\nq4\n")
    said = place.say("claims", str(claims), "--json")
    assert said.code == 8
    wrong = {claim["name"]: claim["wrong"] for claim in said.json["claims"] if claim["wrong"]}
    assert set(wrong) == {
        "Table 1: other",
        "Table 2: table.csv line 3 share",
        "adjectives",
        "finished = correct",
        "x and y",
    }
    assert "only the first: q3; only the second: q4" in wrong["finished = correct"]
    assert "seed: 5 and 6" in wrong["x and y"]
    assert "models.two.max_output_tokens" in wrong["x and y"]
    assert len(said.json["claims"]) == 10


def test_true_claims_end_with_0_and_bad_files_with_2(place: Place, tmp_path: Path) -> None:
    """Nothing false is 0; a misspelt key, a number that is none, a run without numbers: 2, all at once."""
    place.root.mkdir(exist_ok=True)
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('[[sum]]\nname = "s"\nparts = [1, 2]\ntotal = 3\n')
    assert place.say("claims", str(good)).code == 0
    bad.write_text(
        '[[sum]]\nname = "s"\nparts = ["x", 2]\ntotl = 3\n[[percent]]\nname = "p"\nvalues = { a = 1 }\nof = "n"\n'
    )
    refused = place.say("claims", str(bad), "--json")
    assert refused.code == 2
    assert len(refused.problems) >= 3
    bad.write_text('[[number]]\nname = "n"\nvalue = 1\nrun = "nobody"\nquestion = "q"\n')
    assert place.say("claims", str(bad)).code == 2


def test_which_number_is_meant_has_to_be_said(tmp_path: Path) -> None:
    """No question and no keys, both, keys into a run, keys that lead nowhere or to no number, no JSON: each is refused."""
    place = Place(tmp_path)
    (tmp_path / "n.json").write_text('{"a": {"b": 0.5, "c": "x", "d": [0.1]}}')
    (tmp_path / "m.json").write_text("{")
    head = '[[number]]\nname = "n"\nvalue = "0.5"\n'
    claims = tmp_path / "c.toml"
    for text, said in (
        ('file = "n.json"', "it is not said which number"),
        ('file = "n.json"\nquestion = "q"\nat = ["a"]', "it is not said which number"),
        ('file = "n.json"\nquestion = "q"', "holds no estimates"),
        ('run = "x"\nat = ["a"]', "it is not said which number"),
        ('file = "n.json"\nat = ["a", "e"]', "has nothing at 'e'"),
        ('file = "n.json"\nat = ["a", "d", 1]', "has nothing at 1"),
        ('file = "n.json"\nat = ["a", "c"]', "stands no number"),
        ('file = "m.json"\nat = ["a"]', "is no JSON"),
    ):
        claims.write_text(head + text)
        done = place.say("claims", str(claims))
        assert done.code == 2, text
        assert said in done.err, text
    claims.write_text(head + 'file = "n.json"\nat = ["a", "b"]')
    assert place.say("claims", str(claims)).code == 0
