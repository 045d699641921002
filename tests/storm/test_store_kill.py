"""Real processes on one cache, killed at random: nothing is torn, nothing sent was not reserved, nothing kept is lost."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.buyer import __file__ as BUYER
from fakes.buyer import request
from fakes.store import check_books

pytestmark = [pytest.mark.storm, pytest.mark.timeout(1800)]

LONG = bool(os.environ.get("JUDGERUN_STORM"))
NEED = 100


def start(cache: Path, *names: str, keys: int, cap: int) -> list[subprocess.Popen[str]]:
    """Buyers that have opened the cache, recovered, and begin to buy at the same moment."""
    children = [
        subprocess.Popen(
            [sys.executable, str(BUYER), str(cache), str(cache.parent), name, str(keys), str(cap)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in names
    ]  # fmt: skip
    for child in children:
        assert child.stdout is not None
        assert child.stderr is not None
        if child.stdout.readline() != "ready\n":
            pytest.fail(f"a buyer did not start: {child.stderr.read()}")
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return children


def end(child: subprocess.Popen[str]) -> None:
    """Wait for a buyer and close its pipes."""
    _, told = child.communicate(timeout=120)
    assert child.returncode in (0, -signal.SIGKILL), told


def lines(cache: Path, what: str) -> list[list[int]]:
    """What all buyers wrote on one kind of file."""
    found = []
    for file in sorted(cache.parent.glob(f"{what}-*")):
        found += [[int(part) for part in line.split()] for line in file.read_text().splitlines()]
    return found


def check(cache: Path, *, cap: int) -> sqlite3.Connection:
    """All that a kill must leave true."""
    sent = {attempt for attempt, _ in lines(cache, "sent")}
    kept = [number for (number,) in lines(cache, "kept")]
    connection = sqlite3.connect(cache, isolation_level=None)
    connection.execute("begin")  # one view for all questions: the other process goes on writing
    check_books(connection, total=cap)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    reserved = {row[0] for row in connection.execute("select attempt from entry where kind = 'reserve'")}
    assert sent <= reserved, "an attempt was sent without a committed reserve"
    bodies = {row[0] for row in connection.execute("select r.key from reply p join request r on r.id = p.request")}
    lost = [number for number in kept if request(number).key not in bodies]
    assert lost == [], "a reply that was acknowledged is gone"
    again = connection.execute(
        "select k.request from carried k join reply p on p.request = k.request where k.attempt > p.attempt"
    ).fetchall()
    assert again == [], "a request was bought again after its reply"
    return connection


def test_kill_at_random(tmp_path: Path) -> None:
    """kill -9 again and again, with two processes on the cache: books sound each time, then the same command finishes the
    work, every key has one reply, and running it once more sends nothing.
    """
    seed = int(os.environ.get("JUDGERUN_SEED", str(random.SystemRandom().randrange(10**6))))
    print(f"JUDGERUN_SEED={seed}")
    rng = random.Random(seed)
    kills = 150 if LONG else 20
    keys = 10_000 if LONG else 2_500
    cache, cap = tmp_path / "cache.db", keys * NEED * 3
    killed = rounds = 0
    children = dict(zip("ab", start(cache, "a", "b", keys=keys, cap=cap), strict=True))
    while killed < kills:
        rounds += 1
        time.sleep(rng.uniform(0.02, 0.25))
        for name in rng.choice((("a",), ("b",), ("a", "b"))):
            children[name].send_signal(signal.SIGKILL)
            end(children[name])
            killed += 1
            if rounds % 4 == 0:
                check(cache, cap=cap).close()
            children[name] = start(cache, name, keys=keys, cap=cap)[0]
    for child in children.values():
        end(child)
        assert child.returncode == 0
    end(start(cache, "c", keys=keys, cap=cap)[0])
    connection = check(cache, cap=cap)
    assert connection.execute("select count(*) from reply").fetchone() == (keys,)
    assert connection.execute("select count(*) from attempt where open = 1").fetchone() == (0,)
    assert connection.execute("select count(*) from owner where closed is null").fetchone() == (0,)
    died = connection.execute("select count(*) from attempt where cause = 'owner died'").fetchone()[0]
    assert died > 0, "no kill found an open attempt: the storm was too mild to mean anything"
    before = len(lines(cache, "sent"))
    end(start(cache, "d", keys=keys, cap=cap)[0])
    assert len(lines(cache, "sent")) == before
    connection.close()


def test_two_processes_under_one_cap(tmp_path: Path) -> None:
    """Two processes that together want twice the money never commit more than the cap, and use nearly all of it."""
    keys = 4_000 if LONG else 1_200
    cache, cap = tmp_path / "cache.db", keys * 30
    children = start(cache, "a", "b", keys=keys, cap=cap)
    while any(child.poll() is None for child in children):
        check(cache, cap=cap).close()
        time.sleep(0.1)
    for child in children:
        end(child)
    connection = check(cache, cap=cap)
    (high,) = connection.execute("select sum(settled_nanos + forfeited_nanos + held_nanos) from account").fetchone()
    assert cap - 2 * NEED < high <= cap
    assert connection.execute("select count(distinct owner) from attempt").fetchone() == (2,)
    connection.close()


OPENER = """
import asyncio, sys, time
from pathlib import Path
from judgerun.store.cache import Cache
from judgerun.ledger.budget import Budget, Cap

class Clock:
    def wall(self): return time.time()

async def main(folder, rounds):
    budget = Budget(name="purse", caps=(Cap("nanos", "total", "", 1),))
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    for number in range(rounds):
        time.sleep(max(0.0, begin + number * 0.06 - time.time()))
        store = await Cache.open(folder / f"{number}.db", clock=Clock())
        await store.enter(experiment="x", budget=budget)
        await store.leave({}, {})
        await store.aclose()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def test_two_processes_open_a_fresh_cache(tmp_path: Path) -> None:
    """Two processes that make the same cache at the same moment both get it, every time."""
    rounds = 200 if LONG else 40
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(tmp_path), str(rounds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    told = []
    begin = f"{time.time() + 0.2}\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write(begin)
        child.stdin.flush()
    for child in children:
        told.append(child.communicate(timeout=120)[1])
    assert [child.returncode for child in children] == [0, 0], told
    for number in range(rounds):
        connection = sqlite3.connect(tmp_path / f"{number}.db")
        assert connection.execute("select count(*) from owner where closed is not null").fetchone() == (2,)
        connection.close()
