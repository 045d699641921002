"""Orders: what a person asks of the processes that run, and the caps and limits that a person sets, as transactions.

An order is an event that names the owners that live when it is given: nothing of it acts on a later run. A setting is an event
too, and stays in force while the file says what it said: see model/setting.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from judgerun.errors import Problem, Refused
from judgerun.ledger.account import stand
from judgerun.ledger.budget import Budget, Cap
from judgerun.model.lane import LaneSpec
from judgerun.model.setting import Setting, Value
from judgerun.ports import Order
from judgerun.store.books import Books
from judgerun.store.locks import Locks
from judgerun.store.queries import SQL


class Orders:
    """Orders and settings of one cache."""

    def __init__(self, books: Books, locks: Locks) -> None:
        self._books = books
        self._locks = locks

    def ask(self, experiment: str, order: Order, *, by: str, until: float | None, now: float) -> int:
        """Ask something of the living processes of an experiment; how many there are. `until` is a Unix time."""
        rows = self._books.connection.execute(SQL["open_owners"]).fetchall()
        owners = [owner for owner, _, theirs, *_ in rows if theirs == experiment and self._locks.alive(owner)]
        if owners:
            said = json.dumps({"what": order.value, "owners": owners, "until": until, "by": by})
            self._books.note("ask", experiment, said, now, experiment=experiment)
        return len(owners)

    def cap(self, budget: Budget, caps: Sequence[Cap], now: float) -> None:
        """Put caps, with their new limits, in the place of those of the file. Refused where one is lower than what is spent in
        its scope: in this same transaction, so that no reservation comes between.
        """
        books = self._books
        balances, today = books.balances(budget.name), books.today(now)
        problems = []
        for cap in caps:
            stands = stand(cap, balances, today)
            if stands.high(cap.unit) > cap.limit:
                parts = ", ".join(
                    f"{name} {cap.told(getattr(getattr(stands, name), cap.unit))}"
                    for name in ("settled", "forfeited", "held")
                )
                wrong = f"{cap.told(cap.limit)} is below what is spent: {parts}"
                right = f"{cap.told(stands.high(cap.unit))} or more"
                problems.append(Problem(f"budget {budget.name}", cap.path, wrong, right))
        if problems:
            raise Refused(problems)
        filed = {cap.path: cap.limit for cap in budget.filed}
        for cap in caps:
            self._set(f"budget {budget.name}", cap.path, filed[cap.path], cap.limit, now)
        books.reread()

    def lane(self, lane: LaneSpec, values: Mapping[str, Value], now: float) -> None:
        """Put limits in the place of those of the file."""
        for key, value in values.items():
            self._set(f"lane {lane.name}", key, getattr(lane.filed, key), value, now)

    def _set(self, subject: str, key: str, was: Value, value: Value, now: float) -> None:
        self._books.note("set", subject, Setting(0, subject, key, was, value).detail, now)
