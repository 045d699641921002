"""`make demo`: the whole way of one experiment on a simulated provider, each command printed before it runs.

A workspace is made in demo/ (or in the folder given); nothing else is written and no key is needed. The budget is too small at
first: the run stops at its cap, the cap is raised, the run goes on without buying anything twice, and the ledger is held against
the provider's own bill.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMO = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "demo"
BILL = DEMO / "provider.bill.jsonl"
EXPERIMENT = "equivalence"
SMALL, ENOUGH = 'total = "0.20"', 'total = "2.00"'
EXHAUSTED = 3


def say(text: str) -> None:
    """A line of the story."""
    print(f"\n\033[1m# {text}\033[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)


def judgerun(*words: str, expect: tuple[int, ...] = (0,), quiet: bool = False) -> str:
    """Print a command and run it; stop the demo where it ends otherwise than expected."""
    if not quiet:
        print("$ judgerun", *words, flush=True)
    done = subprocess.run(
        [str(Path(sys.executable).parent / "judgerun"), *words],
        cwd=DEMO,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        check=False,
    )
    if done.returncode not in expect:
        raise SystemExit(f"demo: `judgerun {' '.join(words)}` ended with {done.returncode}, expected {expect[0]}")
    if done.returncode and not quiet:
        print(f"(exit {done.returncode})", flush=True)
    return done.stdout or ""


def status() -> dict[str, Any]:
    """How the experiment stands, for the demo's own checks."""
    held = json.loads(judgerun("status", EXPERIMENT, "--budget", "demo", "--json", quiet=True))
    assert isinstance(held, dict)
    return held


def bill() -> tuple[int, Decimal]:
    """Calls that came to the provider, and what it charged for them in dollars, by its own books."""
    rows = [json.loads(line) for line in BILL.read_text(encoding="utf-8").splitlines()]
    return len(rows), Decimal(sum(row["nanos"] for row in rows if row["billed"])) / 10**9


@contextmanager
def provider() -> Iterator[str]:
    """The simulated provider; its URL."""
    words = ["simulate", "--port", "0", "--bill", str(BILL), "--seed", "20"]
    print("$ judgerun", *words[:4], BILL.name, *words[5:], "&", flush=True)
    server = subprocess.Popen(
        [str(Path(sys.executable).parent / "judgerun"), *words], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        ready = server.stdout.readline()
        if not ready:
            raise SystemExit("demo: the simulated provider did not start")
        print(ready.strip(), flush=True)
        yield str(json.loads(ready)["url"])
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)
        server.stdout.close()


def prepare() -> None:
    """A fresh workspace with the shipped experiment and budgets."""
    shutil.rmtree(DEMO, ignore_errors=True)
    shutil.copytree(ROOT / "prompts" / EXPERIMENT, DEMO / "prompts" / EXPERIMENT)
    (DEMO / "budgets").mkdir()
    for name in ("demo.toml", "lanes.toml"):
        shutil.copy(ROOT / "budgets" / name, DEMO / "budgets" / name)


def stop_and_resume() -> None:
    """Run into the cap, raise it, go on; nothing is bought twice."""
    say(f"Run under a cap that is too small ({SMALL} dollars): it stops by itself and says why.")
    judgerun("run", EXPERIMENT, "--budget", "demo", "--yes", expect=(EXHAUSTED,))
    stopped, (calls, charged) = status(), bill()
    print(
        f"stopped with {stopped['cells']['done']} of {stopped['cells']['planned']} cells done; the provider: {calls} calls"
    )
    if Decimal(stopped["spend"]["high_usd"]) > Decimal(stopped["spend"]["cap_usd"]):
        raise SystemExit("demo: the cap did not hold")

    say(f"Raise the cap in the budget file to {ENOUGH} and run the same command again.")
    file = DEMO / "budgets" / "demo.toml"
    file.write_text(file.read_text(encoding="utf-8").replace(SMALL, ENOUGH), encoding="utf-8")
    judgerun("run", EXPERIMENT, "--budget", "demo", "--yes")

    say("Once more: everything is in the cache, nothing is sent.")
    before = bill()
    judgerun("run", EXPERIMENT, "--budget", "demo", "--yes")
    if bill() != before or before[0] <= calls or before[1] <= charged:
        raise SystemExit("demo: the second run bought something again")


def compare() -> None:
    """Our ledger beside the provider's books."""
    say("Hold the ledger against the provider's own bill.")
    spend, (calls, charged) = status()["spend"], bill()
    print(
        f"ledger:   settled {spend['settled_usd']} USD, forfeited {spend['forfeited_usd']} USD, held {spend['held_usd']} USD"
    )
    print(f"provider: charged {charged} USD for {calls} calls")
    if Decimal(spend["settled_usd"]) != charged:
        raise SystemExit("demo: the two do not agree")
    print("they agree to the nano-dollar")


def main() -> None:
    """The whole way."""
    started = time.monotonic()
    prepare()
    say("A provider on this machine, with its own bill. No key, no network.")
    with provider() as url:
        os.environ["JUDGERUN_SIM_URL"] = url
        say("Check every file and render the first prompts; then the quote. Nothing is sent.")
        judgerun("check", EXPERIMENT)
        judgerun("plan", EXPERIMENT, "--budget", "demo")
        stop_and_resume()
    say("The provider is gone. What follows is offline: audit, seal, verify, report.")
    judgerun("audit", EXPERIMENT)
    judgerun("seal", EXPERIMENT)
    judgerun("verify", EXPERIMENT)
    judgerun("report", EXPERIMENT)
    compare()
    report = DEMO / "results" / EXPERIMENT / "report.md"
    say(f"Done in {time.monotonic() - started:.0f} s. Read {report} and report.html beside it.")


if __name__ == "__main__":
    main()
