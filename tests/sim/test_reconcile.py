"""reconcile by command after real runs over HTTP: the provider's own bill against the ledger, whole and with faults."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fakes.place import HEAD, Place, at_home, lines
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


def ran(folder: Path, *, faults: str = "", seed: int = 1, head: str = HEAD) -> tuple[Place, Path]:
    """A workspace whose experiment ran once, and the provider's bill."""
    bill, prices, place = folder / "bill.jsonl", folder / "prices.toml", Place(folder / "w")
    prices.write_text(PRICES)
    place.write(STAGE, FILES, head=head)
    (place.root / "budgets" / "lanes.toml").write_text("[sim]\nconcurrency = 8\nattempts_max = 4\ntimeout_s = 2\n")
    (place.root / "mapping.toml").write_text(MAPPING)
    with simulator(bill, seed=seed, prices=prices, faults=faults) as provider:
        at_home(provider.url)
        place.do("run", "--yes", fine=(0, 8))
    return place, bill


def test_a_clean_run_reconciles_to_zero(tmp_path: Path) -> None:
    """The simulated provider's bill, read through a mapping, is the ledger call by call: nothing is left; the verdict is kept."""
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


def test_calls_inside_jobs_are_matched_by_their_key(tmp_path: Path) -> None:
    """The lines of a batch job name their calls by key, and cost the half: they reconcile to zero beside the calls of another
    model; a statement that bills them in full is told to lack the batch discount.
    """
    head = HEAD.replace('output = "2" }', 'output = "2", batch_factor = "0.5" }')
    place, bill = ran(tmp_path, head=head.replace('model = "sim-two"\n', 'model = "sim-two"\nlane = "batch"\n'))
    words = ["reconcile", str(bill), "--format", str(place.root / "mapping.toml"), "--json"]
    told = place.say(*words).json
    assert (told["verdict"], told["residual_usd"], told["components"]) == ("reconciled", "0.00", [])
    rows = [json.loads(line) for line in bill.read_text().splitlines()]
    assert sum(row["job"] is not None for row in rows) == 40
    full = [row | {"nanos": row["nanos"] * 2} if row["job"] else row for row in rows]
    bill.write_text("".join(json.dumps(row) + "\n" for row in full))
    told = place.say(*words).json
    assert told["components"][0]["name"] == "batch discount"
    assert told["verdict"] == "reconciled"


def test_generations_are_matched_by_the_id_in_each_answer(faulty: tuple[Place, Path], tmp_path: Path) -> None:
    """Rows of OpenRouter's shape find their attempts by the `id` of the body; forfeits that are on no row were not billed."""
    place, _ = faulty
    with Snapshot.open(place.root / "cache.db") as view:
        replies = view.columns("replies")
        rows = []
        for place_, key in enumerate(replies["key"]):
            reply = view.reply(key)
            assert reply is not None
            rows.append(
                {
                    "id": json.loads(reply.raw)["id"],
                    "created_at": datetime.fromtimestamp(replies["at"][place_], UTC).isoformat(),
                    "model": reply.served_model,
                    "total_cost": str(Decimal(replies["cost"][place_]).scaleb(-9)),
                    "native_tokens_prompt": reply.usage.input,
                    "native_tokens_cached": reply.usage.cache_read,
                    "native_tokens_completion": reply.usage.output,
                    "native_tokens_reasoning": reply.usage.reasoning,
                }
            )
    path = tmp_path / "generations.json"
    path.write_text(json.dumps(rows))
    told = place.say("reconcile", str(path), "--provider", "sim", "--json").json
    assert told["matched_by"] == {"sim": "call"}
    assert ([one["name"] for one in told["components"]], told["residual_usd"]) == (["forfeits not billed"], "0.00")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Path]:
    """A workspace whose experiment ran once with faults, and the provider's bill."""
    return ran(tmp_path_factory.mktemp("faulty"), faults="drop_after=0.05,500=0.06", seed=7)


def exports(bill: Path, folder: Path, *, currency: str = "usd", worth: Decimal = Decimal(1)) -> list[str]:
    """The provider's bill in the form of OpenAI's usage and costs exports, by UTC day."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in map(json.loads, bill.read_text().splitlines()):
        if row["billed"]:
            groups[int(row["at"] // 86_400), row["model"]].append(row)
    usage, costs = [], []
    for (day, model), rows in groups.items():
        bucket = {"object": "bucket", "start_time": day * 86_400, "end_time": (day + 1) * 86_400}
        sums = {name: sum(row[name] for row in rows) for name in ("input", "cached", "output", "nanos")}
        result = {
            "object": "organization.usage.completions.result",
            "input_tokens": sums["input"],
            "input_cached_tokens": sums["cached"],
            "output_tokens": sums["output"],
            "num_model_requests": len(rows),
            "model": model,
        }
        usage.append(bucket | {"results": [result]})
        amount = {"value": str(Decimal(sums["nanos"]).scaleb(-9) / worth), "currency": currency}
        cost = {"object": "organization.costs.result", "amount": amount, "line_item": f"{model}, output"}
        costs.append(bucket | {"results": [cost]})
    paths = [folder / "usage.json", folder / "costs.json"]
    for path, data in zip(paths, (usage, costs), strict=True):
        path.write_text(json.dumps({"object": "page", "data": data, "has_more": False}))
    return [str(path) for path in paths]


def test_a_run_reconciles_with_exports_by_the_day(faulty: tuple[Place, Path], tmp_path: Path) -> None:
    """Two exports of OpenAI's shape together, at the grain of model and day: forfeits that were charged are told with their exact
    sum, in the currency of the bill at a dated rate as well; without the rate it is refused.
    """
    place, bill = faulty
    with Snapshot.open(place.root / "cache.db") as view:
        settled = view.standing("x").experiment.settled
    charged = sum(row["nanos"] for row in map(json.loads, bill.read_text().splitlines()) if row["billed"])
    words = ["--provider", "sim", "--json", "--name", "days"]
    told = place.say("reconcile", *exports(bill, tmp_path), *words).json
    assert told["matched_by"] == {"sim": "model and day"}
    parts = {one["name"]: Decimal(one["usd"]) for one in told["components"]}
    assert int(parts["forfeits billed"] * 10**9) == charged - settled > 0
    assert told["verdict"] == "reconciled"
    euros = exports(bill, tmp_path, currency="eur", worth=Decimal("1.25"))
    again = place.say("reconcile", *euros, *words, "--rate", "EUR=1.25@2026-01-01").json
    assert [one["usd"] for one in again["components"]] == [one["usd"] for one in told["components"]]
    refused = place.say("reconcile", *euros, *words)
    assert refused.code == 2
    assert "EUR" in refused.problems[0]


def test_money_alone_stays_unexplained_and_says_why(faulty: tuple[Place, Path], tmp_path: Path) -> None:
    """A costs export without its usage cannot tell a forfeit that was billed from another price: exit 8, unless that much is
    allowed; the report says what it may be.
    """
    place, bill = faulty
    _, costs = exports(bill, tmp_path)
    said = place.say("reconcile", costs, "--provider", "sim", "--json")
    assert said.code == 8
    assert said.json["verdict"].startswith("unexplained 0.0")
    assert "cannot be told apart" in (place.root / "audits" / "reconcile-costs" / "reconcile.md").read_text()
    assert place.say("reconcile", costs, "--provider", "sim", "--tolerance", "1.00").code == 0
    assert place.say("reconcile", costs, "--provider", "sim", "--apply", "--json").json["applied"] == []


def test_the_command_refuses_what_makes_no_sense(faulty: tuple[Place, Path], tmp_path: Path) -> None:
    """A rate, a moment, an amount that are none, all at once; a scope under which nothing was bought; no cache at all."""
    place, bill = faulty
    words = ["reconcile", str(bill), "--format", str(place.root / "mapping.toml"), "--json"]
    told = place.say(*words, "--rate", "EUR=1", "--since", "soon", "--tolerance", "much")
    assert (told.code, len(told.problems)) == (2, 3)
    for option in ("--budget", "--experiment"):
        refused = place.say(*words, option, "nobody")
        assert (refused.code, "nothing was bought under 'nobody'" in refused.problems[0]) == (2, True)
    assert place.say(*words, "--name", "a/b").code == 2
    empty = Place(tmp_path / "empty")
    empty.root.mkdir()
    assert "no cache yet" in empty.say(*words).problems[0]


def test_a_period_and_a_scope_limit_what_is_compared(faulty: tuple[Place, Path]) -> None:
    """What lies before --since is on neither side; the money of an experiment is compared alone."""
    place, bill = faulty
    words = ["reconcile", str(bill), "--format", str(place.root / "mapping.toml"), "--json", "--name", "part"]
    whole = place.say(*words, "--experiment", "x", "--budget", "main").json
    assert float(whole["settled_usd"]) > 0
    later = place.say(*words, "--since", "2100-01-01").json
    assert (later["statement_usd"], later["settled_usd"]) == ("0.00", "0.00")
    assert later["outside"]["settled_usd"] == whole["settled_usd"]
