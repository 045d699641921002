"""What the disk does to a Store: a failure at every statement in turn, a full disk, a read-only file, a damaged one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.store import HandClock, budget, chat, check_books, claim, embedding, forfeit, reply, settle, text, void
from judgerun.errors import StoreError
from judgerun.ledger.entry import Amount, Decision
from judgerun.model.kept import Kept
from judgerun.model.request import Request
from judgerun.ports import Closing, Window
from judgerun.store.cache import Cache
from judgerun.store.inline import Inline
from judgerun.store.locks import Locks
from judgerun.store.reader import Reader
from judgerun.store.schema import open_reader, open_writer

LIMIT = (Window(provider="lab", model=None, requests_per_minute=100, tokens_per_minute=10_000),)


class Failing:
    """A connection whose N-th statement fails, once, as a disk would fail it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.left = -1
        self.failed = False

    @property
    def in_transaction(self) -> bool:
        """As the connection says."""
        return self.connection.in_transaction

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run a statement, or fail. Rolling back never fails: SQLite's own rollback after an error does not either."""
        if sql == "rollback":
            return self.connection.execute(sql)
        self.left -= 1
        if self.left == 0:
            self.failed = True
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(sql, parameters)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Scenario:
    """A small run that retries what the store refuses, as a person would rerun it; and remembers what it was promised."""

    def __init__(self, store: Inline) -> None:
        self.store = store
        self.reserved: set[int] = set()
        self.promised: set[bytes] = set()

    async def until_done(self, step: Callable[[], Any]) -> Any:
        """The result of a step, tried again after the one failure."""
        try:
            return await step()
        except StoreError:
            check_books(self.store._books.connection.connection, total=10_000)  # type: ignore[attr-defined]
            return await step()

    async def buy(self, *requests: Request, end: Callable[[int], Closing]) -> None:
        """Reserve and close."""
        grant = await self.until_done(lambda: self.store.reserve(claim(*requests, windows=LIMIT)))
        assert grant.decision is Decision.RESERVED
        self.reserved.add(grant.attempt)
        closing = end(grant.attempt)
        await self.until_done(lambda: self.store.close(closing))
        self.promised.update(request.key for request, _, _ in closing.replies)

    async def run(self) -> None:
        """Every kind of operation, once."""
        await self.until_done(lambda: self.store.enter(experiment="utility", budget=budget()))
        await self.buy(chat(1), end=lambda attempt: settle(attempt, (chat(1), reply(), 60)))
        await self.buy(chat(2), end=lambda attempt: void(attempt, sent=False))
        await self.buy(chat(2), end=lambda attempt: forfeit(attempt, replies=[(chat(2), reply())]))
        vector = np.zeros(4, "<f4").tobytes()
        await self.buy(
            text(1), text(2),
            end=lambda attempt: settle(attempt, (text(1), embedding(vector), 30), (text(2), embedding(vector), 30)),
        )  # fmt: skip
        await self.buy(chat(3), end=forfeit)
        await self.until_done(
            lambda: self.store.adjust(max(self.reserved), Amount(nanos=5, calls=1), document="invoice")
        )
        await self.until_done(lambda: self.store.lose(chat(3), "gave up"))
        await self.until_done(lambda: self.store.recover())
        await self.until_done(lambda: self.store.leave({"rate": 1.0}, {}))


async def test_failure_at_every_statement() -> None:
    """Fail at the N-th statement, for N = 1, 2, 3 ... until the scenario passes untouched: the books are sound each time,
    nothing promised is missing, and the rerun of the failed step ends in the same state.
    """
    number, states = 0, set()
    while True:
        number += 1
        locks = Locks(None)
        connection = Failing(open_writer(None, locks))
        inline = Inline.open(clock=HandClock())
        store = Inline(
            path=None, clock=HandClock(), locks=locks, books=type(inline._books)(connection),  # type: ignore[arg-type]
            reader=Reader(connection.connection, None),
        )  # fmt: skip
        await inline.aclose()
        connection.left = number
        scenario = Scenario(store)
        await scenario.run()
        check_books(connection.connection, total=10_000)
        assert all(isinstance(store.lookup(key), Kept) for key in scenario.promised)
        assert len(scenario.promised) == 4
        (standing,) = connection.connection.execute(
            "select sum(settled_nanos), sum(forfeited_nanos), sum(held_nanos), sum(tries) from account"
        ).fetchall()
        states.add(standing)
        failed = connection.failed
        await store.aclose()
        if not failed:
            break
    assert number > 60, "the scenario must have many places to fail at"
    assert states == {(60 + 60 + 5, 100, 0, 4)}


async def test_disk_full(tmp_path: Path) -> None:
    """A full disk is a StoreError with its cause; what was durable stays, the rest is as if never asked, and it goes on
    when there is room again.
    """
    path = tmp_path / "cache.db"
    store = Inline.open(path, clock=HandClock(), durable=False)
    await store.enter(experiment="utility", budget=budget())
    connection = store._books.connection
    connection.execute(f"pragma max_page_count = {connection.execute('pragma page_count').fetchone()[0] + 12}")
    bought, full = 0, None
    for number in range(2_000):
        try:
            grant = await store.reserve(claim(chat(number), nanos=2))
            assert grant.attempt is not None
            answer = reply(f"{number} " + "padding " * 40)
            await store.close(settle(grant.attempt, (chat(number), answer, 1), nanos=1))
            bought += 1
        except StoreError as error:
            full = error
            break
    assert full is not None
    assert isinstance(full.__cause__, sqlite3.OperationalError)
    assert "full" in str(full)
    check_books(connection, total=10_000)
    assert sum(isinstance(store.lookup(chat(n).key), Kept) for n in range(2_000)) == bought
    connection.execute("pragma max_page_count = 1000000")
    assert (await store.reserve(claim(chat("later")))).decision is Decision.RESERVED
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    await store.aclose()


async def test_disk_full_in_a_group(tmp_path: Path) -> None:
    """Of many operations in one transaction on a disk that fills up, each is answered for itself."""
    store = await Cache.open(tmp_path / "cache.db", clock=HandClock())
    await store.enter(experiment="utility", budget=budget(total=10**9))
    limit = store._books.connection.execute
    await store._do(lambda: limit(f"pragma max_page_count = {limit('pragma page_count').fetchone()[0] + 10}"))
    results = await asyncio.gather(
        *[store.reserve(claim(chat(f"{n}" + "x" * 400))) for n in range(600)], return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, StoreError)]
    attempts = [result.attempt for result in results if not isinstance(result, BaseException)]
    assert refused
    assert attempts
    connection = sqlite3.connect(tmp_path / "cache.db")
    assert sorted(attempts) == [row[0] for row in connection.execute("select id from attempt order by id")]
    check_books(connection)
    connection.close()
    await store._do(lambda: limit("pragma max_page_count = 1000000"))
    await store.aclose()


def test_read_only_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that may not be written is refused with its cause when it is opened to write, and read all the same."""
    path = tmp_path / "cache.db"
    open_writer(path, Locks(path)).close()
    real = sqlite3.connect

    def read_only(place: Any, **options: Any) -> sqlite3.Connection:
        """As for a user without the right to write (a test may run as root, whom no mode stops)."""
        return real(f"file:{place}?mode=ro", uri=True, **options) if place == path else real(place, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", read_only)
        locks = Locks(path)
        store = Inline.open(path, clock=HandClock())
        assert store.lookup(chat(1).key) is None
        with pytest.raises(StoreError, match="readonly"):
            store._do(lambda: store._books.note("a", "b", "c", 0.0)).send(None)
        store._reader.close()
        store._books.connection.close()
        store._locks.close()
        locks.close()
    open_reader(path).close()


async def test_what_is_no_cache(tmp_path: Path) -> None:
    """Another program's database, or a file that is none, is refused and left as it is."""
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("create table theirs(x)")
    connection.close()
    with pytest.raises(StoreError, match="not a cache"):
        Inline.open(other, clock=HandClock())
    noise = tmp_path / "noise.db"
    noise.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError) as told:
        await Cache.open(noise, clock=HandClock())
    assert isinstance(told.value.__cause__, sqlite3.DatabaseError)
    assert noise.read_bytes() == b"not a database at all" * 100
    with pytest.raises(StoreError):
        Inline.open(tmp_path / "no folder" / "cache.db", clock=HandClock())
    with pytest.raises(StoreError, match="not there"):
        open_reader(tmp_path / "absent.db")


@pytest.mark.parametrize("lost", ["cache.db", "cache.db.lock"])
@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
@pytest.mark.parametrize("kind", [Cache, Inline])
async def test_a_cache_that_is_gone_is_not_written_to(
    tmp_path: Path, kind: type[Cache] | type[Inline], how: str, lost: str
) -> None:
    """When cache.db or its lock file is removed, moved or replaced under a run, nothing more is reserved or booked."""
    path = tmp_path / "cache.db"
    opened = kind.open(path, clock=HandClock())
    store = opened if isinstance(opened, Inline) else await opened
    await store.enter(experiment="e", budget=budget(total=10_000))
    attempt = (await store.reserve(claim(chat("one"), nanos=100))).attempt
    assert attempt is not None
    match how:
        case "removed":
            (tmp_path / lost).unlink()
        case "moved":
            (tmp_path / lost).rename(tmp_path / "elsewhere")
        case "replaced":
            (tmp_path / lost).rename(tmp_path / "elsewhere")
            (tmp_path / lost).write_bytes(b"")
    with pytest.raises(StoreError, match=f"{lost} was removed, moved or replaced"):
        await store.reserve(claim(chat("two"), nanos=100))
    with pytest.raises(StoreError, match="removed, moved or replaced"):
        await store.close(forfeit(attempt))
    await store.aclose()
