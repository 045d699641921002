"""What exact search costs: top 10 of 500 queries over 117,088 x 4,096 float32 in a memory map, against numpy's own block matmul.

`python benchmarks/retrieval.py` writes the map to a temporary folder (1.9 GB; `--quick` 117,088 x 256), runs each way in a
process of its own, alternating, and prints one line of JSON: wall seconds (least of the runs), their ratio, peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from judgerun.retrieval.dense import top_k

N, Q, K, BLOCK = 117_088, 500, 10, 8192


def queries(dimensions: int) -> npt.NDArray[np.float32]:
    """The same queries in every process, of length 1."""
    made = np.random.default_rng(2).standard_normal((Q, dimensions), dtype=np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def write(path: Path, dimensions: int) -> None:
    """Documents of length 1, a block at a time."""
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        for start in range(0, N, BLOCK):
            rows = rng.standard_normal((min(BLOCK, N - start), dimensions), dtype=np.float32)
            file.write((rows / np.linalg.norm(rows, axis=1, keepdims=True)).tobytes())


def plain(asked: npt.NDArray[np.float32], held: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The denominator: a matmul and an argpartition for each block, for vectors that have length 1 already."""
    rows, scores = np.empty((Q, 0), np.int64), np.empty((Q, 0), np.float32)
    for start in range(0, N, BLOCK):
        found = asked @ held[start : start + BLOCK].T
        places = np.argpartition(found, found.shape[1] - K, axis=1)[:, -K:]
        scores = np.concatenate((scores, np.take_along_axis(found, places, axis=1)), axis=1)
        rows = np.concatenate((rows, places + start), axis=1)
    order = np.argsort(-scores, axis=1)[:, :K]
    return np.take_along_axis(rows, order, axis=1)


def cell(kind: str, path: Path, dimensions: int) -> None:
    """One way, once; prints its figures and the rows that it found."""
    if kind == "write":
        write(path, dimensions)
        print("{}")
        return
    asked, ids = queries(dimensions), [f"d{place:06}" for place in range(N)]
    held = np.memmap(path, np.float32, "r", shape=(N, dimensions))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    rows = top_k(asked, held, ids=ids, k=K, block=BLOCK)[0] if kind == "judgerun" else plain(asked, held)
    print(
        json.dumps(
            {
                "wall": time.perf_counter() - start,
                "cpu": time.process_time() - cpu,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
                "added": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000,
                "rows": rows.tolist(),
            }
        )
    )


def run(kind: str, path: Path, dimensions: int) -> dict[str, Any]:
    """A cell in a process of its own."""
    command = [sys.executable, __file__, "--cell", kind, "--path", str(path), "--dimensions", str(dimensions)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    return dict(json.loads(done.stdout))


def compare(dimensions: int, runs: int) -> dict[str, Any]:
    """Both ways, alternating; they must find the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.f32"
        run("write", path, dimensions)  # elsewhere: the peak memory of a process counts in those that it starts
        run("plain", path, dimensions)  # brings the file into the page cache
        pairs = [(run("judgerun", path, dimensions), run("plain", path, dimensions)) for _ in range(runs)]
    assert all(ours["rows"] == theirs["rows"] for ours, theirs in pairs)
    wall, bare = min(ours["wall"] for ours, _ in pairs), min(theirs["wall"] for _, theirs in pairs)
    cpu, bare_cpu = min(ours["cpu"] for ours, _ in pairs), min(theirs["cpu"] for _, theirs in pairs)
    return {
        "shape": [N, dimensions],
        "wall_s": round(wall, 3),
        "wall_over_plain": round(wall / bare, 3),
        "cpu_over_plain": round(cpu / bare_cpu, 3),
        "peak_mb": round(max(ours["peak"] for ours, _ in pairs)),
        "added_mb": round(max(ours["added"] for ours, _ in pairs)),
        "plain_peak_mb": round(max(theirs["peak"] for _, theirs in pairs)),
        "runs": runs,
        "numpy": np.__version__,
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="256 dimensions instead of 4,096")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cell", choices=["judgerun", "plain", "write"], help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--dimensions", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        cell(options.cell, options.path, options.dimensions)
    else:
        print(json.dumps(compare(256 if options.quick else 4096, options.runs)))


if __name__ == "__main__":
    main()
