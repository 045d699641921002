"""Jobs: what the cache knows of requests that were handed to a provider's batch API as one, as transactions and reads.

What may live here: the states of a job and what stands in it. Each of its attempts is an attempt like any other: reserved,
and closed once, in books.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence, Set
from functools import partial
from typing import Any

from judgerun.errors import InvariantBroken, invariant
from judgerun.ledger.entry import Amount, Decision, EntryKind
from judgerun.model.reply import Failure
from judgerun.ports import Claim, Closing, Enlisted, JobState, LeftJob, Line, Place
from judgerun.store import rows
from judgerun.store.books import Books
from judgerun.store.queries import SQL

NEXT: Mapping[JobState, frozenset[JobState]] = {
    JobState.FILLING: frozenset({JobState.SUBMITTING, JobState.ENDED}),
    JobState.SUBMITTING: frozenset({JobState.SUBMITTED, JobState.ENDED}),
    JobState.SUBMITTED: frozenset({JobState.SUBMITTED, JobState.ENDED}),
    JobState.ENDED: frozenset(),
}
"""Which state may follow which; `submitted` follows itself when the provider has another word for it."""

PASSED = frozenset({Decision.RESERVED, Decision.KEPT, Decision.HELD})
"""What lets the next claim of a job be tried."""


class JobBooks:
    """The jobs of one cache, as one process writes them."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def enlist(self, claims: Sequence[Claim], *, token: str, deployment: str, now: float) -> Enlisted:
        """Reserve claims for the job of a token in their order, up to the first that is refused. The job is made with its first
        attempt; it must be of this owner, and not yet submitted.
        """
        found = self._books.connection.execute(SQL["job_named"], (token,)).fetchone()
        made: list[int] = []
        if found is not None:
            invariant(found[1:] == (JobState.FILLING, self._books.owner), f"job {found[0]} can take no more")
            made.append(found[0])
        grants = []
        for claim in claims:
            invariant(len(claim.requests) == 1, "an attempt of a job carries one request")
            place = Place(claim.provider, deployment, claim.model)
            grant = self._books.reserve(claim, now, job=partial(self._job, made, place, token, now))
            grants.append(grant)
            if grant.decision not in PASSED:
                break
        return Enlisted(job=made[0] if made else None, grants=tuple(grants))

    def _job(self, made: list[int], place: Place, token: str, now: float) -> int:
        if not made:
            number = self._books.connection.execute(SQL["new_job"], (self._books.owner, *place, token, now)).lastrowid
            assert number is not None
            made.append(number)
        return made[0]

    def move(self, job: int, state: JobState, *, remote: str | None, detail: str | None, now: float) -> None:
        """A job goes on. InvariantBroken for a state that cannot follow, and for the end of a job with open attempts."""
        row = self._books.connection.execute(SQL["job_state"], (job,)).fetchone()
        if row is None or state not in NEXT[JobState(row[0])]:
            raise InvariantBroken(f"job {job} went from {row[0] if row else 'nothing'} to {state.value}")
        ended = state is JobState.ENDED
        if ended:
            left = self._books.connection.execute(SQL["job_attempts"], (job,)).fetchone()
            invariant(left is None, f"job {job} ended with open attempts")
        told = (state.value, remote, None if remote is None else now, now if ended else None)
        self._books.connection.execute(SQL["move_job"], (*told, None if detail is None else rows.plain(detail), job))

    def unsent(self, job: int, now: float) -> None:
        """End a job of which no byte left: its attempts are void."""
        for (attempt,) in self._books.connection.execute(SQL["job_attempts"], (job,)).fetchall():
            self._books.close(Closing(attempt=attempt, kind=EntryKind.VOID, amount=Amount(), sent=False), now)
        self.move(job, JobState.ENDED, remote=None, detail="nothing of it was sent", now=now)

    def write_off(self, job: int, why: Failure, now: float) -> Amount:
        """End a job of which nothing more will be heard: its open attempts are forfeited; what they held."""
        held = Amount()
        for (attempt,) in self._books.connection.execute(SQL["job_attempts"], (job,)).fetchall():
            held += self._books.seat(attempt).need
            self._books.forfeit(attempt, why, now)
        self.move(job, JobState.ENDED, remote=None, detail=f"written off: {why.detail}", now=now)
        return held

    def adopt(self, jobs: Collection[int]) -> Set[int]:
        """Become the owner of these of the jobs that ended processes of this experiment left standing."""
        books = self._books
        if books.owner is None:
            raise InvariantBroken("adopt() without enter()")
        mine = {job.id for job in left(books.connection, books.experiment)} & set(jobs)
        for job in mine:
            books.connection.execute(SQL["adopt_job"], (books.owner, job))
        return mine


def left(connection: sqlite3.Connection, experiment: str) -> tuple[LeftJob, ...]:
    """The jobs that ended processes of an experiment left standing, oldest first."""
    return tuple(_job(row) for row in connection.execute(SQL["left_jobs"], (experiment,)))


def _job(row: Sequence[Any]) -> LeftJob:
    number, provider, deployment, model, token, state, remote, at = row
    place = Place(provider, deployment, model)
    return LeftJob(id=number, place=place, token=token, state=JobState(state), remote=remote, at=at)


def lines(connection: sqlite3.Connection, job: int) -> tuple[Line, ...]:
    """The open attempts of a job, in the order in which they were reserved."""
    return tuple(
        Line(
            attempt=row[0],
            key=row[1],
            stage=row[2],
            condition=row[3],
            need=Amount(*row[4:8]),
            tokens_expected=row[8],
            bound_by=row[9],
        )
        for row in connection.execute(SQL["lines"], (job,))
    )
