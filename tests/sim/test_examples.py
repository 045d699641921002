"""Six experiments as people write them, each run whole on the simulated provider and judged by its bill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import judgerun
from fakes.simulator import JUDGERUN, Simulator, simulator

EXAMPLES = Path(__file__).parent.parent / "examples"
CELLS = {
    # rows x conditions of every stage that sends, counted by hand
    "mathematics": 12 + 48 + 12 * 3 * 2,  # queries, corpus, picks
    "utility": 12 * 3 + 12 * 3 * 2,
    "rewrites": 10 * 6 + 10 + 20 + 10 * 6 + 6 * 6 * 2,  # forms; vectors of queries, corpus, forms; drift of six rows
    "pairwise": 10 * 2 * 2,
    "rubric": 15 * 5,
}
FINE = (0, 8)  # a truncated solution starves its graders; the audit says so, the run goes on to its end


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One simulated provider for all examples, with prices of its own."""
    folder = tmp_path_factory.mktemp("provider")
    with simulator(folder / "provider.bill.jsonl", seed=5, prices=EXAMPLES / "prices.toml") as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path, provider: Simulator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples as a workspace of its own."""
    monkeypatch.setenv("JUDGERUN_SIM_URL", provider.url)
    shutil.copytree(EXAMPLES, tmp_path / "w")
    return tmp_path / "w"


def command(workspace: Path, *words: str, fine: tuple[int, ...] = (0,)) -> Any:
    """A command with --json; what it printed."""
    done = subprocess.run(
        [str(JUDGERUN), *words, "--workspace", str(workspace), "--json"],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=120,
        check=False,
    )
    assert done.returncode in fine, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout)


def check_counts(document: Any) -> None:
    """planned = done + failed + pending in every condition; finish reasons add up to what is done."""
    for one in document["conditions"]:
        assert one["planned"] == one["done"] + one["failed"] + one["pending"], one
        assert sum(one["finish"].values()) == one["done"], one
        assert one["truncated"] == one["finish"].get("length", 0), one
    for name in ("planned", "done", "failed", "pending"):
        assert document["cells"][name] == sum(one[name] for one in document["conditions"])


@pytest.mark.parametrize("name", ["ladder", "mathematics", "pairwise", "rewrites", "rubric", "utility"])
async def test_example_runs_whole(workspace: Path, provider: Simulator, name: str) -> None:
    """Run through the Python API: complete, every cell accounted for, the ledger equal to the provider's bill, and a second
    run, through the command, sends nothing.
    """
    calls, charged = len(provider.rows()), provider.nanos()
    experiment = judgerun.load(workspace / "prompts" / name)
    result = await judgerun.run(experiment, budget="examples", cache=workspace / "cache.db", yes=True)
    first = result.document()
    assert first["state"] == "complete", first["reason"]
    assert first["cells"]["pending"] == 0
    check_counts(first)
    if name in CELLS:
        assert first["cells"]["planned"] == CELLS[name]
    assert first["attempts"] == len(provider.rows()) - calls
    assert Decimal(first["spend"]["settled_usd"]) == Decimal(provider.nanos() - charged) / 10**9
    assert Decimal(first["spend"]["forfeited_usd"]) == Decimal(first["spend"]["held_usd"]) == 0

    calls = len(provider.rows())
    again = command(workspace, "run", name, "--budget", "examples", "--yes", fine=FINE)
    assert len(provider.rows()) == calls, "a second run sent something"
    assert again["spend"] == first["spend"]
    assert {key: again["cells"][key] for key in ("planned", "done", "failed")} == {
        key: first["cells"][key] for key in ("planned", "done", "failed")
    }


async def test_one_ranking_serves_two_golds(workspace: Path) -> None:
    """The mathematics judges pick once and are scored against both golds: twelve picks a condition, not twenty-four."""
    result = await judgerun.run(
        judgerun.load(workspace / "prompts" / "mathematics"), budget="examples", cache=workspace / "cache.db", yes=True
    )
    picks = [one for one in result.document()["conditions"] if one["stage"] == "pick"]
    assert len(picks) == 6
    assert all(one["planned"] == 12 for one in picks)


async def test_accepted_variants_become_training_files(workspace: Path) -> None:
    """The ladder writes one file for each rung: what its function made of the rows that both verifiers accepted, and no more."""
    await judgerun.run(
        judgerun.load(workspace / "prompts" / "ladder"), budget="examples", cache=workspace / "cache.db", yes=True
    )
    command(workspace, "report", "ladder")
    train = workspace / "results" / "ladder" / "train"
    rows = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in train.glob("*.jsonl")}
    assert set(rows) <= {"exact", "restate"}
    command(workspace, "export", "ladder", "--format", "jsonl")
    table = workspace / "results" / "ladder" / "export" / "stages" / "accepted.jsonl"
    accepted = {
        (row["at.rungs.prompt"], row["id"]): row
        for row in map(json.loads, table.read_text().splitlines())
        if row["accepted.value"] is True
    }
    assert sum(map(len, rows.values())) == len(accepted) > 0
    for rung, held in rows.items():
        for row in held:
            source = accepted[rung, row["id"]]
            label = 1 if source["variants.role"] == "positive" else 0
            assert row == {
                "id": row["id"],
                "anchor": source["problem"],
                "text": source["variants.problem"],
                "label": label,
            }


async def test_all_examples_share_one_account(workspace: Path, provider: Simulator) -> None:
    """Two experiments under one budget in one cache: the budget's spend is the sum of theirs."""
    spent = []
    for name in ("pairwise", "rubric"):
        result = await judgerun.run(
            judgerun.load(workspace / "prompts" / name), budget="examples", cache=workspace / "cache.db", yes=True
        )
        spent.append(result.document())
    total = sum(Decimal(one["spend"]["high_usd"]) for one in spent)
    assert Decimal(spent[-1]["budget"]["high_usd"]) == total > 0
