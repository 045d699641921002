"""Extract: a cache that holds some experiments alone, copied out of a larger one with every id kept, so that their seals hold.

What may live here: which rows belong to an experiment, and their copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from judgerun.errors import Problem, Refused
from judgerun.model.request import RequestKey
from judgerun.store.locks import Locks
from judgerun.store.schema import open_writer, wrapped
from judgerun.store.snapshot import Snapshot

BATCH = 500  # rows carried over at once

_WANTED = """
create temp table wanted_name (name text primary key);
create temp table wanted_key (key blob primary key);
create temp table wanted_attempt (id integer primary key);
create temp table wanted_request (id integer primary key);
"""

_FILL = (
    # every attempt of the experiments
    """insert into wanted_attempt select a.id from attempt a join account c on c.id = a.account
       where c.experiment in (select name from wanted_name)""",
    # and those, of whomever, that bought a reply on which they rest
    """insert or ignore into wanted_attempt select p.attempt from wanted_key k join request r on r.key = k.key
       join reply p on p.request = r.id""",
    "insert into wanted_request select r.id from wanted_key k join request r on r.key = k.key",
    "insert or ignore into wanted_request select k.request from carried k join wanted_attempt w on w.id = k.attempt",
)

_ACCOUNTS = """select id from account where experiment in (select name from wanted_name)
               or id in (select account from attempt join wanted_attempt using (id))"""

_JOBS = "select job from attempt join wanted_attempt using (id)"

#: Tables in an order in which a row comes after those that it refers to, each with its rows and their order.
_ROWS: tuple[tuple[str, str], ...] = (
    (
        "owner",
        f"""id in (select owner from attempt join wanted_attempt using (id))
            or id in (select owner from job where id in ({_JOBS})) order by id""",
    ),
    ("account", f"id in ({_ACCOUNTS}) order by id"),
    ("request", "id in (select id from wanted_request) order by id"),
    ("job", f"id in ({_JOBS}) order by id"),
    ("attempt", "id in (select id from wanted_attempt) order by id"),
    ("carried", "attempt in (select id from wanted_attempt) order by request, attempt"),
    ("entry", "attempt in (select id from wanted_attempt) order by id"),
    ("reply", "attempt in (select id from wanted_attempt) order by request"),
    (
        "vector",
        """request in (select request from reply where attempt in (select id from wanted_attempt)) order by request""",
    ),
    ("lost", "request in (select id from wanted_request) order by request"),
    (
        "event",
        f"""experiment in (select name from wanted_name) or subject in (select name from wanted_name)
            or subject in (select budget from account where id in ({_ACCOUNTS}))
            or subject in (select condition from account where id in ({_ACCOUNTS}))
            or kind = 'set' and (subject like 'lane %' or
               subject in (select 'budget ' || budget from account where id in ({_ACCOUNTS}))) order by id""",
    ),
    ("idle", "experiment in (select name from wanted_name) order by experiment, cause"),
    ("lane_time", "experiment in (select name from wanted_name) order by experiment, lane, cause"),
    ("plan", "experiment in (select name from wanted_name) order by id"),
    ("pin", "experiment in (select name from wanted_name) order by experiment, file"),
    ("seal", "experiment in (select name from wanted_name) order by id"),
    (
        "sealed",
        """seal in (select id from seal where experiment in (select name from wanted_name)) order by seal, part""",
    ),
)


def extract(view: Snapshot, target: Path, *, experiments: Sequence[str], keys: Iterable[RequestKey]) -> None:
    """Copy what belongs to the experiments into a new cache at `target`; `keys` are those of their whole plans.

    Their attempts, entries, replies, vectors, events, plans, pins and seals, and besides them the attempts of others that
    bought a reply for one of `keys`. The same view gives the same bytes. Refused when `target` exists.
    """
    if target.exists():
        raise Refused(Problem(str(target), "", "exists already", "another name"))
    locks = Locks(target)
    try:
        connection = open_writer(target, locks, durable=False)
        try:
            with wrapped(target):
                view.read(lambda source: _copy(source, connection, experiments, sorted(set(keys))))
                connection.execute("pragma journal_mode = delete")
                connection.execute("vacuum")
        finally:
            connection.close()
    finally:
        locks.close()
    target.with_name(target.name + ".lock").unlink(missing_ok=True)


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, experiments: Sequence[str], keys: Sequence[RequestKey]
) -> None:
    for statement in _WANTED.split(";"):
        source.execute(statement)
    try:
        source.executemany("insert into wanted_name values (?)", [(name,) for name in sorted(set(experiments))])
        source.executemany("insert into wanted_key values (?)", [(key,) for key in keys])
        for statement in _FILL:
            source.execute(statement)
        target.execute("begin immediate")
        for table, where in _ROWS:
            for batch in _batches(source, f"select * from {table} where {where}"):
                places = ", ".join("?" * len(batch[0]))
                target.executemany(f"insert into {table} values ({places})", batch)
        target.execute("commit")
    finally:
        for name in ("name", "key", "attempt", "request"):
            source.execute(f"drop table wanted_{name}")


def _batches(source: sqlite3.Connection, query: str) -> Iterator[list[tuple[object, ...]]]:
    cursor = source.execute(query)
    while batch := cursor.fetchmany(BATCH):
        yield batch
