"""From the JSON lines of run.py to the Markdown table against DESIGN's must and goal: `python benchmarks/report.py [FILE]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One target: what it is, how it is read from the results, and what it must and should be."""

    work: str
    read: Callable[[Results], float]
    must: float | None
    goal: float | None
    unit: str = "x"


ROWS = (
    Row("CPU per call over the bare loop, 500 in flight", lambda r: r["cpu"]["ratio"], 3.0, 2.0),
    Row("wall over the bare loop at 1 s latency, 500 in flight", lambda r: r["wall"]["ratio"], 1.3, 1.1),
    Row("memory added by 100,000 pending prompts of 2 KB", lambda r: r["memory"]["added_mb"], 60, 25, " MB"),
    Row("worst 60 seconds over the lane's limit", lambda r: r["window"]["ratio"], 1.0, None),
    Row("tries in vain with 2,000 in flight", lambda r: r["flight"]["in_vain"], 0, None, ""),
    Row("worst lag of the loop with 2,000 in flight", lambda r: r["flight"]["lag_worst_ms"], 100, None, " ms"),
    Row("worst lag of the loop while 500 write", lambda r: r["writing"]["lag_worst_ms"], 100, None, " ms"),
    Row("attempts made durable, reserve and settle", lambda r: r["writing"]["pairs_per_s"], None, None, " a second"),
    Row("planning what is bought over a build-hash-look-up loop", lambda r: r["planning"]["plan_over_loop"], 3.0, 1.5),
    Row("`status` on a complete experiment, its start included", lambda r: r["planning"]["status_s"], 1.0, None, " s"),
    Row("a rerun of it, its start included", lambda r: r["planning"]["rerun_s"], None, None, " s"),
    Row("exact top 10 over numpy's own block matmul", lambda r: r["retrieval"]["wall_over_plain"], 1.5, 1.2),
    Row("bootstrap over a loop of int64 indices", lambda r: r["analysis"]["bootstrap_over_loop"], 1.0, 0.6),
)


def table(results: Results) -> str:
    """Markdown; a row that was not measured says so."""
    lines = ["| work | measured | must | goal | |", "|---|---|---|---|---|"]
    for row in ROWS:
        try:
            value = row.read(results)
        except KeyError:
            lines.append(f"| {row.work} | not measured | {_bar(row.must, row)} | {_bar(row.goal, row)} | |")
            continue
        verdict = "missed" if row.must is not None and value > row.must else "met" if row.must is not None else ""
        if verdict == "met" and row.goal is not None and value <= row.goal:
            verdict = "goal met"
        lines.append(
            f"| {row.work} | {value:.4g}{row.unit} | {_bar(row.must, row)} | {_bar(row.goal, row)} | {verdict} |"
        )
    return "\n".join(lines)


def _bar(value: float | None, row: Row) -> str:
    return "" if value is None else f"<= {value:g}{row.unit}"


def main() -> None:
    """Print the machine and the table."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results.jsonl"
    results = {line["name"]: line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    place = results["machine"]
    noisy = sum(line.get("noisy", 0) for line in results.values())
    absent = [name for name, found in place["peers"].items() if found == "absent"]
    print(f"Python {place['python']}, {place['system']} {place['machine']}, {place['cores']} cores, {place['at']}")
    print(f"noisy cells: {noisy}; quick: {place['quick']}; peers absent: {', '.join(absent) or 'none'}\n")
    print(table(results))


if __name__ == "__main__":
    main()
