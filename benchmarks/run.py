"""All benchmarks, one after the other, as JSON lines: `python benchmarks/run.py [--quick] [--out FILE]`; then report.py.

Each is a script of its own that measures in fresh processes; the first line says on what machine. `--quick` takes some minutes
and leaves out what needs a large file or a real minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = ("openai", "litellm", "inspect_ai", "bespokelabs-curator", "lm_eval", "httpx", "uvloop")
"""Others that a comparison could name; none is needed, and what is not installed is told as absent."""


def machine() -> dict[str, Any]:
    """Where these numbers come from, and which peers are there."""
    found = {}
    for peer in PEERS:
        try:
            found[peer] = version(peer)
        except PackageNotFoundError:
            found[peer] = "absent"
    return {
        "name": "machine",
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "peers": found,
    }


def calls(quick: bool) -> Iterator[dict[str, Any]]:
    """The numbers of calls.py, each without its cells but with how many of these were noisy."""
    with tempfile.TemporaryDirectory(prefix="judgerun-bench-") as folder:
        out = Path(folder) / "calls.json"
        script("calls.py", quick, "--out", str(out))
        for one in json.loads(out.read_text())["made"]:
            cells = one.pop("cells", {})
            kept = [cell for held in cells.values() for cell in held] or [one.pop("cell", {})]
            yield one | {"noisy": sum(bool(cell.get("noisy")) for cell in kept), "n": len(kept)}


def script(name: str, quick: bool, *words: str) -> str:
    """The last line that a script prints; what it says meanwhile goes to standard error."""
    command = [sys.executable, str(HERE / name), *(["--quick"] if quick else []), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    sys.stderr.write(done.stdout)
    return done.stdout.splitlines()[-1]


def lines(quick: bool) -> Iterator[dict[str, Any]]:
    """Every result."""
    yield machine()
    yield from calls(quick)
    yield json.loads(script("planning.py", quick))
    yield json.loads(script("writing.py", quick))
    yield {"name": "analysis"} | json.loads(script("analysis.py", quick))
    yield {"name": "retrieval"} | json.loads(script("retrieval.py", quick))


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "results.jsonl")
    given = parser.parse_args()
    with given.out.open("w", encoding="utf-8") as out:
        for line in lines(given.quick):
            out.write(json.dumps({**line, "quick": given.quick}) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
