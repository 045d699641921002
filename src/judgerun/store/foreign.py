"""Foreign: runs of other programs in the cache, written whole and read back whole; no account is near them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import orjson

from judgerun.model.foreign import KINDS, Run
from judgerun.store.queries import SQL


def keep(connection: sqlite3.Connection, run: Run, now: float) -> str:
    """Keep a run, in the place of one of the same name; what is to be said of that."""
    before = read(connection, run.name)
    connection.execute(SQL["drop_records"], (run.name,))
    connection.execute(SQL["drop_run"], (run.name,))
    files = orjson.dumps(dict(run.files), option=orjson.OPT_SORT_KEYS).decode()
    place = connection.execute(SQL["new_run"], (now, run.name, run.format, files)).lastrowid
    rows = ((place, number, kind, record) for number, (kind, record) in enumerate(_records(run)))
    connection.executemany(SQL["new_record"], rows)
    return _said(run) + ("" if before is None else f"; in the place of {_said(before)}")


def _said(run: Run) -> str:
    files = ", ".join(f"{file} {digest}" for file, digest in sorted(run.files.items()))
    return f"{sum(1 for _ in _records(run))} records ({run.format}) of {files}"


def _records(run: Run) -> Iterator[tuple[str, str]]:
    for kind, (name, _) in KINDS.items():
        for record in getattr(run, name):
            yield kind, orjson.dumps(asdict(record)).decode()


def names(connection: sqlite3.Connection) -> list[tuple[str, str, float]]:
    """(name, format, Unix time) of each run, by name."""
    return connection.execute(SQL["runs"]).fetchall()


def read(connection: sqlite3.Connection, name: str) -> Run | None:
    """A run; None where there is none of that name. What an older form of its records had more is left out."""
    row = connection.execute(SQL["run"], (name,)).fetchone()
    if row is None:
        return None
    place, format_, files = row
    held: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for kind, record in connection.execute(SQL["records"], (place,)):
        form = KINDS[kind][1]
        told = orjson.loads(record).items()
        held[kind].append(form(**{field: value for field, value in told if field in form.__slots__}))
    parts = {part: tuple(held[kind]) for kind, (part, _) in KINDS.items()}
    return Run(name=name, format=format_, files=orjson.loads(files), **parts)
