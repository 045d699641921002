"""Snapshot: a cache read only and as it was at one moment, for status, audits, reports, exports and bundles.

What may live here: look-ups and columns. A snapshot writes nothing but the derived maps of cache.vectors/.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from judgerun.errors import Problem, Refused
from judgerun.ledger.budget import UNITS
from judgerun.model.event import Event
from judgerun.model.foreign import Run
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Reply
from judgerun.model.request import RequestKey
from judgerun.model.setting import Setting
from judgerun.ports import JobState, Place, Standing
from judgerun.store import foreign, rows
from judgerun.store.locks import Locks
from judgerun.store.queries import SQL
from judgerun.store.reader import Reader
from judgerun.store.schema import open_reader, wrapped
from judgerun.store.vectors import Vectors

T = TypeVar("T")

Columns = dict[str, "NDArray[Any] | list[Any]"]
"""Column name -> values in row order: int64 or float64 arrays where no value can be NULL and all are numbers, else lists."""

TABLES = ("attempts", "entries", "replies", "texts", "carried", "accounts", "events", "requests", "lost")
"""What `columns` can be asked for."""

_FLOATS = frozenset({"at"})
_INTEGERS = frozenset(
    {
        "id", "attempt", "owner", "requests", "open", "sent", "draw", "tries", "tokens_expected", *UNITS,
        *(f"{part}_{unit}" for part in ("need", "settled", "forfeited", "held")
          for unit in UNITS),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that has not closed its row. Not alive: it was killed, and its open attempts wait to be forfeited."""

    id: int
    pid: int
    experiment: str
    budget: str
    started: float
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A seal row: what it covers and the digest of it. `parts`: name -> {"digest", "count"}; `stated`: what was told to it."""

    id: int
    experiment: str
    at: float
    entry: int
    attempt: int
    digest: str
    parts: Mapping[str, Mapping[str, Any]]
    stated: Mapping[str, Any]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptJob:
    """A job. `told` is the provider's own word for how it stands, the last that was heard, or why it ended."""

    id: int
    owner: int
    place: Place
    state: JobState
    remote: str | None  # the provider's id of it
    told: str | None
    at: float  # Unix time of its first reservation
    submitted: float | None
    calls: int  # attempts that are open
    held: int  # nano-dollars, by them


class Snapshot:
    """One read-only view. `fixed` (the default) keeps it at the moment of opening; else each read sees the newest commit.

    Methods raise StoreError when SQLite or the disk refuses.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._reader = Reader(connection, path)
        self._vectors = Vectors(connection, path.with_name(path.stem + ".vectors"))

    @classmethod
    def open(cls, path: Path | str, *, fixed: bool = True, immutable: bool = False) -> Self:
        """Open a cache. `immutable`: nobody writes it and its folder may be read-only (a bundle). StoreError when it is
        absent, not a cache, or of another schema.
        """
        place = Path(path)
        connection = open_reader(place, immutable=immutable)
        if fixed:
            with wrapped(place):
                connection.execute("begin")
                connection.execute("select 1 from owner limit 1").fetchone()  # the first read fixes the view
        return cls(place, connection)

    def close(self) -> None:
        """Close the view; arrays that it gave out stay valid."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one request

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        """What the cache says of a request: its reply, else that it was given up, else nothing."""
        return self._reader.lookup(key)

    def bought(self, key: RequestKey) -> Kept | None:
        """The reply to a request, where there is one, whatever failed."""
        return self._reader.bought(key)

    def lookup_all(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Kept | Lost]:
        """What `lookup` says of each of several requests; no key where it says nothing."""
        return self._reader.lookup_all(keys)

    def bought_all(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Kept]:
        """The replies to those of several requests that have one."""
        return self._reader.bought_all(keys)

    def known(self) -> set[RequestKey]:
        """Every key that has a reply: one pass, for plans of a million requests."""
        return {key for (key,) in self._all("known")}

    def reply(self, key: RequestKey) -> Reply | None:
        """A whole reply, with its raw body and its vector; None when there is none."""
        found = self._reader.kept(key)
        if found is None:
            return None
        raw = rows.unpack(self._all("raw_reply", (key,))[0][0])
        vectors = self._all("vector_of", (key,))
        return rows.kept(*found, raw=raw, vector=vectors[0][1] if vectors else None).reply

    def canonical(self, key: RequestKey) -> bytes | None:
        """The canonical JSON of a request; None when the cache does not know it."""
        found = self._all("canonical", (key,))
        return rows.unpack(found[0][0]) if found else None

    def find(self, prefix: str) -> RequestKey:
        """The one key that begins with these hex digits. Refused when there is none, or more than one."""
        text = prefix.strip().lower()
        if not text or len(text) > 64 or any(digit not in "0123456789abcdef" for digit in text):
            raise Refused(Problem("cache.db", f"key {prefix}", "is not a key", "1 to 64 hex digits"))
        low, high = bytes.fromhex(text.ljust(64, "0")), bytes.fromhex(text.ljust(64, "f"))
        found = self._all("keys_between", (low, high, 3))
        if len(found) != 1:
            wrong = (
                "is not in the cache" if not found else f"fits several: {', '.join(key.hex()[:16] for (key,) in found)}"
            )
            raise Refused(Problem("cache.db", f"key {prefix}", wrong, "a longer prefix" if found else ""))
        return bytes(found[0][0])

    # -- columns

    def columns(self, table: str, experiment: str | None = None) -> Columns:
        """The columns of one of `TABLES`, in order of id; for one experiment (for events: one subject) or all.

        Replies belong to the experiment that bought them; `lost` rows to none, so all are given.
        """
        if table not in TABLES:
            raise KeyError(table)
        with wrapped(self.path):
            cursor = self._connection.execute(SQL[f"columns_{table}"], (experiment,))
            names = [column[0] for column in cursor.description]
            found = cursor.fetchall()
        values = list(zip(*found, strict=True)) if found else [()] * len(names)
        return {name: _column(name, column) for name, column in zip(names, values, strict=True)}

    # -- how things stand

    def runs(self) -> list[tuple[str, str, float]]:
        """(name, format, when it was read) of the runs of other programs, by name."""
        return self.read(foreign.names)

    def run(self, name: str) -> Run | None:
        """The run of another program of that name."""
        return self.read(lambda connection: foreign.read(connection, name))

    def gaps(self) -> dict[str, tuple[int, ...]]:
        """The numbers that are missing among the entries and the attempts, at most a thousand of each; no key where none is."""
        asked = {"entry": "entry_gaps", "attempt": "attempt_gaps"}
        found = {table: tuple(number for (number,) in self._all(name)) for table, name in asked.items()}
        return {table: numbers for table, numbers in found.items() if numbers}

    def events(self, after: int) -> tuple[Event, ...]:
        """What happened since the event of that number (0: all), to any experiment."""
        return self._reader.events(after)

    def settings(self, until: float = math.inf) -> tuple[Setting, ...]:
        """What was set of budgets and lanes up to a moment (Unix time), oldest first."""
        return self._reader.settings(until)

    def called(self, provider: str) -> bool:
        """Whether calls were ever reserved at a provider."""
        return self._reader.called(provider)

    def standing(self, experiment: str, budget: str | None = None) -> Standing:
        """How the money of an experiment stands, and that of a budget (None: the one under which it last ran)."""
        return self._reader.standing(experiment, budget)

    def budget_of(self, experiment: str) -> str | None:
        """The budget under which an experiment last ran here."""
        return self._reader.budget_of(experiment)

    def stand(self, experiment: str) -> tuple[float, str, str] | None:
        """How an experiment stood when it was last surveyed: when, on what that rests, the document (both JSON)."""
        found = self._all("stand_of", (experiment,))
        return found[0] if found else None

    def marks(self, experiment: str) -> tuple[int | float, ...]:
        """Numbers of which one changes whenever the cells of an experiment may stand otherwise: that of the last event that
        enters its plan, then that of the last entry of the cache and two of what was given up.
        """
        return tuple(self._all("stand_marks", (experiment,))[0])

    def experiments(self) -> list[str]:
        """Every experiment that has run, been planned or sealed here."""
        return [name for (name,) in self._all("experiments")]

    def owners(self) -> list[Owner]:
        """Processes whose rows are not closed, the dead ones among them."""
        locks = Locks(self.path)
        try:
            return [
                Owner(id=id, pid=pid, experiment=name, budget=budget, started=started, alive=locks.alive(id))
                for id, pid, name, budget, started in self._all("open_owners")
            ]
        finally:
            locks.close()

    def jobs(self, experiment: str, *, ended: bool = False) -> list[KeptJob]:
        """The jobs of an experiment that have not ended, whether or not a process collects them; with `ended` all of them."""
        return [
            KeptJob(
                id=id, owner=owner, place=Place(*place), state=JobState(state), remote=remote, told=told, at=at,
                submitted=submitted, calls=calls, held=held,
            )
            for id, owner, *place, state, remote, told, at, submitted, calls, held in self._all("jobs_of", (experiment, ended))
        ]  # fmt: skip

    def open_jobs(self) -> list[tuple[str, str, int]]:
        """(experiment, provider, owner) of each job of the cache that has not ended."""
        return self._all("open_jobs")

    def closed(self, experiment: str) -> dict[int, int]:
        """How many attempts of each job of an experiment are closed; a job without one is left out."""
        return dict(self._all("job_closed", (experiment,)))

    def progress(self, experiment: str) -> list[tuple[int, float, str]]:
        """(owner, time, JSON) last said by each process of an experiment that has not closed its row."""
        return self._all("progress_of", (experiment,))

    def plans(self, experiment: str) -> list[tuple[str, dict[str, str], float]]:
        """(digest, files, time) of each different plan that an experiment has had, oldest first."""
        return [(digest, json.loads(files), at) for digest, files, at in self._all("plans_of", (experiment,))]

    def pins(self, experiment: str) -> dict[str, str]:
        """The pinned digest of each file."""
        return dict(self._all("pins_of", (experiment,)))

    def pinned_texts(self, experiment: str) -> dict[str, str]:
        """The pinned text of each file that people write by hand."""
        return dict(self._all("pinned_texts", (experiment,)))

    def seals(self, experiment: str) -> list[Sealed]:
        """The seals of an experiment, oldest first."""
        return [
            Sealed(
                id=id, experiment=name, at=at, entry=entry, attempt=attempt, digest=digest,
                parts=json.loads(parts), stated=json.loads(stated), reason=reason,
            )
            for id, name, at, entry, attempt, digest, parts, stated, reason in self._all("seals_of", (experiment,))
        ]  # fmt: skip

    # -- vectors

    def matrix(self, keys: Sequence[RequestKey]) -> NDArray[np.float32]:
        """float32 (len(keys), dimension), rows in the order of keys; large ones are a memory map. See vectors.py."""
        return self._vectors.matrix(keys)

    def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """The result of a function of this room that reads the view's connection."""
        with wrapped(self.path):
            return function(self._connection)

    def _all(self, name: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with wrapped(self.path):
            return self._connection.execute(SQL[name], parameters).fetchall()


def _column(name: str, values: Sequence[Any]) -> NDArray[Any] | list[Any]:
    if name in _INTEGERS:
        return np.array(values, dtype=np.int64)
    if name in _FLOATS:
        return np.array(values, dtype=np.float64)
    return list(values)
