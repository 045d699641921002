"""What planning costs where everything is bought already: a survey against a loop that builds, hashes and looks up each request;
`status` and a rerun of the whole experiment as commands.

`python benchmarks/planning.py` prints one line of JSON for 1,000,000 cells (some minutes, 3 GB in the temporary folder); `--quick`
takes 50,000. Each measurement is a fresh process over one prepared workspace; those of a ratio alternate.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from judgerun.api.project import Project, Workspace, nothing, snapshot
from judgerun.ledger.entry import EntryKind
from judgerun.model.kept import Cell
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.store import rows
from judgerun.store.locks import Locks
from judgerun.store.queries import SQL
from judgerun.store.schema import open_writer

HERE = Path(__file__).parent
BATCH = 5000
URL = "http://127.0.0.1:9/v1"
WORDS = "a chord of a circle lies at some distance from the centre and its length is wanted in whole numbers "
TEXT_BYTES = 600
ASK = "Answer with one whole number from 1 to 9 and nothing else."
BODY = orjson.dumps({"id": "x", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "7"}}]})
EXPERIMENT = f"""
name = "bench"
[data.rows]
path = "rows.jsonl"
[providers.mock]
dialect = "openai"
base_url = "{URL}"
price = {{ input = "0.10", output = "0.40" }}
[models.mock]
provider = "mock"
model = "mock"
max_output_tokens = 64
[[stage]]
name = "judge"
kind = "judge"
from = "rows"
models = ["mock"]
prompts = ["ask"]
parse = {{ kind = "choice", low = 1, high = 9 }}
"""


def prepare(root: Path, cells: int) -> None:
    """A workspace whose experiment has so many cells, each with its reply in the cache."""
    home, budgets = root / "prompts" / "bench", root / "budgets"
    home.mkdir(parents=True)
    budgets.mkdir()
    (home / "experiment.toml").write_text(EXPERIMENT)
    (home / "ask.md").write_text("{{ text }}\n" + ASK + "\n")
    with (home / "rows.jsonl").open("wb") as out:
        for number in range(cells):
            text = (f"Problem {number}: " + WORDS * 8)[:TEXT_BYTES]
            out.write(orjson.dumps({"id": f"r{number:07}", "text": text}) + b"\n")
    (budgets / "bench.toml").write_text('total = "1000.00"\nconfirm_above = "1000.00"\n')
    (budgets / "lanes.toml").write_text("[mock]\nconcurrency = 500\n")
    project = Workspace(root=root).open("bench")
    flow = project.flow(lookup=nothing, matrix=Project.matrix(None))
    fill(root / "cache.db", flow.survey())


def fill(path: Path, cells: Iterator[Cell]) -> None:
    """A cache in which each cell was bought by one attempt, as a run leaves it."""
    locks = Locks(path)
    connection = open_writer(path, locks, durable=False)
    reply = Reply(
        finish=Finish.STOP,
        finish_raw="stop",
        text="7",
        usage=Usage(input_fresh=160, cache_read=0, cache_write=0, output_visible=1, reasoning=0),
        raw=BODY,
        raw_digest=hashlib.sha256(BODY).hexdigest(),
    )
    connection.execute("begin")
    connection.execute(SQL["new_owner"], (1, "bench", "bench", 1.0))
    connection.execute(SQL["close_owner"], (2.0, 1))
    connection.execute(SQL["new_account"], ("bench", "bench", "judge", "judge/mock/ask@rows", "mock", "2026-11-01"))
    connection.execute("commit")
    first = 1
    while batch := list(islice(cells, BATCH)):
        numbers = range(first, first + len(batch))
        first += len(batch)
        write = connection.executemany
        connection.execute("begin")
        write(SQL["new_request"], (rows.request_row(cell.request) for cell in batch))
        write(SQL["new_attempt"], ((1, 1, "mock", 1, 9, 1, 200, 0, 200, "bytes", 1.0, None) for _ in batch))
        write("insert into carried (request, attempt, open) values (?, ?, 0)", ((n, n) for n in numbers))
        for kind in (EntryKind.RESERVE, EntryKind.SETTLE):
            write(SQL["new_entry"], ((n, kind.value, 9, 1, 161, 0, 1.0, None) for n in numbers))
        write(SQL["new_reply"], (rows.reply_row(n, n, 1.0, reply, 9) for n in numbers))
        connection.execute("commit")
    connection.execute("update attempt set open = 0, closed_at = 2.0, status = 200")
    connection.execute(
        "update account set settled_nanos = ?, settled_calls = ?, tries = ?", (9 * first, first, first - 1)
    )
    connection.close()
    locks.close()


def loop(root: Path) -> int:
    """The denominator: read each row, build its request, hash it, fetch its reply from the cache; how many were there."""
    connection = sqlite3.connect(f"file:{root / 'cache.db'}?mode=ro", uri=True)
    (body,) = connection.execute("select body from request where id = 1").fetchone()
    request = orjson.loads(rows.unpack(body))
    ask = "select p.text, p.finish from request r join reply p on p.request = r.id where r.key = ?"
    found = 0
    with (root / "prompts" / "bench" / "rows.jsonl").open("rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            messages = [{"role": "user", "content": f"{row['text']}\n{ASK}"}]
            made = {**request, "payload": {**request["payload"], "messages": messages}}
            key = hashlib.sha256(orjson.dumps(made, option=orjson.OPT_SORT_KEYS)).digest()
            found += connection.execute(ask, (key,)).fetchone() is not None
    connection.close()
    return found


def opened(root: Path) -> int:
    """Reading the experiment alone: rows are checked and spooled."""
    Workspace(root=root).open("bench")
    return 0


def survey(root: Path) -> int:
    """Reading the experiment and counting its cells, as `plan` does, and `status` where no stand is kept."""
    project = Workspace(root=root).open("bench")
    with snapshot(root / "cache.db") as view:
        return sum(count.done for count in project.survey(view).counts())


KINDS: dict[str, Callable[[Path], int]] = {"loop": loop, "opened": opened, "survey": survey}


def measured(kind: str, root: Path) -> dict[str, Any]:
    """One cell in this process."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = KINDS[kind](root)
    return {
        "kind": kind,
        "found": found,
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


def cell(kind: str, root: Path) -> dict[str, Any]:
    """One cell in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--cell", kind, str(root)], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def command(root: Path, *words: str) -> tuple[float, dict[str, Any]]:
    """Wall seconds of a whole command, its start included, and what it printed."""
    began = time.perf_counter()
    call = [
        sys.executable,
        "-c",
        "from judgerun.cli.main import main; main()",
        *words,
        "--workspace",
        str(root),
        "--json",
    ]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, json.loads(done.stdout)


def commands(root: Path) -> dict[str, Any]:
    """`status` and `run` on the complete experiment: first as a survey finds it, then as it is kept."""
    surveyed, first = command(root, "status", "bench")
    kept = [command(root, "status", "bench") for _ in range(5)]
    ran, ending = command(root, "run", "bench")
    rerun = [command(root, "run", "bench") for _ in range(3)]
    assert all(document == first for _, document in kept), "the kept stand says other than the survey"
    assert all(document["attempts"] == first["attempts"] for _, document in [*rerun, (ran, ending)]), (
        "a rerun sent something"
    )
    return {
        "status_surveyed_s": round(surveyed, 2),
        "status_s": round(median(seconds for seconds, _ in kept), 2),
        "run_surveyed_s": round(ran, 2),
        "rerun_s": round(median(seconds for seconds, _ in rerun), 2),
    }


def main() -> None:
    """Prepare, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50,000 cells")
    parser.add_argument("--cells", type=int)
    parser.add_argument("--reps", type=int)
    parser.add_argument("--cell", nargs=2, metavar=("KIND", "FOLDER"), help="one measurement, in this process")
    given = parser.parse_args()
    if given.cell:
        print(json.dumps(measured(given.cell[0], Path(given.cell[1]))))
        return
    number = given.cells or (50_000 if given.quick else 1_000_000)
    reps = given.reps or (3 if number <= 100_000 else 1)
    with tempfile.TemporaryDirectory(prefix="judgerun-bench-") as name:
        root = Path(name)
        prepare(root, number)
        time.sleep(2.5)  # files that are younger prove nothing: see files/trace.py
        made = [{kind: cell(kind, root) for kind in KINDS} for _ in range(reps)]
        told = commands(root)
    assert all(one["loop"]["found"] == one["survey"]["found"] == number for one in made), "not every reply was found"
    middle = {kind: median(one[kind]["cpu"] for one in made) for kind in KINDS}
    out = {
        "name": "planning",
        "cells": number,
        "plan_over_loop": round(middle["survey"] / middle["loop"], 2),
        "us_a_cell": {kind: round(seconds / number * 1e6, 2) for kind, seconds in middle.items()},
        "peak_mb": round(max(one["survey"]["peak_mb"] for one in made)),
        **told,
    }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
