"""The simulated provider as a process of its own, started as a user starts it, with its bill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

JUDGERUN = Path(sys.executable).parent / "judgerun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """Where it answers and where it keeps its books."""

    url: str
    bill: Path

    def rows(self) -> list[dict[str, object]]:
        """One row for each call that came."""
        return [json.loads(line) for line in self.bill.read_text(encoding="utf-8").splitlines()]

    def nanos(self) -> int:
        """What it charged in all, in nano-dollars."""
        return sum(int(str(row["nanos"])) for row in self.rows() if row["billed"])


@contextmanager
def simulator(
    bill: Path, *, seed: int = 0, prices: Path | None = None, pace: float = 0.0, faults: str = ""
) -> Iterator[Simulator]:
    """A simulated provider for as long as the block runs."""
    command = [str(JUDGERUN), "simulate", "--port", "0", "--bill", str(bill), "--seed", str(seed), "--pace", str(pace)]
    command += ["--prices", str(prices)] if prices else []
    command += ["--faults", faults] if faults else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        ready = server.stdout.readline()
        assert ready, f"the simulated provider did not start: exit {server.wait(timeout=10)}"
        yield Simulator(url=str(json.loads(ready)["url"]), bill=bill)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)
        server.stdout.close()
