"""Whole runs in real processes: killed, stopped, starved and crowded at random moments, judged by the provider's own bill.

Each test prints its seed; JUDGERUN_SEED=n plays that one again. JUDGERUN_STORM=long (`make storm`) plays the long form.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest

from fakes.judge import rows_of
from fakes.processes import LANES, Ended, Place, contradictions, looked_at, nanos

pytestmark = [pytest.mark.storm, pytest.mark.timeout(1800)]

LONG = bool(os.environ.get("JUDGERUN_STORM"))
FAULTS = "drop_after=0.04,drop_mid=0.03,429_absent=0.04,500=0.03,garbage=0.02,usage_missing=0.03,truncated=0.02"
EMBED_FAULTS = ",vector_size=0.02,vector_nan=0.02,vector_permuted=0.05"


def finished(place: Place, *names: str) -> None:
    """On a healthy provider the same commands finish; the books hold the bill; once more sends nothing."""
    low = high = 0
    for name in names:
        ended = place.command("run", name, "--yes")
        assert ended.code in (0, 8), ended.err
        document = ended.json
        assert document["state"] == "complete"
        assert contradictions(document) == []
        assert document["spend"]["held_usd"] == "0.00"
        low, high = low + nanos(document["spend"]["low_usd"]), high + nanos(document["spend"]["high_usd"])
    assert low <= place.nanos() <= high
    assert place.wrong() == []
    sent = len(place.calls())
    for name in names:
        assert place.command("run", name, "--yes").code in (0, 8)
    assert len(place.calls()) == sent


def test_killed_at_random_and_resumed(tmp_path: Path, rng: random.Random) -> None:
    """kill -9 in a loop, with one process or two on the chain: `status` is sane after each, nothing bought is lost or bought
    again, and in the end the bill lies within the interval.
    """
    place = Place(tmp_path / "w", rows=1500 if LONG else 120, budget='total = "5.00"\n')
    killed = 0
    with place.provider(seed=rng.randrange(1000), pace=6.0, faults=FAULTS + EMBED_FAULTS):
        while killed < (100 if LONG else 10):
            running = [place.start("run", "chain", "--yes") for _ in range(rng.choice((1, 2)))]
            place.some_moment(running[-1], rng, seconds=2.0)
            looked_at(place, "chain")
            for process in running:
                killed += process.poll() is None
                process.kill()
                assert Ended(process).code in (0, 8, -signal.SIGKILL)
            assert looked_at(place, "chain")["state"] in ("planned", "stopped"), (
                "who has nothing left to do cannot be killed at it"
            )
            assert place.wrong() == []
    doubtful = rows_of(place.cache, "select count(*) from attempt where cause = 'owner died' group by owner")
    assert len(doubtful) > killed / 4, "the kills hardly ever met a call in flight"
    assert max(doubtful) <= (6,), "more is in doubt than was in flight"
    with place.provider(seed=1):
        finished(place, "chain")


def test_stopped_at_random(tmp_path: Path, rng: random.Random) -> None:
    """SIGINT or SIGTERM at any moment, once or twice: 130, no hold is left, the bill lies within the interval; `status` agrees."""
    place = Place(tmp_path / "w", rows=150 if LONG else 40, budget='total = "5.00"\n')
    with place.provider(seed=rng.randrange(1000), pace=8.0):
        for _ in range(30 if LONG else 4):
            process = place.start("run", "chain", "--yes")
            place.some_moment(process, rng, seconds=3.0)
            for _ in range(rng.choice((1, 1, 2))):
                process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM)))
                time.sleep(rng.uniform(0.0, 0.3))
            ended = Ended(process)
            assert ended.code in (0, 130), ended.err
            assert "Traceback" not in ended.err
            if place.made():
                assert rows_of(place.cache, "select count(*) from attempt where open = 1") == [(0,)]
                document = looked_at(place, "chain")
                assert document["state"] in ("planned", "stopped", "complete")
    with place.provider(seed=1):
        finished(place, "chain")


CAPS = (
    'total = "0.02"',
    'total = "5"\n[experiment]\na = "0.01"\nb = "0.012"',
    'total = "5"\n[provider]\nsim = "0.015"',
    'total = "5"\n[stage]\nsolve = "0.005"',
    'total = "5"\n[condition]\n"tone/two" = "0.003"',
    'total = "5"\n[day]\ntotal = "0.02"',
    'total = "5"\n[calls]\ntotal = 60',
    'total = "5"\n[calls.condition]\n"tone/one" = 10',
    'total = "5"\n[tokens]\ntotal = 15000',
    'total = "5"\n[tokens.stage]\ntone = 5000',
)


@pytest.mark.parametrize("cap", CAPS if LONG else CAPS[::4], ids=lambda cap: cap.split("\n", 1)[-1].replace("\n", " "))
def test_two_experiments_under_one_cap(tmp_path: Path, rng: random.Random, cap: str) -> None:
    """Two experiments in two processes on one budget, with faults: the cap holds by the provider's own bill, both end with 3;
    with a higher cap both finish and buy nothing again.
    """
    place = Place(tmp_path / "w", rows=25, budget=cap + "\n", names=("a", "b"))
    with place.provider(seed=rng.randrange(1000), pace=1.0, faults="drop_after=0.03,500=0.05,429_absent=0.02"):
        running = [place.start("run", name, "--yes") for name in "ab"]
        endings = [Ended(process) for process in running]
        for ended in endings:
            assert ended.code == 3, ended.err
            assert "exhausted" in ended.json["reason"]
            assert contradictions(ended.json) == []
    billed = [row for row in place.calls() if row["billed"]]
    if "[tokens]" in cap:
        assert sum(row["input"] + row["output"] for row in billed) <= 15_000
    if "[calls]" in cap:
        assert len(billed) <= 60
    if 'sim = "0.015"' in cap:
        assert place.nanos() <= 15_000_000
    assert place.nanos() <= 5_000_000_000
    assert place.wrong() == []
    place.budget('total = "5.00"\n')
    with place.provider(seed=1):
        finished(place, "a", "b")


def test_an_overrun_freezes_both_experiments(tmp_path: Path, rng: random.Random) -> None:
    """One bill above its hold: both experiments of the budget end with 4 and stay frozen until `unfreeze`, whose reason is kept."""
    place = Place(tmp_path / "w", rows=40, budget='total = "5.00"\n', names=("a", "b"))
    with place.provider(seed=rng.randrange(1000), pace=3.0, faults="overrun=0.1"):
        for ended in [Ended(process) for process in [place.start("run", name, "--yes") for name in "ab"]]:
            assert ended.code == 4, ended.err
        sent = len(place.calls())
        for name in "ab":
            ended = place.command("run", name, "--yes")
            assert (ended.code, ended.json["state"]) == (4, "stopped")
            assert ended.json["budget"]["frozen"]
        assert len(place.calls()) == sent
        assert place.command("unfreeze", "a", "--because", "the provider was asked").code == 0
    with place.provider(seed=1):
        finished(place, "a", "b")


def test_a_full_disk_ends_with_6(tmp_path: Path, rng: random.Random) -> None:
    """A file that may not grow: 6, what was in doubt is recovered by the next run, and nothing that was kept is bought again."""
    place = Place(tmp_path / "w", rows=60, budget='total = "5.00"\n')
    size = rng.randrange(250_000, 450_000)
    with place.provider(seed=rng.randrange(1000), pace=1.0):
        limit = Ended(
            place.start("run", "chain", "--yes", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        )
        assert limit.code == 6, limit.err
        assert "cache.db" in limit.err
        if place.made():
            looked_at(place, "chain")
        finished(place, "chain")


def test_a_cache_that_vanishes_ends_the_run(tmp_path: Path, rng: random.Random) -> None:
    """cache.db is removed under a run: it ends with 6 within the calls in flight, instead of buying what nobody will ever read."""
    place = Place(tmp_path / "w", rows=100, budget='total = "5.00"\n')
    with place.provider(seed=rng.randrange(1000), pace=3.0):
        process = place.start("run", "chain", "--yes")
        while len(place.calls()) < 20:
            time.sleep(0.05)
            assert process.poll() is None
        sent = len(place.calls())
        place.cache.unlink()
        ended = Ended(process)
        assert ended.code == 6, ended.err
        assert len(place.calls()) - sent <= 30


def test_what_changed_and_what_waits_is_told(tmp_path: Path) -> None:
    """A run tells which line of a prompt changed and what that costs before it buys; a key of no condition is refused; who waits
    for a server that is not there is told so, and for how long.
    """
    place = Place(tmp_path / "w", rows=10, budget='total = "5.00"\n')
    with place.provider(seed=1):
        assert place.command("run", "chain", "--yes").code == 0
        strange = place.command("run", "chain", "--only", "tones")
        assert strange.code == 2
        assert "'tones'" in strange.err
        assert "tone/one" in strange.err
        prompt = place.folder / "prompts" / "chain" / "tone.md"
        prompt.write_text(prompt.read_text().replace("one word", "a word"))
        told = place.command("run", "chain", "--yes").err
        assert "tone.md line 2 changed" in told
        assert "10 cached -> 0" in told
        experiment = prompt.with_name("experiment.toml")
        experiment.write_text(experiment.read_text() + "# a remark\n")
        told = place.command("run", "chain", "--yes").err
        assert "experiment.toml" in told
        assert "cached ->" not in told  # nothing was lost, however many replies were bought before
        prompt.write_text(prompt.read_text().replace("a word", "the word"))
    process = place.start("run", "chain", "--yes")  # nobody listens there any more
    try:
        deadline = time.monotonic() + 30
        said: list[str] = []
        while not said and time.monotonic() < deadline:
            time.sleep(0.5)
            document = place.command("status", "chain").json
            said = [why for one in document["processes"] for why in one.get("trouble", {}).values()]
        assert said
        assert "not sent" in said[0]
        assert "sim" in document["processes"][0]["next_try_s"]
    finally:
        process.send_signal(signal.SIGINT)
        assert Ended(process).code == 130


@pytest.mark.skipif(
    not LONG, reason="a window of a minute takes minutes: make storm (tests/sim plays it in virtual time)"
)
def test_windows_hold_over_processes_and_restarts(tmp_path: Path, rng: random.Random) -> None:
    """Two processes, killed and started again: no window of 60 seconds at the server has more requests or tokens than allowed."""
    lanes = LANES + "requests_per_minute = 60\ntokens_per_minute = 12000\n"
    place = Place(tmp_path / "w", rows=200, budget='total = "5.00"\n', lanes=lanes, names=("a", "b"))
    with place.provider(seed=rng.randrange(1000), pace=0.5, faults="500=0.05,429_absent=0.05"):
        until = time.monotonic() + 240
        while time.monotonic() < until:
            running = [place.start("run", name, "--yes") for name in rng.choice(("a", "ab", "ab"))]
            time.sleep(rng.uniform(6, 25))
            for process in running:
                process.send_signal(rng.choice((signal.SIGKILL, signal.SIGINT)))
                Ended(process)
    rows = place.calls()
    assert len(rows) > 120, "a windowful or two is needed to see that they hold"
    assert worst([row["at"] for row in rows], [1 for _ in rows]) <= 60
    assert worst([row["at"] for row in rows], [row["input"] + row["output"] for row in rows]) <= 12_000


def worst(times: list[float], weights: list[int], span: float = 60.0) -> int:
    """The largest sum of weights in any window of `span` seconds."""
    best = held = first = 0
    for last, at in enumerate(times):
        held += weights[last]
        while at - times[first] >= span:
            held -= weights[first]
            first += 1
        best = max(best, held)
    return best
