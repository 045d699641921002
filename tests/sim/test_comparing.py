"""compare: two runs side by side, a run and a file, a run and its study's paper; by command."""

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
models = ["one", "two"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
[[question]]
name = "ones"
from = "j"
value = "value == 1"
"""
HALF = "{% if id in ('r0', 'r1', 'r2', 'r3') %}" + stated(v=1) + "{% else %}" + stated(v=2) + "{% endif %}"


def files(prompt: str) -> dict[str, str]:
    """Eight rows and a prompt that says what to answer."""
    rows = lines(*({"id": f"r{n}", "text": f"thing {n}"} for n in range(8)))
    return {"t.jsonl": rows, "p.md": "{{ id }} {{ text }}\n" + prompt}


def test_two_runs_stand_side_by_side(place: Place, tmp_path: Path) -> None:
    """Numbers of one question and arm meet, with their change and whether it is more than an interval; a file of the same numbers
    is equal to its run.
    """
    place.write(TEXT, files(stated(v=1)))
    other = place.beside("y")
    other.write(TEXT, files(HALF))
    place.do("run")
    other.do("run")
    place.do("report")
    said = place.say("compare", "x", "y", "--question", "ones", "--json")
    assert said.code == 0
    held = {line["coords"]["model"]: line for line in said.json["lines"] if line["coords"]["measure"] == "mean"}
    assert {model: (line["first"]["value"], line["second"]["value"]) for model, line in held.items()} == {
        "one": (1.0, 0.5),
        "two": (1.0, 0.5),
    }
    assert {line["difference"] for line in held.values()} == {-0.5}
    file = place.root / "results" / "x" / "estimates.json"
    same = place.say("compare", "x", str(file), "--json")
    assert {line["standing"] for line in same.json["lines"]} <= {"equal", "not told"}
    assert (same.json["only_first"], same.json["only_second"]) == ([], [])
    assert "numbers on both sides" in place.say("compare", "x", "y").out


def test_what_cannot_be_compared_is_refused(place: Place, tmp_path: Path) -> None:
    """No study, the paper with itself, a question that is not there, a file of something else: 2, with what would be right."""
    place.write(TEXT, files(stated(v=1)))
    place.do("run")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('[{"question": 3}]')
    for words, message in (
        (("x", "paper"), "has no study whose printed numbers are known"),
        (("paper", "paper"), "compared with itself"),
        (("x", "x", "--question", "twos"), "they share truncated"),
        (("x", str(wrong)), "estimates.json as `judgerun report` writes it"),
        (("x", str(tmp_path / "none.json")), "none.json"),
        (("paper", str(wrong)), "names no study"),
        (("x", "nobody"), "nobody"),
    ):
        done = place.say("compare", *words)
        assert done.code == 2, (words, done.err)
        assert message in done.err
