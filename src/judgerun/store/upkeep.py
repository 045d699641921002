"""Upkeep: the size, compaction, backup, migration and integrity of a cache file; nothing that reads what is in it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from judgerun.errors import Problem, Refused, StoreError
from judgerun.store.locks import Locks
from judgerun.store.queries import SQL
from judgerun.store.schema import APPLICATION, BUSY_S, MIGRATIONS, made, open_reader, open_writer, wrapped

TABLES = ("request", "attempt", "entry", "reply", "vector", "event", "account", "owner", "seal")


def size(path: Path) -> dict[str, int]:
    """Bytes of the file, its write-ahead log and its vector maps; bytes that compaction would free; rows of each table."""
    maps = path.with_name(path.stem + ".vectors")
    found = {
        "file": path.stat().st_size if path.exists() else 0,
        "log": _bytes(path.with_name(path.name + "-wal")),
        "vectors": sum(_bytes(file) for file in maps.iterdir()) if maps.is_dir() else 0,
    }
    with _reading(path) as connection:
        (free,) = connection.execute("pragma freelist_count").fetchone()
        (page,) = connection.execute("pragma page_size").fetchone()
        found["free"] = free * page
        for table in TABLES:
            (found[f"{table}_rows"],) = connection.execute(f"select count(*) from {table}").fetchone()
    return found


def integrity(path: Path) -> list[str]:
    """What SQLite finds wrong with the file: damaged pages, broken indexes, rows that refer to nothing. Empty: sound."""
    with _reading(path) as connection:
        told = [str(line) for (line,) in connection.execute("pragma integrity_check")]
        orphans = [
            f"{row[0]} row {row[1]} refers to no {row[2]}" for row in connection.execute("pragma foreign_key_check")
        ]
    return [line for line in told if line != "ok"] + orphans


def backup(path: Path, target: Path) -> None:
    """A whole, sound copy of a cache, which may be in use. Refused when `target` exists; StoreError when the copy is not
    sound.
    """
    if target.exists():
        raise Refused(Problem(str(target), "", "exists already", "another name"))
    with _reading(path) as connection, wrapped(target):
        copy = sqlite3.connect(target)
        try:
            connection.backup(copy)
        finally:
            copy.close()
    if wrong := integrity(target):
        raise StoreError(f"the copy {target} is not sound: {wrong[0]}")


def compact(path: Path) -> int:
    """Give free space back to the disk and remove the derived vector maps; bytes freed. Refused while a process runs."""
    before = size(path)
    locks = Locks(path)
    try:
        connection = open_writer(path, locks)
        try:
            with wrapped(path):
                running = [row[0] for row in connection.execute(SQL["open_owners"]) if locks.alive(row[0])]
                if running:
                    raise Refused(Problem(str(path), "", "a process is running on it", "let it end first"))
                connection.execute("vacuum")
                connection.execute("pragma wal_checkpoint(truncate)")
        finally:
            connection.close()
    finally:
        locks.close()
    shutil.rmtree(path.with_name(path.stem + ".vectors"), ignore_errors=True)
    after = size(path)
    return sum(before[name] - after[name] for name in ("file", "log", "vectors"))


def renew(path: Path) -> None:
    """Bring a cache up to date, where an older judgerun wrote it, with a copy of the old one beside it; any other file, or none, is
    left alone. StoreError as `schema.open_writer`.
    """
    if made(path) and _older(path, "mode=ro"):
        locks = Locks(path)
        try:
            open_writer(path, locks).close()
        finally:
            locks.close()


def migrate(path: Path) -> None:
    """Bring a private copy of a cache up to date, where an older judgerun wrote it; nothing is left beside the file. StoreError
    as `schema.open_writer`.
    """
    if not _older(path, "mode=ro&immutable=1"):
        return
    locks = Locks(path)
    try:
        connection = open_writer(path, locks, durable=False)
        try:
            with wrapped(path):
                connection.execute("pragma journal_mode = delete")
        finally:
            connection.close()
    finally:
        locks.close()
    for beside in (path.with_name(f"{path.name}.lock"), *path.parent.glob(f"{path.name}.schema*.backup")):
        beside.unlink(missing_ok=True)


def _older(path: Path, flags: str) -> bool:
    """Whether the cache has an older schema than ours."""
    with wrapped(path):
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{flags}", uri=True, timeout=BUSY_S)
        try:
            (application,) = connection.execute("pragma application_id").fetchone()
            (version,) = connection.execute("pragma user_version").fetchone()
        finally:
            connection.close()
    return bool(application == APPLICATION and 0 < version < len(MIGRATIONS))


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_reader(path)
    try:
        with wrapped(path):
            yield connection
    finally:
        connection.close()


def _bytes(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
