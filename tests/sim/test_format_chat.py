"""FORMAT section 2, chat stages: patterns, variants, what is sent, what is refused, what becomes of lost cells."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fakes.place import Place, at_home, lines, stated
from fakes.simulator import Simulator, simulator

ROWS = lines(*({"id": f"r{n}", "text": f"text {n}", "group": "even" if n % 2 == 0 else "odd"} for n in range(4)))
PROMPT = "{{ id }} {{ text }}\n" + stated(v=1)
JUDGE = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p", "q"]
parse = { kind = "json", value = "v" }
"""
FILES = {"t.jsonl": ROWS, "p.md": PROMPT, "q.md": "Q " + PROMPT}


def test_an_arm_that_cannot_be_sent_is_refused(place: Place, provider: Simulator) -> None:
    """A pattern that gives a model a count of thinking tokens where its dialect takes words is refused by check, plan and
    run, which name the arm; nothing is sent.
    """
    place.write(JUDGE + '[stage.at."*/q"]\nthinking = 1000\n', FILES)
    calls = len(provider.rows())
    for command in ("check", "plan", "run"):
        said = place.do(command, fine=(2,))
        assert len(said.problems) == 2
        for model in ("one", "two"):
            told = rf"stage\.j\.at: {model}/q: thinking \(line \d+\): sim does not take 1000"
            assert any(re.search(told, problem) for problem in said.problems)
    assert len(provider.rows()) == calls


def test_a_lost_cell_keeps_its_attempts(place: Place, tmp_path: Path) -> None:
    """A cell that failed after its tries is shown with them, and the exported requests have its key and model; what rests on
    it below was never asked and has none.
    """
    place.write(
        JUDGE + '[[stage]]\nname = "k"\nkind = "judge"\nfrom = "j"\nmodels = ["one"]\nprompts = ["p"]\n'
        "where = \"j.model == 'one' and j.prompt == 'p'\"\n",
        FILES,
    )
    place.budget("[sim]\nattempts_max = 2\n", "lanes.toml")
    with simulator(tmp_path / "bill.jsonl", faults="500=1") as broken:
        at_home(broken.url)
        assert "--limit" in place.do("run", "--limit", "1").json["reason"]
    shown = place.do("show", "--failed").json["cells"]
    asked = [cell for cell in shown if cell["stage"] == "j"]
    assert len(asked) == 4
    for cell in asked:
        assert [one["status"] for one in cell["tries"]] == [500, 500]
        assert cell["messages"]
    requests = [row for row in place.rows("requests") if row["state"] == "failed"]
    assert {row["stage"]: row["key"] is not None for row in requests} == {"j": True, "k": False}
    assert {row["reason"][:16] for row in requests if row["stage"] == "k"} == {"upstream failed:"}
    table = [row for row in place.rows("stages/j") if row["state"] == "failed"]
    assert {(row["j.model"], row["j.prompt"]) for row in table} == {(m, p) for m in ("one", "two") for p in ("p", "q")}


def test_a_stage_shows_its_variant(place: Place) -> None:
    """What check accepts in an expression, `solve.variant`, is there when rows come: the other variant's rows are not planned."""
    place.write(
        """
[data.t]
path = "t.jsonl"
[[stage]]
name = "solve"
kind = "solve"
from = "t"
models = ["one"]
prompts = ["p"]
[stage.variant.none]
[stage.variant.gold]
with.context = { table = "t", by = "id" }
[[stage]]
name = "grade"
kind = "grade"
from = "solve"
models = ["one"]
prompts = ["q"]
where = "solve.variant == 'gold'"
""",
        {**FILES, "p.md": "{{ id }}{% if context %} with {{ context.text }}{% endif %}\n" + stated(v=1)},
    )
    place.do("check")
    place.do("run")
    assert place.counts() == {
        "solve/one/p/none@t": (4, 4, 0, 0),
        "solve/one/p/gold@t": (4, 4, 0, 0),
        "grade/one/q@solve/one/p/none@t": (0, 0, 0, 0),
        "grade/one/q@solve/one/p/gold@t": (4, 4, 0, 0),
    }


def test_a_map_writes_what_its_function_gave(place: Place) -> None:
    """The file of a map stage holds ids and the function's own fields, or `value`; that of another stage its flat rows."""
    place.write(
        """
[data.t]
path = "t.jsonl"
[[stage]]
name = "record"
kind = "map"
from = "t"
call = "rows:record"
write = "records.jsonl"
[[stage]]
name = "number"
kind = "map"
from = "t"
call = "rows:number"
write = "numbers.csv"
[[stage]]
name = "j"
kind = "judge"
from = "record"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
write = "judged/{model}.jsonl"
""",
        {
            **FILES,
            "rows.py": "def record(row):\n    return {'said': row['text'].upper()} if row['group'] == 'odd' else {'n': 2}\n"
            "def number(row):\n    return len(row['text'])\n",
        },
    )
    place.do("run")
    place.do("report")
    results = place.root / "results" / "x"
    records = [json.loads(line) for line in (results / "records.jsonl").read_text().splitlines()]
    assert records == [
        {"id": "r0", "n": 2, "said": None},
        {"id": "r1", "n": None, "said": "TEXT 1"},
        {"id": "r2", "n": 2, "said": None},
        {"id": "r3", "n": None, "said": "TEXT 3"},
    ]
    assert (results / "numbers.csv").read_text() == "id,value\nr0,6\nr1,6\nr2,6\nr3,6\n"
    (first, *_) = map(json.loads, (results / "judged" / "one.jsonl").read_text().splitlines())
    assert (first["id"], first["text"], first["record.n"], first["j.value"]) == ("r0", "text 0", 2, 1)
