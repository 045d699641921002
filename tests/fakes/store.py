"""What tests of a Store are made of: a clock set by hand, small requests, claims and closings, and the books' own check."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from judgerun.ledger.account import fold
from judgerun.ledger.budget import Budget, Cap, Leaf
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.ports import Claim, Closing, Window
from judgerun.store.rows import account_of

NOON = 1_800_014_400.0
"""A moment at noon UTC, so that a test of minutes does not cross a day."""


@dataclass(slots=True)
class HandClock:
    """Wall time that only a test moves."""

    time: float = NOON

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def budget(*caps: Cap, total: int = 10_000, name: str = "purse") -> Budget:
    """A budget of `total` nanos and further caps."""
    return Budget(name=name, caps=(Cap("nanos", "total", "", total), *caps))


def chat(number: int | str, *, draw: int = 0) -> Request:
    """A chat request that differs by its number."""
    payload = {"model": "m-1", "messages": [{"role": "user", "content": f"question {number}"}]}
    return build("chat", payload, deployment="lab", adapter="openai/1", draw=draw)


def text(number: int | str) -> Request:
    """An embedding request that differs by its number."""
    return build("embed", {"model": "e-1", "text": f"text {number}"}, deployment="lab", adapter="openai/1", draw=0)


def claim(
    *requests: Request,
    nanos: int = 100,
    tokens: int = 50,
    stage: str = "pick",
    condition: str = "pick/m@rows",
    provider: str = "lab",
    model: str = "m",
    expected: int = 10,
    windows: tuple[Window, ...] = (),
) -> Claim:
    """A reservation of `nanos` for some requests."""
    return Claim(
        requests=requests, stage=stage, condition=condition, provider=provider, model=model,
        need=Amount(nanos=nanos, calls=1, tokens=tokens), tokens_expected=expected, bound_by="bytes", windows=windows,
    )  # fmt: skip


def reply(words: str = "7", *, finish: Finish = Finish.STOP, usage: Usage | None = None) -> Reply:
    """A chat reply with its body."""
    raw = f'{{"text": "{words}"}}'.encode()
    return Reply(
        finish=finish, finish_raw=finish.value, text=words,
        usage=Usage(input_fresh=8, output_visible=2) if usage is None else usage,
        served_model="m-1-0601", fingerprint="fp", raw=raw, raw_digest=hashlib.sha256(raw).hexdigest(),
    )  # fmt: skip


def embedding(vector: bytes) -> Reply:
    """An embedding reply with its envelope."""
    return Reply(
        finish=Finish.STOP, vector=vector, usage=Usage(input_fresh=4, output_visible=0), raw=b'{"data": []}',
        raw_digest=hashlib.sha256(vector).hexdigest(), input_cut=False,
    )  # fmt: skip


def settle(attempt: int, *replies: tuple[Request, Reply, int | None], nanos: int = 60, tokens: int = 10) -> Closing:
    """A known bill with its replies."""
    amount = Amount(nanos=nanos, calls=1, tokens=tokens)
    return Closing(attempt=attempt, kind=EntryKind.SETTLE, amount=amount, status=200, replies=replies, latency_ms=12)


def void(attempt: int, *, sent: bool = True) -> Closing:
    """A failure that cannot have been charged."""
    failure = Failure(cause=Cause.RATE_LIMITED if sent else Cause.NOT_SENT, billable=Billable.NO, detail="later")
    return Closing(attempt=attempt, kind=EntryKind.VOID, amount=Amount(), sent=sent, failure=failure)


def forfeit(
    attempt: int, *, nanos: int = 100, tokens: int = 50, replies: Sequence[tuple[Request, Reply]] = ()
) -> Closing:
    """A hold that is spent: by a failure, or by replies without usage."""
    failure = None if replies else Failure(cause=Cause.TIMED_OUT, billable=Billable.UNKNOWN, detail="no answer")
    amount = Amount(nanos=nanos, calls=1, tokens=tokens)
    kept = tuple((request, answer, None) for request, answer in replies)
    return Closing(attempt=attempt, kind=EntryKind.FORFEIT, amount=amount, failure=failure, replies=kept)


def entries(connection: sqlite3.Connection) -> list[Entry]:
    """The whole ledger, in order."""
    found = connection.execute(
        "select e.attempt, e.kind, e.nanos, e.calls, e.tokens, e.gpu_ms, e.document,"
        " c.budget, c.experiment, c.stage, c.condition, c.provider, c.day"
        " from entry e join attempt a on a.id = e.attempt join account c on c.id = a.account order by e.id"
    )
    return [
        Entry(attempt=row[0], kind=EntryKind(row[1]), leaf=Leaf(*row[7:]), amount=Amount(*row[2:6]), document=row[6])
        for row in found
    ]


def check_books(connection: sqlite3.Connection, *, total: int | None = None) -> None:
    """Assert all that must hold at every commit: the fold is the account, nothing is torn, the cap (if given) is kept."""
    balances = {leaf: balance for _, leaf, balance in map(account_of, connection.execute(
        "select id, budget, experiment, stage, condition, provider, day,"
        " settled_nanos, settled_calls, settled_tokens, settled_gpu_ms,"
        " forfeited_nanos, forfeited_calls, forfeited_tokens, forfeited_gpu_ms,"
        " held_nanos, held_calls, held_tokens, held_gpu_ms from account"
    ))}  # fmt: skip
    assert fold(entries(connection)) == balances

    def none(query: str) -> None:
        assert connection.execute(query).fetchall() == [], query

    closings = "('settle', 'void', 'forfeit')"
    none("select id from attempt where id not in (select attempt from entry where kind = 'reserve')")
    none(f"select id from attempt where open <> (id not in (select attempt from entry where kind in {closings}))")
    none("select request from carried k join attempt a on a.id = k.attempt where k.open <> a.open")
    none(
        "select request from reply p where attempt not in (select attempt from entry where kind in ('settle', 'forfeit'))"
    )
    none(
        "select e.attempt from carried k join entry e on e.attempt = k.attempt and e.kind = 'settle'"
        " left join reply p on p.request = k.request where p.attempt is not k.attempt"
    )
    none("select p.request from reply p join request r on r.id = p.request"
         " where r.kind = 'embed' and p.request not in (select request from vector)")  # fmt: skip
    tries = "select (select sum(tries) from account) = (select count(*) from attempt where sent = 1)"
    assert connection.execute(tries).fetchone()[0] in (1, None)
    if total is not None:
        high = sum(b.settled.nanos + b.forfeited.nanos + b.held.nanos for b in balances.values())
        assert high <= total, f"{high} nanos are committed under a cap of {total}"
