"""Owners: the processes that run on a cache, as transactions: enter, leave, recover, progress.

What may live here: who is alive, and what becomes of what a process left open: its calls are forfeited; a job of which nothing
was sent is void; one that was, or may have been, submitted stands with its holds until a later run collects it. An owner is
alive while its byte of cache.db.lock is held; the byte is taken before the owner's row commits, so a row without a lock is a
dead process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial

from judgerun.errors import InvariantBroken, Problem, Refused
from judgerun.ledger.budget import Budget
from judgerun.ledger.entry import Amount
from judgerun.model.money import format_usd
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.ports import JobState, LaneTime
from judgerun.store.books import Books
from judgerun.store.jobs import JobBooks
from judgerun.store.locks import Locks
from judgerun.store.queries import SQL

DIED = Failure(cause=Cause.OWNER_DIED, billable=Billable.UNKNOWN, detail="its process ended without closing it")
LEFT = Failure(cause=Cause.INTERRUPTED, billable=Billable.UNKNOWN, detail="its process stopped while it was in flight")


class Owners:
    """The owner rows of one cache, as one process sees them."""

    def __init__(self, books: Books, locks: Locks) -> None:
        self._books = books
        self._jobs = JobBooks(books)
        self._locks = locks

    def enter(self, experiment: str, budget: Budget, now: float) -> int:
        """Register this process; its id. One owner at a time for each Store."""
        if self._books.owner is not None:
            raise InvariantBroken(f"this store already runs as owner {self._books.owner}")
        owner = self._books.connection.execute(SQL["new_owner"], (os.getpid(), experiment, budget.name, now)).lastrowid
        assert owner is not None
        self._locks.take(owner)
        self._books.undo(partial(self._locks.drop, owner))
        self._books.join(owner=owner, experiment=experiment, budget=budget)
        return owner

    def leave(self, idle: Mapping[str, float], lanes: LaneTime, now: float, *, stays: bool = False) -> int:
        """Forfeit the calls that this process left open, add its idle seconds and the time of its lanes, close its row unless it
        `stays`; how many were forfeited.
        """
        books = self._books
        owner, experiment = books.owner, books.experiment
        if owner is None:
            raise InvariantBroken("leave() without enter()")
        left = self._clear(owner, LEFT, now)
        self._spend(experiment, idle, lanes)
        if stays:
            self.progress("{}", now)  # the time that it told of is the experiment's now
        else:
            books.connection.execute(SQL["close_owner"], (now, owner))
        return left

    def left(self) -> None:
        """After `leave` has committed: the lock goes, and nothing more is reserved."""
        if self._books.owner is not None:
            self._locks.drop(self._books.owner)
            self._books.owner = None

    def recover(self, now: float) -> int:
        """Forfeit the calls that dead owners left open and close their rows; how many.

        The lock test and the forfeits are one write transaction, so two recoverers cannot both do it.
        """
        forfeited = 0
        for owner, _, theirs, *_ in self._books.connection.execute(SQL["open_owners"]).fetchall():
            if owner != self._books.owner and not self._locks.alive(owner):
                forfeited += self._clear(owner, DIED, now)
                self._inherit(owner, theirs)
                self._books.connection.execute(SQL["close_owner"], (now, owner))
        return forfeited

    def write_off(self, job: int, *, experiment: str, because: str, now: float) -> Amount:
        """End a job of an experiment that its provider no longer knows: its open attempts are forfeited, on the record; what they
        held. Refused without a reason, when the job has ended or is none, and while a process has it.
        """
        self.recover(now)
        row = self._books.connection.execute(SQL["job_owner"], (job, experiment)).fetchone()
        state, provider, remote, left = row or (None, None, None, False)
        wrong, right = "", ""
        if not because.strip():
            wrong, right = "is written off for no reason", "--because TEXT"
        elif state is None:
            wrong, right = f"is not a job of {experiment}", f"judgerun jobs {experiment}"
        elif state == JobState.ENDED:
            wrong, right = "has ended", "a job that has not"
        elif not left:
            wrong, right = "is in the hands of a process that runs", f"judgerun stop {experiment} first"
        if wrong:
            raise Refused(Problem("cache.db", f"job {job}", wrong, right))
        why = Failure(cause=Cause.TIMED_OUT, billable=Billable.UNKNOWN, detail=because)
        held = self._jobs.write_off(job, why, now)
        told = f"job {job} at {provider} ({remote or 'it told no id'}), {held.calls} calls, {format_usd(held.nanos)} USD: {because}"
        self._books.note("forfeit", experiment, told, now, experiment=experiment)
        return held

    def progress(self, document: str, now: float) -> None:
        """What this process says of itself, for `status` elsewhere."""
        if self._books.owner is None:
            raise InvariantBroken("progress() without enter()")
        self._books.connection.execute(SQL["put_progress"], (self._books.owner, now, document))

    def _inherit(self, owner: int, experiment: str) -> None:
        """The time that a dead process told of last is its experiment's."""
        row = self._books.connection.execute(SQL["last_words"], (owner,)).fetchone()
        said = json.loads(row[0]) if row is not None else {}
        self._spend(experiment, said.get("idle", {}), said.get("lanes", {}))

    def _spend(self, experiment: str, idle: Mapping[str, float], lanes: LaneTime) -> None:
        execute = self._books.connection.execute
        for cause, seconds in idle.items():
            execute(SQL["add_idle"], (experiment, cause, seconds))
        for lane, spent in lanes.items():
            for cause, seconds in spent.items():
                execute(SQL["add_lane_time"], (experiment, lane, cause, seconds))

    def _clear(self, owner: int, why: Failure, now: float) -> int:
        for (job,) in self._books.connection.execute(SQL["filling_jobs"], (owner,)).fetchall():
            self._jobs.unsent(job, now)
        attempts = self._books.connection.execute(SQL["owner_attempts"], (owner,)).fetchall()
        for (attempt,) in attempts:
            self._books.forfeit(attempt, why, now)
        return len(attempts)
