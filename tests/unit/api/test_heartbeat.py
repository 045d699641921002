"""Heartbeats: what a process writes of itself, who may read it at any moment, and what a doctor makes of a silent one."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from judgerun.api.heartbeat import Heartbeat, judged
from judgerun.api.seat import heartbeats, seated
from judgerun.api.watching import Watch
from judgerun.dispatch.progress import Progress
from judgerun.ledger.budget import Budget, Cap
from judgerun.ports import Spend, Standing

BUDGET = Budget(name="main", caps=(Cap("nanos", "total", "", 5 * 10**9),))


@dataclass
class FakeCache:
    """What a heartbeat asks of a cache."""

    owner: int | None = 7
    money: Standing = field(default_factory=Standing)

    def standing(self) -> Standing:
        return self.money


def watch(progress: Progress, cache: FakeCache, now: float = 1.0) -> Watch:
    return Watch(progress=progress, flow=cast(Any, None), cache=cast(Any, cache), budget=BUDGET, goal={}, now=now)


def test_it_says_how_the_run_stands_and_how_it_ended(tmp_path: Path) -> None:
    """Starting, running with money and the moment of the last answer (a call that fails is none), ended with a code: each is the
    whole file.
    """
    wall = [1000.0]
    path = tmp_path / "heartbeat.json"
    heart = Heartbeat(path, experiment="e", version="1", log=print, wall=lambda: wall[0])
    assert json.loads(path.read_text())["state"] == "starting"
    progress, cache = Progress(in_flight=2), FakeCache(money=Standing(budget=Spend(settled=3 * 10**9)))
    for at, calls, answers in ((1001.0, 0, 0), (1002.0, 5, 4), (1003.0, 7, 4)):
        wall[0], progress.calls, progress.answers = at, calls, answers
        heart.beat(watch(progress, cache))
    told = json.loads(path.read_text())
    assert (told["state"], told["at"], told["answered_at"], told["calls"]) == ("running", 1003.0, 1002.0, 7)
    assert (told["owner"], told["in_flight"]) == (7, 2)
    assert told["budget"] == {"name": "main", "high_usd": "3.00", "cap_usd": "5.00"}
    heart.end(3, "exhausted")
    told = json.loads(path.read_text())
    assert (told["state"], told["exit"], told["reason"], told["owner"]) == ("ended", 3, "exhausted", 7)
    assert [held.name for held in tmp_path.iterdir()] == ["heartbeat.json"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """However often it is read while it is rewritten, it is one whole document."""
    path = tmp_path / "heartbeat.json"
    heart = Heartbeat(path, experiment="e", version="1", log=print)
    done = threading.Event()

    def beat() -> None:
        for _ in range(300):
            heart.beat(watch(Progress(), FakeCache()))
        done.set()

    thread = threading.Thread(target=beat)
    thread.start()
    while not done.is_set():
        assert json.loads(path.read_text())["experiment"] == "e"
    thread.join()


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    """Without a place to write to, beats go on in vain; the log says so one time."""
    said: list[str] = []
    heart = Heartbeat(tmp_path / "gone" / "heartbeat.json", experiment="e", version="1", log=said.append)
    for _ in range(3):
        heart.beat(watch(Progress(), FakeCache()))
    heart.end(0, None)
    assert len(said) == 1
    assert "the run goes on" in said[0]


def test_each_process_of_an_experiment_has_its_own_seat(tmp_path: Path) -> None:
    """The first has the plain names, a second beside it others; a seat that was left is taken again."""
    with seated(tmp_path, "e") as first, seated(tmp_path, "e") as second, seated(tmp_path, "f") as other:
        assert (first.heartbeat.name, second.heartbeat.name) == ("heartbeat.json", "heartbeat-2.json")
        assert (first.log.name, second.log.name) == ("log.jsonl", "log-2.jsonl")
        assert other.number == 1
        assert heartbeats(tmp_path) == []
        second.heartbeat.write_text("{}")
        assert heartbeats(tmp_path) == [second.heartbeat]
    with seated(tmp_path, "e") as again:
        assert again.number == 1


@pytest.mark.parametrize(
    ("change", "good", "words"),
    [
        ({}, True, "runs, 4 calls"),
        ({"at": 990.0}, True, "runs, 4 calls"),
        ({"at": 900.0}, False, "lives and has said nothing for 100 s: suspended (kill -CONT 12) or hung"),
        ({"at": 900.0, "owner": 8}, False, "is dead: judgerun run e goes on where it stopped"),
        ({"at": 900.0, "owner": None, "state": "starting"}, False, "is dead"),
        ({"at": 1100.0}, False, "speaks of a moment 100 s from now"),
        ({"at": 10.0, "state": "ended", "exit": 3, "reason": "exhausted"}, True, "ended with 3: exhausted"),
    ],
)
def test_a_silent_process_is_hung_or_dead(change: dict[str, Any], good: bool, words: str) -> None:
    """A fresh beat and an end are well; a stale beat is a process that hangs, or one that died, by whether its lock is held."""
    told = {"experiment": "e", "pid": 12, "state": "running", "owner": 7, "at": 1000.0, "in_flight": 4, **change}
    found = judged(told, now=1000.0, alive={7})
    assert found[0] is good
    assert words in found[1]
