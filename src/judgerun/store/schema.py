"""Opening cache.db: its place, its pragmas, its numbered migrations; what makes a connection, and nothing that uses one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from judgerun.errors import StoreError
from judgerun.store.locks import Locks
from judgerun.store.queries import read

APPLICATION = 0x6A726E31  # "jrn1": says that an SQLite file is a cache of ours
BUSY_S = 60.0  # how long a writer waits for another process's transaction
OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

Migration = Callable[[sqlite3.Connection], None]

#: File systems on which POSIX locks, or a shared-memory index, cannot be trusted.
NETWORK = frozenset(
    {
        "9pnfs", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "lustre",
        "ncpfs", "nfs", "nfs3", "nfs4", "smb2", "smb3", "smbfs", "sshfs",
    }
)  # fmt: skip


def m001_initial(connection: sqlite3.Connection) -> None:
    """The tables of schema.sql."""
    for statement in statements(read("schema.sql")):
        connection.execute(statement)


def m002_jobs(connection: sqlite3.Connection) -> None:
    """The changes of m002.sql."""
    for statement in statements(read("m002.sql")):
        connection.execute(statement)


def m003_unattended(connection: sqlite3.Connection) -> None:
    """The changes of m003.sql."""
    for statement in statements(read("m003.sql")):
        connection.execute(statement)


def m004_foreign(connection: sqlite3.Connection) -> None:
    """The changes of m004.sql."""
    for statement in statements(read("m004.sql")):
        connection.execute(statement)


MIGRATIONS: tuple[Migration, ...] = (m001_initial, m002_jobs, m003_unattended, m004_foreign)
"""In order; the version of a schema is how many of them have run."""


def statements(script: str) -> Iterator[str]:
    """The statements of an SQL script one by one: `executescript` would commit the transaction that it runs in."""
    rest = ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            yield rest
            rest = ""
    if any(line.strip() and not line.strip().startswith("--") for line in rest.splitlines()):
        raise ValueError(f"an SQL script ends inside a statement: {rest!r}")


def open_writer(
    path: Path | None, locks: Locks, *, durable: bool = True, migrations: Sequence[Migration] = MIGRATIONS
) -> sqlite3.Connection:
    """A connection that may write, with the newest schema. `path` None is a cache in memory.

    Not `durable` means that commits are not synced to the disk: for simulations alone. StoreError for a cache that is
    newer than this program, on a network file system, not a cache at all, or that the disk refuses.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: {'.'.join(map(str, OLDEST_SQLITE))} is needed")
    if path is not None:
        refuse_network(path)
    with locks.opening(), wrapped(path):
        connection = sqlite3.connect(
            ":memory:" if path is None else path,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_S,
            cached_statements=256,
        )
        try:
            _prepare(connection, path, durable=durable)
            _migrate(connection, path, migrations, locks)
        except BaseException:
            connection.close()
            raise
        return connection


def open_reader(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """A read-only connection. `immutable` promises that nobody writes: for a cache out of a bundle, in a read-only folder."""
    if not path.is_file():
        raise StoreError(f"{path} is not there")
    flags = "mode=ro&immutable=1" if immutable else "mode=ro"
    with wrapped(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{flags}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_S,
            cached_statements=256,
        )
        try:
            connection.execute("pragma cache_size = -65536")
            _recognise(connection, path, len(MIGRATIONS), writes=False)
        except BaseException:
            connection.close()
            raise
        return connection


def made(path: Path) -> bool:
    """Whether a cache, or anything that is no cache, stands at `path`; False where there is none yet. One that another process
    is just making is waited for: until its first commit it looks like an empty database, or a locked one.
    """
    if not path.exists():
        return False
    if _filled(path, unknown=False):
        return True
    locks = Locks(path)
    try:
        with locks.opening():
            return path.exists() and _filled(path, unknown=True)
    finally:
        locks.close()


def _filled(path: Path, *, unknown: bool) -> bool:
    """Whether a file has tables; `unknown` where SQLite does not say."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        try:
            (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        finally:
            connection.close()
    except sqlite3.OperationalError:
        return unknown
    except sqlite3.DatabaseError:
        return True
    return bool(tables)


@contextmanager
def wrapped(path: Path | None) -> Iterator[None]:
    """What SQLite or the disk refuses in the block becomes a StoreError with its cause."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
        raise StoreError(f"{path or 'the cache in memory'}: {error}") from error


def _prepare(connection: sqlite3.Connection, path: Path | None, *, durable: bool) -> None:
    connection.execute(f"pragma busy_timeout = {int(BUSY_S * 1000)}")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma recursive_triggers = on")  # else `insert or replace` deletes past the triggers
    connection.execute("pragma cache_size = -65536")  # 64 MB; the default of 2 MB thrashes on a million keys
    connection.execute(f"pragma synchronous = {'full' if durable else 'off'}")
    if path is not None:
        (mode,) = connection.execute("pragma journal_mode = wal").fetchone()
        if mode != "wal":
            raise StoreError(f"{path}: write-ahead logging is not to be had here (journal mode {mode})")
        connection.execute("pragma journal_size_limit = 67108864")


def _recognise(connection: sqlite3.Connection, path: Path | None, newest: int, *, writes: bool) -> int:
    """The schema's version. StoreError when it is not ours, newer than we know, or, to a reader, older."""
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if application != APPLICATION and (tables or not writes):
        raise StoreError(f"{path} is not a cache of judgerun")
    if version > newest:
        raise StoreError(f"{path} was written by a newer judgerun (schema {version}; this one knows {newest})")
    if version < newest and not writes:
        raise StoreError(f"{path} has schema {version}, older than {newest}: `judgerun status` migrates it")
    return int(version)


def _migrate(connection: sqlite3.Connection, path: Path | None, migrations: Sequence[Migration], locks: Locks) -> None:
    version = _recognise(connection, path, len(migrations), writes=True)
    if version == len(migrations):
        return
    if version > 0 and path is not None:
        owners = connection.execute("select id from owner where closed is null").fetchall()
        if any(locks.alive(owner) for (owner,) in owners):
            raise StoreError(f"{path} has schema {version}, and an older judgerun is running on it: let it end first")
        _copy(connection, path.with_name(f"{path.name}.schema{version}.backup"))
    connection.execute("begin immediate")
    try:
        for migration in migrations[version:]:
            migration(connection)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {len(migrations)}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    """A whole copy beside the cache, before it is migrated; an earlier copy of the same version is replaced."""
    target.unlink(missing_ok=True)
    copy = sqlite3.connect(target)
    try:
        connection.backup(copy)
    finally:
        copy.close()


def refuse_network(path: Path, mounts: str | None = None) -> None:
    """StoreError when `path` lies on a network file system: its locks and shared memory would not hold two processes apart.

    `mounts` is the text of /proc/mounts; where there is none (not Linux) nothing is refused.
    """
    if mounts is None:
        table = Path("/proc/mounts")
        if not table.exists():
            return
        mounts = table.read_text(encoding="utf-8", errors="replace")
    folder = path.absolute().parent.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = Path(parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        if folder.is_relative_to(point) and len(point.parts) >= best:  # a later mount hides an earlier one
            best, kind = len(point.parts), parts[2]
    if kind in NETWORK:
        raise StoreError(f"{path} is on a network file system ({kind}); a cache must be on a disk of this host")
