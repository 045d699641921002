"""Notices: real commands that are given what happened, slow ones and broken ones among them; a run is never held up by one."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from judgerun.api.notify import Notifier, clean, parse, scrubbed
from judgerun.errors import Refused
from judgerun.model.event import Event

KEEP = """
import json, os, pathlib, sys
environ = {k: v for k, v in os.environ.items() if k.startswith("JUDGERUN")}
told = {"argv": sys.argv[2:], "stdin": json.load(sys.stdin), "environ": environ}
with open(sys.argv[1], "a") as into:
    into.write(json.dumps(told) + chr(10))
"""


class Scene:
    """A notifier, what its command kept, and what it said in the log."""

    def __init__(self, folder: Path, *words: str, limit_s: float = 20.0) -> None:
        self.kept = folder / "kept.jsonl"
        self.log: list[str] = []
        command = words or (sys.executable, "-c", KEEP, str(self.kept))
        self.notifier = Notifier(
            command,
            experiment="e",
            budget="main",
            environ={"PATH": "/usr/bin:/bin"},
            scrub=lambda text: text.replace("canary", "[secret]"),
            log=self.log.append,
            since=100.0,
            limit_s=limit_s,
        )

    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.kept.read_text().splitlines()] if self.kept.exists() else []


@pytest.mark.parametrize("text", ["", "  ", "no-such-program-anywhere x", "sh 'open"])
def test_a_command_that_is_none_is_refused(text: str) -> None:
    """Nothing, a program that is not there, and an open quote are told before any call."""
    with pytest.raises(Refused) as refused:
        parse(text)
    assert refused.value.problems[0].place == "--notify"


def test_a_command_is_split_and_no_shell_reads_it() -> None:
    """Quotes group words; what a shell would run or expand stays text."""
    assert parse("sh -c 'a b' $HOME;") == ("sh", "-c", "a b", "$HOME;")


def test_the_essentials_and_the_summary_arrive(tmp_path: Path) -> None:
    """Event, experiment and code stand in the environment, the summary on stdin without secrets, and nothing of it in argv."""
    scene = Scene(tmp_path)
    scene.notifier.tell(
        "gate", {"subject": "solve/a", "detail": "cut: canary", "run": {"calls": 3, "waits": [{"canary": "canary"}]}}
    )
    while not scene.rows():
        time.sleep(0.01)
    scene.notifier.tell("stop", {"reason": "gate of solve/a"}, exit=7)
    scene.notifier.close()
    gate, stop = scene.rows()
    assert gate["environ"] == {"JUDGERUN_EVENT": "gate", "JUDGERUN_EXPERIMENT": "e"}
    assert stop["environ"] == {"JUDGERUN_EVENT": "stop", "JUDGERUN_EXPERIMENT": "e", "JUDGERUN_EXIT": "7"}
    assert gate["stdin"] == {
        "event": "gate", "experiment": "e", "exit": None, "subject": "solve/a", "detail": "cut: [secret]",
        "run": {"calls": 3, "waits": [{"canary": "[secret]"}]},
    }  # fmt: skip
    assert gate["argv"] == stop["argv"] == []
    assert scene.log == []


def test_only_news_of_this_run_is_told(tmp_path: Path) -> None:
    """Gates and requests of the experiment, freezes of its budget and closed providers are told once, and what is JSON in the
    cache is no text; what is old, or another's, is not told.
    """
    scene = Scene(tmp_path)
    rows = [
        Event(1, 99.0, "gate", "solve/old", "before this run", "e"),
        Event(2, 101.0, "gate", "solve/a", "of another", "f"),
        Event(3, 101.0, "pin", "e", "a file", "e"),
        Event(4, 102.0, "ask", "e", '{"what": "pause"}', "e"),
        Event(5, 103.0, "freeze", "main", "a bill", "f"),
        Event(6, 103.0, "freeze", "other", "a bill", "f"),
    ]
    for _ in range(2):
        scene.notifier.happened(rows, {"lab": "out of credit"}, {})
    scene.notifier.close()
    told = [row["stdin"] for row in scene.rows()]
    assert [(one["event"], one["subject"], one["detail"]) for one in told] == [  # type: ignore[index]
        ("asked", "e", {"what": "pause"}),
        ("frozen", "main", "a bill"),
        ("closed", "lab", "out of credit"),
    ]


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """After the limit the command and its children are gone, the log says so, and the caller never waited for it."""
    mark = tmp_path / "alive"
    scene = Scene(tmp_path, "/bin/sh", "-c", f"(sleep 2; touch {mark}) & sleep 60", limit_s=0.3)
    began = time.monotonic()
    scene.notifier.tell("gate", {})
    assert time.monotonic() - began < 0.2
    scene.notifier.close()
    time.sleep(2.2)
    assert not mark.exists()
    assert scene.log == ["notify: the command of event gate did not end in 0 s, and is killed", scene.log[1]]
    assert "ended with -9" in scene.log[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/bin/sh", "-c", "echo 'no such hook' >&2; exit 3"), "ended with 3: no such hook"),
        (("/not/there",), "could not be run: No such file or directory"),
    ],
)
def test_a_command_that_fails_is_a_line_of_the_log(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """A code other than 0, or a program that vanished, is told with its reason and is no more than that."""
    scene = Scene(tmp_path, *words)
    scene.notifier.tell("finish", {}, exit=0)
    scene.notifier.close()
    assert scene.log == [f"notify: the command of event finish {said}"]


def test_quick_notices_are_all_given_at_the_end(tmp_path: Path) -> None:
    """Several gates that fire as a run ends are told each, before its end: none of their commands is slow."""
    scene = Scene(tmp_path)
    for name in "abc":
        scene.notifier.tell("gate", {"subject": name})
    scene.notifier.tell("stop", {}, exit=7)
    scene.notifier.close()
    assert [row["stdin"].get("subject") for row in scene.rows()] == ["a", "b", "c", None]  # type: ignore[attr-defined]
    assert scene.log == []


def test_the_last_notice_is_given_even_behind_slow_ones(tmp_path: Path) -> None:
    """Notices that still wait when the limit of one has passed are left out and counted; the last one, which says how it ended,
    is given.
    """
    gate = tmp_path / "go"
    script = f"while [ $JUDGERUN_EVENT = gate -a ! -e {gate} ]; do sleep 0.05; done; echo $JUDGERUN_EVENT >> {tmp_path}/kept.jsonl"
    scene = Scene(tmp_path, "/bin/sh", "-c", script, limit_s=2.0)
    for _ in range(4):
        scene.notifier.tell("gate", {})
    scene.notifier.tell("finish", {}, exit=0)
    scene.notifier.close()
    assert scene.kept.read_text().split() == ["finish"]
    assert "notify: the command of event gate did not end in 2 s, and is killed" in scene.log
    assert any("earlier notices had to wait for slow ones, and are left out" in line for line in scene.log)


def test_keys_are_not_passed_on() -> None:
    """Variables that providers name are dropped, and whatever else holds one of their values; the rest is passed on."""
    environ = {"A_KEY": "secret-1", "B_KEY": "", "URL": "http://x?k=secret-1", "PATH": "/bin", "NTFY_TOKEN": "mine"}
    found = clean(environ, ["A_KEY", "B_KEY", None], lambda raw: raw.replace(b"secret-1", b""))
    assert found == {"PATH": "/bin", "NTFY_TOKEN": "mine"}


def test_scrubbing_keeps_the_shape() -> None:
    """Only texts change: numbers, None and the shape stay as they are."""
    assert scrubbed({"a": ["k", 1, None, {"b": ("k",)}]}, lambda text: "x") == {"a": ["x", 1, None, {"b": ["x"]}]}
