"""Lines: what a group of operations adds to the ledger, written together before its commit; nothing is decided here."""

from __future__ import annotations

import sqlite3
from itertools import chain

from judgerun.ledger.entry import Amount, EntryKind
from judgerun.store.queries import SQL
from judgerun.store.rows import Row

MANY = 32
"""Lines of one statement. A statement gives the interpreter away and takes it back, which costs more than writing a line."""

_ONE = SQL["new_entry"]
_MANY = _ONE + f", {_ONE.partition(' values ')[2]}" * (MANY - 1)


class Lines:
    """Entries in the order in which they were made."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def add(self, attempt: int, kind: EntryKind, amount: Amount, now: float, document: str | None = None) -> None:
        """One more; nobody who reads the table sees it before `write`."""
        self._rows.append(
            (attempt, kind.value, amount.nanos, amount.calls, amount.tokens, amount.gpu_ms, now, document)
        )

    def write(self, connection: sqlite3.Connection) -> None:
        """Write them, inside the transaction of what made them."""
        found, self._rows = self._rows, []
        whole = len(found) - len(found) % MANY
        for first in range(0, whole, MANY):
            connection.execute(_MANY, tuple(chain.from_iterable(found[first : first + MANY])))
        for row in found[whole:]:
            connection.execute(_ONE, row)

    def clear(self) -> None:
        """What made them was rolled back."""
        self._rows.clear()
