"""reconcile by command after real runs over HTTP: the provider's own bill against the ledger, whole and with faults."""

from __future__ import annotations

import json
from pathlib import Path

from fakes.place import Place, at_home, lines
from fakes.simulator import simulator
from judgerun.store.snapshot import Snapshot

STAGE = """
[data.rows]
path = "rows.jsonl"
[[stage]]
name = "tone"
kind = "judge"
from = "rows"
models = ["one", "two"]
prompts = ["tone"]
parse = { kind = "label", values = ["POSITIVE", "NEGATIVE"] }
"""
FILES = {
    "rows.jsonl": lines(*({"id": f"r{n}", "text": f"It was good, all told, number {n}."} for n in range(40))),
    "tone.md": "Review {{ id }}: {{ text }}\nAnswer with one word: POSITIVE or NEGATIVE\n",
}
MAPPING = """
provider = "sim"
unit = "0.000000001"
calls = true
[columns]
time = "at"
model = "model"
amount = "nanos"
input = "input"
cache_read = "cached"
cache_write = "written"
cache_write_1h = "written_1h"
output = "output"
reasoning = "reasoning"
attempt = "attempt"
call = "line"
batch = "job"
[only]
billed = true
"""
PRICES = '["sim-one"]\ninput = "1"\noutput = "2"\n["sim-two"]\ninput = "1"\noutput = "2"\n'


def ran(folder: Path, *, faults: str = "", seed: int = 1) -> tuple[Place, Path]:
    """A workspace whose experiment ran once, and the provider's bill."""
    bill, prices, place = folder / "bill.jsonl", folder / "prices.toml", Place(folder / "w")
    prices.write_text(PRICES)
    place.write(STAGE, FILES)
    (place.root / "budgets" / "lanes.toml").write_text("[sim]\nconcurrency = 8\nattempts_max = 4\ntimeout_s = 2\n")
    (place.root / "mapping.toml").write_text(MAPPING)
    with simulator(bill, seed=seed, prices=prices, faults=faults) as provider:
        at_home(provider.url)
        place.do("run", "--yes", fine=(0, 8))
    return place, bill


def test_a_clean_run_reconciles_to_zero(tmp_path: Path) -> None:
    """The simulated provider's bill, read through a mapping, is the ledger call by call: nothing is left, and the verdict is on record."""
    place, bill = ran(tmp_path)
    said = place.say("reconcile", str(bill), "--format", str(place.root / "mapping.toml"), "--json")
    assert said.code == 0, said.err
    told = said.json
    assert (told["verdict"], told["residual_usd"], told["components"]) == ("reconciled", "0.00", [])
    assert told["matched_by"] == {"sim": "call"}
    assert float(told["statement_usd"]) > 0
    with Snapshot.open(place.root / "cache.db") as view:
        (event,) = [one for one in view.events(0) if one.kind == "reconcile"]
    assert json.loads(event.detail)["files"] == {"bill.jsonl": told["files"][0]["sha256"]}
    assert "reconciled" in (place.root / "audits" / "reconcile-bill" / "reconcile.md").read_text()


FAULTS = "drop_after=0.12,drop_before=0.12,garbage=0.06,usage_missing=0.06,500=0.06"


def test_faults_name_each_forfeit_and_apply_resolves_it_once(tmp_path: Path) -> None:
    """Forfeits that the provider charged, and those that it did not, are told apart as its own books have them; --apply books
    each of them once, citing its line; the same statement again changes nothing; then the ledger says what the bill says.
    """
    place, bill = ran(tmp_path, faults=FAULTS, seed=5)
    rows = {row["attempt"]: row for row in map(json.loads, bill.read_text().splitlines())}
    with Snapshot.open(place.root / "cache.db") as view:
        entries = view.columns("entries")
    lost = [
        str(attempt) for kind, attempt in zip(entries["kind"], entries["attempt"], strict=True) if kind == "forfeit"
    ]
    charged = {name for name in lost if name in rows and rows[name]["billed"]}
    assert charged, "seed 5 befell no call with a fault that is charged"
    assert set(lost) - charged, "seed 5 befell no call with a fault that is not charged"
    words = ["reconcile", str(bill), "--format", str(place.root / "mapping.toml"), "--json"]
    said = place.say(*words)
    assert said.code == 0, said.out + said.err
    told = said.json
    assert {one["attempt"]: one["usd"] != "0.00" for one in told["resolves"]} == {
        int(name): name in charged for name in lost
    }
    assert {one["name"] for one in told["components"]} == {"forfeits billed", "forfeits not billed"}
    applied = place.say(*words, "--apply").json
    assert sorted(applied["applied"]) == sorted(map(int, lost))
    again = place.say(*words, "--apply").json
    assert (again["applied"], again["components"]) == ([], told["components"])
    with Snapshot.open(place.root / "cache.db") as view:
        spend = view.standing("x").experiment
        documents = [text for text in view.columns("entries")["document"] if text]
    assert (spend.settled, spend.forfeited) == (sum(row["nanos"] for row in rows.values()), 0)
    assert len(documents) == len(lost)
    assert all(told["files"][0]["sha256"] in text for text in documents)
    errors = [one for one in place.do("audit", fine=(0, 8)).json["findings"] if one["severity"] == "error"]
    assert {one["check"] for one in errors} <= {"failed"}  # the money is right; some cells had no tries left
