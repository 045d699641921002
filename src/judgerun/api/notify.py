"""Notify: a command of the user's that is told what became of a run, without ever holding the run up."""

from __future__ import annotations

import os
import queue
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from judgerun.api.watching import Watch
from judgerun.errors import Problem, Refused
from judgerun.model.event import Event

LIMIT_S = 30.0
"""Seconds after which the command is killed."""
SAID_MAX = 300
"""Characters of what a command that failed said on stderr."""

Kind = Literal["finish", "stop", "gate", "frozen", "closed", "asked"]
KINDS: Mapping[str, Kind] = {"gate": "gate", "freeze": "frozen", "ask": "asked"}
"""Which events of the cache are told, and as what."""
TELLING = ("gate", "ask")
"""Those whose detail is JSON."""


def parse(text: str) -> tuple[str, ...]:
    """The words of a command, split as a shell splits them. Refused where they are none, or name no program."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise Refused(Problem("command line", "--notify", f"cannot be split into words: {error}")) from None
    if not words or shutil.which(words[0]) is None:
        wrong = f"{words[0]!r} is no program" if words else "is empty"
        raise Refused(Problem("command line", "--notify", wrong, "a program and its arguments; a shell is not asked"))
    return words


def clean(environ: Mapping[str, str], names: Iterable[str | None], known: Callable[[bytes], bytes]) -> dict[str, str]:
    """The environment without the variables of these names, and without those that hold what `known` takes out."""
    dropped = set(names)
    return {
        name: value
        for name, value in environ.items()
        if name not in dropped
        and known(value.encode("utf-8", "surrogateescape")) == value.encode("utf-8", "surrogateescape")
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing told: a few words for the environment, the rest for stdin."""

    kind: Kind
    exit: int | None
    document: Mapping[str, Any]


class Notifier:
    """Gives notices to the command, one after the other, in a thread of its own. Failures are lines of the log, and no more."""

    def __init__(
        self,
        words: tuple[str, ...],
        *,
        experiment: str,
        budget: str,
        environ: Mapping[str, str],
        scrub: Callable[[str], str],
        log: Callable[[str], None],
        since: float,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._words = words
        self._experiment = experiment
        self._budget = budget
        self._environ = environ
        self._scrub = scrub
        self._log = log
        self._since = since
        self._limit_s = limit_s
        self.after = 0  # the number of the last event that was looked at
        self._closed: set[str] = set()
        self._queue: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
        self._thread.start()

    def look(self, seen: Watch, standing: Mapping[str, Any]) -> None:
        """Tell what happened since the last look; `standing` says how the run stands."""
        self.happened(seen.cache.events(self.after), seen.progress.closed, standing)

    def happened(self, events: Iterable[Event], closed: Mapping[str, str], standing: Mapping[str, Any]) -> None:
        """Tell those of these events that are news of this run, and which providers are closed, each once."""
        for event in events:
            fresh = event.id > self.after and event.at >= self._since
            self.after = max(self.after, event.id)
            ours = self._experiment in (event.experiment, event.subject) or self._budget == event.subject
            if fresh and ours and event.kind in KINDS:
                detail = orjson.loads(event.detail) if event.kind in TELLING else event.detail
                self.tell(KINDS[event.kind], {"subject": event.subject, "detail": detail, "run": standing})
        for provider, why in closed.items():
            if provider not in self._closed:
                self._closed.add(provider)
                self.tell("closed", {"subject": provider, "detail": why, "run": standing})

    def tell(self, kind: Kind, document: Mapping[str, Any], *, exit: int | None = None) -> None:
        """Give a notice as soon as those before it are given."""
        self._queue.put(Notice(kind=kind, exit=exit, document=document))

    def close(self) -> None:
        """Wait until the notices are given. Where that takes longer than the limit of one, those that have not begun are left out,
        and told, but for the last, which is waited for. Whoever interrupts the waiting ends the command.
        """
        self._queue.put(None)
        try:
            self._thread.join(self._limit_s)
            if self._thread.is_alive():
                self._shorten()
                self._thread.join(2 * self._limit_s + 5)
        except KeyboardInterrupt:
            self._kill()

    def _shorten(self) -> None:
        """Leave the last notice alone in the queue."""
        waiting: list[Notice] = []
        with suppress(queue.Empty):
            while (notice := self._queue.get_nowait()) is not None:
                waiting.append(notice)
        if left := len(waiting[:-1]):
            self._log(f"notify: {left} earlier notices had to wait for slow ones, and are left out")
        for last in waiting[-1:]:
            self._queue.put(last)
        self._queue.put(None)

    def _work(self) -> None:
        while (notice := self._queue.get()) is not None:
            self._give(notice)

    def _give(self, notice: Notice) -> None:
        told = {"event": notice.kind, "experiment": self._experiment, "exit": notice.exit, **notice.document}
        essentials = {"JUDGERUN_EVENT": notice.kind, "JUDGERUN_EXPERIMENT": self._experiment}
        essentials |= {} if notice.exit is None else {"JUDGERUN_EXIT": str(notice.exit)}
        text = orjson.dumps(scrubbed(told, self._scrub), option=orjson.OPT_APPEND_NEWLINE)
        try:
            with tempfile.TemporaryFile() as said:
                self._running = subprocess.Popen(
                    self._words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    env={**self._environ, **essentials},
                    start_new_session=True,
                )
                self._await(text, notice.kind)
                if code := self._running.returncode:
                    said.seek(0)
                    words = said.read().decode("utf-8", "replace").strip()[-SAID_MAX:]
                    self._log(
                        f"notify: the command of event {notice.kind} ended with {code}{': ' * bool(words)}{words}"
                    )
        except OSError as error:
            self._log(f"notify: the command of event {notice.kind} could not be run: {error.strerror}")

    def _await(self, text: bytes, kind: str) -> None:
        assert self._running is not None
        try:
            self._running.communicate(text, timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            self._log(f"notify: the command of event {kind} did not end in {self._limit_s:.0f} s, and is killed")
            self._kill()
            self._running.wait()

    def _kill(self) -> None:
        """End the command and what it started: it leads a group of its own."""
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)


def scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    """A JSON value, every text in it without secrets."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {name: scrubbed(held, scrub) for name, held in value.items()}
    return [scrubbed(held, scrub) for held in value] if isinstance(value, list | tuple) else value
