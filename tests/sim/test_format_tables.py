"""FORMAT sections 1 and 2, the other stages and questions: conditions, ids, what flows on, golds, pairs, folds, what is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.place import Place, lines, stated
from fakes.simulator import Simulator, simulator

COUNTED = ("planned", "done", "failed", "pending", "cached", "shared")
ESTIMATE = ["question", "coords", "value", "low", "high", "n", "level", "method", "convention", "seed", "seal", "note"]
FINDING = {"check", "severity", "condition", "message", "value", "evidence", "waived"}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One simulated provider for all tests of the module."""
    with simulator(tmp_path_factory.mktemp("provider") / "bill.jsonl", seed=1) as running:
        yield running


def estimates(place: Place) -> list[dict[str, Any]]:
    """What the report told."""
    found: list[dict[str, Any]] = json.loads((place.root / "results" / "x" / "estimates.json").read_text())
    assert all(list(one) == ESTIMATE for one in found)
    return found


SOLVED = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "solve"
kind = "solve"
from = "t"
models = ["one"]
prompts = ["s"]
draws = 2
parse = { kind = "json", schema = "s.json", value = "v" }
[[stage]]
name = "grade"
kind = "grade"
from = "solve"
models = ["one", "two"]
prompts = ["g"]
parse = { kind = "json", value = "ok" }
EXTRA
[[stage]]
name = "whole"
kind = "fold"
from = "grade"
over = "solve.draw"
rule = "all"
"""
LONG = "yes " * 400
SOLVE_FILES = {
    # by row: concludes, is cut off, breaks its schema, concludes
    "t.jsonl": lines(
        {"id": "r0", "text": "yes", "own": "o0"},
        {"id": "r1", "text": LONG, "own": "o1"},
        {"id": "r2", "text": "what", "own": None},
        {"id": "r3", "text": "no", "own": "o3"},
    ),
    "s.md": 'Answer as JSON.\n{"type": "object", "properties": {"v": {"const": "{{ text }}"}}}',
    "s.json": json.dumps({"type": "object", "properties": {"v": {"enum": ["yes", "no", LONG]}}}),
    "g.md": "{{ id }} {{ solve.value }} {{ solve.finish }} {{ solve.fallback }}\n" + stated(ok=True),
}


@pytest.mark.parametrize(
    ("extra", "graded", "reasons"),
    [
        ("", (8, 4, 4, 0), {"upstream truncated": 2, "upstream unparsed": 2}),
        ('admit = ["stop", "length"]', (8, 4, 4, 0), {"upstream unparsed": 4}),
        ('missing = "own"', (8, 6, 2, 0), {"upstream unparsed": 2}),
        ("where = \"solve.value != 'no'\"", (6, 2, 4, 0), {"upstream truncated": 2, "upstream unparsed": 2}),
    ],
)
def test_what_flows_on(place: Place, extra: str, graded: tuple[int, int, int, int], reasons: dict[str, int]) -> None:
    """Cells of a grader by what its stage admits, puts in the place of what is missing, and drops; counted before and after."""
    place.write(SOLVED.replace("EXTRA", extra), SOLVE_FILES)
    solve, grades = "solve/one/s@t", [f"grade/{model}/g@solve/one/s@t" for model in ("one", "two")]
    assert place.counts() == dict.fromkeys((solve, *grades), (8, 0, 0, 8))
    ran = place.do("run", fine=(8,)).json  # a quarter of the graders' cells, or more, were never asked
    assert place.counts() == {solve: (8, 8, 0, 0), **dict.fromkeys(grades, graded)}
    held = {one["condition"]: one for one in ran["conditions"]}
    assert (held[solve]["truncated"], held[solve]["unparsed"], held[solve]["concluded"]) == (2, 4, 4)
    assert all(held[name]["reasons"] == reasons for name in grades)
    # the two draws of a grader's row show the same prompt: the second shares the first one's call
    assert all(held[name]["shared"] == graded[1] // 2 for name in grades)
    whole = {row["id"]: row for row in place.rows("stages/whole") if row["at.grade.model"] == "one"}
    assert whole["r0"]["whole.value"] is True
    assert (whole["r2"]["whole.value"], whole["r2"]["whole.incomplete"], whole["r2"]["whole.n"]) == (None, True, 0)
    assert place.do("plan").json["to_send"] == 0


def test_a_small_cap_leaves_the_rest_pending(place: Place) -> None:
    """Stopped by its cap, planned = done + failed + pending holds in every condition, and the rest is bought later."""
    place.write(SOLVED.replace("EXTRA", ""), SOLVE_FILES)
    place.budget('total = "0.0035"\n')
    stopped = place.do("run", fine=(3,)).json
    assert 0 < stopped["cells"]["done"] < 24
    assert stopped["cells"]["pending"] > 0
    assert {name: counts[0] for name, counts in place.counts().items()} == {
        "solve/one/s@t": 8,
        "grade/one/g@solve/one/s@t": 8,
        "grade/two/g@solve/one/s@t": 8,
    }
    place.budget('total = "1"\n')
    quoted = place.do("plan").json
    assert quoted["cells"] == 24
    assert quoted["cells"] == quoted["cached"] + quoted["shared"] + quoted["to_send"] + quoted["failed"]
    for line in quoted["conditions"]:
        assert line["cells"] == line["cached"] + line["shared"] + line["to_send"] + line["failed"], line
        assert float(line["expected_usd"]) <= float(line["worst_usd"]) <= float(line["bound_usd"]), line
    again = place.do("run", fine=(8,)).json
    assert again["cells"]["pending"] == 0


RANKED = """
[data.queries]
path = "q.jsonl"
id = "_id"
[data.corpus]
path = "c.jsonl"
id = "_id"
[gold.easy]
path = "easy.tsv"
[gold.hard]
path = "hard.qrels"
[[stage]]
name = "words"
kind = "retrieve"
method = "bm25"
queries = ["queries.text"]
corpus = "corpus.text"
k = 3
gold = ["easy", "hard"]
metrics = ["hit@1", "hit@3"]
[[stage]]
name = "pick"
kind = "judge"
from = "words"
models = ["one"]
prompts = ["pick"]
orders = ["given", "reversed", "shuffled:2"]
parse = { kind = "choice" }
gold = ["easy", "hard"]
slices = ["tier", "order"]
with.best = { gold = "easy", table = "corpus", rank = 1 }
with.second = { table = "words", rank = 2 }
"""
QUERIES = 4


def ranked_files() -> dict[str, str]:
    """Queries whose own document comes first, and golds that name it (easy) or its neighbour (hard; the last has none)."""
    documents = ({"_id": f"d{n}", "text": f"alpha{n} beta{n} beta{n + 1} beta{n + 2}"} for n in range(QUERIES + 2))
    queries = (
        {"_id": f"q{n}", "text": f"alpha{n} beta{n} beta{n + 1} beta{n + 2}", "tier": "odd" if n % 2 else "even"}
        for n in range(QUERIES)
    )
    return {
        "c.jsonl": lines(*documents),
        "q.jsonl": lines(*queries),
        "easy.tsv": "query-id\tcorpus-id\tscore\n" + "".join(f"q{n}\td{n}\t1\n" for n in range(QUERIES)),
        "hard.qrels": "".join(f"q{n} 0 d{n + 1} 2\n" for n in range(QUERIES - 1)),
        "pick.md": "{{ text }} (not {{ second.id }}, {{ best.id }} of grade {{ best.grade }})\n\n"
        "{% for c in candidates %}{{ loop.index }}. {{ c.text }}\n{% endfor %}\n"
        "Reply with a number from 1 to {{ candidates|length }} and nothing else\n",
    }


def test_choices_are_mapped_back(place: Place) -> None:
    """A choice counts in the ranking's own order whatever was shown, and the ranking with it put first is scored against
    every gold; slices by a field and by a coordinate stand in the audit.
    """
    place.write(RANKED, ranked_files())
    place.do("run")
    ranking = {row["id"]: [c["id"] for c in row["words.candidates"]] for row in place.rows("stages/words")}
    shown = {
        cell["id"]: cell["messages"][0]["content"] for cell in place.do("show", "pick/one/pick/reversed").json["cells"]
    }
    picks = place.rows("stages/pick")
    assert {row["condition"] for row in picks} == {
        f"pick/one/pick/{order}@words@queries" for order in ("given", "reversed", "shuffled:1", "shuffled:2")
    }
    for row in picks:
        ids, value, said = ranking[row["id"]], row["pick.value"], int(row["pick.reply"])
        if row["at.order"] == "given":
            assert value == said
        if row["at.order"] == "reversed":
            assert value == len(ids) + 1 - said
            texts = [
                line.partition(". ")[2] for line in shown[row["id"]].splitlines() if line[:2] in ("1.", "2.", "3.")
            ]
            assert texts == [f"alpha{n} beta{n} beta{n + 1} beta{n + 2}" for n in (int(i[1:]) for i in reversed(ids))]
        number = int(row["id"][1:])
        assert row["pick.easy.hit_1"] == float(ids[value - 1] == f"d{number}")
        expected = float(ids[value - 1] == f"d{number + 1}") if number < QUERIES - 1 else None
        assert row["pick.hard.hit_1"] == expected
        assert row["words.easy.hit_1"] == 1.0
    audit = place.do("audit", fine=(0, 8)).json
    document = json.loads((place.root / "audits" / "x" / "audit.json").read_text())
    assert document["experiment"] == "x"
    assert document["verdict"] == audit["verdict"] in ("pass", "findings")
    assert all(finding.keys() >= FINDING for finding in document["findings"])
    for one in document["conditions"]:
        assert {"n", "finish", "truncated", "empty", "unparsed", "refused", "failed"} <= one.keys()
        assert {"rate", "low", "high"} <= one["truncated"].keys()


def test_pairs_are_mapped_back_and_folded(place: Place) -> None:
    """Pairs are named a~b with the paired coordinate folded; what is said of the one shown first is mapped back, and a judge
    who looks at the texts alone agrees with itself in both orders.
    """
    rows = [(q, s) for q in (1, 2, 3) for s in ("base", "sysA", "sysB") if (q, s) != (3, "sysB")]
    place.write(
        """
[data.answers]
path = "a.csv"
id = "question"
condition = "system"
[[stage]]
name = "match"
kind = "pair"
from = "answers"
by = "id"
of = "system"
against = "base"
[[stage]]
name = "prefer"
kind = "judge"
from = "match"
models = ["one"]
prompts = ["cmp"]
orders = ["ab", "ba"]
parse = { kind = "label", values = ["A", "B", "TIE"] }
[[stage]]
name = "verdict"
kind = "fold"
from = "prefer"
over = "order"
rule = "agree"
otherwise = "TIE"
""",
        {
            "a.csv": "question,system,answer\n" + "".join(f"{q},{s},answer {q} by {s}\n" for q, s in rows),
            "cmp.md": "A: {{ a.answer }}\n\nB: {{ b.answer }}\n\nAnswer with one word only: A or B or TIE\n",
        },
    )
    place.do("run")
    assert place.counts() == {
        f"prefer/one/cmp/{order}@match/{system}~base@answers:-": (n, n, 0, 0)
        for system, n in (("sysA", 3), ("sysB", 2))
        for order in ("ab", "ba")
    }
    swapped = {"A": "B", "B": "A", "TIE": "TIE"}
    for row in place.rows("stages/prefer"):
        said = row["prefer.reply"]
        assert row["prefer.value"] == (said if row["at.order"] == "ab" else swapped[said])
    verdicts = place.rows("stages/verdict")
    assert [(row["condition"], row["id"]) for row in verdicts] == [
        *(("verdict@prefer/one/cmp/-@match/sysA~base@answers:-", n) for n in "123"),
        *(("verdict@prefer/one/cmp/-@match/sysB~base@answers:-", n) for n in "12"),
    ]


LADDER = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "ladder"
kind = "generate"
from = "t"
models = ["one"]
prompts = ["g"]
parse = { kind = "json", schema = "s.json" }
[[stage]]
name = "pairs"
kind = "explode"
from = "ladder"
[[stage.rows]]
each = ["nowhere", "same"]
fields = { role = "positive", want = "yes" }
[[stage.rows]]
each = ["near"]
fields = { role = "negative", want = "no" }
[[stage]]
name = "check"
kind = "judge"
from = "pairs"
models = ["one", "two"]
prompts = ["v"]
draws = 2
parse = { kind = "json", value = "v" }
expect = "pairs.want"
slices = ["pairs.role", "pairs.want", "model"]
[[stage]]
name = "right"
kind = "fold"
from = "check"
over = "draw"
value = "agrees"
rule = "all"
[[stage]]
name = "back"
kind = "fold"
from = "right"
over = "rows"
rule = "list"
[[question]]
name = "agreed"
from = "check"
value = "agrees"
[[question]]
name = "as wanted"
from = "check"
value = "value"
against = "pairs.want"
test = "kappa"
[[question]]
name = "folded"
from = "right"
value = "value"
"""


def ladder_files() -> dict[str, str]:
    """Two sources, each of which gives two rows of one kind and one of another."""
    item = {"type": "object", "properties": {"problem": {"const": "p"}}, "required": ["problem"]}
    schema = {
        "type": "object",
        "properties": {
            "same": {"type": "array", "minItems": 2, "maxItems": 2, "items": item},
            "near": {"type": "array", "minItems": 1, "maxItems": 1, "items": item},
        },
    }
    return {
        "t.jsonl": lines({"id": "r0"}, {"id": "r1"}),
        "g.md": "Write {{ id }}.\nAnswer as JSON.\n" + json.dumps(schema),
        "s.json": json.dumps(schema),
        "v.md": "{{ id }} {{ pairs.problem }}\n" + stated(v="yes"),
    }


def test_rows_explode_and_come_back(place: Place) -> None:
    """Ids of exploded rows, bounds before and counts after, the way back to the source; questions that name what the nearest
    stage shows, and a field of the exploded rows, are answered.
    """
    place.write(LADDER, ladder_files())
    checks = [f"check/{model}/v@pairs@ladder/one/g@t" for model in ("one", "two")]
    assert place.counts() == {"ladder/one/g@t": (2, 0, 0, 2), **dict.fromkeys(checks, (12, 0, 0, 12))}
    place.do("run")
    assert place.counts() == {"ladder/one/g@t": (2, 2, 0, 0), **dict.fromkeys(checks, (12, 12, 0, 0))}
    assert [row["id"] for row in place.rows("stages/pairs")] == [
        f"r{n}/{kind}" for n in range(2) for kind in ("negative.1", "positive.1", "positive.2")
    ]
    back = place.rows("stages/back")
    assert [(row["id"], row["back.value"]) for row in back] == [
        (f"r{n}", [False, True, True]) for _ in range(2) for n in range(2)
    ]
    assert {row["condition"] for row in back} == {f"back@right@{name}" for name in checks}
    place.do("audit", fine=(0, 8))
    place.do("report")
    told = estimates(place)
    agreed = [one for one in told if one["question"] == "agreed"]
    assert [(round(one["value"], 3), one["n"]) for one in agreed] == [(0.667, 6)] * 2
    wanted = [one for one in told if one["question"] == "as wanted"]
    assert {(one["coords"]["condition"], one["n"]) for one in wanted} == {(name, 6) for name in checks}
    assert [(round(one["value"], 3), one["n"]) for one in told if one["question"] == "folded"] == [(0.667, 6)] * 2


def test_a_name_that_no_stage_shows_is_refused(place: Place) -> None:
    """What a fold or a question names must be there when rows come: a fold shows no `agrees`, no stage a slice `value`."""
    for old, new in (
        ('from = "right"\nvalue = "value"', 'from = "right"\nvalue = "agrees"'),
        ('from = "right"\nover = "rows"', 'from = "right"\nvalue = "finish"\nover = "rows"'),
        ('slices = ["pairs.role"', 'slices = ["value"'),
    ):
        assert old in LADDER
        place.write(LADDER.replace(old, new), ladder_files())
        (problem,) = place.do("check", fine=(2,)).problems
        assert "which the rows do not have" in problem


def test_a_column_of_nothing_is_still_written(place: Place) -> None:
    """Where no reply can be read, the exported table has its `value` column all the same."""
    place.write(
        '\n[data.t]\npath = "t.jsonl"\n[[stage]]\nname = "j"\nkind = "judge"\nfrom = "t"\nmodels = ["one"]\nprompts = ["p"]\n'
        'parse = { kind = "json", value = "absent" }\n',
        {"t.jsonl": lines({"id": "r0"}), "p.md": "{{ id }}\n" + stated(v=1)},
    )
    place.do("run", fine=(0, 8))
    (row,) = place.rows("stages/j")
    assert (row["j.value"], row["j.parsed"], row["j.why"]) == (None, False, "no value")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def f(row):\n    raise KeyError('no such')\n", "map: KeyError: 'no such'"),
        ("def f(row):\n    return [1, 2]\n", "map: 2 rows of one, more than rows_max = 1"),
        ("def f(row):\n    return {'id': None, 'value': 1} if row['id'] == 'r0' else 5\n", None),
    ],
)
def test_a_row_that_no_function_made_is_an_error(place: Place, body: str, told: str | None) -> None:
    """What a map could not make is counted as failed below it, is an error of the audit and blocks the seal. An id that is
    null is the row's own."""
    place.write(
        """
[data.t]
path = "t.jsonl"
[[stage]]
name = "m"
kind = "map"
from = "t"
call = "rows:f"
[[stage]]
name = "k"
kind = "judge"
from = "m"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
""",
        {"t.jsonl": lines({"id": "r0"}, {"id": "r1"}), "rows.py": body, "p.md": "{{ id }} {{ value }}\n" + stated(v=1)},
    )
    place.do("run", fine=(0, 8))
    if told is None:
        assert place.counts() == {"k/one/p@m@t": (2, 2, 0, 0)}
        assert [row["id"] for row in place.rows("stages/m")] == ["r0", "r1"]
        return
    assert place.counts() == {"k/one/p@m@t": (2, 0, 2, 0)}
    findings = place.do("audit", fine=(8,)).json["findings"]
    (unmade,) = [one for one in findings if one["check"] == "unmade"]
    assert (unmade["severity"], unmade["condition"], unmade["value"]) == ("error", "m@t", 1.0)
    assert told in unmade["message"]
    place.do("seal", fine=(8,))


AFTER = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "solve"
kind = "solve"
from = "t"
models = ["one", "two"]
prompts = ["p"]
draws = 2
parse = { kind = "json", value = "v" }
[[stage]]
name = "mean"
kind = "fold"
from = "solve"
over = "draw"
rule = "mean"
[[stage]]
name = "k"
kind = "grade"
from = "mean"
models = ["one"]
prompts = ["q"]
where = "solve.lineage == 'north'"
slices = ["solve.model"]
"""


def test_folded_rows_know_whom_they_asked(place: Place) -> None:
    """Behind a fold a stage still shows the model and lineage that all members share; what each was answered is gone, and an
    expression that names it is refused before anything is bought.
    """
    files = {
        "t.jsonl": lines({"id": "r0"}, {"id": "r1"}),
        "p.md": "{{ id }}\n" + stated(v=4),
        "q.md": "{{ id }} {{ mean.value }} {{ solve.model }}\n" + stated(v=1),
    }
    for name in ("solve.reply", "solve.value", "reply"):
        place.write(AFTER, {**files, "q.md": f"{{{{ {name} }}}}\n"})
        (problem,) = place.do("check", fine=(2,)).problems
        assert f"names '{name}', which its rows do not have" in problem
    place.write(AFTER, files)
    place.do("run")
    assert place.counts() == {
        "solve/one/p@t": (4, 4, 0, 0),
        "solve/two/p@t": (4, 4, 0, 0),
        "k/one/q@mean@solve/one/p@t": (2, 2, 0, 0),
        "k/one/q@mean@solve/two/p@t": (0, 0, 0, 0),
    }
    assert {(row["mean.value"], row["solve.model"]) for row in place.rows("stages/k")} == {(4.0, "one")}
