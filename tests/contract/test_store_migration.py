"""A cache of version 1: it is migrated with all that it holds, its seals hold, and what version 2 brought works on it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.older import older
from fakes.store import HandClock, budget, chat, check_books, claim, forfeit, reply, settle
from judgerun.errors import StoreError
from judgerun.ledger.entry import EntryKind
from judgerun.model.foreign import Call, Run, Score, Total
from judgerun.model.kept import Kept
from judgerun.ports import JobState
from judgerun.store import rows as packed
from judgerun.store.extract import extract
from judgerun.store.inline import Inline
from judgerun.store.schema import MIGRATIONS
from judgerun.store.seal import Stated, verify
from judgerun.store.snapshot import Snapshot
from judgerun.store.upkeep import integrity, migrate

SEAL = "fccf3ca42cd866ece5ac93840c15ccf8cc1e628a92cf4069bacb8cfcac40f910"
"""What versions 1 to 3 themselves wrote as the seal of `first`, in which files were among what is stated:"""
STATED = {"count": 4, "digest": "b45054bd82994ded6bd2c1da85be96250b28795452fa1256fefe5771792d3616"}
MARKS = "240232993ff439ce049d515283eb0b235f4834f4f84230694d64926467199c26"
IDS = b"\x00\x04plan\x00\x06prices\x00\x04code\x00\x06file f"
KEYS = [chat(n).key for n in (1, 2, 3)]


@pytest.fixture
async def first(tmp_path: Path) -> Path:
    """A cache of version 1 with a sealed experiment: two replies and a forfeit."""
    return await made(tmp_path, version=1)


async def made(tmp_path: Path, *, version: int) -> Path:
    """Such a cache of that version, sealed as it sealed."""
    newer, path = tmp_path / "newer.db", tmp_path / "cache.db"
    async with Inline.open(newer, clock=HandClock(), durable=False) as store:
        await store.enter(experiment="utility", budget=budget())
        for number in (1, 2, 3):
            grant = await store.reserve(claim(chat(number)))
            assert grant.attempt is not None
            answer = (chat(number), reply(f"word {number}"), 60)
            await store.close(settle(grant.attempt, answer) if number < 3 else forfeit(grant.attempt))
        await store.leave({"money": 1.0}, {})
        await store.seal("utility", KEYS, stated=Stated(plan="p", prices="s", files={"f": "d"}, code="0"))
    older(newer, path, version=version)
    connection = sqlite3.connect(path)
    for trigger in ("seal_update", "sealed_update", "sealed_delete"):
        connection.execute(f"drop trigger if exists {trigger}")
    ((text,),) = connection.execute("select parts from seal").fetchall()
    parts = {name: part for name, part in json.loads(text).items() if name != "files"} | {"stated": STATED}
    connection.execute("update seal set digest = ?, parts = ?", (SEAL, json.dumps(parts, sort_keys=True)))
    connection.execute("delete from sealed where part = 'files'")
    connection.execute(
        "update sealed set ids = ?, rows = ? where part = 'stated'", (packed.pack(IDS), bytes.fromhex(MARKS))
    )
    connection.commit()
    connection.close()
    return path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """Rows of a cache, read as anybody could."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def test_a_sealed_cache_of_version_1_is_migrated_and_its_seal_holds(first: Path) -> None:
    """Opening it keeps a copy of version 1 beside it; every row stands as it did, and so does the seal that version 1 wrote."""
    before = [
        rows(first, f"select * from {table} order by 1, 2") for table in ("entry", "account", "request", "carried")
    ]
    assert rows(first, "pragma user_version") == [(1,)]
    store = Inline.open(first, clock=HandClock())
    await store.aclose()
    assert rows(first, "pragma user_version") == [(len(MIGRATIONS),)]
    assert rows(first.with_name("cache.db.schema1.backup"), "pragma user_version") == [(1,)]
    after = [
        rows(first, f"select * from {table} order by 1, 2") for table in ("entry", "account", "request", "carried")
    ]
    assert after == before
    assert integrity(first) == []
    with Snapshot.open(first) as view:
        checked = verify(view, "utility")
        assert checked is not None
        assert (checked.differences, checked.seal.digest) == ((), SEAL)
        kept = view.lookup(KEYS[0])
        assert isinstance(kept, Kept)
        assert kept.reply.text == "word 1"


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_seal_of_an_older_version_names_what_differs(tmp_path: Path, version: int) -> None:
    """Its parts are read as they were made: whole as it is, and the file is named where its digest was changed."""
    path = await made(tmp_path, version=version)
    migrate(path)
    with Snapshot.open(path) as view:
        checked = verify(view, "utility")
        assert checked is not None
        assert (checked.differences, checked.seal.digest) == ((), SEAL)
    connection = sqlite3.connect(path)
    connection.execute("drop trigger if exists seal_update")
    connection.execute("update seal set stated = replace(stated, '\"d\"', '\"e\"')")
    connection.commit()
    connection.close()
    with Snapshot.open(path) as view:
        checked = verify(view, "utility")
        assert checked is not None
        assert [(one.part, one.row) for one in checked.differences] == [("stated", "file f")]


async def test_a_migrated_cache_takes_jobs(first: Path) -> None:
    """What version 2 brought works on rows that version 1 wrote: a forfeited request goes into a job, and its reply is later
    than the seal.
    """
    async with Inline.open(first, clock=HandClock(), durable=False) as store:
        await store.enter(experiment="utility", budget=budget())
        said = await store.enlist([claim(chat(3))], token="t", deployment="lab")
        assert said.job is not None
        await store.move(said.job, JobState.SUBMITTING)
        await store.move(said.job, JobState.SUBMITTED, remote="r")
        attempt = said.grants[0].attempt
        assert attempt is not None
        await store.close_all([settle(attempt, (chat(3), reply("word 3"), 60))])
        await store.move(said.job, JobState.ENDED)
        await store.leave({}, {})
        check_books(store._books.connection, total=10_000)
    with Snapshot.open(first) as view:
        checked = verify(view, "utility")
        assert checked is not None
        assert (checked.whole, checked.later_entries, checked.later_replies) == (True, 2, 1)
        ledger = view.columns("entries")
        assert list(ledger["kind"])[-1] == EntryKind.SETTLE


async def test_a_copy_is_migrated_in_its_place(first: Path, tmp_path: Path) -> None:
    """A cache of version 1 out of a bundle is brought up to date as the file that it is, with nothing beside it; one of today is
    not touched.
    """
    folder = tmp_path / "bundle"
    folder.mkdir()
    copy = folder / "cache.db"
    shutil.copy(first, copy)
    with pytest.raises(StoreError, match="older"):
        Snapshot.open(copy, immutable=True)
    migrate(copy)
    assert [file.name for file in folder.iterdir()] == ["cache.db"]
    with Snapshot.open(copy, immutable=True) as view:
        checked = verify(view, "utility")
        assert checked is not None
        assert checked.whole
        extract(view, folder / "small.db", experiments=["utility"], keys=KEYS)
    before = copy.read_bytes()
    migrate(copy)
    assert copy.read_bytes() == before


FOREIGN = Run(
    name="old",
    format="spend-json/2",
    files={"a/SPEND.json": "d"},
    calls=(
        Call(source="a/SPEND.json#calls[0]", file="a/SPEND.json", role="solver", condition="none", item="q", cost=5),
    ),
    scores=(Score(source="b#1", condition="human", system="s", item="1", value=0.5),),
    totals=(Total(source="a/SPEND.json#p", name="p", files=["a/SPEND.json"], cost=5),),
)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_migrated_cache_takes_runs_of_other_programs(tmp_path: Path, version: int) -> None:
    """What version 4 brought works on the rows of each older version: a run is kept, replaced and read, with its events, and
    neither account nor seal changes.
    """
    path = await made(tmp_path, version=version)
    before = rows(path, "select * from account order by 1, 2")
    async with Inline.open(path, clock=HandClock(), durable=False) as store:
        await store.keep_run(FOREIGN)
        await store.keep_run(replace(FOREIGN, scores=()))
        check_books(store._books.connection, total=10_000)
    assert integrity(path) == []
    assert rows(path, "select * from account order by 1, 2") == before
    with Snapshot.open(path) as view:
        assert view.run("old") == replace(FOREIGN, scores=())
        assert [run[:2] for run in view.runs()] == [("old", "spend-json/2")]
        said = [event.detail for event in view.events(0) if event.kind == "import"]
        checked = verify(view, "utility")
        assert checked is not None
        assert (checked.differences, checked.seal.digest) == ((), SEAL)
    assert said == [
        "3 records (spend-json/2) of a/SPEND.json d",
        "2 records (spend-json/2) of a/SPEND.json d; in the place of 3 records (spend-json/2) of a/SPEND.json d",
    ]


async def test_records_of_an_older_form_are_read(tmp_path: Path) -> None:
    """A field that records have no more is left out."""
    async with Inline.open(tmp_path / "cache.db", clock=HandClock(), durable=False) as store:
        await store.keep_run(FOREIGN)
        store._books.connection.execute("update foreign_record set record = json_set(record, '$.gone', 1)")
    with Snapshot.open(tmp_path / "cache.db") as view:
        assert view.run("old") == FOREIGN
