"""The seal: what it covers, that it names the first thing that differs, and what does not break it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fakes.store import HandClock, budget, chat, claim, embedding, forfeit, reply, settle, text, void
from judgerun.errors import Refused
from judgerun.ledger.entry import Amount
from judgerun.model.request import Request
from judgerun.ports import Closing
from judgerun.store.inline import Inline
from judgerun.store.seal import Stated, Verification, verify
from judgerun.store.snapshot import Snapshot

RESTS = {"environment": {"numpy": "2.1", "python": "3.11"}, "waivers": {}}
STATED = Stated(
    plan="d1", prices="2026-11-01", files={"experiment.toml": "aa", "terse.md": "bb"}, code="0.1.0", rests=RESTS
)
KEYS = [request.key for request in (chat(0), chat(1), text(0), text(1), chat(5))]  # chat(5) is pending


async def buy(store: Inline, *requests: Request, end: Callable[[int], Closing]) -> int:
    """Reserve and close; the attempt."""
    grant = await store.reserve(claim(*requests))
    assert grant.attempt is not None
    await store.close(end(grant.attempt))
    return grant.attempt


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Inline]:
    """An experiment with settled, forfeited and voided attempts and two vectors; another experiment beside it; not sealed."""
    store = Inline.open(tmp_path / "cache.db", clock=HandClock(), durable=False)
    await store.enter(experiment="other", budget=budget())
    await buy(store, chat(8), end=lambda attempt: settle(attempt, (chat(8), reply("other"), 60)))
    await store.leave({}, {})
    await store.enter(experiment="utility", budget=budget())
    await buy(store, chat(0), end=lambda attempt: settle(attempt, (chat(0), reply("seven"), 60)))
    await buy(store, chat(1), end=void)
    await buy(store, chat(1), end=lambda attempt: forfeit(attempt, replies=[(chat(1), reply("eight"))]))
    pair = [(text(n), embedding(np.full(2, n + 1, "<f4").tobytes()), 30) for n in range(2)]
    await buy(store, text(0), text(1), end=lambda attempt: settle(attempt, *pair))
    yield store
    await store.aclose()


def check(store: Inline, today: Stated | None = None) -> Verification:
    """The newest seal of the experiment, recomputed."""
    assert store.path is not None
    with Snapshot.open(store.path) as snapshot:
        told = verify(snapshot, "utility", today=today)
    assert told is not None
    return told


async def test_seal_holds(store: Inline) -> None:
    """A seal that nothing touched holds, says what it covers, and is the same digest when made again."""
    digest = await store.seal("utility", KEYS, stated=STATED, reason="stopped by its cap")
    told = check(store, today=STATED)
    assert told.whole
    assert told.differences == ()
    assert (told.seal.digest, told.seal.reason) == (digest, "stopped by its cap")
    assert {name: part["count"] for name, part in told.seal.parts.items()} == {
        "plan": 5, "replies": 4, "ledger": 8, "stated": 3, "files": 2, "environment": 2, "waivers": 0,
    }  # fmt: skip
    assert await store.seal("utility", KEYS, stated=STATED, reason="stopped by its cap") == digest
    assert len(digest) == 64


async def test_no_seal_no_verdict(store: Inline) -> None:
    """An experiment that was never sealed is not verified."""
    assert store.path is not None
    with Snapshot.open(store.path) as snapshot:
        assert verify(snapshot, "utility") is None


async def test_open_attempts_refuse_a_seal(store: Inline) -> None:
    """While an attempt is open its outcome is not known, and nothing is sealed."""
    grant = await store.reserve(claim(chat(5)))
    with pytest.raises(Refused, match="1 attempts are open"):
        await store.seal("utility", KEYS, stated=STATED)
    assert grant.attempt is not None
    await store.close(void(grant.attempt))
    await store.seal("utility", KEYS, stated=STATED)


FLIPS = [
    ("update reply set text = 'Seven' where text = 'seven'", "replies", chat(0).key.hex()),
    ("update reply set finish = 'length' where text = 'eight'", "replies", chat(1).key.hex()),
    ("update reply set output_visible = null where text = 'seven'", "replies", chat(0).key.hex()),
    ("update reply set cost = cost + 1 where text = 'seven'", "replies", chat(0).key.hex()),
    ("update reply set raw = substr(raw, 1, length(raw) - 1) where text = 'seven'", "replies", chat(0).key.hex()),
    ("update vector set data = x'0000804000008040' where request = 4", "replies", text(0).key.hex()),
    ("update request set body = x'00' where id = 2", "replies", chat(0).key.hex()),
    ("delete from reply where text = 'eight'", "replies", chat(1).key.hex()),
    ("update entry set nanos = nanos + 1 where id = 4", "ledger", "entry 4"),
    ("update entry set at = at + 1 where id = 6", "ledger", "entry 6"),
    ("delete from entry where id = 5", "ledger", "entry 5"),
    ("update attempt set status = 500 where id = 2", "ledger", "entry 3"),
    ("update account set condition = 'pick/other' where experiment = 'utility'", "ledger", "entry 3"),
    ("update seal set stated = replace(stated, '2026-11-01', '2026-11-02')", "stated", "prices"),
    ("update seal set stated = replace(stated, '\"bb\"', '\"bc\"')", "files", "terse.md"),
    ("update seal set stated = replace(stated, '\"2.1\"', '\"2.2\"')", "environment", "numpy"),
    ("update seal set stated = replace(stated, 'environment', 'surroundings')", "environment", "numpy"),
    ('update seal set stated = replace(stated, \'"waivers": {}\', \'"waivers": {"a": "b"}\')', "waivers", "a"),
    ("update seal set reason = 'because'", "seal", ""),
    ("update seal set digest = replace(digest, substr(digest, 1, 1), 'z')", "seal", ""),
    ("update seal set parts = replace(parts, '\"count\": 8', '\"count\": 7')", "ledger", ""),
]


@pytest.mark.parametrize(("flip", "part", "row"), FLIPS, ids=[flip for flip, _, _ in FLIPS])
async def test_one_change_is_named(store: Inline, flip: str, part: str, row: str) -> None:
    """One byte changed in a reply, a vector, an entry, an attempt, a price version or the seal itself is found and named."""
    await store.seal("utility", KEYS, stated=STATED)
    assert store.path is not None
    connection = sqlite3.connect(store.path)  # as somebody who means to cheat: without our triggers
    for (trigger,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        connection.execute(f"drop trigger {trigger}")
    assert connection.execute(flip).rowcount > 0
    connection.commit()
    connection.close()
    first = check(store).differences[0]
    assert (first.part, first.row) == (part, row)
    assert part in str(first)


async def test_all_that_differs_is_named(store: Inline) -> None:
    """The first thing comes first, and everything else after it: two replies, an entry that is gone, a file."""
    await store.seal("utility", KEYS, stated=STATED)
    assert store.path is not None
    connection = sqlite3.connect(store.path)
    for trigger in ("reply_update", "entry_delete", "seal_update"):
        connection.execute(f"drop trigger {trigger}")
    connection.execute("update reply set text = text || '!' where text in ('seven', 'eight')")
    connection.execute("delete from entry where id = 5")
    connection.execute("update seal set stated = replace(stated, '\"bb\"', '\"bc\"')")
    connection.commit()
    connection.close()
    replies = [("replies", key.hex()) for key in sorted((chat(0).key, chat(1).key))]
    assert [(one.part, one.row) for one in check(store).differences] == [
        *replies, ("ledger", "entry 5"), ("files", "terse.md"),
    ]  # fmt: skip


async def test_every_byte_of_a_text_counts(store: Inline) -> None:
    """A reply whose words moved from one column to the next is not the same reply: columns are hashed with their lengths."""
    await store.seal("utility", KEYS, stated=STATED)
    assert store.path is not None
    connection = sqlite3.connect(store.path)
    connection.execute("drop trigger reply_update")
    connection.execute("update reply set served_model = 'm-1-0601f', fingerprint = 'p' where text = 'seven'")
    connection.commit()
    connection.close()
    assert check(store).differences[0].row == chat(0).key.hex()


async def test_later_rows_do_not_break_it(store: Inline) -> None:
    """Adjusts, a resumed run of the same experiment, other experiments: none is covered; the first two are counted."""
    await store.seal("utility", KEYS, stated=STATED, reason="stopped")
    await store.adjust(3, Amount(nanos=10, calls=1), document="invoice 9")
    await buy(store, chat(5), end=lambda attempt: settle(attempt, (chat(5), reply("late"), 60)))
    await store.leave({}, {})
    await store.enter(experiment="other", budget=budget(name="another"))
    await buy(store, chat(6), end=lambda attempt: settle(attempt, (chat(6), reply("else"), 60)))
    await store.pin("utility", {"terse.md": "new"})
    told = check(store)
    assert told.whole
    assert (told.later_entries, told.later_replies) == (3, 1)


async def test_what_is_stated_today(store: Inline) -> None:
    """Files, prices or code that are not as they were sealed are named; what is not stated today is not judged."""
    await store.seal("utility", KEYS, stated=STATED)
    changed = replace(STATED, prices="2026-12-01", files={"experiment.toml": "aa", "cot.md": "cc"}, code="")
    assert [difference.row for difference in check(store, changed).differences] == ["prices", "cot.md", "terse.md"]
    assert check(store, Stated(plan="", prices="", files={})).whole


async def test_shared_replies_are_covered(store: Inline) -> None:
    """A reply that another experiment bought is part of the seal of the plan that rests on it."""
    await store.seal("utility", [*KEYS, chat(8).key], stated=STATED)
    assert check(store).seal.parts["replies"]["count"] == 5
    assert store.path is not None
    connection = sqlite3.connect(store.path)
    connection.execute("drop trigger reply_update")
    connection.execute("update reply set text = 'x' where text = 'other'")
    connection.commit()
    connection.close()
    assert check(store).differences[0].row == chat(8).key.hex()
