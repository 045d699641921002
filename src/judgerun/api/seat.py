"""Seat: where a process that runs an experiment leaves what others read of it, in `.judgerun/EXPERIMENT/`; each has its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

FOLDER = ".judgerun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The files of one process. The first process of an experiment has the plain names, a second one beside it those with -2."""

    folder: Path
    number: int

    def _path(self, stem: str, suffix: str) -> Path:
        return self.folder / f"{stem}{'' if self.number == 1 else f'-{self.number}'}{suffix}"

    @property
    def heartbeat(self) -> Path:
        """How it stands, rewritten while it runs."""
        return self._path("heartbeat", ".json")

    @property
    def log(self) -> Path:
        """What it told, a line of JSON each."""
        return self._path("log", ".jsonl")

    @property
    def output(self) -> Path:
        """What it printed since it has had no terminal."""
        return self._path("output", ".log")

    @property
    def lock(self) -> Path:
        """Held by the process for its life."""
        return self._path("lock", "")


@contextmanager
def seated(root: Path, experiment: str) -> Iterator[Seat]:
    """The first seat of an experiment that no living process has, for as long as the block runs. OSError where none can be made."""
    folder = root.absolute() / FOLDER / experiment
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        seat = Seat(folder=folder, number=number)
        held = os.open(seat.lock, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            continue
        try:
            yield seat
        finally:
            os.close(held)
        return


def heartbeats(root: Path) -> list[Path]:
    """The heartbeats of a workspace, of living and of dead processes."""
    return sorted((root / FOLDER).glob("*/heartbeat*.json"))
