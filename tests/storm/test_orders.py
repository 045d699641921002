"""Every order that a person can give, mixed with kill -9, on providers that fail: judged by the providers' own bills and by the
ledger as it stood after each entry.

Each test prints its seed; JUDGERUN_SEED=n plays that one again. JUDGERUN_STORM=long (`make storm`) plays the long form.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from fakes.judge import rows_of
from fakes.processes import EXPERIMENT, Ended, Place, contradictions, looked_at, nanos

pytestmark = [pytest.mark.storm, pytest.mark.timeout(1800)]

LONG = bool(os.environ.get("JUDGERUN_STORM"))
FILED = {"total": 5_000_000_000, "provider.sim": 4_000_000_000}
BUDGET = 'total = "5.00"\nconfirm_above = "0.00001"\n[provider]\nsim = "4.00"\n'
ILL = (
    "drop_after=0.04,drop_mid=0.03,429_absent=0.04,500=0.03,garbage=0.02,usage_missing=0.03",
    "503=1",  # nothing but probes
    "503=0.5,drop_after=0.1",
    "quota=0.05",  # closed: its cells go to the model that stands in
    "",
)
STARTS: tuple[tuple[str, ...], ...] = (
    ("run", "chain", "--yes"),
    ("run", "chain", "--yes", "--pilot", "4"),
    ("run", "chain", "--yes", "--detach"),
    ("escalate", "chain", "--condition", "solve/one", "--max-output-tokens", "160,240", "--yes"),
)
ROOM = ("set", "budget", "total=5.00", "provider.sim=4.00")
"""The caps as they were filed."""
WITNESS = """
create table witness (entry integer primary key, event integer not null);
create trigger witnessed after insert on entry
  begin insert into witness values (new.id, (select coalesce(max(id), 0) from event)); end;
"""
"""Which orders had been recorded when an entry was: so that the caps can be held against every entry."""


class Steered(Place):
    """A chain whose first model has another that stands in, at a provider which stays well, and a gate on its solver."""

    def __init__(self, folder: Path, *, rows: int) -> None:
        super().__init__(folder, rows=rows, budget=BUDGET)
        self.far = ""
        path = folder / "prompts" / "chain" / "experiment.toml"
        text = EXPERIMENT.format(name="chain", seed=0)
        text = text.replace('model = "sim-one"\n', 'model = "sim-one"\nfailover = "far"\n')
        text = text.replace('prompts = ["solve"]\n', 'prompts = ["solve"]\ngate = { truncated = 0.9, after = 10 }\n')
        text += '[providers.far]\ndialect = "openai"\nbase_url = "${FAR_URL}"\nidentity = "far"\n'
        text += 'price = { input = "0.50", output = "2.00" }\n'
        text += '[models.far]\nprovider = "far"\nmodel = "sim-far"\nmax_output_tokens = 128\nthinking = "off"\n'
        path.write_text(text)

    def environ(self) -> dict[str, str]:
        return {"FAR_URL": self.far}

    def witnessed(self) -> None:
        """From now on the cache notes of each entry which orders came before it."""
        connection = sqlite3.connect(self.cache)
        connection.executescript(WITNESS)
        connection.close()

    def living(self) -> list[int]:
        """The processes that run, ours and those that were detached; a zombie of ours is none."""
        found = rows_of(self.cache, "select pid from owner where closed is null")
        return [pid for (pid,) in found if _state(pid) not in ("", "Z")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def passed_caps(place: Steered) -> list[str]:
    """Where settled + forfeited + held passed a cap that was in force, after any entry."""
    found, caps = [], {"total": [(0, FILED["total"])], "provider.sim": [(0, FILED["provider.sim"])]}
    for id, detail in rows_of(
        place.cache, "select id, detail from event where kind = 'set' and subject like 'budget%'"
    ):
        said = json.loads(detail)
        caps[said["key"]].append((id, said["now"]))
    query = (
        "select e.id, e.attempt, e.kind, e.nanos, a.provider, coalesce(w.event, 0) from entry e "
        "join attempt t on t.id = e.attempt join account a on a.id = t.account left join witness w on w.entry = e.id order by e.id"
    )
    high: dict[str, int] = defaultdict(int)
    holds: dict[int, int] = {}
    for id, attempt, kind, amount, provider, event in rows_of(place.cache, query):
        change = amount if kind == "reserve" else -holds.pop(attempt) + (amount if kind != "void" else 0)
        if kind == "reserve":
            holds[attempt] = amount
        high["total"] += change
        high[f"provider.{provider}"] += change
        for key, told in caps.items():
            limit = next(now for since, now in reversed(told) if since <= event)
            if high[key] > limit:
                found.append(f"entry {id} ({kind}): {key} is {high[key]}, the cap {limit}")
    return found


def order(place: Steered, rng: random.Random) -> tuple[str, ...]:
    """Some order of a person."""
    words: tuple[str, ...] = rng.choice(
        (
            ("pause", "chain"),
            ("unpause", "chain"),
            ("stop", "chain"),
            ("stop", "chain", "--now"),
            ("stop", "chain", "--within", "0.3"),
            ("set", "budget", "total="),
            ("set", "budget", "total=", "provider.sim="),
            ("set", "sim", f"concurrency={rng.randrange(1, 9)}"),
            ("resume", "chain", "--condition", "solve", "--because", "so be it"),
        )
    )
    if words[1] != "budget":
        return words
    high = nanos(place.command("status", "chain").json["budget"]["high_usd"])
    cap = f"{rng.choice((high, high + 200_000, high + 3_000_000, 5_000_000_000)) / 10**9:.9f}"
    return tuple(word + cap * word.endswith("=") for word in words)


CAUSE = {0: "", 3: "exhausted", 7: "gate|certificate", 8: "cells failed", 9: "sim|far", 130: "interrupted"}


def ended_for_a_cause(ended: Ended, *, killed: bool, stopped: bool) -> None:
    """The exit code is one that the orders and the faults of the storm explain, and the words agree with it."""
    assert "Traceback" not in ended.err, ended.err
    if ended.code == -signal.SIGKILL:
        assert killed
        return
    assert ended.code in CAUSE, (ended.code, ended.err)
    if cause := CAUSE[ended.code]:
        assert re.search(cause, ended.json["reason"] or ""), (ended.code, ended.json["reason"])
    assert stopped or ended.code != 130


def round_of(place: Steered, rng: random.Random) -> int:
    """One or two processes, some orders, then the end of those that still live; how many were killed."""
    running: list[subprocess.Popen[str]] = [place.start(*rng.choice(STARTS)) for _ in range(rng.choice((1, 1, 2)))]
    stopped = False
    time.sleep(rng.uniform(0.8, 2.5))
    for _ in range(rng.randrange(1, 4)):
        words = order(place, rng)
        stopped = stopped or words[0] == "stop"
        said = place.command(*words)
        print(*words, said.code)
        assert said.code in (0, 2), (words, said.err)
        time.sleep(rng.uniform(0.0, 1.0))
    killed = 0
    while living := [*place.living(), *(process.pid for process in running if process.poll() is None)]:
        if rng.random() < 0.7:
            for pid in set(living):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed += 1
        else:
            place.command("stop", "chain", "--now")
            stopped = True
        time.sleep(0.5)
    for process in running:
        ended_for_a_cause(Ended(process), killed=killed > 0, stopped=stopped)
    return killed


def judged(place: Steered) -> None:
    """What must be true at any moment."""
    assert contradictions(looked_at(place, "chain")) == []
    assert [*place.wrong(), *passed_caps(place)] == []


def test_orders_and_kills_at_random(tmp_path: Path, rng: random.Random) -> None:
    """Runs, pilots and escalations, steered and killed: the caps in force hold at every entry, each attempt is booked as it was
    billed, nothing that was bought is lost or bought again, codes tell the cause; in the end the same commands finish.
    """
    place = Steered(tmp_path / "w", rows=300 if LONG else 12)
    killed = idle = 0
    with ExitStack() as stack:
        sim_url, far = place.url, stack.enter_context(place.provider(seed=2, pace=1.0))
        place.far, place.url = far.url, sim_url
        with place.provider(seed=1):
            assert place.command("run", "chain", "--yes", "--limit", "1").code == 0
        place.witnessed()
        for _ in range(40 if LONG else 1):
            faults = rng.choice(ILL)
            print(faults)
            sent = len(place.calls())
            with place.provider(seed=rng.randrange(1000), pace=4.0, faults=faults):
                killed += round_of(place, rng)
            judged(place)
            if len(place.calls()) == sent:  # under such a cap nothing more will happen
                idle += 1
                assert place.command(*ROOM).code == 0
        with place.provider(seed=1):
            finished(place)
    assert not LONG or (killed >= 20 and idle <= 20), (killed, idle)


def finished(place: Steered) -> None:
    """On healthy providers, with the caps as they were, the same commands finish, and once more send nothing."""
    assert place.command(*ROOM).code == 0
    for words in (STARTS[0], STARTS[3], STARTS[0]):
        ended = place.command(*words)
        for _ in range(8):
            if ended.code != 7:
                break
            assert place.command("resume", "chain", "--condition", "solve", "--because", "so be it").code == 0
            ended = place.command(*words)
        assert ended.code in (0, 8), ended.err
    document = ended.json
    assert document["state"] == "complete"
    assert nanos(document["spend"]["low_usd"]) <= place.nanos() <= nanos(document["spend"]["high_usd"])
    sent = len(place.calls())
    for words in STARTS if LONG else STARTS[:2]:
        assert place.command(*words).code in (0, 8)
    assert len(place.calls()) == sent
    judged(place)
