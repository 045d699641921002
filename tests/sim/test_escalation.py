"""Buying again under higher caps, and models that stand in, by command on the simulated provider, judged by its bill."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fakes.place import HEAD, Place, at_home, lines
from fakes.simulator import JUDGERUN, Simulator, simulator

SOLVED = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "solve"
kind = "solve"
from = "t"
models = ["one", "two"]
prompts = ["p"]
parse = { kind = "text" }
gate = { truncated = 0.95, cost = 1.5 }
[[stage]]
name = "grade"
kind = "grade"
from = "solve"
models = ["two"]
prompts = ["q"]
parse = { kind = "label", values = ["CORRECT", "INCORRECT"] }
"""
GRADED = "Solution {{ id }} of {{ solve.model }}: {{ solve.reply }}\nAnswer with one word: CORRECT or INCORRECT\n"
ONE, TWO = "solve/one/p@t", "solve/two/p@t"
ROWS = 40
CAPS = (194, 380, 565)
"""Of the lengths that the simulated model writes, these cut off about 80, 50 and 31 %: as 8k, 16k and 32k did to a real solver."""


def solving(place: Place, *, head: str = HEAD, rows: int = ROWS) -> Place:
    """A workspace with two solvers under the lowest cap, and a grader of both."""
    files = {
        "t.jsonl": lines(*({"id": f"i{n}", "text": f"Problem {n}"} for n in range(rows))),
        "p.md": "Solve this problem: {{ text }}, and write a full solution.\n",
        "q.md": GRADED,
    }
    head = head.replace("max_output_tokens = 300", f"max_output_tokens = {CAPS[0]}")
    place.write(
        SOLVED, files, head=head.replace('{ input = "1", output = "2" }', '{ input = "0.50", output = "2.00" }')
    )
    return place


def escalate(place: Place, *words: str, caps: tuple[int, ...] = CAPS[1:], fine: tuple[int, ...] = (0,)) -> Any:
    """Ask the first solver again."""
    told = ",".join(map(str, caps))
    return place.do("escalate", "--condition", "solve/one", "--max-output-tokens", told, *words, fine=fine).json


def condition(document: Any, name: str) -> dict[str, Any]:
    """A condition of a state."""
    (found,) = (one for one in document["conditions"] if one["condition"] == name)
    return dict(found)


def billed(provider: Simulator, since: int, model: str = "sim-one") -> list[dict[str, Any]]:
    """What a model was asked since a row of the bill."""
    return [row for row in provider.rows()[since:] if row["model"] == model]


def test_a_top_up_buys_the_cut_off_replies_alone(place: Place, provider: Simulator) -> None:
    """The rungs are asked for the cells of the condition that were cut off; the provider's bill is what is spent, to the nano."""
    solving(place)
    first = place.do("run", "--yes", fine=(8,)).json
    cut = condition(first, ONE)["truncated"]
    assert 0.65 * ROWS < cut < 0.95 * ROWS
    since = len(provider.rows())
    after = escalate(place, "--because", "most were cut off")
    rows = provider.rows()[since:]
    told = condition(after, ONE)
    assert {row["model"] for row in rows} == {"sim-one"}
    still = sum(row["finish"] == "length" for row in rows[:cut])
    assert len(rows) == cut + sum(row["finish"] == "length" for row in rows) - told["truncated"]
    assert still >= told["truncated"]
    assert told["escalated"] == cut
    assert (told["planned"], told["done"], told["pending"], told["owed"]) == (ROWS, ROWS, 0, 0)
    spent = Decimal(after["spend"]["settled_usd"]) - Decimal(first["spend"]["settled_usd"])
    assert spent * 10**9 == sum(int(str(row["nanos"])) for row in rows)
    assert condition(after, TWO) == condition(first, TWO)
    grade = condition(after, f"grade/two/q@{ONE}")
    assert grade["pending"] == cut - told["truncated"]
    assert after["state"] == "stopped"


def test_the_same_command_again_sends_nothing(place: Place, provider: Simulator) -> None:
    """A finished escalation costs nothing when it is repeated; a run then buys what it made plannable, and no more."""
    solving(place)
    place.do("run", fine=(8,))
    escalate(place)
    since = len(provider.rows())
    again = escalate(place)
    assert len(provider.rows()) == since
    pending = condition(again, f"grade/two/q@{ONE}")["pending"]
    done = place.do("run", fine=(0, 8)).json
    assert len(provider.rows()) == since + pending
    assert done["state"] == "complete"
    assert len(rungs_of(place)) == 1


def test_what_a_gate_stopped_among_rungs_goes_on_when_it_is_reopened(place: Place) -> None:
    """A gate fires while rungs are bought; reopened, the same command buys the rest, though what climbs counts as pending. What
    is owed, and what was answered under a higher cap, is told to people too.
    """
    solving(place)
    place.do("run", fine=(8,))
    file = place.folder / "experiment.toml"
    file.write_text(file.read_text().replace("truncated = 0.95, cost = 1.5", "truncated = 0.02, after = 10"))
    stopped = escalate(place, fine=(7,))
    owed = condition(stopped, ONE)["owed"]
    assert owed > 0
    said = place.do("status", json=False).out
    assert f"{owed} owed a higher cap" in said
    assert f"{condition(stopped, ONE)['escalated']} answered under a higher cap" in said
    shown = place.do("show", ONE, json=False).out
    assert (
        shown.count(f"under the higher cap of {CAPS[1]} tokens")
        + shown.count(f"under the higher cap of {CAPS[2]} tokens")
        == condition(stopped, ONE)["escalated"]
    )
    assert shown.count(", owed a higher cap]") == owed
    place.do("resume", "--condition", "solve", "--because", "rungs are still to come")
    assert condition(escalate(place), ONE)["owed"] == 0


def rungs_of(place: Place) -> list[dict[str, Any]]:
    """The plans that the cache has on record."""
    from judgerun.store.snapshot import Snapshot

    with Snapshot.open(place.root / "cache.db") as view:
        return [json.loads(event.detail) for event in view.events(0) if event.kind == "escalate"]


def test_a_run_goes_on_with_rungs_that_a_cap_left(place: Place, provider: Simulator) -> None:
    """An exhausted budget leaves cells with what they have, told as owed; the next run buys their rungs and then what follows."""
    solving(place)
    first = place.do("run", fine=(8,)).json
    spent = Decimal(first["spend"]["high_usd"])
    place.budget(f'total = "{spent + Decimal("0.006")}"\n')
    after = escalate(place, fine=(3,))
    told = condition(after, ONE)
    assert told["owed"] > 0
    assert (told["done"], told["pending"]) == (ROWS, 0)
    assert after["state"] == "stopped"
    warned = {one["check"] for one in place.do("audit", fine=(8,)).json["findings"]}
    assert {"unfinished", "escalated"} <= warned
    place.budget('total = "100"\n')
    done = place.do("run", "--yes", fine=(0, 8)).json
    assert condition(done, ONE)["owed"] == 0
    assert done["state"] == "complete"


def test_what_is_wrong_is_told_at_once(place: Place, provider: Simulator) -> None:
    """Caps that do not rise above the condition's own, strange kinds and conditions, and vectors: refused before any call."""
    solving(place)
    place.do("run", fine=(8,))
    since = len(provider.rows())
    said = place.do(
        "escalate", "--condition", "solve", "--max-output-tokens", "400,194", "--of", "short", fine=(2,)
    ).problems
    assert len(said) == 4
    assert any("194 does not lie above 194" in one for one in said)
    assert any("'short' is no kind of reply" in one for one in said)
    assert place.do("escalate", "--condition", "solv", "--max-output-tokens", "400,x", fine=(2,)).problems
    assert (
        "no condition" in place.do("escalate", "--condition", "s", "--max-output-tokens", "400", fine=(2,)).problems[0]
    )
    place.budget('total = "100"\nconfirm_above = "0.0001"\n')
    (above,) = place.do("escalate", "--condition", "solve", "--max-output-tokens", "400", fine=(2,)).problems
    assert "confirm_above" in above
    assert len(provider.rows()) == since
    assert not rungs_of(place)


def test_vectors_and_answers_without_a_cap_are_not_bought_again(place: Place) -> None:
    """A condition of vectors, and one whose model has no cap, are refused by name."""
    text = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "vectors"
kind = "embed"
models = ["vec"]
queries = ["t.text"]
[[stage]]
name = "say"
kind = "solve"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "text" }
"""
    head = HEAD.replace("max_output_tokens = 300\n", "")
    place.write(text, {"t.jsonl": lines({"id": "a", "text": "x"}), "p.md": "Say {{ text }}\n"}, head=head)
    said = place.do("escalate", "--condition", "*", "--max-output-tokens", "9", fine=(2,)).problems
    assert len(said) == 3
    assert any("nothing of it was bought yet (judgerun run x)" in one for one in said)
    assert any("has vectors" in one for one in said)
    assert any("no cap of its own" in one for one in said)


def test_a_seal_holds_when_more_is_bought_after_it(place: Place) -> None:
    """What was escalated after a seal does not break it, is named by verify, and enters no report until there is a new seal."""
    solving(place)
    place.do("run", fine=(8,))
    waivers = "".join(
        f'[[waiver]]\nexperiment = "x"\ncheck = "{check}"\nbecause = "wanted here"\n'
        for check in ("truncated", "starved")
    )
    (place.root / "audits").mkdir(exist_ok=True)
    (place.root / "audits" / "waivers.toml").write_text(waivers)
    place.do("seal")
    place.do("report")
    estimates = place.root / "results" / "x" / "estimates.json"
    before = estimates.read_bytes()
    pages = {path.name: path.read_bytes() for path in estimates.parent.glob("*.*")}
    escalate(place, "--because", "most were cut off")
    checked = place.do("verify").json
    assert any("escalation came after the seal" in note and "most were cut off" in note for note in checked["notes"])
    place.do("report")
    assert estimates.read_bytes() == before
    assert place.say("set", "budget", "total=50").code == 0
    assert place.say("set", "sim", "concurrency=3").code == 0
    place.do("run", fine=(0, 8))
    place.do("run", "--pilot", "3", fine=(0, 8))
    place.do("verify")
    place.do("report")
    assert {path.name: path.read_bytes() for path in estimates.parent.glob("*.*")} == pages
    place.do("seal")
    place.do("report")
    place.do("verify")
    told = json.loads(estimates.read_bytes())
    assert any(line["question"] == "ladder" for line in told)
    assert not any(line["question"] == "ladder" for line in json.loads(before))


def test_reports_show_both_rates_and_mark_what_rests_on_a_rung(place: Place) -> None:
    """The audit tells the share cut off under the own cap beside that in force; estimates and exports say which cap answered."""
    solving(place)
    first = place.do("run", fine=(8,)).json
    escalate(place)
    place.do("run", fine=(0, 8))
    cut = condition(first, ONE)["truncated"]
    (found,) = (one for one in place.do("audit", fine=(0, 8)).json["findings"] if one["check"] == "escalated")
    assert (found["condition"], found["severity"], found["value"]) == (ONE, "warning", cut / ROWS)
    assert len(found["evidence"]) == 2
    place.do("report", fine=(0, 8))
    told = json.loads((place.root / "results" / "x" / "estimates.json").read_bytes())
    marked = f"{cut} of {ROWS} items answered under a higher cap"
    rates = [one for one in told if one["question"] == "truncated" and one["coords"]["condition"] == ONE]
    assert all(marked in one["note"] for one in rates)
    shares = [one for one in told if one["question"] == "verdict share" and ONE in one["coords"]["condition"]]
    assert shares
    assert all("items answered under a higher cap" in one["note"] for one in shares)
    assert not any("higher cap" in one["note"] for one in told if one["coords"].get("condition") == TWO)
    asked = {one["coords"]["value"]: one["value"] for one in told if one["coords"]["measure"] == "asked"}
    assert asked[str(CAPS[0])] == ROWS
    assert asked[str(CAPS[1])] == cut
    rows = place.rows("stages/solve")
    assert {row["solve.rung"] for row in rows if row["condition"] == TWO} == {None}
    assert sum(row["solve.rung"] is not None for row in rows) == cut
    ladder = place.rows("ladder")
    assert len({row["id"] for row in ladder}) == cut
    assert sum(row["in_force"] for row in ladder) == cut
    replies = {row["key"] for row in place.rows("replies")}
    assert {row["key"] for row in ladder} <= replies


def test_a_killed_escalation_goes_on(tmp_path: Path) -> None:
    """kill -9 in the middle: the same command asks what is left, and nothing that was settled; the books agree with the bill."""
    with simulator(tmp_path / "bill.jsonl", seed=3, pace=1.0) as provider:
        at_home(provider.url)
        place = solving(Place(tmp_path / "w"))
        place.budget("[sim]\nconcurrency = 4\n", "lanes.toml")
        cut = condition(place.do("run", fine=(8,)).json, ONE)["truncated"]
        since = len(provider.rows())
        words = ["escalate", "x", "--condition", "solve/one", "--max-output-tokens", "380,565"]
        with subprocess.Popen(
            [str(JUDGERUN), *words, "--workspace", str(place.root)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            until = time.monotonic() + 60
            while len(provider.rows()) < since + 5 and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        after = escalate(place)
        told, rows = condition(after, ONE), billed(provider, since)
        assert (told["escalated"], told["owed"], told["pending"]) == (cut, 0, 0)
        needed = cut + sum(row["finish"] == "length" for row in rows) - told["truncated"]
        assert needed - 4 <= len(rows) <= needed + 4
        spend = after["spend"]
        assert Decimal(spend["low_usd"]) * 10**9 <= provider.nanos() <= Decimal(spend["high_usd"]) * 10**9
        assert len(rungs_of(place)) == 1


STANDING = """
seed = 5
[providers.sim]
dialect = "openai"
base_url = "${SIM_URL}"
identity = "sim"
price = { input = "1", output = "2" }
[providers.dead]
dialect = "openai"
base_url = "${DEAD_URL}"
identity = "dead"
price = { input = "3", output = "5" }
[models.one]
provider = "dead"
model = "dead-one"
max_output_tokens = 300
failover = "two"
[models.two]
provider = "sim"
model = "sim-two"
max_output_tokens = 300
"""


def test_a_model_stands_in_and_is_told(
    place: Place, provider: Simulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Cells of a closed provider are served by the model that the experiment names, at its price, and everything says so."""
    with simulator(tmp_path / "dead.jsonl", seed=1, faults="401=1") as dead:
        monkeypatch.setenv("DEAD_URL", dead.url)
        solving(place, head=STANDING, rows=12)
        told = place.do("run", fine=(8, 9)).json
        one = condition(told, ONE)
        assert (one["done"], one["diverted"], one["pending"]) == (12, 12, 0)
        assert "solve/one/p: 12 served by the failover" in place.do("status", json=False).out
        assert place.do("show", ONE, json=False).out.count(", served by two]") == 12
        place.do("run", fine=(0, 8, 9))
        (found,) = (f for f in place.do("audit", fine=(0, 8)).json["findings"] if f["check"] == "diverted")
        assert (found["condition"], found["value"], found["severity"]) == (ONE, 12, "warning")
        assert found["evidence"] == ["two: sim-two at sim"]
        place.do("report", fine=(0, 8))
        estimates = json.loads((place.root / "results" / "x" / "estimates.json").read_bytes())
        assert any("12 of 12 items served by another model" in line["note"] for line in estimates)
        assert {row["solve.server"] for row in place.rows("stages/solve") if row["condition"] == ONE} == {"two"}


def test_a_failover_is_another_chat_model_of_the_file(place: Place) -> None:
    """A failover that is unknown, the model itself, in a circle, or on an embedder: all refused at once."""
    head = HEAD.replace('lineage = "north"', 'lineage = "north"\nfailover = "two"')
    head = head.replace('lineage = "south"', 'lineage = "south"\nfailover = "one"')
    head += 'failover = "four"\n[models.self]\nprovider = "sim"\nmodel = "s"\nfailover = "self"\n'
    solving(place, head=head)
    said = place.do("check", fine=(2,)).problems
    assert len([one for one in said if "failover" in one]) == 4
