"""Runs in real processes, steered by real commands; commands for a dead process, and where there is no cache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.judge import rows_of
from fakes.processes import Ended, Place, contradictions, nanos

pytestmark = [pytest.mark.storm, pytest.mark.timeout(300)]

BUDGET = 'total = "5.00"\n[provider]\nsim = "4.00"\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A workspace whose provider answers slowly, so that a run lasts for as long as it is steered."""
    place = Place(tmp_path / "w", rows=120, budget=BUDGET)
    with place.provider(seed=1, pace=20.0):
        yield place
        for pid, number in rows_of(place.cache, "select pid, id from owner where closed is null"):
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"process {pid}, owner {number}, was left running")


def until(true: Callable[[], object], what: str) -> None:
    """Wait for something that must come."""
    for _ in range(300):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError(f"waited in vain until {what}")


def running(place: Place) -> subprocess.Popen[str]:
    """A run that has sent calls and said how it stands."""
    process = place.start("run", "chain", "--yes")
    until(lambda: place.calls() and told(place), "the run has sent calls")
    return process


def told(place: Place) -> dict[str, Any] | None:
    """What the running process last said of itself."""
    query = "select document from progress join owner on id = owner where closed is null"
    found = rows_of(place.cache, query) if place.made() else []
    return json.loads(found[0][0]) if found else None


def drained(process: subprocess.Popen[str]) -> Ended:
    """A run that was asked to stop: interrupted, with nothing open."""
    ended = Ended(process, 60.0)
    assert ended.code == 130, ended.err
    assert ended.json["spend"]["held_usd"] == "0.00"
    return ended


def test_pause_unpause_and_stop(place: Place) -> None:
    """A paused run sends nothing and says so; unpaused it goes on; stopped it drains, with 130, and says who asked."""
    process = running(place)
    assert place.command("pause", "chain").json == {"experiment": "chain", "asked": 1}
    until(lambda: (said := told(place)) and said["paused"] and said["in_flight"] == 0, "the run is paused")
    sent = len(place.calls())
    time.sleep(2.0)
    assert len(place.calls()) == sent
    assert told(place)["waiting"]["paused"] > 0  # type: ignore[index]
    document = place.command("status", "chain").json
    assert (document["state"], document["processes"][0]["paused"]) == ("running", True)
    assert contradictions(document) == []
    assert place.command("unpause", "chain").json["asked"] == 1
    until(lambda: len(place.calls()) > sent, "the run goes on")
    assert place.command("stop", "chain").json["asked"] == 1
    ended = drained(process)
    assert ended.json["spend"]["forfeited_usd"] == "0.00"
    for words in ("paused by process", "unpaused by process", "asked to stop by process"):
        assert words in ended.err


@pytest.mark.parametrize("words", [("--now",), ("--within", "0.5")], ids=" ".join)
def test_stop_at_once_and_within_a_time(place: Place, words: tuple[str, ...]) -> None:
    """What is in flight is forfeited, and the bill lies within the interval."""
    process = running(place)
    assert place.command("stop", "chain", *words).json["asked"] == 1
    ended = drained(process)
    time.sleep(1.0)
    assert nanos(ended.json["spend"]["low_usd"]) <= place.nanos() <= nanos(ended.json["spend"]["high_usd"])
    assert place.wrong() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_paused_run(place: Place, number: int) -> None:
    """SIGTERM is like Ctrl-C, also under pause; the next run is not paused."""
    process = running(place)
    place.command("pause", "chain")
    until(lambda: (said := told(place)) and said["paused"], "the run is paused")
    process.send_signal(number)
    drained(process)
    again = running(place)
    assert told(place)["paused"] is False  # type: ignore[index]
    again.send_signal(number)
    drained(again)


def test_lanes_and_caps_are_set_while_it_runs(place: Place) -> None:
    """The running process hears what is set; later commands go by it, until the file says something else; the audit names it."""
    process = running(place)
    assert place.command("set", "sim", "concurrency=2", "requests_per_minute=600").json["set"] == [
        {"key": "concurrency", "was": "6", "now": "2"},
        {"key": "requests_per_minute", "was": "none", "now": "600"},
    ]
    assert place.command("set", "budget", "total=3.00", "provider.sim=2.50").json["heard_by"] == 1
    until(lambda: (said := told(place)) and said["slots"]["sim"]["size"] == 2, "the lane is narrower")
    refused = place.command("set", "budget", "total=0.00")
    assert refused.code == 2
    assert "below what is spent: settled" in refused.err
    until(lambda: place.command("stop", "chain").json["asked"] == 1, "it is asked")
    assert "the cap total of budget main is now 3.00" in drained(process).err
    assert place.command("status", "chain").json["budget"]["cap_usd"] == "3.00"
    assert place.command("plan", "chain").json["budget"]["cap_usd"] == "3.00"
    found = {
        finding["message"]
        for finding in place.command("audit", "chain").json["findings"]
        if finding["check"] == "amended"
    }
    assert "budget main: total = 3.00, 5.00 in the file (judgerun set)" in found
    assert "lane sim: concurrency = 2, 6 in the file (judgerun set)" in found
    place.budget('total = "4.50"\n[provider]\nsim = "4.00"\n')
    assert place.command("status", "chain").json["budget"]["cap_usd"] == "4.50"


def test_a_lowered_cap_ends_a_run(place: Place) -> None:
    """A cap that is set to what is spent ends the run as exhausted, and the bill keeps to it."""
    process = running(place)
    place.command("pause", "chain")
    until(lambda: (said := told(place)) and said["paused"] and said["in_flight"] == 0, "nothing is in flight")
    high = place.command("status", "chain").json["budget"]["high_usd"]
    ended = place.command("set", "budget", f"total={high}")
    assert ended.code == 0, ended.err
    place.command("unpause", "chain")
    ended = Ended(process, 60.0)
    assert ended.code == 3, ended.err
    assert place.nanos() <= nanos(high)


def test_orders_to_a_dead_process(place: Place) -> None:
    """Nobody is asked where the process was killed, and nothing is left that acts on the next run."""
    process = running(place)
    process.kill()
    Ended(process)
    for words in (("stop",), ("stop", "--now"), ("stop", "--within", "1"), ("pause",), ("unpause",)):
        ended = place.command(words[0], "chain", *words[1:])
        assert (ended.code, ended.json["asked"]) == (0, 0)
        assert "no process runs chain" in ended.err
    assert rows_of(place.cache, "select count(*) from event where kind = 'ask'") == [(0,)]
    assert place.command("set", "sim", "concurrency=3").json["heard_by"] == 0
    again = running(place)
    until(
        lambda: (said := told(place)) and said["slots"]["sim"]["size"] == 3, "what was set is in force for the next run"
    )
    assert place.command("stop", "chain", "--now").json["asked"] == 1
    drained(again)


def test_orders_without_a_cache(tmp_path: Path) -> None:
    """Where nothing ever ran there is nobody to ask and no place to record what is set; no cache is made by asking."""
    place = Place(tmp_path / "w", rows=1, budget=BUDGET)
    for command in ("stop", "pause", "unpause"):
        ended = place.command(command, "chain")
        assert (ended.code, ended.json) == (0, {"experiment": "chain", "asked": 0})
    for words in (("sim", "concurrency=3"), ("budget", "total=1.00")):
        ended = place.command("set", *words)
        assert ended.code == 2
        assert "there is no cache yet" in ended.err
    assert place.command("status", "chain", "--watch").code == 0
    assert place.command("stop", "nothing").code == 2
    assert not place.cache.exists()


def test_what_cannot_be_set_is_refused(place: Place) -> None:
    """Every problem at once, before anything is recorded."""
    process = running(place)
    place.command("stop", "chain", "--now")
    drained(process)
    refused = place.command("set", "budget", "total=much", "provider.other=1.00", "stage")
    assert (refused.code, len(refused.json["error"]["problems"])) == (2, 3)
    assert "write it there" in refused.err
    refused = place.command("set", "sim", "concurrency=0", "colour=3", "timeout_s=none", "attempts_max=1.5")
    assert (refused.code, len(refused.json["error"]["problems"])) == (2, 4)
    for lane in ("nowhere", "sim/one"):
        assert "is no lane" in place.command("set", lane, "concurrency=3").err
    assert rows_of(place.cache, "select count(*) from event where kind = 'set'") == [(0,)]


def test_status_is_watched_until_the_run_ends(place: Place) -> None:
    """One object in each line while a process lives, with the cells as it tells them; then it ends by itself, with 0. Ctrl-C ends
    it before.
    """
    process = running(place)
    watched = place.start("status", "chain", "--watch", "--every", "0.3")
    cut = place.start("status", "chain", "--watch", "--every", "0.3")
    assert cut.stdout is not None
    assert json.loads(cut.stdout.readline())["state"] == "running"
    time.sleep(2.0)
    cut.send_signal(signal.SIGINT)
    assert Ended(cut, 30.0).code == 0
    place.command("stop", "chain", "--now")
    drained(process)
    ended = Ended(watched, 30.0)
    assert ended.code == 0, ended.err
    documents = [json.loads(line) for line in ended.out.splitlines()]
    assert len(documents) > 3
    assert {document["state"] for document in documents[:-1]} == {"running"}
    assert documents[-1]["state"] == "stopped"
    assert [contradictions(document) for document in documents] == [[]] * len(documents)
    assert documents[0]["cells"]["planned"] == documents[-1]["cells"]["planned"]
