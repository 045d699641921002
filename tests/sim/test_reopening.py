"""Gates by command on the simulated provider: each limit stops its condition, people are told why, and resume lets it go on."""

from __future__ import annotations

import json

import pytest

from fakes.place import Place, lines, stated
from fakes.simulator import Simulator

ROWS = 60
TEXT = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "pick"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p", "q"]
parse = { kind = "text" }
output_tokens_expected = 20
gate = { GATE, after = 20 }
[stage.at."one/p"]
WORSE
[[stage]]
name = "grade"
kind = "grade"
from = "pick"
models = ["two"]
prompts = ["g"]
admit = ["stop", "length"]
parse = { kind = "text" }
"""
ANSWER = stated(v="a value of some ten tokens or a few more, so that a small cap cuts it")
FILES = {
    "t.jsonl": lines(*({"id": f"r{n}"} for n in range(ROWS))),
    "p.md": "{{ id }}\n" + ANSWER,
    "q.md": "Q {{ id }}\n" + ANSWER,
    "g.md": "Grade {{ id }} {{ pick.model }} {{ pick.prompt }} {{ pick.reply }}\n" + stated(v=1),
}
BAD, GRADED = "pick/one/p@t", "grade/two/g@pick/one/p@t"


def write(place: Place, gate: str, worse: str = "max_output_tokens = 5") -> None:
    """The experiment with a gate, whose condition pick/one/p goes bad."""
    place.write(TEXT.replace("GATE", gate).replace("WORSE", worse), FILES)
    place.budget("[sim]\nconcurrency = 4\n", "lanes.toml")


def gates(place: Place) -> dict[str, str]:
    """What `status` says of each condition that is stopped."""
    told = place.do("status").json["conditions"]
    return {one["condition"]: one["gate"] for one in told if one["gate"] is not None}


@pytest.mark.parametrize(
    ("gate", "worse", "limit"),
    [
        ("truncated = 0.2", "max_output_tokens = 5", "truncated"),
        ("difference = 0.2", "max_output_tokens = 5", "difference"),
        ("length = 0.2", "output_tokens_expected = 2", "length"),
        ("cost = 1.2", "output_tokens_expected = 1", "cost"),
    ],
)
def test_each_limit_stops_its_condition_alone(
    place: Place, provider: Simulator, gate: str, worse: str, limit: str
) -> None:
    """The condition and its grader stop, the others finish, the run ends with 7, and status, run and audit say why."""
    write(place, gate, worse)
    ran = place.do("run", fine=(7,))
    assert f"gate of {BAD}" in ran.json["reason"]
    counts = place.counts()
    assert 20 <= counts[BAD][1] < ROWS
    assert {name: done for name, (_, done, _, _) in counts.items() if name not in (BAD, GRADED)} == dict.fromkeys(
        (name for name in counts if name not in (BAD, GRADED)), ROWS
    )
    told = gates(place)
    assert set(told) == {BAD, GRADED} == {one["condition"] for one in ran.json["conditions"] if one["gate"]}
    assert told[GRADED] == f"{BAD}, upstream: {told[BAD]}"
    assert f"stopped by a gate: pick/one/p: {told[BAD]}" in place.say("status", "x").out
    place.do("audit", fine=(8,))
    audit = json.loads((place.root / "audits" / "x" / "audit.json").read_text())
    (finding,) = [each for each in audit["findings"] if each["check"] == "gate"]
    assert (finding["condition"], finding["value"]) == (BAD, limit)
    assert told[BAD] in finding["message"]
    assert 1 <= len(finding["evidence"]) <= 10
    sent = len(provider.rows())
    assert place.do("run", fine=(7,)).json["cells"] == ran.json["cells"]
    assert len(provider.rows()) == sent, "a rerun judges from the cache before it sends"


def test_a_reopened_condition_goes_on_by_what_comes_after(place: Place) -> None:
    """It is judged anew, stops again while it stays bad, and is done in the end; each reason stands in the audit."""
    write(place, "truncated = 0.2")
    place.do("run", fine=(7,))
    reasons: list[str] = []
    while BAD in gates(place):
        before = place.counts()[BAD][1]
        reasons.append(f"reason {len(reasons)}")
        resumed = place.do("resume", "--condition", "pick/one", "--because", reasons[-1])
        assert [one["condition"] for one in resumed.json["conditions"]] == [BAD]
        assert resumed.json["running"] is False
        assert gates(place) == {}
        place.do("run", fine=(0, 7))
        assert place.counts()[BAD][1] >= min(ROWS, before + 20)
    assert len(reasons) >= 2, "a condition that goes on being bad stops again"
    assert place.counts()[BAD][1] == place.counts()[GRADED][1] == ROWS
    place.do("audit", fine=(8,))
    audit = json.loads((place.root / "audits" / "x" / "audit.json").read_text())
    told = [each for each in audit["findings"] if each["check"] == "reopened"]
    assert {each["severity"] for each in told} == {"note"}
    assert sorted(each["message"].rpartition(": ")[2] for each in told) == reasons


def test_resume_is_refused_for_what_it_cannot_mean(place: Place) -> None:
    """No reason, a key of no condition, a condition that no gate has stopped: 2, with what would be right, and nothing recorded."""
    write(place, "truncated = 0.2")
    never = place.do("resume", "--condition", "pick", "--because", "why not", fine=(2,))
    assert "no gate has stopped 'pick'" in never.problems[0]
    place.do("run", fine=(7,))
    stopped = gates(place)
    blank = place.do("resume", "--condition", BAD, "--because", " ", fine=(2,))
    assert "no reason is given" in blank.problems[0]
    both = place.do("resume", "--condition", "pick/three", "--because", " ", fine=(2,))
    assert ["no reason is given" in both.problems[0], "pick/three" in both.problems[1]] == [True, True]
    strange = place.do("resume", "--condition", "pick/three", "--because", "b", fine=(2,))
    assert "the key of no condition" in strange.problems[0]
    healthy = place.do("resume", "--condition", "grade", "--because", "b", fine=(2,))
    assert f"stopped are: {BAD}" in healthy.problems[0]
    assert place.say("resume", "x", "--condition", BAD).code == 2
    assert gates(place) == stopped


def test_a_widened_gate_lets_a_condition_go_on_by_itself(place: Place) -> None:
    """Who mends the gate, or the cap, just runs again: the record says that the condition is within its gate now."""
    write(place, "truncated = 0.2")
    place.do("run", fine=(7,))
    write(place, "truncated = 1.0")
    assert place.do("run").json["state"] == "complete"
    assert gates(place) == {}
