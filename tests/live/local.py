"""`make live-local`: prepares the trajectory rows, starts a real llama.cpp server, runs the whole experiment, audits, reports.

Needs JUDGERUN_DATA and the extra `live`. A second run sends nothing: everything is answered from the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FINDINGS = 8  # a base model runs to its cap: the audit must say so


@contextmanager
def llama() -> Iterator[str]:
    """The URL of a llama.cpp server that lives as long as the block."""
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "live" / "llama.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        line = server.stdout.readline()
        if not line:
            raise SystemExit("the llama.cpp server did not start")
        yield str(json.loads(line)["ready"])
    finally:
        server.stdin.close()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def step(*command: str, env: dict[str, str], fine: tuple[int, ...] = (0,)) -> None:
    """Print a command, run it, and stop where it ends otherwise than it may."""
    print("\n$ judgerun", " ".join(command), flush=True)
    done = subprocess.run([str(Path(sys.executable).parent / "judgerun"), *command], cwd=ROOT, env=env, check=False)
    if done.returncode not in fine:
        raise SystemExit(done.returncode)


def main() -> None:
    """The whole way."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, str(ROOT / "prompts" / "trajectories" / "prepare.py")], env=env, check=True)
    with llama() as url:
        env["JUDGERUN_LLAMA_URL"] = url
        step("check", "trajectories", env=env)
        step("plan", "trajectories", "--budget", "local", env=env)
        step("run", "trajectories", "--budget", "local", "--yes", env=env, fine=(0, FINDINGS))
        step("audit", "trajectories", env=env, fine=(0, FINDINGS))
        step("report", "trajectories", env=env)
    print(f"\nreport: {ROOT / 'results' / 'trajectories' / 'report.md'}")


if __name__ == "__main__":
    main()
