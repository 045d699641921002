"""Keeping: what a run leaves for those who do not see it: heartbeat, journal, notices, and the word that it has started."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self

from judgerun.api.heartbeat import Heartbeat
from judgerun.api.notify import Notifier, clean
from judgerun.api.project import Project, snapshot
from judgerun.api.seat import Seat, seated
from judgerun.api.state import Result
from judgerun.api.watching import Watch
from judgerun.cli.detach import Child, outlive
from judgerun.cli.journal import Journal
from judgerun.cli.words import Words, scrub, trouble
from judgerun.errors import Exit, JudgerunError
from judgerun.files.deployments import BUILTIN
from judgerun.ledger.budget import Budget
from judgerun.providers.open import scrubber


class Trail:
    """What a run leaves behind it. Use as a context around it; `watch` each second, `log` for each thing told, `ended` once. What
    it cannot write it tells once: nothing of it ends a run.
    """

    def __init__(
        self, words: Words, project: Project, budget: Budget, *, notify: tuple[str, ...] | None, child: Child | None
    ) -> None:
        self._words = words
        self._project = project
        self._budget = budget
        self._notify = notify
        self._child = child
        self._secrets = scrubber(project.deployments, project.workspace.environ)
        self._open = ExitStack()
        self._seat: Seat | None = None
        self._journal: Journal | None = None
        self._heartbeat: Heartbeat | None = None
        self._notifier: Notifier | None = None
        self._over = False

    def __enter__(self) -> Self:
        name, began, code = self._project.name, time.time(), version("judgerun")
        try:
            self._seat = self._open.enter_context(seated(self._project.workspace.root, name))
        except OSError as error:
            wrong = f"{error.filename or 'a file'}: {error.strerror}"
            self.log(f"no heartbeat and no log are kept ({wrong}); the run goes on")
        else:
            self._journal = Journal(self._seat.log, scrub=self._scrub, tell=self._words.event)
            self._open.callback(self._journal.close)
            self._journal.write("start", experiment=name, budget=self._budget.name, version=code)
            self._heartbeat = Heartbeat(self._seat.heartbeat, experiment=name, version=code, log=self.log)
            if self._seat.number > 1:
                self.log(f"another process runs {name}: they share cache, caps and rates, and nothing is bought twice")
        if self._notify is not None:
            self._notifier = self._notifying(self._notify, began)
            self._open.callback(self._notifier.close)
        if self._child is None:
            outlive(self._seat.output if self._seat else None)
        return self

    def _notifying(self, words: tuple[str, ...], since: float) -> Notifier:
        names = [place.api_key_env for place in (*BUILTIN.values(), *self._project.deployments)]
        return Notifier(
            words,
            experiment=self._project.name,
            budget=self._budget.name,
            environ=clean(self._project.workspace.environ, names, self._secrets.known),
            scrub=self._scrub,
            log=self.log,
            since=since,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._over:
            self._failed(error)
        self._open.close()

    def _scrub(self, text: str) -> str:
        return scrub(self._secrets.text(text))

    def log(self, text: str) -> None:
        """One thing told, to whoever reads along and to the journal."""
        self._words.event(text)
        if self._journal is not None:
            self._journal.write("told", text=text)

    def watch(self, seen: Watch) -> None:
        """The run goes on."""
        if self._heartbeat is not None:
            self._heartbeat.beat(seen)
        if self._notifier is not None:
            self._notifier.look(seen, self._standing())
        if self._child is not None and seen.cache.owner is not None:
            self._tell_started(self._child, seen.cache.owner)
            self._child = None

    def _tell_started(self, child: Child, owner: int) -> None:
        seat, name = self._seat, self._project.name
        paths = {} if seat is None else {"log": seat.log, "output": seat.output, "heartbeat": seat.heartbeat}
        self._words.say(f"process {os.getpid()} runs {name}: judgerun status {name}, judgerun stop {name}")
        for what, path in paths.items():
            self._words.say(f"{what}: {path}")
        told = {"experiment": name, "pid": os.getpid(), "owner": owner}
        self._words.result({**told, **{what: str(path) for what, path in paths.items()}})
        child.started(seat.output if seat else None)

    def _standing(self) -> dict[str, Any]:
        return {} if self._heartbeat is None else dict(self._heartbeat.document)

    def ended(self, result: Result) -> None:
        """How it ended. The last notice is on its way when this returns; the block's end waits for it."""
        if self._notifier is not None:
            with snapshot(self._project.workspace.cache) as view:
                news = view.events(self._notifier.after) if view else ()
                self._notifier.happened(news, result.closed, self._standing())
        self._end(result.code, result.reason, result.document())

    def _failed(self, error: BaseException) -> None:
        """It ended by an error: a refusal, trouble of the store, our own bug, or an interruption before it ran."""
        if isinstance(error, KeyboardInterrupt):
            self._end(Exit.INTERRUPTED, "interrupted before it ran", {})
        else:
            code = error.exit if isinstance(error, JudgerunError) else Exit.BUG
            self._end(code, str(trouble(error)["message"]), {"error": trouble(error)})

    def _end(self, code: Exit, reason: str | None, document: dict[str, Any]) -> None:
        self._over = True
        if self._child is None:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nothing is left that a terminal could stop
        if self._heartbeat is not None:
            self._heartbeat.end(int(code), None if reason is None else self._scrub(reason))
        if self._journal is not None:
            self._journal.write("end", exit=int(code), reason=reason)
        if self._notifier is not None:
            complete = code in (Exit.DONE, Exit.FINDINGS)
            self._notifier.tell("finish" if complete else "stop", {"reason": reason, "run": document}, exit=int(code))
