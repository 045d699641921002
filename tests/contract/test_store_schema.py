"""The schema: migrations, what is refused, what can never be changed, and who holds which lock."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.store import HandClock, budget, chat, claim, forfeit, reply, settle
from judgerun.errors import StoreError
from judgerun.model.foreign import Call, Run
from judgerun.store import foreign, schema
from judgerun.store.inline import Inline
from judgerun.store.locks import Locks
from judgerun.store.queries import SQL, load, read
from judgerun.store.schema import MIGRATIONS, made, open_reader, open_writer, refuse_network, statements
from judgerun.store.snapshot import TABLES


def m900_colour(connection: sqlite3.Connection) -> None:
    """A later migration, as the next version might bring it."""
    connection.execute("alter table request add column colour text")


def m901_fails(connection: sqlite3.Connection) -> None:
    """A migration that goes wrong half way."""
    connection.execute("alter table request add column taste text")
    connection.execute("insert into nowhere values (1)")


async def filled(path: Path) -> None:
    """A cache with one reply."""
    store = Inline.open(path, clock=HandClock())
    await store.enter(experiment="utility", budget=budget())
    grant = await store.reserve(claim(chat(1)))
    assert grant.attempt is not None
    await store.close(settle(grant.attempt, (chat(1), reply(), 60)))
    await store.leave({}, {})
    await store.aclose()


async def test_older_schema_is_migrated_after_a_backup(tmp_path: Path) -> None:
    """Opening an older cache keeps a whole copy of it and then brings it up to date, with its rows."""
    path = tmp_path / "cache.db"
    await filled(path)
    locks = Locks(path)
    connection = open_writer(path, locks, migrations=(*MIGRATIONS, m900_colour))
    assert connection.execute("select colour from request").fetchall() == [(None,)]
    assert connection.execute("pragma user_version").fetchone() == (len(MIGRATIONS) + 1,)
    connection.close()
    locks.close()
    copy = open_reader(path.with_name(f"cache.db.schema{len(MIGRATIONS)}.backup"))
    assert copy.execute("select count(*) from reply").fetchone() == (1,)
    copy.close()


async def test_failed_migration_changes_nothing(tmp_path: Path) -> None:
    """A migration that fails is rolled back whole, earlier ones of the same opening included."""
    path = tmp_path / "cache.db"
    await filled(path)
    locks = Locks(path)
    with pytest.raises(StoreError, match="nowhere"):
        open_writer(path, locks, migrations=(*MIGRATIONS, m900_colour, m901_fails))
    connection = open_writer(path, locks)
    names = [row[1] for row in connection.execute("pragma table_info(request)")]
    assert "colour" not in names
    assert "taste" not in names
    connection.close()
    locks.close()


async def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """A cache of a newer judgerun is neither written nor read."""
    path = tmp_path / "cache.db"
    await filled(path)
    locks = Locks(path)
    open_writer(path, locks, migrations=(*MIGRATIONS, m900_colour)).close()
    locks.close()
    with pytest.raises(StoreError, match="newer judgerun"):
        Inline.open(path, clock=HandClock())
    with pytest.raises(StoreError, match="newer judgerun"):
        open_reader(path)


async def test_no_migration_under_a_running_process(tmp_path: Path) -> None:
    """An older process that still runs must end before its cache is migrated."""
    path = tmp_path / "cache.db"
    store = Inline.open(path, clock=HandClock())
    await store.enter(experiment="utility", budget=budget())
    locks = Locks(path)
    with pytest.raises(StoreError, match="is running"):
        open_writer(path, locks, migrations=(*MIGRATIONS, m900_colour))
    locks.close()
    await store.leave({}, {})
    await store.aclose()


@pytest.mark.parametrize(
    "statement",
    [
        "update entry set nanos = 0", "delete from entry", "update reply set text = 'better'", "delete from reply",
        "delete from event", "update event set kind = 'x'", "insert or replace into reply select * from reply",
        "insert or replace into entry select * from entry",
        "insert into entry(attempt, kind, nanos, calls, tokens, gpu_ms, at) values (1, 'forfeit', 1, 1, 1, 0, 0.0)",
        "insert into entry(attempt, kind, nanos, calls, tokens, gpu_ms, at) values (1, 'adjust', 1, 1, 1, 0, 0.0)",
        "insert into entry(attempt, kind, nanos, calls, tokens, gpu_ms, at) values (1, 'reserve', -1, 1, 1, 0, 0.0)",
        "insert into entry(attempt, kind, nanos, calls, tokens, gpu_ms, at) values (99, 'reserve', 1, 1, 1, 0, 0.0)",
        "insert into carried(request, attempt, open) select request, 2, 1 from carried where open = 1",
        "update account set held_nanos = -1",
        "insert into foreign_run(at, name, format, files) values (1.0, 'old', 'f', '{}')",
        "insert into foreign_record(run, number, kind, record) values (99, 0, 'call', '{}')",
        "insert into foreign_record(run, number, kind, record) select run, number, kind, record from foreign_record",
    ],
)  # fmt: skip
async def test_what_the_schema_itself_forbids(statement: str) -> None:
    """Entries, replies and events are never changed or deleted; an attempt has one closing, a request one open attempt."""
    store = Inline.open(clock=HandClock())
    await store.enter(experiment="utility", budget=budget())
    for number in (1, 2):
        grant = await store.reserve(claim(chat(number)))
        assert grant.attempt == number
    await store.close(settle(1, (chat(1), reply(), 60)))
    await store.note("probe", "x", "y")
    await store.keep_run(
        Run(name="old", format="f", files={}, calls=(Call(source="s", role="r", condition="c", item="i"),))
    )
    connection = store._books.connection
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    await store.close(forfeit(2))
    await store.aclose()


async def test_a_foreign_run_and_its_event_are_kept_together() -> None:
    """Where the event cannot be written, the run that would have been replaced stands as it was."""
    run = Run(name="old", format="f", files={"a": "1"}, calls=(Call(source="s", role="r", condition="c", item="i"),))
    store = Inline.open(clock=HandClock())
    await store.keep_run(run)
    connection = store._books.connection
    connection.execute(
        "create trigger full before insert on event when new.kind = 'import' begin select raise(abort, 'no room'); end"
    )
    with pytest.raises(StoreError, match="no room"):
        await store.keep_run(replace(run, files={"a": "2"}, calls=()))
    assert foreign.read(connection, "old") == run
    await store.aclose()


@pytest.mark.parametrize(
    ("mounts", "refused"),
    [
        ("/dev/sda / ext4 rw 0 0\nserver:/x {home} nfs4 rw 0 0", True),
        ("/dev/sda / ext4 rw 0 0\nme@host: {home} fuse.sshfs rw 0 0", True),
        ("//nas/x / cifs rw 0 0\n/dev/sdb {home} xfs rw 0 0", False),
        ("server:/x {home} nfs rw 0 0\n/dev/sdb {home} ext4 rw 0 0", False),  # the later mount hides the earlier
        ("server:/x {home}er nfs rw 0 0\n/dev/sda / ext4 rw 0 0", False),
        ("nonsense\n", False),
    ],
)
def test_network_file_systems_are_refused(tmp_path: Path, mounts: str, refused: bool) -> None:
    """The mount that really holds the folder decides; a space in its name is written as octal."""
    home = tmp_path / "a home"
    home.mkdir()
    table = mounts.format(home=str(home.resolve()).replace(" ", "\\040"))
    if not refused:
        refuse_network(home / "cache.db", table)
        return
    with pytest.raises(StoreError, match="network file system"):
        refuse_network(home / "cache.db", table)


def test_pragmas(tmp_path: Path) -> None:
    """A real cache syncs every commit to the disk and keeps a write-ahead log."""
    locks = Locks(tmp_path / "cache.db")
    connection = open_writer(tmp_path / "cache.db", locks)
    told = {
        name: connection.execute(f"pragma {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert told == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    connection.close()
    locks.close()


def test_queries_are_named_and_described() -> None:
    """Each query has a name and a line; a name that stands twice, or stands alone, is refused."""
    assert len(SQL) > 50
    for wrong in ("-- a: one\nselect 1;\n-- a: two\nselect 2;", "-- a: nothing\n"):
        with pytest.raises(ValueError, match="'a'"):
            load(wrong)
    assert len(list(statements(read("schema.sql")))) > 25
    with pytest.raises(ValueError, match="ends inside"):
        list(statements("create table x(a"))


PREPARED = {name: query.replace(":marks", "(?)") for name, query in SQL.items()}
"""The queries as they are asked, that of several keys with one."""


def test_every_query_is_valid(tmp_path: Path) -> None:
    """SQLite can prepare every named query against the schema."""
    connection = open_writer(None, Locks(None))
    for name, query in PREPARED.items():
        if name not in ("begin", "data_version"):
            holes = max(query.count("?") if "?1" not in query else 1, 0)
            connection.execute(f"explain {query}", (None,) * holes).fetchall()
    connection.close()


def test_every_query_is_used() -> None:
    """A query that no module of the store names is dead."""
    texts = "".join(path.read_text(encoding="utf-8") for path in Path(schema.__file__).parent.glob("*.py"))
    assert [name for name in SQL if f'"{name}"' not in texts and not name.startswith("columns_")] == []
    assert {name.removeprefix("columns_") for name in SQL if name.startswith("columns_")} == set(TABLES)


#: Asked once for a whole cache or experiment, not on a call.
WHOLE = {
    "open_of",
    "last_entry",
    "later_entries",
    "seal_entries",
    "known",
    "experiments",
    "budget_of",
    "jobs_of",
    "job_closed",
}


def test_no_query_of_a_call_scans_a_table() -> None:
    """What is asked on a call, or for one key, goes by an index (or through what is open): it does not grow with the cache."""
    connection = open_writer(None, Locks(None))
    scans = []
    for name, query in PREPARED.items():
        if name in WHOLE or name.startswith("columns_") or name in ("begin", "data_version"):
            continue
        holes = 1 if "?1" in query else query.count("?")
        for *_, step in connection.execute(f"explain query plan {query}", (None,) * holes):
            if re.match(
                r"SCAN ([a-z]|request|attempt|reply|entry|carried|vector)\b(?!.* INDEX (attempt|carried|job|owner)_open)",
                step,
            ):
                scans.append(f"{name}: {step}")
    connection.close()
    assert scans == []


CHILD = """
import sys
from pathlib import Path
from judgerun.store.locks import Locks
locks = Locks(Path(sys.argv[1]))
print(locks.alive(7), locks.alive(8), flush=True)
"""


def test_locks_between_processes(tmp_path: Path) -> None:
    """A byte held here is alive there and here; closing another user of the file in this process drops nothing."""
    path = tmp_path / "cache.db"
    mine, other = Locks(path), Locks(path)
    mine.take(7)
    assert mine.alive(7)
    assert other.alive(7)
    assert not other.alive(8)
    other.close()
    told = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "False"]
    mine.drop(7)
    assert not mine.alive(7)
    mine.close()


def test_a_forked_child_holds_nothing(tmp_path: Path) -> None:
    """After a fork the parent's locks are the parent's: the child sees them as another process does, and cannot take them."""
    path = tmp_path / "cache.db"
    mine = Locks(path)
    mine.take(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads; the child only tests a lock
        child = os.fork()
    if child == 0:
        theirs = Locks(path)
        try:
            theirs.take(3)
        except StoreError:
            os._exit(0 if theirs.alive(3) and not theirs.alive(4) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert mine.alive(3)
    mine.close()


def test_a_cache_that_is_being_made_is_waited_for(tmp_path: Path) -> None:
    """Between the first byte of a cache and its first commit a reader waits for its maker; a maker that died left no cache."""
    path = tmp_path / "cache.db"
    assert not made(path)
    path.touch()
    assert not made(path)  # nobody makes it: whoever did is dead
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdin is not None
    assert maker.stdout is not None
    assert maker.stdout.readline() == "locked\n"
    threading.Timer(0.3, lambda: print("go", file=maker.stdin, flush=True)).start()
    assert made(path)
    assert maker.wait(timeout=20) == 0
    maker.stdin.close()
    maker.stdout.close()
    (tmp_path / "other.db").write_text("no database, and longer than the hundred bytes of a header" * 3)
    assert made(tmp_path / "other.db")  # a file of somebody else's: opening it says so


MAKER = """
import sqlite3, sys
from pathlib import Path
from judgerun.store.locks import Locks
path = Path(sys.argv[1])
with Locks(path).opening():
    print("locked", flush=True)
    sys.stdin.readline()
    connection = sqlite3.connect(path)
    connection.execute("create table t (a)")
    connection.commit()
    connection.close()
"""
