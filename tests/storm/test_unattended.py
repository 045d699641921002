"""Runs that nobody watches, in real processes: detached, hung up on, killed; with what they leave for those who come later."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.judge import rows_of
from fakes.processes import Ended, Place, contradictions, nanos
from fakes.simulator import JUDGERUN

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

pytestmark = [pytest.mark.storm, pytest.mark.timeout(300)]

KEEP = """
import json, os, sys
told = {"stdin": json.load(sys.stdin), "environ": dict(os.environ), "argv": sys.argv}
with open(os.path.join(os.path.dirname(sys.argv[0]), "kept.jsonl"), "a") as into:
    into.write(json.dumps(told) + chr(10))
"""
KEY = "canary-4711-0815-key"


class Night(Place):
    """A workspace whose provider wants a key."""

    def __init__(self, folder: Path, *, rows: int = 60) -> None:
        super().__init__(folder, rows=rows, budget='total = "5.00"\n')
        experiment = self.folder / "prompts" / "chain" / "experiment.toml"
        experiment.write_text(
            experiment.read_text().replace('identity = "sim"', 'identity = "sim"\napi_key_env = "NIGHT_SECRET"')
        )
        (folder.parent / "keep.py").write_text(KEEP)
        self.notify = ("--notify", f"{sys.executable} {folder.parent / 'keep.py'}")

    def environ(self) -> dict[str, str]:
        return {"NIGHT_SECRET": KEY, "ALSO": f"x{KEY}", "MINE": "passed on"}

    def kept(self) -> list[dict[str, Any]]:
        """What the command of --notify was given."""
        path = self.folder.parent / "keep.py"
        return [json.loads(line) for line in path.with_name("kept.jsonl").read_text().splitlines()]

    def seat(self, name: str) -> Path:
        return self.folder / ".judgerun" / "chain" / name

    def heartbeat(self, name: str = "heartbeat.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.seat(name).read_text())
        return found

    def age(self) -> None:
        """A hundred seconds pass for whoever reads the heartbeat."""
        told = self.heartbeat()
        self.seat("heartbeat.json").write_text(json.dumps({**told, "at": told["at"] - 100}))

    def doctor(self) -> str:
        """What doctor says of the process."""
        signs = self.command("doctor").json["signs"]
        return next(f"{sign['state']}: {sign['says']}" for sign in signs if sign["what"] == "process of chain")


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something that other processes bring about."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def ended(place: Night) -> dict[str, Any]:
    """The heartbeat of a process that has ended, and of which nothing is left."""
    until(lambda: place.heartbeat()["state"] == "ended")
    until(lambda: not Path(f"/proc/{place.heartbeat()['pid']}").exists())
    return place.heartbeat()


def test_a_detached_run_lives_alone_and_leaves_its_story(tmp_path: Path) -> None:
    """--detach returns while the run goes on in a session of its own; our pipes close, though it lives; it ends by itself, and
    heartbeat, log, output and notices say how, none with a key.
    """
    place = Night(tmp_path / "w")
    heard, said = os.pipe()
    os.set_inheritable(said, True)
    with place.provider(seed=1, pace=2.0):
        started = Ended(place.start("run", "chain", "--yes", "--detach", *place.notify))
        os.close(said)
        assert started.code == 0, started.err
        told = started.json
        assert os.getsid(told["pid"]) == told["pid"]
        assert os.read(heard, 1) == b"", "a descriptor of the caller is held open"
        os.close(heard)
        assert place.heartbeat()["state"] == "running"
        assert told["owner"] == rows_of(place.cache, "select max(id) from owner where closed is null")[0][0]
        os.kill(told["pid"], signal.SIGHUP)
        beat = ended(place)
    assert (beat["exit"], beat["pid"]) == (0, told["pid"])
    document = place.command("status", "chain").json
    assert document["state"] == "complete"
    assert nanos(document["spend"]["settled_usd"]) == place.nanos()
    log = [json.loads(line) for line in Path(told["log"]).read_text().splitlines()]
    assert (log[0]["event"], log[-1]["event"], log[-1]["exit"]) == ("start", "end", 0)
    assert "chain: complete" in Path(told["output"]).read_text()
    (notice,) = place.kept()
    assert notice["stdin"]["event"] == notice["environ"]["JUDGERUN_EVENT"] == "finish"
    assert contradictions(notice["stdin"]["run"]) == []
    assert (notice["environ"]["JUDGERUN_EXIT"], notice["environ"]["MINE"]) == ("0", "passed on")
    assert not {"NIGHT_SECRET", "ALSO", "JUDGERUN_DETACHED"} & set(notice["environ"])
    assert len(notice["argv"]) == 1
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert KEY.encode() not in path.read_bytes(), path


def test_what_is_refused_or_ends_at_once_is_told_as_without_detach(tmp_path: Path) -> None:
    """Refusals with every problem, and a run that has nothing left to do: code and object are those of a run in the terminal."""
    place = Night(tmp_path / "w", rows=5)
    with place.provider(seed=1):
        assert place.command("run", "chain", "--yes").code == 0
        again = [place.command("run", "chain", "--yes", *more) for more in ((), ("--detach",))]
        assert again[0].json == again[1].json
        assert [one.code for one in again] == [0, 0]
        place.budget('total = "0.00001"\nconfirm_above = "0"\n')
        path = place.folder / "prompts" / "chain" / "experiment.toml"
        path.write_text(path.read_text().replace("seed = ", "sed = ").replace('"tone"\nkind', '"tone"\nknd'))
        refused = [place.command("run", "chain", *more) for more in ((), ("--detach",))]
        assert refused[0].json == refused[1].json
        assert (refused[0].code, refused[0].err) == (refused[1].code, refused[1].err)
        assert refused[1].code == 2
        assert len(refused[1].json["error"]["problems"]) >= 2


def test_consent_is_no_less_needed_when_detached(tmp_path: Path) -> None:
    """Above confirm_above without --yes nothing starts: 2, and no call."""
    place = Night(tmp_path / "w", rows=5)
    place.budget('total = "5.00"\nconfirm_above = "0.0001"\n')
    with place.provider(seed=1):
        refused = place.command("run", "chain", "--detach")
        assert refused.code == 2
        assert "--yes" in refused.err
        assert place.calls() == []


def test_a_stop_reaches_a_detached_run(tmp_path: Path, rng: random.Random) -> None:
    """SIGTERM drains it, as Ctrl-C would: 130, nothing forfeited; a second process of the experiment is told."""
    place = Night(tmp_path / "w", rows=150)
    with place.provider(seed=rng.randrange(1000), pace=6.0):
        assert place.command("run", "chain", "--yes", "--detach", *place.notify).code == 0
        other = Ended(place.start("run", "chain", "--yes", "--detach"))
        assert other.code == 0
        assert "another process runs chain" in other.err
        assert other.json["heartbeat"].endswith("heartbeat-2.json")
        for name in ("heartbeat.json", "heartbeat-2.json"):
            os.kill(place.heartbeat(name)["pid"], signal.SIGTERM)
        assert ended(place)["exit"] == 130
        until(lambda: place.heartbeat("heartbeat-2.json")["state"] == "ended")
    assert rows_of(place.cache, "select count(*) from entry where kind = 'forfeit'") == [(0,)]
    assert [(row["environ"]["JUDGERUN_EVENT"], row["environ"]["JUDGERUN_EXIT"]) for row in place.kept()] == [
        ("stop", "130")
    ]
    assert place.wrong() == []


def test_an_attached_run_whose_terminal_goes_away_drains(tmp_path: Path) -> None:
    """The terminal is closed under a run: it drains, with 130, forfeits nothing, and its last words are in its output file."""
    place = Night(tmp_path / "w", rows=150)
    with place.provider(seed=1, pace=6.0):
        pid, terminal = pty.fork()
        if pid == 0:
            environ = {**os.environ, "SIM_URL": place.url, **place.environ()}
            os.execve(JUDGERUN, [str(JUDGERUN), "run", "chain", "--yes", "--workspace", str(place.folder)], environ)
        until(lambda: len(place.calls()) > 15)
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert place.heartbeat()["exit"] == 130
    assert "stopping: nothing new is sent" in place.seat("log.jsonl").read_text()
    assert "ended with 130" in place.seat("output.log").read_text()
    assert rows_of(place.cache, "select count(*) from entry where kind = 'forfeit'") == [(0,)]
    assert place.wrong() == []


def deaf() -> None:
    """A process is started as nohup starts it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_who_has_hangups_ignored_is_left_alone(tmp_path: Path) -> None:
    """Under nohup a hangup stops nothing: the run goes on to its end, with 0."""
    place = Night(tmp_path / "w", rows=10)
    with place.provider(seed=1, pace=2.0):
        process = place.start("run", "chain", "--yes", before=deaf)
        until(lambda: len(place.calls()) > 5)
        process.send_signal(signal.SIGHUP)
        ended = Ended(process)
    assert (ended.code, ended.json["state"]) == (0, "complete")


def test_a_doctor_tells_hung_from_dead(tmp_path: Path) -> None:
    """A suspended process is told from a killed one by its lock; what kill -9 leaves says so until the run goes on."""
    place = Night(tmp_path / "w", rows=150)
    with place.provider(seed=1, pace=6.0):
        assert place.command("run", "chain", "--yes", "--detach").code == 0
        pid = place.heartbeat()["pid"]
        assert place.doctor().startswith(f"good: process {pid} runs")
        os.kill(pid, signal.SIGSTOP)
        place.age()
        assert f"warn: process {pid} lives" in place.doctor()
        os.kill(pid, signal.SIGKILL)
        until(lambda: "is dead: judgerun run chain" in place.doctor())
        assert place.heartbeat()["state"] == "running"
    with place.provider(seed=1):
        assert place.command("run", "chain", "--yes").code == 0
        assert place.doctor().endswith("ended with 0: nothing left to do")
        assert place.wrong() == []


def test_a_frozen_account_is_told(tmp_path: Path) -> None:
    """A bill above its hold: the freeze is a notice with its reason, the end another with 4."""
    place = Night(tmp_path / "w", rows=60)
    with place.provider(seed=3, pace=2.0, faults="overrun=0.02"):
        assert place.command("run", "chain", "--yes", *place.notify).code == 4
    frozen, *_, stop = place.kept()  # another call in flight may freeze it too
    assert (frozen["stdin"]["event"], frozen["stdin"]["subject"]) == ("frozen", "main")
    assert (stop["stdin"]["event"], stop["stdin"]["exit"]) == ("stop", 4)


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """The disk is full under the log: it is told once, and the run ends as it would have."""
    place = Night(tmp_path / "w", rows=10)
    place.seat("log.jsonl").parent.mkdir(parents=True)
    place.seat("log.jsonl").symlink_to("/dev/full")
    with place.provider(seed=1):
        done = place.command("run", "chain", "--yes")
        assert done.code == 0, done.err
        assert done.err.count("cannot be written") == 1


@pytest.fixture(scope="module")
def command() -> None:
    """A fixture of many tests leaves signals ignored, as a command does at its end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.parametrize("turn", ["after a fixture", "after a test"])
def test_what_a_command_says_of_signals_ends_before_the_next_test(command: None, turn: str) -> None:
    """Whatever ran before in this process, a test begins with signals as they were before the first."""
    assert signal.SIG_IGN not in [signal.getsignal(number) for number in SIGNALS], turn
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
