"""How fast the cache takes attempts while each is durable before its caller goes on, and how late the loop is meanwhile.

`python benchmarks/writing.py` prints one line of JSON: pairs of a reservation and a settled reply of 2 KB a second, 500 waiting,
against one transaction of SQLite a row of the same size, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sqlite3
import tempfile
import time
from pathlib import Path

from judgerun.dispatch.clock import WallClock
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.model.request import build
from judgerun.ports import Claim, Closing
from judgerun.store.cache import Cache

BODY = json.dumps({"content": "The candidate that asks for the same is number 3. " * 40}).encode()
NEED = Amount(nanos=100, calls=1, tokens=50)
REPLY = Reply(
    finish=Finish.STOP,
    text="3",
    usage=Usage(input_fresh=40, output_visible=1),
    raw=BODY,
    raw_digest=hashlib.sha256(BODY).hexdigest(),
)


async def pair(cache: Cache, number: int) -> None:
    """One attempt: reserved, then settled with its reply."""
    payload = {"model": "m", "messages": [{"role": "user", "content": f"{number} " * 300}]}
    request = build("chat", payload, deployment="d", adapter="a", draw=1)
    claim = Claim(
        requests=(request,), stage="s", condition="s/m/p@t", provider="d", model="m", need=NEED, tokens_expected=40,
        bound_by="bytes",
    )  # fmt: skip
    grant = await cache.reserve(claim)
    assert grant.attempt is not None
    settle = Closing(
        attempt=grant.attempt, kind=EntryKind.SETTLE, amount=NEED, status=200, replies=((request, REPLY, 90),)
    )
    await cache.close(settle)


async def written(folder: Path, pairs: int, width: int) -> dict[str, float]:
    """So many pairs by so many workers."""
    late: list[float] = []

    async def probe() -> None:
        while True:
            due = time.perf_counter() + 0.005
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - due)

    numbers = iter(range(pairs))

    async def work(cache: Cache) -> None:
        for number in numbers:
            await pair(cache, number)

    async with await Cache.open(folder / "cache.db", clock=WallClock()) as cache:
        await cache.enter(experiment="x", budget=Budget(name="b", caps=(Cap("nanos", "total", "", 10**15),)))
        probing = asyncio.create_task(probe())
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(work(cache) for _ in range(width)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        probing.cancel()
    return {"pairs_per_s": pairs / wall, "cpu_us_a_pair": cpu / pairs * 1e6, "lag_worst_ms": max(late) * 1000}


def plain(folder: Path, rows: int) -> float:
    """Rows a second of 2 KB, each in a transaction of its own, FULL."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("create table kept (id integer primary key, body blob)")
    began = time.perf_counter()
    for _ in range(rows):
        connection.execute("insert into kept (body) values (?)", (BODY,))
    spent = time.perf_counter() - began
    connection.close()
    return rows / spent


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 pairs instead of 50,000")
    pairs = 5000 if parser.parse_args().quick else 50_000
    with tempfile.TemporaryDirectory(prefix="judgerun-bench-") as name:
        folder = Path(name)
        found = asyncio.run(written(folder, pairs, 500))
        found["plain_rows_per_s"] = plain(folder, pairs // 5)
    print(json.dumps({"name": "writing", "pairs": pairs} | {key: round(value, 1) for key, value in found.items()}))


if __name__ == "__main__":
    main()
