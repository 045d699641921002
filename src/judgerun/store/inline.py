"""Inline: the Store port run where it is called, without a thread: for simulation in virtual time, and for single commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from judgerun.ports import Clock
from judgerun.store.anchor import Anchor
from judgerun.store.books import Books
from judgerun.store.front import Front
from judgerun.store.locks import Locks
from judgerun.store.reader import Reader
from judgerun.store.schema import open_reader, open_writer, wrapped

T = TypeVar("T")


class Inline(Front):
    """Each operation is a transaction of its own, done when the coroutine is first awaited; none ever suspends."""

    @classmethod
    def open(cls, path: Path | str = ":memory:", *, clock: Clock, durable: bool = True) -> Self:
        """Open a cache, made or migrated if need be. Not `durable` means unsynced commits: for simulations alone.

        StoreError as `schema.open_writer`.
        """
        place = None if str(path) == ":memory:" else Path(path)
        locks = Locks(place)
        try:
            connection = open_writer(place, locks, durable=durable)
            reading = connection if place is None else open_reader(place)
        except BaseException:
            locks.close()
            raise
        books = Books(connection, None if place is None else Anchor(place))
        return cls(path=place, clock=clock, locks=locks, books=books, reader=Reader(reading, place))

    async def _do(self, operation: Callable[[], T]) -> T:
        with wrapped(self.path):
            (result,) = self._books.transact([operation])
            if isinstance(result, BaseException):
                raise result
        value: T = result
        return value

    async def aclose(self) -> None:
        """Close the cache. An owner that did not `leave` is left to be recovered, as after a crash."""
        self._reader.close()
        self._books.connection.close()
        self._locks.close()
