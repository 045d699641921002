"""Cache: the Store port for real runs: one writer over aiosqlite, with group commit and no timer.

What may live here: how operations are queued, grouped, run in the writer's thread and answered. What they do is books.py's.

The writer takes what is queued, runs it in one transaction, commits, answers, and looks again. While one commit waits for
the disk the next group gathers, so a group is as large as the load makes it: an operation alone waits for nobody, and under
load hundreds share one sync. An operation belongs to the writer once it is queued: cancelling its caller does not take it
back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

from judgerun.errors import StoreError
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ports import Claim, Clock, Closing, Grant
from judgerun.store.anchor import Anchor
from judgerun.store.books import Books, Operation
from judgerun.store.front import Front
from judgerun.store.locks import Locks
from judgerun.store.reader import Reader
from judgerun.store.schema import open_reader, open_writer, wrapped

T = TypeVar("T")

GROUP_MAX = 512  # operations in one transaction


Queued = tuple[Operation, asyncio.Future[Any]]


class Writer(aiosqlite.Connection):
    """An aiosqlite connection that can run a whole function in its thread."""

    def start(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """The result of `function`, run in the connection's thread.

        aiosqlite offers one statement per hop between threads; a group of hundreds of operations wants one hop in all.
        `_tx` is the queue by which aiosqlite itself hands every statement over (pinned by us to a minor version), and the
        thread is still its own: the connection is used by nobody else.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tx.put_nowait((future, function))
        return future


class Cache(Front):
    """The cache.db of a run. Open with `Cache.open`, close with `aclose` (or use as an async context)."""

    def __init__(self, *, path: Path, clock: Clock, locks: Locks, writer: Writer, books: Books, reader: Reader) -> None:
        super().__init__(path=path, clock=clock, locks=locks, books=books, reader=reader)
        self._writer = writer
        self._queue: deque[Queued] = deque()
        self._loop = asyncio.get_running_loop()
        self._busy = False  # a group is in the thread, or about to be
        self._closing = False
        self._drained: asyncio.Future[None] | None = None  # awaited by whoever closes

    @classmethod
    async def open(cls, path: Path | str, *, clock: Clock) -> Self:
        """Open a cache, made or migrated if need be. StoreError as `schema.open_writer`."""
        place = Path(path)
        locks = Locks(place)
        try:
            # Not in the connector: when that raises, aiosqlite's thread answers a loop that may be closed by then.
            connection = await asyncio.to_thread(open_writer, place, locks)
            try:
                reader = Reader(open_reader(place), place)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            locks.close()
            raise
        writer = Writer(lambda: connection, iter_chunk_size=64)
        await writer
        books = Books(connection, Anchor(place))
        return cls(path=place, clock=clock, locks=locks, writer=writer, books=books, reader=reader)

    async def reserve(self, claim: Claim) -> Grant:
        """As `Front.reserve`. When the caller is cancelled while it waits, the attempt is given back: nobody will send it."""
        future = self._submit(partial(self._books.reserve, claim, self._clock.wall()))
        try:
            grant: Grant = await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:  # it was told in the same moment
                self._unheard(future.result())
            raise
        return grant

    async def _do(self, operation: Callable[[], T]) -> T:
        result: T = await self._submit(operation)
        return result

    def _submit(self, operation: Operation) -> asyncio.Future[Any]:
        if self._closing:
            raise StoreError(f"{self.path} is closed")
        return self._enqueue(operation)

    def _enqueue(self, operation: Operation) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.append((operation, future))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._next)  # not at once: what comes in the same turn of the loop shares the commit
        return future

    def _unheard(self, result: Any) -> None:
        """What the writer did for a caller that was cancelled stays done; but an attempt that nobody will send is void."""
        if isinstance(result, Grant) and result.attempt is not None:
            void = Closing(attempt=result.attempt, kind=EntryKind.VOID, amount=Amount(), sent=False)
            self._enqueue(partial(self._books.close, void, self._clock.wall()))

    # The writer is a chain of callbacks and no task: when a loop ends, it cancels every task, and whoever then forfeits what is
    # in flight needs a writer that still works.

    def _next(self) -> None:
        """Hand the next group to the thread; rest when there is none."""
        if not self._queue:
            self._busy = False
            if self._drained is not None and not self._drained.done():
                self._drained.set_result(None)
            return
        group = [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_MAX))]
        running = self._writer.start(partial(self._books.transact, [operation for operation, _ in group]))
        running.add_done_callback(partial(self._written, group))

    def _written(self, group: Sequence[Queued], running: asyncio.Future[list[Any]]) -> None:
        """Answer a group, and go on with the next."""
        error = running.exception()
        self._answer(group, running.result() if error is None else [error] * len(group))
        self._next()

    def _answer(self, group: Sequence[Queued], results: Sequence[Any]) -> None:
        for (_, future), result in zip(group, results, strict=True):
            if future.cancelled():
                self._unheard(result)
                continue
            if not isinstance(result, BaseException):
                future.set_result(result)
                continue
            try:
                with wrapped(self.path):
                    raise result
            except Exception as error:  # noqa: BLE001 - raised in the caller
                future.set_exception(error)

    async def aclose(self) -> None:
        """Run what is queued, then close. An owner that did not `leave` is left to be recovered, as after a crash."""
        if self._closing:
            return
        self._closing = True
        try:
            if self._busy:
                self._drained = self._loop.create_future()
                await self._drained
        finally:
            self._reader.close()
            await self._writer.close()
            self._locks.close()
