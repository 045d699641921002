"""The snapshot: a fixed view, columns, keys by prefix, vectors as a map, and the upkeep of the file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fakes.store import HandClock, budget, chat, claim, embedding, forfeit, reply, settle, text, void
from judgerun.errors import Refused, StoreError
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Usage
from judgerun.model.request import canonical
from judgerun.ports import Spend
from judgerun.store import upkeep
from judgerun.store import vectors as room
from judgerun.store.inline import Inline
from judgerun.store.snapshot import TABLES, Snapshot


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Inline]:
    """A cache with a settled, a forfeited, a voided and an open attempt, a batch and a lost request."""
    store = Inline.open(tmp_path / "cache.db", clock=HandClock(), durable=False)
    await store.enter(experiment="utility", budget=budget())
    numbers = [await attempt_of(store, chat(number)) for number in range(4)]
    await store.close(settle(numbers[0], (chat(0), reply("seven"), 60)))
    await store.close(forfeit(numbers[1], replies=[(chat(1), reply("eight", usage=Usage()))]))
    await store.close(void(numbers[2]))
    batch = await attempt_of(store, text(0), text(1))
    vectors = [np.full(3, number, "<f4").tobytes() for number in range(2)]
    await store.close(settle(batch, (text(0), embedding(vectors[0]), 30), (text(1), embedding(vectors[1]), 30)))
    await store.lose(chat(2), "timed out")
    await store.note("gate", "pick/m@rows", "truncated 5 of 20")
    await store.progress('{"done": 3}')
    yield store
    await store.aclose()


async def attempt_of(store: Inline, *requests: object) -> int:
    """The attempt of a reservation."""
    grant = await store.reserve(claim(*requests))  # type: ignore[arg-type]
    assert grant.attempt is not None
    return grant.attempt


def cache(store: Inline) -> Path:
    """Where the cache is."""
    assert store.path is not None
    return store.path


async def test_view_is_fixed(store: Inline) -> None:
    """A snapshot does not see what is committed after it; one that is not fixed does."""
    with Snapshot.open(cache(store)) as fixed, Snapshot.open(cache(store), fixed=False) as loose:
        attempt = await attempt_of(store, chat(9))
        await store.close(settle(attempt, (chat(9), reply(), 60)))
        assert fixed.lookup(chat(9).key) is None
        assert isinstance(loose.lookup(chat(9).key), Kept)
        assert fixed.standing("utility").experiment == Spend(settled=120, forfeited=100, held=100)
        assert loose.standing("utility").experiment == Spend(settled=180, forfeited=100, held=100)


async def test_lookups(store: Inline) -> None:
    """A key has its reply, or that it was given up, or nothing; `known` are the keys with a reply."""
    keys = [request.key for request in (chat(1), chat(7), chat(2), text(0), chat(3), chat(1))]
    with Snapshot.open(cache(store)) as snapshot:
        found = [snapshot.lookup(key) for key in keys]
        assert [type(one) for one in found] == [Kept, type(None), Lost, Kept, type(None), Kept]
        assert snapshot.known() == {request.key for request in (chat(0), chat(1), text(0), text(1))}


@pytest.mark.parametrize("many", [1, 7, 8, 64, 150])
async def test_lookups_together(store: Inline, many: int) -> None:
    """Several keys at once, in any order and repeated, tell what each tells by itself; of one that nobody knows nothing is told."""
    with Snapshot.open(cache(store)) as snapshot:
        keys = [request.key for request in (chat(9), chat(2), text(1), chat(0), chat(1), chat(0), text(0), chat(3))]
        keys = [keys[number % len(keys)] for number in range(many)]
        alone = {key: told for key in keys if (told := snapshot.lookup(key)) is not None}
        assert snapshot.lookup_all(keys) == alone
        replies = {key: told for key, told in alone.items() if isinstance(told, Kept)}
        assert snapshot.bought_all(keys) == store.bought_all(keys) == replies
        assert snapshot.lookup_all([]) == {}


async def test_whole_reply(store: Inline) -> None:
    """`reply` has the body as it was received and the vector; the digest is of that body."""
    with Snapshot.open(cache(store)) as snapshot:
        whole = snapshot.reply(chat(0).key)
        assert whole is not None
        assert whole == reply("seven")
        assert hashlib.sha256(whole.raw).hexdigest() == whole.raw_digest
        vector = snapshot.reply(text(1).key)
        assert vector is not None
        assert vector.vector is not None
        assert np.frombuffer(vector.vector, "<f4").tolist() == [1.0, 1.0, 1.0]
        assert snapshot.reply(chat(7).key) is None


async def test_an_attempt_ends_when_its_answer_came(store: Inline) -> None:
    """The time at which a bill was priced is kept as it was told; where nobody told one, it is that of the record."""
    attempt = await attempt_of(store, chat(9))
    await store.close(replace(settle(attempt, (chat(9), reply(), 60)), at=12.5))
    with Snapshot.open(cache(store)) as snapshot:
        ended = dict(zip(*(snapshot.columns("attempts")[name] for name in ("id", "closed_at")), strict=True))
    assert ended.pop(attempt) == 12.5
    assert 12.5 not in ended.values()


async def test_columns(store: Inline) -> None:
    """Every table has its columns in order of id: numbers as arrays, what may be unknown as None, never 0."""
    with Snapshot.open(cache(store)) as snapshot:
        columns = {table: snapshot.columns(table) for table in TABLES}
        empty = {table: snapshot.columns(table, "no such experiment") for table in TABLES}
        mine = snapshot.columns("entries", "utility")
        with pytest.raises(KeyError):
            snapshot.columns("owner; drop table entry")
    attempts, entries, replies = columns["attempts"], columns["entries"], columns["replies"]
    assert list(entries["kind"]) == ["reserve"] * 4 + ["settle", "forfeit", "void", "reserve", "settle"]
    assert isinstance(entries["nanos"], np.ndarray)
    assert entries["nanos"].dtype == np.int64
    assert entries["nanos"].tolist() == [100] * 4 + [60, 100, 0, 100, 60]
    assert list(attempts["cause"]) == [None, None, "rate limited", None, None]
    assert list(attempts["open"]) == [0, 0, 0, 1, 0]
    assert list(attempts["experiment"]) == ["utility"] * 5
    assert replies["cost"] == [60, None, 30, 30]
    assert replies["input_fresh"] == [8, None, 4, 4]
    assert replies["input_cut"] == [None, None, 0, 0]
    assert columns["texts"]["text"] == ["seven", "eight", "", ""]
    assert list(columns["carried"]["attempt"]) == [1, 2, 3, 4, 5, 5]
    assert columns["requests"]["kind"] == ["chat"] * 4 + ["embed"] * 2
    assert columns["lost"]["reason"] == ["timed out"]
    assert columns["events"]["kind"] == ["gate"]
    assert int(np.sum(columns["accounts"]["settled_nanos"])) == 120
    assert mine["id"].tolist() == entries["id"].tolist()  # type: ignore[union-attr]
    assert set(empty) == set(columns)
    assert all(len(empty[table][name]) == 0 for table in TABLES if table != "lost" for name in columns[table])


async def test_keys_by_prefix(store: Inline) -> None:
    """A key is found by its first digits if no other has them; its canonical request is what was hashed."""
    key = chat(0).key
    with Snapshot.open(cache(store)) as snapshot:
        assert snapshot.find(key.hex()[:11]) == key
        assert snapshot.find(key.hex().upper()) == key
        body = snapshot.canonical(key)
        assert body is not None
        assert hashlib.sha256(body).digest() == key
        assert canonical(json.loads(body)) == body
        assert snapshot.canonical(chat(77).key) is None
        for wrong, why in (("", "is not a key"), ("xyz", "is not a key"), ("0" * 64, "not in the cache")):
            with pytest.raises(Refused, match=why):
                snapshot.find(wrong)
        digits = [key.hex()[0] for key in snapshot.known()] + [chat(n).key.hex()[0] for n in (2, 3)]
        shared = max(digits, key=digits.count)
        if digits.count(shared) > 1:
            with pytest.raises(Refused, match="fits several"):
                snapshot.find(shared)


async def test_owners_progress_and_files(store: Inline) -> None:
    """A living process is told from a dead one; what it last said is there; pins, plans and experiments are listed."""
    dead = Inline.open(cache(store), clock=HandClock(), durable=False)
    await dead.enter(experiment="second", budget=budget(name="theirs"))
    await dead.aclose()
    await store.pin("utility", {"terse.md": "aa"})
    await store.plan("utility", "d1", {"terse.md": "aa"})
    with Snapshot.open(cache(store)) as snapshot:
        assert [(owner.experiment, owner.alive) for owner in snapshot.owners()] == [
            ("utility", True),
            ("second", False),
        ]
        assert [document for _, _, document in snapshot.progress("utility")] == ['{"done": 3}']
        assert snapshot.experiments() == ["second", "utility"]
        assert (snapshot.budget_of("utility"), snapshot.budget_of("none")) == ("purse", None)
        assert snapshot.pins("utility") == {"terse.md": "aa"}
        assert [(digest, files) for digest, files, _ in snapshot.plans("utility")] == [("d1", {"terse.md": "aa"})]
        assert snapshot.standing("second").budget == Spend()
    assert store.is_open(chat(3).key)  # looking at owners has dropped no lock
    assert await store.recover() == 0


async def test_large_matrix_is_a_map(store: Inline, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large matrix is a memory map in cache.vectors/, written in blocks; deleted or cut short, it is written again."""
    monkeypatch.setattr(room, "MEMORY_BYTES", 100)
    monkeypatch.setattr(room, "BLOCK_BYTES", 64)
    requests = [text(number) for number in range(100, 160)]
    rows = np.random.default_rng(5).standard_normal((60, 4)).astype("<f4")
    attempt = await attempt_of(store, *requests)
    shares = [(request, embedding(row.tobytes()), 1) for request, row in zip(requests, rows, strict=True)]
    await store.close(settle(attempt, *shares))
    order = list(np.random.default_rng(6).permutation(60))
    keys = [requests[place].key for place in order]
    folder = cache(store).with_name("cache.vectors")
    with Snapshot.open(cache(store)) as snapshot:
        matrix = snapshot.matrix(keys)
        assert isinstance(matrix, np.memmap)
        assert not matrix.flags.writeable
        assert np.array_equal(matrix, rows[order])
        (file,) = folder.iterdir()
        written = file.stat().st_mtime_ns
        assert np.array_equal(snapshot.matrix(keys), rows[order])
        assert file.stat().st_mtime_ns == written
        with file.open("r+b") as opened:
            opened.truncate(10)
        assert np.array_equal(snapshot.matrix(keys), rows[order])
        file.unlink()
        folder.rmdir()
        assert np.array_equal(snapshot.matrix(keys), rows[order])
        assert snapshot.matrix([]).shape == (0, 0)
        with pytest.raises(StoreError, match="others 4"):
            snapshot.matrix([keys[0], text(0).key])
        with pytest.raises(StoreError, match="no vector"):
            snapshot.matrix([keys[0], chat(0).key])
    assert [name.suffix for name in folder.iterdir()] == [".f32"]


BIG = """
import resource, sqlite3, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from judgerun.store.snapshot import Snapshot
keys = [bytes(number.to_bytes(32, "big")) for number in range(int(sys.argv[2]))]
with Snapshot.open(Path(sys.argv[1])) as snapshot:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    matrix = snapshot.matrix(keys)
    assert matrix.shape == (len(keys), 1024) and matrix[5, 0] == 5 and matrix[-1, 3] == len(keys) - 1, matrix.shape
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


async def test_map_is_written_in_bounded_memory(store: Inline) -> None:
    """Writing a map of 82 MB takes a fraction of that in memory, whatever its size."""
    count, connection = 20_000, store._books.connection
    connection.execute("begin")
    for number in range(count):
        place = connection.execute(
            "insert into request(key, kind, deployment, adapter, draw, body) values (?, 'embed', 'd', 'a', 0, x'')",
            (number.to_bytes(32, "big"),),
        ).lastrowid
        connection.execute(
            "insert into vector(request, dim, data) values (?, 1024, ?)",
            (place, np.full(1024, number, "<f4").tobytes()),
        )
    connection.execute("commit")
    told = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", BIG, str(cache(store)), str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    megabytes = int(told.stdout) / (1024 if resource.getpagesize() and sys.platform != "darwin" else 1024**2)
    assert megabytes < 60 + 64, f"{megabytes:.0f} MB above the start (64 MB of it SQLite's page cache at most)"


async def test_upkeep(store: Inline, tmp_path: Path) -> None:
    """Size, integrity, backup and compaction; none of the last while a process runs, and no copy over a file."""
    path = cache(store)
    sizes = upkeep.size(path)
    assert sizes["reply_rows"] == 4
    assert sizes["file"] + sizes["log"] > 0
    assert upkeep.integrity(path) == []
    upkeep.backup(path, tmp_path / "copy.db")
    with pytest.raises(Refused, match="exists"):
        upkeep.backup(path, tmp_path / "copy.db")
    with Snapshot.open(tmp_path / "copy.db", immutable=True) as snapshot:
        assert len(snapshot.known()) == 4
    with pytest.raises(Refused, match="is running"):
        upkeep.compact(path)
    await store.leave({}, {})
    (tmp_path / "cache.vectors").mkdir()
    (tmp_path / "cache.vectors" / "x.f32").write_bytes(b"1234")
    assert upkeep.compact(path) > 0
    assert not (tmp_path / "cache.vectors").exists()
    assert upkeep.size(path)["reply_rows"] == 4


async def test_integrity_names_what_is_wrong(store: Inline, tmp_path: Path) -> None:
    """A row that refers to nothing is told."""
    upkeep.backup(cache(store), tmp_path / "copy.db")
    connection = sqlite3.connect(tmp_path / "copy.db")
    connection.execute("delete from request where id = 1")
    connection.commit()
    connection.close()
    assert any("request" in line for line in upkeep.integrity(tmp_path / "copy.db"))


async def test_rows_that_were_taken_out_are_missed(store: Inline) -> None:
    """The numbers of entries and attempts have no gap, whatever was voided or forfeited; a deleted row leaves one."""
    with Snapshot.open(cache(store)) as snapshot:
        assert snapshot.gaps() == {}
    await store.aclose()
    connection = sqlite3.connect(cache(store))
    connection.execute("pragma foreign_keys = off")
    connection.execute("drop trigger entry_delete")
    connection.execute("delete from entry where id = 3")
    connection.commit()
    connection.close()
    with Snapshot.open(cache(store)) as snapshot:
        assert snapshot.gaps() == {"entry": (3,)}
