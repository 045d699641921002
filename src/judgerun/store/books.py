"""Books: the transactions of the ledger over one SQLite connection; synchronous, and told the time.

What may live here: reserve, close, lose, note, adjust, freeze, and the transaction that a group of such operations shares.
Who calls, and in which thread, is cache.py's and inline.py's business.

Two processes may have the same accounts. Every group runs under `begin immediate`, so no other process decides meanwhile;
when `pragma data_version` says that another one has committed since, the small account table is read again, else the copy
in memory is right. Changes to balances are added up over the group and written before its commit, as additions: they need
not know what else stands there. The lines of the ledger are written then too, many by one statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from judgerun.errors import InvariantBroken, Problem, Refused, invariant
from judgerun.ledger.account import EMPTY, NOTHING, Account, Balance, change
from judgerun.ledger.budget import UNITS, Budget, Leaf
from judgerun.ledger.entry import Amount, Decision, EntryKind
from judgerun.model.reply import Failure
from judgerun.model.request import Request, RequestKey
from judgerun.model.setting import read_setting
from judgerun.ports import Claim, Closed, Closing, Grant
from judgerun.store import rows
from judgerun.store.anchor import Anchor
from judgerun.store.lines import Lines
from judgerun.store.queries import SQL
from judgerun.store.rates import Rates

Operation = Callable[[], Any]

_RESERVE, _ADJUST = EntryKind.RESERVE, EntryKind.ADJUST


@dataclass(slots=True)
class Seat:
    """An open attempt as its process remembers it."""

    account: int
    leaf: Leaf
    need: Amount
    requests: dict[RequestKey, int]


@dataclass(slots=True)
class _Change:
    """What a group has added to one account and not yet written."""

    delta: Balance = EMPTY
    tries: int = 0


@dataclass(slots=True)
class _Memory:
    """What is remembered of the disk between transactions."""

    version: int | None = None
    account: Account | None = None
    numbers: dict[Leaf, int] = field(default_factory=dict)
    seats: dict[int, Seat] = field(default_factory=dict)
    frozen: str | None = None


class Books:
    """The ledger of one cache, as one process writes it. `join` says under which budget and owner it reserves."""

    def __init__(self, connection: sqlite3.Connection, anchor: Anchor | None = None) -> None:
        """`anchor` is None for a cache in memory."""
        self.connection = connection
        self._anchor = anchor
        self.owner: int | None = None
        self.budget: Budget | None = None
        self.experiment = ""
        self._memory = _Memory()
        self._changes: dict[int, _Change] = {}
        self._lines = Lines()
        self._rates = Rates(connection)
        self._undo: list[Operation] = []
        self._since = (
            0  # the newest event when this owner entered: what is set after it was set over files that we have not read
        )
        self._day = (-1, "")

    # -- transactions

    def transact(self, operations: Sequence[Operation]) -> list[Any]:
        """Run operations in one durable transaction. For each its result, or the exception that it raised.

        When one raises, the group is rolled back and each operation is run in a transaction of its own: so the rare
        failure pays for isolation, and not every call with a savepoint.
        """
        try:
            return self._group(operations)
        except Exception as error:  # noqa: BLE001 - nothing is swallowed: each is handed to its own caller
            if len(operations) == 1:
                return [error]
        return [self.transact([operation])[0] for operation in operations]

    def _group(self, operations: Sequence[Operation]) -> list[Any]:
        execute = self.connection.execute
        try:
            if self._anchor is not None:
                self._anchor.check()
            execute(SQL["begin"])
            self._refresh()
            results = [operation() for operation in operations]
            self._flush()
            execute("commit")
        except BaseException:
            if self.connection.in_transaction:
                execute("rollback")
            while self._undo:
                self._undo.pop()()
            self.forget()
            raise
        self._undo.clear()
        return results

    def undo(self, operation: Operation) -> None:
        """What takes back, should the transaction be rolled back, something done beside the database."""
        self._undo.append(operation)

    def join(self, *, owner: int | None, experiment: str, budget: Budget | None) -> None:
        """From now on reservations are this owner's, under this budget. Inside a transaction."""
        self.undo(partial(self._become, self.owner, self.experiment, self.budget, self._since))
        (newest,) = self.connection.execute(SQL["last_event"]).fetchone()
        self._become(owner, experiment, budget, newest)
        self.reread()

    def _become(self, owner: int | None, experiment: str, budget: Budget | None, since: int) -> None:
        self.owner, self.experiment, self.budget, self._since = owner, experiment, budget, since

    def reread(self) -> None:
        """Read accounts, caps and freeze anew, inside a transaction that changed what they rest on."""
        self._flush()
        self._memory = _Memory()
        self._refresh()

    def forget(self) -> None:
        """Trust nothing in memory: the next transaction reads the disk."""
        self._memory = _Memory()
        self._changes.clear()
        self._lines.clear()
        self._rates.forget()

    def _refresh(self) -> None:
        """Read accounts, what was set over the caps, and freeze again if another connection has committed since the last
        transaction.
        """
        (version,) = self.connection.execute(SQL["data_version"]).fetchone()
        memory = self._memory
        if version == memory.version:
            return
        if self.budget is not None:
            found = [rows.account_of(row) for row in self.connection.execute(SQL["accounts"], (self.budget.name,))]
            memory.numbers = {leaf: number for number, leaf, _ in found}
            told = [
                read_setting(*row)
                for row in self.connection.execute(SQL["settings_of"], (f"budget {self.budget.name}",))
            ]
            self.budget = self.budget.amended(told, since=self._since)
            memory.account = Account(self.budget.caps, {leaf: balance for _, leaf, balance in found})
            memory.frozen = self.frozen(self.budget.name)
        self._rates.refresh()
        memory.version = version

    def _flush(self) -> None:
        for number, written in self._changes.items():
            self.connection.execute(SQL["book"], (*rows.amounts(written.delta), written.tries, number))
        self._changes.clear()
        self._lines.write(self.connection)

    def written(self) -> sqlite3.Connection:
        """The connection, for whoever reads balances or entries inside a transaction: all that was done in it is there."""
        self._flush()
        return self.connection

    def balances(self, budget: str) -> dict[Leaf, Balance]:
        """How the leaves of a budget stand now. Inside a transaction."""
        found = map(rows.account_of, self.written().execute(SQL["accounts"], (budget,)))
        return {leaf: balance for _, leaf, balance in found}

    # -- reservations

    def reserve(self, claim: Claim, now: float, *, job: Callable[[], int] | None = None) -> Grant:
        """One decision, in this order: kept, held, frozen, caps, rate windows; then an open attempt.

        Of a batch, `keys` are those that have a reply (kept) or an open attempt (held): ask again without them. `job` gives
        the job to which the attempt will belong, and is asked only when it is reserved.
        """
        budget, account = self.budget, self._memory.account
        if budget is None or account is None or self.owner is None:
            raise InvariantBroken("a reservation needs an owner: enter() first")
        invariant(len(claim.requests) > 0, "a reservation carries a request")
        known = {request.key: self._state(request.key) for request in claim.requests}
        invariant(len(known) == len(claim.requests), "a batch carries each request once")
        if kept := tuple(key for key, state in known.items() if state[1]):
            return Grant(decision=Decision.KEPT, keys=kept)
        if held := tuple(key for key, state in known.items() if state[2] is not None):
            return Grant(decision=Decision.HELD, keys=held)
        if self._memory.frozen is not None:
            return Grant(decision=Decision.FROZEN, scope=self._memory.frozen)
        leaf = Leaf(budget.name, self.experiment, claim.stage, claim.condition, claim.provider, self.today(now))
        decision, scope = account.decide(leaf, claim.need)
        if decision is not Decision.RESERVED:
            return Grant(decision=decision, scope=scope)
        if claim.windows:
            delay = self._rates.delay(claim.windows, tokens=claim.tokens_expected, now=now)
            if delay > 0.0:
                return Grant(decision=Decision.RATE, delay=delay)
        return Grant(decision=Decision.RESERVED, attempt=self._seat(claim, leaf, known, now, job))

    def _state(self, key: RequestKey) -> tuple[int | None, int, int | None]:
        """A request's id, whether it has a reply, and its open attempt."""
        return self.connection.execute(SQL["state_of"], (key,)).fetchone() or (None, 0, None)

    def _seat(
        self, claim: Claim, leaf: Leaf, known: dict[RequestKey, tuple[int | None, int, int | None]], now: float,
        job: Callable[[], int] | None,
    ) -> int:  # fmt: skip
        """The rows of a reservation: attempt, requests, entry."""
        execute, need = self.connection.execute, claim.need
        number = self._number(leaf)
        attempt = execute(
            SQL["new_attempt"],
            (self.owner, number, claim.model, len(claim.requests), need.nanos, need.calls, need.tokens, need.gpu_ms,
             claim.tokens_expected,
             claim.bound_by, now, None if job is None else job()),
        ).lastrowid  # fmt: skip
        assert attempt is not None
        carried = {}
        for request in claim.requests:
            place = known[request.key][0] or self._new_request(request)
            execute(SQL["carry"], (place, attempt))
            carried[request.key] = place
        self._lines.add(attempt, _RESERVE, need, now)
        self._book(number, leaf, change(_RESERVE, need), tries=1)
        self._memory.seats[attempt] = Seat(number, leaf, need, carried)
        if job is None:
            self._rates.add(attempt, provider=claim.provider, model=claim.model, at=now, tokens=claim.tokens_expected)
        return attempt

    # -- closings

    def close(self, closing: Closing, now: float) -> Closed:
        """End an attempt: entry, account, replies and vectors together. InvariantBroken when it is not open."""
        attempt, kind, amount = closing.attempt, closing.kind, closing.amount
        seat = self.seat(attempt)
        invariant(kind in (EntryKind.SETTLE, EntryKind.VOID, EntryKind.FORFEIT), f"{kind} closes no attempt")
        invariant(kind is not EntryKind.VOID or amount == NOTHING, "a void books nothing")
        invariant(kind is not EntryKind.VOID or not closing.replies, "an attempt with replies is not void")
        settled = kind is EntryKind.SETTLE
        self._end(closing, amount.tokens if settled else None, now)
        for place in seat.requests.values():
            self.connection.execute(SQL["release"], (place, attempt))
        self._lines.add(attempt, kind, amount, now)
        self._book(seat.account, seat.leaf, change(kind, amount, hold=seat.need), tries=0 if closing.sent else -1)
        self._memory.seats.pop(attempt, None)
        self._rates.end(attempt, sent=closing.sent, tokens=amount.tokens if settled else None)
        for request, reply, cost in closing.replies:
            invariant(request.key in seat.requests, f"attempt {attempt} does not carry request {request.short}")
            place = seat.requests[request.key]
            self.connection.execute(SQL["new_reply"], rows.reply_row(place, attempt, now, reply, cost))
            if reply.vector is not None:
                self.connection.execute(SQL["new_vector"], (place, len(reply.vector) // 4, reply.vector))
        return Closed(overrun=self._overrun(attempt, seat, amount, now))

    def _end(self, closing: Closing, tokens: int | None, now: float) -> None:
        """The attempt's row, closed; exactly once."""
        failure = closing.failure
        row = (
            now if closing.at is None else closing.at,
            closing.sent,
            tokens,
            closing.status,
            failure.cause.value if failure else None,
            failure.billable.value if failure else None,
            rows.plain(failure.detail) if failure else None,
            closing.served_by,
            closing.latency_ms,
            rows.pack(failure.raw) if failure and failure.raw else None,
            closing.attempt,
        )
        changed = self.connection.execute(SQL["close_attempt"], row).rowcount
        invariant(changed == 1, f"attempt {closing.attempt} closed twice")

    def seat(self, attempt: int) -> Seat:
        """An open attempt. InvariantBroken when it is not open: each reserve has exactly one closing."""
        seat = self._memory.seats.get(attempt)
        if seat is None:
            row = self.connection.execute(SQL["open_attempt"], (attempt,)).fetchone()
            if row is None:
                raise InvariantBroken(f"attempt {attempt} is not open: closed twice, or never reserved")
            carried = dict(self.connection.execute(SQL["carried_open"], (attempt,)).fetchall())
            seat = Seat(row[0], Leaf(*row[5:11]), Amount(*row[1:5]), carried)
        return seat

    def forfeit(self, attempt: int, failure: Failure, now: float) -> None:
        """Close an open attempt of which nothing more will be heard: its hold is spent."""
        need = self.seat(attempt).need
        self.close(Closing(attempt=attempt, kind=EntryKind.FORFEIT, amount=need, failure=failure), now)

    def _overrun(self, attempt: int, seat: Seat, amount: Amount, now: float) -> bool:
        """Freeze the budget when a bill passed its hold in dollars, or in any other unit that the budget caps."""
        capped = {"nanos"} | ({cap.unit for cap in self.budget.caps} if self.budget else set())
        passed = [unit for unit in UNITS if unit in capped and getattr(amount, unit) > getattr(seat.need, unit)]
        if not passed:
            return False
        what = ", ".join(f"{getattr(amount, unit)} {unit} on a hold of {getattr(seat.need, unit)}" for unit in passed)
        self.freeze(seat.leaf.budget, f"attempt {attempt} was billed {what}", now)
        return True

    # -- the rest

    def adjust(self, attempt: int, amount: Amount, *, document: str, now: float) -> Closed:
        """Book what a closed attempt really cost, on the word of a document; the only way in which a forfeit falls.

        Refused when the attempt is unknown or open, or no document is named.
        """
        row = self.connection.execute(SQL["attempt_leaf"], (attempt,)).fetchone()
        stands = self._booked(attempt)
        if row is None or stands is None or not document.strip():
            wrong = "is not a closed attempt of this cache" if row is None or stands is None else "names no document"
            raise Refused(Problem("cache.db", f"attempt {attempt}", wrong, "an adjust names both"))
        number, leaf, need = row[0], Leaf(*row[5:11]), Amount(*row[1:5])
        self._lines.add(attempt, _ADJUST, amount, now, document)
        self._book(number, leaf, change(_ADJUST, amount, stands=stands))
        return Closed(overrun=self._overrun(attempt, Seat(number, leaf, need, {}), amount, now))

    def _booked(self, attempt: int) -> Balance | None:
        """What closing and adjusts of an attempt have booked so far; None when it is open or unknown."""
        stands: Balance | None = None
        for name, *units in self.written().execute(SQL["booked"], (attempt, attempt)):
            delta = change(EntryKind(name), Amount(*units), stands=stands or EMPTY)
            base = stands or EMPTY
            stands = Balance(base.settled + delta.settled, base.forfeited + delta.forfeited)
        return stands

    def lose(self, request: Request, reason: str, now: float) -> None:
        """A request is given up: no reply, and no attempts left."""
        row = self.connection.execute(SQL["find_request"], (request.key,)).fetchone()
        place = row[0] if row else self._new_request(request)
        self.connection.execute(SQL["lose"], (place, rows.plain(reason), now))

    def note(self, kind: str, subject: str, detail: str, now: float, *, experiment: str | None = None) -> None:
        """An event row, of the experiment that runs here where no other is named. A freeze or unfreeze takes effect by being the
        last of its budget.
        """
        whose = experiment or self.experiment or None
        self.connection.execute(SQL["new_event"], (now, kind, subject, rows.plain(detail), whose))
        if kind in ("freeze", "unfreeze") and self.budget is not None and subject == self.budget.name:
            self._memory.frozen = detail if kind == "freeze" else None

    def freeze(self, budget: str, why: str, now: float) -> None:
        """Nothing more is reserved under this budget, in any process, until it is unfrozen on the record."""
        self.note("freeze", budget, why, now)

    def frozen(self, budget: str) -> str | None:
        """Why a budget is frozen; None when it is not."""
        row = self.connection.execute(SQL["frozen"], (budget,)).fetchone()
        return row[1] if row and row[0] == "freeze" else None

    def _book(self, number: int, leaf: Leaf, delta: Balance, *, tries: int = 0) -> None:
        written = self._changes.setdefault(number, _Change())
        written.delta += delta
        written.tries += tries
        if self._memory.account is not None and self.budget is not None and leaf.budget == self.budget.name:
            self._memory.account.book(leaf, delta)

    def _number(self, leaf: Leaf) -> int:
        """The account of a leaf, made at its first reservation."""
        number = self._memory.numbers.get(leaf)
        if number is None:
            number = self.connection.execute(SQL["new_account"], leaf).lastrowid
            assert number is not None
            self._memory.numbers[leaf] = number
        return number

    def _new_request(self, request: Request) -> int:
        place = self.connection.execute(SQL["new_request"], rows.request_row(request)).lastrowid
        assert place is not None
        return place

    def today(self, now: float) -> str:
        """The UTC date of a moment."""
        number = int(now // 86_400)
        if number != self._day[0]:
            self._day = (number, datetime.fromtimestamp(now, UTC).date().isoformat())
        return self._day[1]
