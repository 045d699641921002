"""Reader: the questions that a run asks on the way (is there a reply, is it open, how does the money stand); read only."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judgerun.errors import StoreError
from judgerun.model.event import Event
from judgerun.model.kept import Kept, Lost
from judgerun.model.request import Request, RequestKey
from judgerun.model.setting import Setting, read_setting
from judgerun.ports import LeftJob, Line, Spend, Standing
from judgerun.store import rows
from judgerun.store.jobs import left, lines
from judgerun.store.queries import SQL
from judgerun.store.schema import wrapped

_KEPT = SQL["kept"]
_SIZES = (1, 4, 16)
_AMONG = {size: SQL["kept_among"].replace(":marks", ", ".join(["(?)"] * size)) for size in _SIZES}
"""The query `kept_among` for so many keys."""


class Reader:
    """Reads of one connection. Every method raises StoreError when SQLite or the disk refuses."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self.connection = connection
        self._path = path
        self._experiments: dict[int, str] = {}  # of accounts, which never change theirs

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        """What the cache says of a request: its reply, else that it was given up, else nothing."""
        kept = self.bought(key)
        if kept is not None:
            return kept
        return self._lost(key)

    def _lost(self, key: RequestKey) -> Lost | None:
        with wrapped(self._path):
            row = self.connection.execute(SQL["lost_reason"], (key,)).fetchone()
            return None if row is None else Lost(row[0])

    def bought(self, key: RequestKey) -> Kept | None:
        """The reply to a request, where there is one: what a run asks, which tries failed cells anew."""
        found = self.kept(key)
        return None if found is None else rows.kept(*found)

    def lookup_all(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Kept | Lost]:
        """What `lookup` says of each of several requests; no key where it says nothing."""
        found: dict[RequestKey, Kept | Lost] = {**self.bought_all(keys)}
        for key in keys:
            if key not in found and (told := self._lost(key)) is not None:
                found[key] = told
        return found

    def bought_all(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Kept]:
        """The replies to those of several requests that have one, in half of the time that `bought` takes for each."""
        found: dict[RequestKey, Kept] = {}
        most = _SIZES[-1]
        try:
            for start in range(0, len(keys), most):
                part = keys[start : start + most]
                size = next(size for size in _SIZES if size >= len(part))
                asked = [*part, *[None] * (size - len(part))]  # few statements, each prepared once; no key is null
                for row in self.connection.execute(_AMONG[size], asked).fetchall():
                    found[row[-1]] = rows.kept(row[:-1], self._experiment(row[0]))
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error
        return found

    def kept(self, key: RequestKey) -> tuple[Sequence[Any], str] | None:
        """The columns of a reply, and the experiment that bought it; None when there is none."""
        try:  # not `wrapped`: a plan asks this a million times
            row = self.connection.execute(_KEPT, (key,)).fetchone()
            return None if row is None else (row, self._experiment(row[0]))
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error

    def _experiment(self, account: int) -> str:
        """Whose account it is."""
        known = self._experiments.get(account)
        if known is None:
            (known,) = self.connection.execute(SQL["experiment_of"], (account,)).fetchone()
            self._experiments[account] = str(known)
        return str(known)

    def is_open(self, key: RequestKey) -> bool:
        """Whether any process has an open attempt for the key."""
        with wrapped(self._path):
            return self.connection.execute(SQL["is_open"], (key,)).fetchone() is not None

    def lines(self, job: int) -> tuple[Line, ...]:
        """The open attempts of a job."""
        with wrapped(self._path):
            return lines(self.connection, job)

    def left(self, experiment: str) -> tuple[LeftJob, ...]:
        """The jobs that ended processes of an experiment left standing."""
        with wrapped(self._path):
            return left(self.connection, experiment)

    def remotes(self, provider: str, token: str) -> frozenset[str]:
        """The ids of all jobs of a provider that it told, but for the one of the token."""
        with wrapped(self._path):
            return frozenset(remote for (remote,) in self.connection.execute(SQL["remotes"], (provider, token)))

    def request(self, key: RequestKey) -> Request:
        """A request by its key; KeyError when there is none."""
        with wrapped(self._path):
            row = self.connection.execute(SQL["canonical"], (key,)).fetchone()
        if row is None:
            raise KeyError(key.hex())
        return rows.request_of(key, row[0])

    def enqueued(self, provider: str, model: str | None) -> int:
        """Tokens in the open jobs of a provider, or of one model of it."""
        with wrapped(self._path):
            return int(self.connection.execute(SQL["enqueued"], (provider, model)).fetchone()[0])

    def stranded(self, key: RequestKey) -> str | None:
        """Where a key is held by a job whose owner has ended; None when none holds it so."""
        with wrapped(self._path):
            row = self.connection.execute(SQL["stranded"], (key,)).fetchone()
        return None if row is None else "job {2} of experiment {0} at {1}".format(*row)

    def unattended(self) -> str | None:
        """Where all open attempts of the cache are in jobs whose owners have ended: one such place; else None."""
        with wrapped(self._path):
            held, left, experiment, provider = self.connection.execute(SQL["holds"]).fetchone()
        return f"jobs of experiment {experiment} at {provider}" if held and held == left else None

    def settings(self, until: float) -> tuple[Setting, ...]:
        """What was set of budgets and lanes up to a moment, oldest first."""
        with wrapped(self._path):
            return tuple(read_setting(*row) for row in self.connection.execute(SQL["settings"], (until,)))

    def called(self, provider: str) -> bool:
        """Whether calls were ever reserved at a provider."""
        with wrapped(self._path):
            return self.connection.execute(SQL["provider_known"], (provider,)).fetchone() is not None

    def events(self, after: int) -> tuple[Event, ...]:
        """What happened since an event."""
        with wrapped(self._path):
            return tuple(Event(*row) for row in self.connection.execute(SQL["events_after"], (after,)))

    def standing(self, experiment: str, budget: str | None = None) -> Standing:
        """How the money of an experiment stands, and that of a budget (None: the one under which it last ran)."""
        with wrapped(self._path):
            if budget is None:
                budget = self.budget_of(experiment) or ""
            found = self.connection.execute(SQL["spend"], (budget, experiment)).fetchall()
            frozen = self.connection.execute(SQL["frozen"], (budget,)).fetchone()
            idle = self.connection.execute(SQL["idle_of"], (experiment,)).fetchall()
            times = self.connection.execute(SQL["lane_time_of"], (experiment,)).fetchall()
        mine = [row for row in found if row[1] == experiment]
        names = dict.fromkeys(row[2] for row in mine)
        return Standing(
            experiment=_spend(mine),
            budget=_spend([row for row in found if row[0] == budget]),
            conditions={name: _spend([row for row in mine if row[2] == name]) for name in names},
            attempts=sum(row[6] for row in mine),
            frozen=frozen[1] if frozen and frozen[0] == "freeze" else None,
            idle=dict(idle),
            lanes={lane: {cause: s for of, cause, s in times if of == lane} for lane, _, _ in times},
        )

    def budget_of(self, experiment: str) -> str | None:
        """The budget under which an experiment last ran here."""
        with wrapped(self._path):
            row = self.connection.execute(
                "select budget from owner where experiment = ? order by id desc limit 1", (experiment,)
            ).fetchone()
            return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _spend(found: Sequence[tuple[str, str, str, int, int, int, int]]) -> Spend:
    return Spend(
        settled=sum(row[3] for row in found),
        forfeited=sum(row[4] for row in found),
        held=sum(row[5] for row in found),
    )
