"""A workspace, real `judgerun` processes in it, simulated providers with their bills, and what must be true at any moment."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from fakes import odd
from fakes.judge import rows_of
from fakes.simulator import JUDGERUN, Simulator, simulator

EXPERIMENT = """
name = "{name}"
seed = {seed}
[data.rows]
path = "rows.jsonl"
[data.corpus]
path = "corpus.jsonl"
[providers.sim]
dialect = "openai"
base_url = "${{SIM_URL}}"
identity = "sim"
price = {{ input = "0.50", output = "2.00" }}
[models.one]
provider = "sim"
model = "sim-one"
max_output_tokens = 128
thinking = "off"
[models.two]
provider = "sim"
model = "sim-two"
max_output_tokens = 256
thinking = "off"
[models.vec]
provider = "sim"
model = "sim-embed"
[[stage]]
name = "vectors"
kind = "embed"
models = ["vec"]
queries = ["rows.text"]
corpus = "corpus.text"
[[stage]]
name = "top"
kind = "retrieve"
method = "dense"
from = "vectors"
k = 3
[[stage]]
name = "pick"
kind = "judge"
from = "top"
models = ["one"]
prompts = ["pick"]
admit = ["stop", "length"]
parse = {{ kind = "choice" }}
[[stage]]
name = "solve"
kind = "solve"
from = "rows"
models = ["one"]
prompts = ["solve"]
parse = {{ kind = "text" }}
[[stage]]
name = "tone"
kind = "judge"
from = "solve"
models = ["one", "two"]
prompts = ["tone"]
admit = ["stop", "length"]
parse = {{ kind = "label", values = ["POSITIVE", "NEGATIVE"] }}
"""
"""A chain of every kind of call: vectors, a ranking and its judge; a solver and two graders of it."""

PICK = "Nearest to {{ text }}?\n{% for c in candidates %}{{ loop.index }}. {{ c.text }}\n{% endfor %}Answer with a number.\n"
TONE = "Review {{ id }}: {{ solve.reply }}\nAnswer with one word: POSITIVE or NEGATIVE\n"
LANES = "[sim]\nconcurrency = 6\nattempts_max = 3\ntimeout_s = 5\nbatch_size = 8\n"


class Ended:
    """How a process ended and what it said."""

    def __init__(self, process: subprocess.Popen[str], seconds: float = 240.0) -> None:
        try:
            self.out, self.err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            self.out, self.err = process.communicate()
            self.err += f"\nit did not end in {seconds:.0f} s"
        self.code = process.returncode

    @property
    def json(self) -> dict[str, Any]:
        """The object on stdout."""
        assert self.out, f"exit {self.code}: {self.err}"
        found: dict[str, Any] = json.loads(self.out)
        return found


class Place:
    """A workspace in which processes run; `url` is the provider that they ask."""

    PROGRAM: tuple[str, ...] = (str(JUDGERUN),)

    def __init__(
        self, folder: Path, *, rows: int, budget: str, lanes: str = LANES, names: tuple[str, ...] = ("chain",)
    ) -> None:
        self.folder = folder
        self.cache = folder / "cache.db"
        self.url = "http://127.0.0.1:9/v1"
        self._bills: list[Simulator] = []
        (folder / "budgets").mkdir(parents=True)
        (folder / "budgets" / "lanes.toml").write_text(lanes)
        self.budget(budget)
        for seed, name in enumerate(names):
            self._write(folder / "prompts" / name, name, seed, rows)

    @staticmethod
    def _write(folder: Path, name: str, seed: int, rows: int) -> None:
        folder.mkdir(parents=True)
        (folder / "experiment.toml").write_text(EXPERIMENT.format(name=name, seed=seed))
        (folder / "pick.md").write_text(PICK)
        (folder / "solve.md").write_text(f"Say for {name} what you think of {{{{ id }}}}: {{{{ text }}}}\n")
        (folder / "tone.md").write_text(TONE)
        # Every fifth text is the one before it: vectors of duplicates are bought once.
        texts = [f"It was {'good' if n % 2 else 'bad'}, all told, number {n - (n % 5 == 4)}." for n in range(rows)]
        lines = [json.dumps({"id": f"r{n}", "text": text}) for n, text in enumerate(texts)]
        (folder / "rows.jsonl").write_text("\n".join(lines))
        corpus = [json.dumps({"id": f"d{n}", "text": f"Of thing number {n} much was said."}) for n in range(20)]
        (folder / "corpus.jsonl").write_text("\n".join(corpus))

    def budget(self, text: str) -> None:
        """Rewrite the budget."""
        (self.folder / "budgets" / "main.toml").write_text(text)

    @contextmanager
    def provider(self, *, seed: int, pace: float = 0.0, faults: str = "") -> Iterator[Simulator]:
        """A simulated provider for as long as the block runs; its bill is added to those before it."""
        bill = self.folder.with_name(f"{self.folder.name}.bill{len(self._bills)}.jsonl")
        with simulator(bill, seed=seed, pace=pace, faults=faults) as running:
            self._bills.append(running)
            self.url = running.url
            yield running

    def start(self, *words: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        """Start a command. `before` is called in the child before the program."""
        return subprocess.Popen(
            [*self.PROGRAM, *words, "--workspace", str(self.folder), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before,
            env={**os.environ, "SIM_URL": self.url, "COLUMNS": "200", **self.environ()},
        )  # fmt: skip

    def environ(self) -> dict[str, str]:
        """What else stands in the environment of a process."""
        return {}

    def command(self, *words: str) -> Ended:
        """Run a command to its end."""
        return Ended(self.start(*words))

    def some_moment(self, process: subprocess.Popen[str], rng: random.Random, *, seconds: float) -> None:
        """Return at a random moment of a run: now and then while it still starts, else within so many seconds after it entered the
        cache, however long that takes on a machine that has other work.
        """
        if rng.random() < 0.8:
            entered = f"select count(*) from owner where pid = {process.pid}"
            while process.poll() is None and not (self.made() and rows_of(self.cache, entered)[0][0]):
                time.sleep(0.02)
        time.sleep(rng.uniform(0.0, seconds))

    def made(self) -> bool:
        """Whether the cache is there, with its tables."""
        return self.cache.exists() and rows_of(self.cache, "pragma user_version") != [(0,)]

    def calls(self) -> list[dict[str, Any]]:
        """What every provider so far says that came; a line that is just being written is left out."""
        found = []
        for bill in self._bills:
            found += [
                json.loads(line) for line in bill.bill.read_text().splitlines(keepends=True) if line.endswith("\n")
            ]
        return found

    def nanos(self) -> int:
        """What every provider so far charged."""
        return sum(row["nanos"] for row in self.calls() if row["billed"])

    def wrong(self) -> list[str]:
        """What is wrong in the cache, after whatever happened."""
        if not self.made():
            return ["calls were sent before there was a cache"] if self.calls() else []
        found = []
        again = "select count(*) from carried k join reply p on p.request = k.request where k.attempt > p.attempt"
        if rows_of(self.cache, again) != [(0,)]:
            found.append("a request was sent again after its reply")
        if rows_of(self.cache, "pragma integrity_check") != [("ok",)]:
            found.append("the cache is damaged")
        reserved = {str(row[0]) for row in rows_of(self.cache, "select attempt from entry where kind = 'reserve'")}
        sent = Counter(row["attempt"] for row in self.calls() if row["attempt"] is not None)
        if strangers := sent.keys() - reserved:
            found.append(f"sent without a reserve: {strangers}")
        if twice := [attempt for attempt, n in sent.items() if n > 1]:
            found.append(f"one attempt, several requests: {twice}")
        return found + self._misbooked()

    def _misbooked(self) -> list[str]:
        """Where the ledger says of an attempt what its provider's bill does not; lines of jobs are billed without its number."""
        found = []
        lost = (
            "select count(*) from entry e join carried c on c.attempt = e.attempt "
            "where e.kind = 'settle' and not exists (select 1 from reply p where p.request = c.request)"
        )
        if rows_of(self.cache, lost) != [(0,)]:
            found.append("what was paid for has no reply")
        attempts = rows_of(
            self.cache,
            "select t.id, t.sent, t.open, t.need_nanos, e.kind, e.nanos from attempt t left join entry e "
            "on e.attempt = t.id and e.kind in ('settle', 'void', 'forfeit') where t.job is null",
        )
        bill: Counter[int] = Counter()
        for row in self.calls():
            if row["attempt"] is not None:
                bill[int(row["attempt"])] += row["nanos"] if row["billed"] else 0
        for id, sent, is_open, need, kind, amount in attempts:
            billed = bill[id]
            if kind == "settle" and amount != billed:
                found.append(f"attempt {id} was settled at {amount}, billed {billed}")
            if kind == "void" and billed:
                found.append(f"attempt {id} is void, billed {billed}")
            if kind in ("forfeit", None) and billed > (need if kind is None else amount):
                found.append(f"attempt {id} ({kind}) was billed {billed}, more than was held")
            if id in bill and not sent and not is_open:
                found.append(f"attempt {id} was not sent, they say, and came")
            if kind == "settle" and id not in bill:
                found.append(f"attempt {id} was settled and never came")
        return found


class Odd(Place):
    """A workspace whose processes run on a machine that is odd; `machine` tells in which way, as `fakes.odd` reads it."""

    PROGRAM = (sys.executable, odd.__file__)

    def __init__(self, folder: Path, *, rows: int, budget: str, lanes: str = LANES, **machine: str) -> None:
        super().__init__(folder, rows=rows, budget=budget, lanes=lanes)
        self.machine = machine

    def environ(self) -> dict[str, str]:
        return self.machine


def nanos(usd: str) -> int:
    """Decimal dollars in nano-dollars."""
    return int(Decimal(usd) * 10**9)


def contradictions(document: dict[str, Any]) -> list[str]:
    """What contradicts itself in the object of `status --json` or `run --json`, at whatever moment it was made."""
    found = []
    for what in (document["cells"], *document["conditions"]):
        if what["planned"] != what["done"] + what["failed"] + what["pending"]:
            found.append(f"planned is not done + failed + pending: {what}")
        if max(what["cached"], what["shared"]) > what["done"]:
            found.append(f"cached and shared are within done: {what}")
    for condition in document["conditions"]:
        if sum(condition["finish"].values()) != condition["done"]:
            found.append(f"each done cell has one finish: {condition}")
    spend = {name: nanos(usd) for name, usd in document["spend"].items() if usd is not None}
    if spend["low_usd"] != spend["settled_usd"]:
        found.append(f"low is settled: {spend}")
    if spend["high_usd"] != spend["settled_usd"] + spend["forfeited_usd"] + spend["held_usd"]:
        found.append(f"high is settled + forfeited + held: {spend}")
    if sum(nanos(condition["spend_usd"]) for condition in document["conditions"]) != spend["high_usd"]:
        found.append("the conditions add up to the whole")
    if document["state"] not in ("planned", "running", "complete", "stopped"):
        found.append(f"no such state: {document['state']}")
    if document["state"] == "complete" and document["cells"]["pending"]:
        found.append("complete with pending cells")
    if document["state"] == "stopped" and not document["reason"]:
        found.append("stopped without a reason")
    return found


def looked_at(place: Place, name: str) -> dict[str, object]:
    """`status` while others run: it contradicts nothing, and the bill lies within the interval at that moment."""
    before = place.nanos()
    ended = place.command("status", name)
    after = place.nanos()
    assert ended.code == 0, ended.err
    document = ended.json
    assert contradictions(document) == []
    assert nanos(document["budget"]["high_usd"]) >= before
    assert nanos(document["spend"]["low_usd"]) <= after
    return document
