"""Canaries by command: quoted, bought, shown, exported and sealed apart; no number of the real conditions changes."""

from __future__ import annotations

import json
from typing import Any

from fakes.place import Place, lines
from fakes.simulator import Simulator
from judgerun.model.condition import canary_of

TEXT = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "solve"
kind = "solve"
from = "t"
models = ["one"]
prompts = ["solve"]
parse = { kind = "text" }
[[stage]]
name = "grade"
kind = "grade"
from = "solve"
models = ["one", "two"]
prompts = ["grade"]
admit = ["stop", "length"]
parse = { kind = "score", low = 0, high = 10 }
CANARIES
[[stage]]
name = "both"
kind = "fold"
from = "grade"
over = "model"
rule = "mean"
[[question]]
name = "passes"
from = "grade"
value = "value >= 6"
"""
FILES = {
    "t.jsonl": lines(*({"id": f"r{n}", "text": f"task {n}", "reference": f"the answer is {n}"} for n in range(12))),
    "solve.md": "Solve {{ text }}",
    "grade.md": "{{ text }}\nReference: {{ reference }}\nAnswer: {{ reply }}\nGive a score from 0 to 10, the number only.",
}


def written(place: Place, canaries: str) -> None:
    place.write(TEXT.replace("CANARIES", canaries), FILES)


def real(place: Place) -> dict[str, Any]:
    """All that is told of the real conditions."""
    audit = place.do("audit", fine=(0, 8)).json
    place.do("report")
    estimates = json.loads((place.root / "results" / place.name / "estimates.json").read_text())
    return {
        "conditions": audit["conditions"],
        "findings": [f for f in audit["findings"] if not f["check"].startswith(("canary", "spend", "registered"))],
        "estimates": [
            {name: value for name, value in one.items() if name != "seal"}
            for one in estimates
            if "spend" not in one["question"] and not canary_of(str(one["coords"].get("condition", "")))
        ],
        "stages": {stage: place.rows(f"stages/{stage}") for stage in ("solve", "grade", "both")},
    }


def test_canaries_are_bought_apart(place: Place, provider: Simulator) -> None:
    """With canaries the same experiment buys those alone: every rate, finding, estimate and row of the real cells stays."""
    written(place, "")
    place.do("run", "--yes")
    before, calls = real(place), len(provider.rows())
    written(place, "canaries = 0.9")
    quoted = place.do("plan").json
    place.do("run", "--yes")
    bought = len(provider.rows()) - calls
    rows = place.rows("canaries")
    assert bought == quoted["to_send"] == len({row["grade.key"] for row in rows}) > 0
    assert {canary_of(row["condition"]) for row in rows} == {"empty", "reference", "wrong", "shuffled"}
    assert {row["state"] for row in rows} == {"live"}
    assert real(place) == before
    counts = place.counts()
    planted = {name: held for name, held in counts.items() if canary_of(name)}
    assert len(planted) == 8
    assert sum(held[1] for held in planted.values()) == len(rows)
    shown = place.do("show", "grade/one/grade/canary-reference").json["cells"]
    assert shown
    for cell in shown:
        (message,) = cell["messages"]
        answer = message["content"].partition("Answer: ")[2].partition("\n")[0]
        assert f"Reference: {answer}\n" in message["content"]


def test_a_sealed_run_with_canaries_verifies(place: Place) -> None:
    """What canaries were told is sealed with the rest, and is audited from the seal."""
    written(place, "canaries = 0.5")
    place.do("run", "--yes")
    waived = "".join(
        f'[[waiver]]\nexperiment = "x"\ncheck = "{check}"\nbecause = "a simulated judge"\n'
        for check in ("canary", "truncated", "constant")
    )
    (place.root / "audits").mkdir(exist_ok=True)
    (place.root / "audits" / "waivers.toml").write_text(waived)
    place.do("seal")
    place.do("report")
    place.do("verify")
    place.do("audit")
    told = json.loads((place.root / "audits" / "x" / "audit.json").read_text())
    table = next(table for table in told["tables"] if table["name"] == "canaries")
    assert {row["judge"].split("/")[1] for row in table["rows"]} == {"one", "two"}


def test_the_cap_holds_for_canaries(place: Place, provider: Simulator) -> None:
    """They count under the caps of their stage: no call of them is made once its calls are used up."""
    written(place, "canaries = 0.9")
    place.budget('total = "100"\nconfirm_above = "100"\n[calls.stage]\ngrade = 10\n')
    calls = len(provider.rows())
    place.do("run", "--yes", fine=(3,))
    assert len(provider.rows()) - calls <= 12 + 10


def test_check_tells_what_is_left_out(place: Place) -> None:
    """Without a reference that kind is left out with a warning; an expression serves, a join that could mean several texts not."""
    files = {
        **FILES,
        "t.jsonl": FILES["t.jsonl"].replace("reference", "solution"),
        "grade.md": "{{ text }} {{ reply }}",
    }
    place.write(TEXT.replace("CANARIES", "canaries = 0.5"), files)
    warned = place.do("check").json["warnings"]
    assert any("the rows have no reference" in str(one) for one in warned)
    place.write(TEXT.replace("CANARIES", 'canaries = { rate = 0.5, reference = "solution" }'), files)
    assert not any("reference" in str(one) for one in place.do("check").json["warnings"])
    place.write(TEXT.replace("CANARIES", 'canaries = { rate = 0.5, reference = "solutoin" }'), files)
    assert any("solutoin" in problem for problem in place.do("check", fine=(2,)).problems)
    join = 'with.reference = { table = "t" }\ncanaries = 0.5'
    more = {
        **files,
        "t.jsonl": lines({"id": "r0", "ask": "x", "solution": "y"}),
        "solve.md": "{{ ask }}",
        "grade.md": "{{ ask }}",
    }
    place.write(TEXT.replace("CANARIES", join), more)
    assert any("which is the reference?" in problem for problem in place.do("check", fine=(2,)).problems)
