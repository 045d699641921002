"""What a call costs: judgerun's whole path against a bare aiohttp + orjson loop that keeps nothing, in one run.

`python benchmarks/calls.py` prints a line for each number and writes benchmarks/calls.json; `--quick` takes under a minute
and leaves out the 60-second window. Every cell is a fresh process; cells alternate; ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
MEGABYTE = 1_000_000
NOISY = 0.25  # foreign CPU above this share of the machine marks a cell


@contextmanager
def mock(latency: float) -> Iterator[str]:
    """A mock server in a process of its own; its URL."""
    command = [sys.executable, str(HERE / "mock.py"), "--latency", str(latency)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield str(json.loads(server.stdout.readline())["ready"])
    finally:
        server.stdin.close()
        server.wait(timeout=30)
        server.stdout.close()


def busy() -> tuple[float, float]:
    """Busy and all CPU seconds of the machine so far; zeros where /proc/stat is absent."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0.0, 0.0
    return (sum(ticks) - ticks[3] - ticks[4]) / 100, sum(ticks) / 100


def cell(kind: str, *, latency: float, calls: int, width: int, rate: int | None = None) -> dict[str, Any]:
    """One cell with its own server; what the server saw is kept beside what the client measured."""
    with mock(latency) as url:
        before, total = busy()
        command = [sys.executable, str(HERE / "cells.py"), kind, url, "--calls", str(calls), "--width", str(width)]
        done = subprocess.run(
            command + (["--rate", str(rate)] if rate else []),
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"cell {kind} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        after, all_ticks = busy()
        with urllib.request.urlopen(f"{url}/stats", timeout=10) as response:
            seen = json.load(response)
    measured = json.loads(done.stdout.splitlines()[-1])
    if kind != "pending" and seen["requests"] != calls:
        raise SystemExit(f"cell {kind}: {seen['requests']} requests at the server, {calls} wanted")
    span = max(all_ticks - total, 1e-9)
    foreign = max(0.0, (after - before - measured["cpu_whole"] - seen["cpu"]) / span)
    return {**measured, "server": seen, "foreign": round(foreign, 3), "noisy": foreign > NOISY}


def compare(name: str, field: str, *, reps: int, latency: float, calls: int, width: int) -> dict[str, Any]:
    """Ours over bare in one field, cells alternating."""
    cells: dict[str, list[dict[str, Any]]] = {"bare": [], "ours": []}
    for _ in range(reps):
        for kind, kept in cells.items():
            kept.append(cell(kind, latency=latency, calls=calls, width=width))
    values = {kind: [one[field] for one in kept] for kind, kept in cells.items()}
    middle = {kind: median(kept) for kind, kept in values.items()}
    ratio = middle["ours"] / middle["bare"]
    noisy = sum(one["noisy"] for kept in cells.values() for one in kept)
    unit = f"{field} ms/call" if field == "cpu" else f"{field} s"
    scale = 1000 / calls if field == "cpu" else 1.0
    spread = {kind: [round(min(kept) * scale, 4), round(max(kept) * scale, 4)] for kind, kept in values.items()}
    print(
        f"{name}: {ratio:.2f}x ({unit}: ours {middle['ours'] * scale:.3f} {spread['ours']}, "
        f"bare {middle['bare'] * scale:.3f} {spread['bare']}; {reps} runs, {noisy} noisy cells)",
        flush=True,
    )
    return {"name": name, "ratio": round(ratio, 4), "field": field, "spread": spread, "cells": cells}


def memory(*, prompts: int, width: int) -> dict[str, Any]:
    """What so many pending prompts of 2 KB add to the resident memory of a run that holds `width` of them open."""
    few = cell("pending", latency=3600.0, calls=width, width=width)
    many = cell("pending", latency=3600.0, calls=prompts, width=width)
    added = (many["resident"] - few["resident"]) / MEGABYTE
    print(f"memory: {prompts} pending prompts of 2 KB add {added:.1f} MB", flush=True)
    return {"name": "memory", "added_mb": round(added, 2), "few": few, "many": many}


def flight(*, calls: int, width: int, latency: float) -> dict[str, Any]:
    """So many calls in flight at once: how many the server really held, how many tries were in vain, how late the loop was."""
    seen = cell("lagged", latency=latency, calls=calls, width=width)
    most, vain = seen["server"]["most"], seen["attempts"] - seen["done"]
    print(
        f"flight: {most} of {width} in flight at {latency:g} s; {vain} tries in vain; the loop late by "
        f"{seen['lag_p99_ms']} ms (99%), {seen['lag_worst_ms']} ms at worst; it computed for {seen['work_worst_ms']} ms in one go",
        flush=True,
    )
    return {
        "name": "flight",
        "most": most,
        "in_vain": vain,
        "width": width,
        "lag_worst_ms": seen["lag_worst_ms"],
        "cell": seen,
    }


def window(*, rate: int, seconds: int) -> dict[str, Any]:
    """The most requests that the server saw in any 60 seconds, over the lane's limit."""
    seen = cell("ours", latency=0.05, calls=rate * seconds // 60, width=64, rate=rate)
    worst = seen["server"]["worst_window"]
    print(f"window: {worst} requests in the worst 60 seconds of {rate} a minute: {worst / rate:.3f}x", flush=True)
    return {"name": "window", "ratio": worst / rate, "rate": rate, "cell": seen}


def main() -> None:
    """All numbers, in the order of DESIGN's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run of each, fewer calls, no window")
    parser.add_argument("--only", choices=["cpu", "wall", "memory", "flight", "window"], action="append")
    parser.add_argument("--calls", type=int, default=None)
    parser.add_argument("--reps", type=int, default=None)
    parser.add_argument("--out", type=Path, default=HERE / "calls.json")
    given = parser.parse_args()
    wanted = given.only or ["cpu", "wall", "memory", "flight", *(() if given.quick else ["window"])]
    calls = given.calls or (3000 if given.quick else 10_000)
    reps = given.reps or (1 if given.quick else 5)
    started = time.time()
    made: list[dict[str, Any]] = []
    if "cpu" in wanted:
        made.append(compare("cpu", "cpu", reps=reps, latency=0.0, calls=calls, width=500))
    if "wall" in wanted:
        made.append(compare("wall", "wall", reps=reps, latency=1.0, calls=min(calls, 5000), width=500))
    if "memory" in wanted:
        made.append(memory(prompts=100_000, width=500))
    if "flight" in wanted:
        made.append(flight(calls=6000 if given.quick else 20_000, width=2000, latency=2.0))
    if "window" in wanted:
        made.append(window(rate=600, seconds=150))
    machine = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    given.out.write_text(
        json.dumps({"machine": machine, "seconds": round(time.time() - started), "made": made}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
