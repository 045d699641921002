"""What analysis costs: the bootstrap of a mean and paired rank agreement against plain numpy and scipy loops, in one run.

`python benchmarks/analysis.py` prints one line of JSON: seconds of CPU (the least of several alternating runs) and ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from judgerun.analysis import agreement, intervals, paired

SEED = 12345
Floats = npt.NDArray[np.float64]


def loop(values: Floats, resamples: int) -> tuple[float, float]:
    """The denominator: one row of int64 indices at a time."""
    rng = np.random.default_rng(SEED)
    found = np.empty(resamples)
    for place in range(resamples):
        found[place] = values[rng.integers(0, len(values), len(values))].mean()
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def matrix(values: Floats, resamples: int) -> tuple[float, float]:
    """All int64 indices in one matrix: the fastest plain way, at eight bytes an index."""
    rows = np.random.default_rng(SEED).integers(0, len(values), size=(resamples, len(values)))
    low, high = np.percentile(values[rows].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def ours(values: Floats, resamples: int) -> tuple[float | None, float | None]:
    """The same interval by judgerun."""
    found = intervals.bootstrap(values, seed=SEED, resamples=resamples)
    return found.low, found.high


def least(runs: int, *works: Callable[[], Any]) -> list[float]:
    """The least CPU seconds of each work, over runs in which they alternate."""
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for place, work in enumerate(works):
            start = time.process_time()
            work()
            spent[place].append(time.process_time() - start)
    return [min(each) for each in spent]


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    runs = 3 if parser.parse_args().quick else 15
    rng = np.random.default_rng(1)
    values = rng.random(500)
    assert ours(values, 10_000) == matrix(values, 10_000) == loop(values, 10_000)
    boot, by_matrix, by_loop = least(
        runs, lambda: ours(values, 10_000), lambda: matrix(values, 10_000), lambda: loop(values, 10_000)
    )
    a, b = rng.integers(0, 9, 118), rng.integers(0, 9, 118)
    tau, scipy_tau = least(runs, lambda: agreement.tau(a, b), lambda: stats.kendalltau(a, b))
    exact, binomial = least(runs, lambda: paired.mcnemar(13, 10), lambda: stats.binomtest(10, 23))
    result = {
        "bootstrap_s": boot,
        "bootstrap_over_loop": boot / by_loop,
        "bootstrap_over_matrix": boot / by_matrix,
        "tau_over_scipy": tau / scipy_tau,
        "mcnemar_over_scipy": exact / binomial,
        "runs": runs,
        "numpy": np.__version__,
    }
    print(json.dumps({name: round(value, 6) if isinstance(value, float) else value for name, value in result.items()}))


if __name__ == "__main__":
    main()
