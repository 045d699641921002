"""The journal: lines of JSON with their time, without secrets, in files of bounded size, on a disk that may be full."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from judgerun.cli import journal
from judgerun.cli.journal import Journal


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_is_an_object_with_its_time(tmp_path: Path) -> None:
    """Time in UTC, process, kind and what was told; secrets are taken out of every text; a second process appends."""
    path = tmp_path / "log.jsonl"
    for text in ('said "canary"\nand more', "again"):
        kept = Journal(path, scrub=lambda text: text.replace("canary", "[secret]"), tell=print)
        kept.write("told", text=text, exit=None)
        kept.close()
    first, second = lines(path)
    assert datetime.fromisoformat(str(first.pop("at"))).utcoffset() == timedelta(0)
    assert first == {"event": "told", "text": 'said "[secret]"\nand more', "exit": None, "pid": os.getpid()}
    assert second["text"] == "again"


def test_files_are_rotated_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is full is put beside, a few older ones are kept, the oldest go; no line is torn."""
    monkeypatch.setattr(journal, "BYTES_MAX", 1000)
    path = tmp_path / "log.jsonl"
    kept = Journal(path, scrub=str, tell=print)
    for n in range(200):
        kept.write("told", text=f"line {n}")
    kept.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 1 + journal.KEPT
    assert all(held.stat().st_size <= 1000 for held in files)
    told = sorted(int(str(line["text"]).split()[1]) for held in files for line in lines(held))
    assert told == list(range(told[0], 200))


def test_a_full_disk_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    """Lines that the disk does not take are lost; the first is told; closing raises nothing."""
    said: list[str] = []
    path = tmp_path / "log.jsonl"
    path.symlink_to("/dev/full")
    kept = Journal(path, scrub=str, tell=said.append)
    for n in range(3):
        kept.write("told", text=f"line {n}")
    kept.close()
    assert len(said) == 1
    assert "No space left on device" in said[0]


def test_our_own_bug_is_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    """What cannot be said in JSON is raised."""
    kept = Journal(tmp_path / "log.jsonl", scrub=str, tell=print)
    with pytest.raises(TypeError):
        kept.write("told", text=object())
    kept.close()
