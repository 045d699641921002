"""The batch lane in real processes over real HTTP: killed, stopped, starved and crowded, judged by the provider's own bill.

Each test prints its seed; JUDGERUN_SEED=n plays that one again. JUDGERUN_STORM=long (`make storm`) plays the long form.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from fakes import hasty, odd
from fakes.judge import rows_of
from fakes.laned import LANES, Lane
from fakes.processes import Ended, contradictions, looked_at, nanos

pytestmark = [pytest.mark.storm, pytest.mark.timeout(1800)]

LONG = bool(os.environ.get("JUDGERUN_STORM"))
FAULTS = (
    "job_submit_lost=0.08,job_fail=0.06,job_partial=0.08,job_expire=0.08,job_missing_line=0.05,job_duplicate_line=0.05,"
    "500=0.05,504=0.04,drop_before=0.03,drop_after=0.05,drop_mid=0.03,429=0.03,garbage=0.02,truncated=0.02,error_200=0.02"
)


def brought_home(place: Lane, name: str) -> None:
    """What is in jobs is at this provider alone: it is collected, or written off where an ended job's results are empty: whether
    that is all that will ever come, only a person can say.
    """
    ended = Ended(place.start("run", name, "--yes"), seconds=900)
    assert ended.code in (0, 8, 9), ended.err
    for job in ended.json["jobs"]:
        assert "its results" in job["told"], job
        because = ("--because", "its results stay empty")
        assert place.command("jobs", name, "--forfeit", str(job["job"]), *because).code == 0
    assert (ended.code == 9) == bool(ended.json["jobs"]), ended.err


def finished(place: Lane, *names: str) -> None:
    """The same commands finish; the books hold the bill; once more sends nothing."""
    low = high = 0
    for name in names:
        ended = place.command("run", name, "--yes")
        assert ended.code in (0, 8), ended.err
        document = ended.json
        assert document["state"] == "complete", document
        assert contradictions(document) == []
        assert document["spend"]["held_usd"] == "0.00"
        assert document["jobs"] == []
        low, high = low + nanos(document["spend"]["low_usd"]), high + nanos(document["spend"]["high_usd"])
    assert low <= place.nanos() <= high
    assert place.wrong() == []
    assert rows_of(place.cache, "select count(*) from attempt where open = 1") == [(0,)]


def test_killed_at_random_and_resumed(tmp_path: Path, rng: random.Random) -> None:
    """kill -9 in a loop over the three APIs, with every fault of jobs, with one process or two: nothing is billed more often than
    it is booked, nothing bought is lost, and in the end the bill lies within the interval.
    """
    place = Lane(tmp_path / "w", rows=150 if LONG else 10, budget='total = "5.00"\n', lanes=LANES)
    killed = 0
    with place.provider(seed=rng.randrange(1000), pace=0.15 if LONG else 0.05, faults=FAULTS):
        for _ in range(70 if LONG else 3):
            running = [place.start("run", "chain", "--yes") for _ in range(rng.choice((1, 1, 2)))]
            place.some_moment(running[-1], rng, seconds=2.0)
            looked_at(place, "chain")
            for process in running:
                killed += process.poll() is None
                process.kill()
                ended = Ended(process)
                assert ended.code in (0, 8, -signal.SIGKILL), ended.err
            assert place.wrong() == []
        brought_home(place, "chain")
    assert killed > 0
    with place.provider(seed=1):
        finished(place, "chain")


def test_stopped_at_random(tmp_path: Path, rng: random.Random) -> None:
    """SIGINT once or twice, or `judgerun stop`, at any moment: it ends with 130, holds stand in jobs alone, `status` agrees;
    what was being done goes on at the provider, and is collected.
    """
    place = Lane(tmp_path / "w", rows=60 if LONG else 8, budget='total = "5.00"\n', lanes=LANES)
    with place.provider(
        seed=rng.randrange(1000), pace=0.1 if LONG else 0.03, faults="500=0.05,504=0.03,drop_after=0.03,job_partial=0.1"
    ):
        for _ in range(30 if LONG else 2):
            process = place.start("run", "chain", "--yes")
            place.some_moment(process, rng, seconds=3.0 if LONG else 1.5)
            if rng.random() < 0.3:
                assert place.command("stop", "chain").code == 0
            else:
                for _ in range(rng.choice((1, 1, 2))):
                    process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM)))
                    time.sleep(rng.uniform(0.0, 0.3))
            ended = Ended(process, seconds=60)
            assert ended.code in (0, 8, 130), ended.err
            assert "Traceback" not in ended.err
            if place.made():
                assert rows_of(place.cache, "select count(*) from attempt where open = 1 and job is null") == [(0,)]
                looked_at(place, "chain")
                assert place.wrong() == []
        brought_home(place, "chain")
    with place.provider(seed=1):
        finished(place, "chain")


class Small(Lane):
    """A workspace with the lane, whose processes may add so many pages to the cache."""

    PROGRAM = (sys.executable, odd.__file__)
    pages = ""

    def environ(self) -> dict[str, str]:
        return {**super().environ(), "ODD_SPEED": str(hasty.SPEED), "ODD_PAGES": self.pages}


def test_a_full_disk_loses_no_job(tmp_path: Path, rng: random.Random) -> None:
    """The disk is full while jobs are filled, submitted or collected, again and again: 6, and no line is billed more often than it
    is booked; with room again what stands in jobs is collected, and the same command finishes.
    """
    place = Small(tmp_path / "w", rows=30 if LONG else 8, budget='total = "5.00"\n', lanes=LANES)
    full = 0
    with place.provider(seed=rng.randrange(1000), pace=0.03, faults="job_partial=0.1,drop_after=0.03"):
        for _ in range(20 if LONG else 4):
            place.pages = str(rng.randrange(0, 30))
            ended = place.command("run", "chain", "--yes")
            place.pages = ""
            assert ended.code in (0, 6, 8), ended.err
            assert "Traceback" not in ended.err
            full += ended.code == 6
            if place.submitted():
                looked_at(place, "chain")
                assert place.wrong() == []
        assert full > 0
        brought_home(place, "chain")
    with place.provider(seed=1):
        finished(place, "chain")


CAPS = (
    'total = "0.004"',
    'total = "5"\n[calls]\ntotal = 40',
    'total = "5"\n[experiment]\na = "0.002"\nb = "0.003"',
    'total = "5"\n[provider]\noa = "0.002"\nan = "0.0008"\ngo = "0.0008"',
    'total = "5"\n[stage]\nrate = "0.001"',
    'total = "5"\n[tokens]\ntotal = 3000',
)


@pytest.mark.parametrize("cap", CAPS if LONG else CAPS[1:2], ids=lambda cap: cap.split("\n", 1)[-1].replace("\n", " "))
def test_two_experiments_under_one_cap(tmp_path: Path, rng: random.Random, cap: str) -> None:
    """A cap that runs out while jobs are filled, with faults: it holds by the bill, both runs end with 3 and tell what stands
    in jobs; under a higher one both finish, and buy nothing again.
    """
    place = Lane(tmp_path / "w", rows=15 if LONG else 5, budget=cap + "\n", lanes=LANES, names=("a", "b"))
    with place.provider(seed=rng.randrange(1000), pace=0.01, faults="drop_after=0.03,500=0.05,job_partial=0.1"):
        ended = [Ended(process) for process in [place.start("run", name, "--yes") for name in "ab"]]
        for one in ended:
            assert one.code == 3, one.err
            assert "exhausted" in one.json["reason"]
            assert contradictions(one.json) == []
        billed = [row for row in place.calls() if row["billed"]]
        if cap.startswith('total = "0.004"'):
            assert place.nanos() <= 4_000_000
        if "[calls]" in cap:
            assert len(billed) <= 40
        if "[tokens]" in cap:
            assert sum(row["input"] + row["output"] for row in billed) <= 3000
        assert place.wrong() == []
        place.budget('total = "5.00"\n')
        for name in "ab":
            brought_home(place, name)
    with place.provider(seed=1):
        finished(place, "a", "b")
