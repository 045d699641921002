"""One cell of a benchmark, in a process of its own: `python benchmarks/cells.py CELL URL --calls N --width W`.

Prints one line of JSON: calls, CPU seconds of this process (all threads), wall seconds, peak resident memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import orjson

import judgerun

PROMPT_BYTES = 2048
WORDS = "a chord of a circle lies at some distance from the centre and its length is wanted in whole numbers "


def prompt(number: int) -> str:
    """A distinct prompt of about two kilobytes."""
    return (f"Problem {number}: " + WORDS * 24)[:PROMPT_BYTES]


async def bare(url: str, calls: int, width: int) -> None:
    """The denominator: aiohttp and orjson, so many workers over one iterator, nothing kept."""
    numbers = iter(range(calls))

    async def work(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            body = orjson.dumps(
                {"model": "mock", "messages": [{"role": "user", "content": prompt(number)}], "max_tokens": 64}
            )
            async with session.post(
                f"{url}/v1/chat/completions", data=body, headers={"content-type": "application/json"}
            ) as response:
                reply = orjson.loads(await response.read())
                assert reply["choices"][0]["finish_reason"] == "stop"

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        await asyncio.gather(*(work(session) for _ in range(width)))


RUNS = ("judgerun.api.running", "judgerun.providers.http")
"""All that a run imports."""

EXPERIMENT = """
name = "bench"
[data.rows]
path = "rows.jsonl"
[providers.mock]
dialect = "openai"
base_url = "{url}/v1"
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


def workspace(folder: Path, url: str, calls: int, width: int, rate: int | None) -> None:
    """A workspace whose one experiment makes `calls` calls."""
    home = folder / "prompts" / "bench"
    home.mkdir(parents=True)
    (home / "experiment.toml").write_text(EXPERIMENT.format(url=url))
    (home / "ask.md").write_text("{{ text }}\nAnswer with one whole number from 1 to 9 and nothing else.\n")
    with (home / "rows.jsonl").open("wb") as rows:
        for number in range(calls):
            rows.write(orjson.dumps({"id": f"r{number:07}", "text": prompt(number)}) + b"\n")
    budgets = folder / "budgets"
    budgets.mkdir()
    (budgets / "bench.toml").write_text('total = "1000.00"\nconfirm_above = "1000.00"\n')
    lane = f"[mock]\nconcurrency = {width}\ntimeout_s = 3600\n" + (f"requests_per_minute = {rate}\n" if rate else "")
    (budgets / "lanes.toml").write_text(lane)


async def ours(folder: Path, watch: Callable[[Any], None] | None = None) -> Any:
    """The whole path: experiment file, plan, reservation, HTTP, settled reply, all durable."""
    experiment = judgerun.load(folder / "prompts" / "bench")
    return await judgerun.run(
        experiment, budget=folder / "budgets" / "bench.toml", cache=folder / "cache.db", watch=watch
    )


async def lagged(folder: Path) -> dict[str, Any]:
    """The same with a probe: by how much a timer of 5 ms was late while calls went out and came back, and how long the loop's own
    thread computed from one ring to the next, which other programs do not lengthen. The seconds before the first look at the run
    (its survey) and after the last (its end) are left out: nothing is in flight then.
    """
    late: list[tuple[float, float, float]] = []
    looks: list[float] = []

    async def probe() -> None:
        while True:
            due, worked = time.perf_counter() + 0.005, time.thread_time()
            await asyncio.sleep(0.005)
            late.append((due, time.perf_counter() - due, time.thread_time() - worked))

    probing = asyncio.create_task(probe())
    result = await ours(folder, lambda _: looks.append(time.perf_counter()))
    probing.cancel()
    told = [(lag, worked) for due, lag, worked in late if looks and looks[0] <= due <= looks[-1]]
    held = sorted(lag for lag, _ in told)
    if not held:
        raise SystemExit("the run ended before it was looked at: more calls, or a longer latency")
    return {
        "lag_worst_ms": round(held[-1] * 1000, 1),
        "lag_p99_ms": round(held[int(len(held) * 0.99)] * 1000, 1),
        "work_worst_ms": round(max(worked for _, worked in told) * 1000, 1),
        "lags": len(held),
        "done": result.state.document()["cells"]["done"],
        "attempts": result.state.standing.attempts,
    }


def resident() -> int:
    """Resident bytes now, from /proc; the peak where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


async def pending(folder: Path, url: str, width: int) -> int:
    """Resident bytes at their highest while all slots are held by a server that does not answer."""
    run = asyncio.create_task(ours(folder))
    highest = 0
    settled_at: float | None = None
    async with aiohttp.ClientSession() as session:
        while settled_at is None or time.monotonic() < settled_at + 5:
            await asyncio.sleep(0.5)
            if run.done():
                run.result()
                raise SystemExit("the run ended while its calls were held")
            highest = max(highest, resident())
            async with session.get(f"{url}/stats") as response:
                if settled_at is None and (await response.json())["in_flight"] >= width:
                    settled_at = time.monotonic()
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    return highest


def measured(kind: str, url: str, calls: int, width: int, rate: int | None) -> Iterator[tuple[str, Any]]:
    """The numbers of one cell. What is prepared before (rows, folders) is not measured."""
    with tempfile.TemporaryDirectory(prefix="judgerun-bench-") as name:
        folder = Path(name)
        if kind != "bare":
            workspace(folder, url, calls, width, rate)
            for module in RUNS:  # once a process, and not once a call
                import_module(module)
        cpu, wall = time.process_time(), time.perf_counter()
        if kind == "bare":
            asyncio.run(bare(url, calls, width))
        elif kind == "ours":
            asyncio.run(ours(folder))
        elif kind == "lagged":
            yield from asyncio.run(lagged(folder)).items()
        elif kind == "pending":
            yield "resident", asyncio.run(pending(folder, url, width))
        yield "cpu", time.process_time() - cpu
        yield "wall", time.perf_counter() - wall
    yield "peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield "cpu_whole", time.process_time()
    yield "switched", resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def main() -> None:
    """Run one cell and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["bare", "ours", "lagged", "pending"])
    parser.add_argument("url")
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--rate", type=int)
    given = parser.parse_args()
    if given.kind == "bare":  # a run raises the limit itself
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})
    cell = dict(measured(given.kind, given.url, given.calls, given.width, given.rate))
    print(json.dumps({"cell": given.kind, "calls": given.calls, "width": given.width, **cell}), file=sys.stdout)


if __name__ == "__main__":
    main()
