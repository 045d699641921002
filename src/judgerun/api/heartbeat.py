"""Heartbeat: the file that a running process rewrites each second, by which a watchdog sees that it lives, and how to read it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

import orjson

from judgerun.api.watching import Watch, live
from judgerun.model.money import format_usd

STALE_S = 30.0
"""Seconds without a beat after which a process is taken for hung or dead."""


class Heartbeat:
    """The heartbeat of one process. A disk that cannot be written is told once, and ends nothing."""

    def __init__(
        self,
        path: Path,
        *,
        experiment: str,
        version: str,
        log: Callable[[str], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._log = log
        self._wall = wall
        self._answers = 0
        self._told = False
        self.document: dict[str, Any] = {
            "experiment": experiment,
            "pid": os.getpid(),
            "version": version,
            "state": "starting",
            "started": wall(),
            "owner": None,
            "calls": 0,
            "answered_at": None,
        }
        self._write()

    def beat(self, seen: Watch) -> None:
        """The run goes on, and stands so."""
        progress, spend = seen.progress, seen.cache.standing().budget
        if progress.answers != self._answers:
            self._answers = progress.answers
            self.document["answered_at"] = self._wall()
        owner = self.document["owner"] if seen.cache.owner is None else seen.cache.owner
        budget = {
            "name": seen.budget.name,
            "high_usd": format_usd(spend.high),
            "cap_usd": format_usd(seen.budget.total),
        }
        self.document |= live(progress, seen.now)
        self.document |= {"state": "running", "owner": owner, "calls": progress.calls, "budget": budget}
        self.document["closed"] = dict(progress.closed)
        self._write()

    def end(self, code: int, reason: str | None) -> None:
        """The process is about to end with that code."""
        self.document |= {"state": "ended", "exit": code, "reason": reason, "in_flight": 0, "waiting": {}}
        self._write()

    def _write(self) -> None:
        self.document["at"] = self._wall()
        beside = self._path.with_suffix(".new")
        try:
            beside.write_bytes(orjson.dumps(self.document, option=orjson.OPT_INDENT_2) + b"\n")
            beside.replace(self._path)
        except OSError as error:
            if not self._told:
                self._told = True
                self._log(f"the heartbeat {self._path} cannot be written ({error.strerror}); the run goes on")


def judged(document: Mapping[str, Any], *, now: float, alive: Set[int]) -> tuple[bool, str]:
    """Whether what a heartbeat says is as it should be, and what it means. `alive` are the owners of the cache that live."""
    name, pid, silent = document["experiment"], document["pid"], now - document["at"]
    if document["state"] == "ended":
        return True, f"process {pid} ended with {document['exit']}: {document['reason'] or 'nothing left to do'}"
    if abs(silent) <= STALE_S:
        return True, f"process {pid} runs, {document.get('in_flight', 0)} calls in flight"
    since = f"has said nothing for {silent:.0f} s" if silent > 0 else f"speaks of a moment {-silent:.0f} s from now"
    if document["owner"] in alive:
        return (
            False,
            f"process {pid} lives and {since}: suspended (kill -CONT {pid}) or hung (kill {pid}, then run again)",
        )
    return False, f"process {pid} {since} and is dead: judgerun run {name} goes on where it stopped"
