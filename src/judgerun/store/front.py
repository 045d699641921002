"""Front: the Store port over books, owners and a reader, for whatever way of running an operation a subclass has.

What may live here: which transaction answers which method. How a transaction is run and awaited is the subclasses' part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from judgerun.errors import InvariantBroken
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.entry import Amount
from judgerun.model.event import Event
from judgerun.model.foreign import Run
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import LaneSpec
from judgerun.model.request import Request, RequestKey
from judgerun.model.setting import Value
from judgerun.ports import (
    Claim,
    Clock,
    Closed,
    Closing,
    Enlisted,
    Grant,
    JobState,
    LaneTime,
    LeftJob,
    Line,
    Order,
    Standing,
)
from judgerun.store import foreign
from judgerun.store.books import Books
from judgerun.store.jobs import JobBooks
from judgerun.store.locks import Locks
from judgerun.store.orders import Orders
from judgerun.store.owners import Owners
from judgerun.store.pins import Pins
from judgerun.store.reader import Reader
from judgerun.store.seal import Stated, make
from judgerun.store.vectors import Vectors

T = TypeVar("T")


class Front(ABC):
    """A Store. `books` belongs to whoever runs transactions; `reader` to the caller of the synchronous reads."""

    def __init__(self, *, path: Path | None, clock: Clock, locks: Locks, books: Books, reader: Reader) -> None:
        self.path = path
        self._clock = clock
        self._locks = locks
        self._books = books
        self._owners = Owners(books, locks)
        self._jobs = JobBooks(books)
        self._orders = Orders(books, locks)
        self._pins = Pins(books)
        self._reader = reader
        self._vectors = Vectors(reader.connection, None if path is None else path.with_name(path.stem + ".vectors"))
        self._owner: int | None = None
        self._stays = False  # it has left, and is still the owner
        self._experiment = ""
        self._budget = ""

    @abstractmethod
    async def _do(self, operation: Callable[[], T]) -> T:
        """Run an operation in a transaction; return when it is durable. A cancelled caller does not undo it."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the cache. An owner that did not `leave` is left to be recovered, as after a crash."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- the port

    async def enter(self, *, experiment: str, budget: Budget) -> int:
        """Register this process as an owner (row and OS lock), or go on as the one that it stayed. The owner id."""
        if self._stays and self._owner is not None:
            self._stays = False
            return self._owner
        self._owner = await self._do(partial(self._owners.enter, experiment, budget, self._clock.wall()))
        self._experiment, self._budget = experiment, budget.name
        return self._owner

    async def leave(self, idle: Mapping[str, float], lanes: LaneTime, *, stays: bool = False) -> None:
        """Close the owner: forfeit the calls that it left open, add its idle seconds and lane time. Its submitted jobs stand. Who
        `stays` goes on as the same owner, of the same experiment and budget, with its next `enter`.
        """
        await self._do(partial(self._owners.leave, idle, lanes, self._clock.wall(), stays=stays))
        self._stays = stays
        if not stays:
            self._owners.left()
            self._owner = None

    async def recover(self) -> int:
        """Forfeit the calls that dead owners left open; how many."""
        return await self._do(partial(self._owners.recover, self._clock.wall()))

    def left(self) -> tuple[LeftJob, ...]:
        """The jobs that ended processes of the experiment left standing."""
        return self._reader.left(self._experiment)

    async def adopt(self, jobs: Collection[int]) -> Set[int]:
        """Become the owner of these of the jobs left standing; those that nobody else has taken meanwhile."""
        return await self._do(partial(self._jobs.adopt, jobs))

    async def enlist(self, claims: Sequence[Claim], *, token: str, deployment: str) -> Enlisted:
        """Reserve claims for the job of a token, in order, up to the first that is refused."""
        now = self._clock.wall()
        return await self._do(partial(self._jobs.enlist, claims, token=token, deployment=deployment, now=now))

    async def move(self, job: int, state: JobState, *, remote: str | None = None, detail: str | None = None) -> None:
        """A job goes on. InvariantBroken for a state that cannot follow, and for the end of a job with open attempts."""
        now = self._clock.wall()
        await self._do(partial(self._jobs.move, job, state, remote=remote, detail=detail, now=now))

    async def reserve(self, claim: Claim) -> Grant:
        """One atomic decision; on `reserved` an open attempt. See `Books.reserve` for the order."""
        return await self._do(partial(self._books.reserve, claim, self._clock.wall()))

    async def close(self, closing: Closing) -> Closed:
        """End an attempt. InvariantBroken when it is not open."""
        return await self._do(partial(self._books.close, closing, self._clock.wall()))

    async def close_all(self, closings: Sequence[Closing]) -> list[Closed]:
        """End several attempts in one transaction."""
        now = self._clock.wall()
        return await self._do(lambda: [self._books.close(closing, now) for closing in closings])

    async def lose(self, request: Request, reason: str) -> None:
        """Record that a request failed with no attempts left."""
        await self._do(partial(self._books.lose, request, reason, self._clock.wall()))

    async def note(self, kind: str, subject: str, detail: str, *, experiment: str | None = None) -> None:
        """An event row, of the entered experiment where no other is named; `freeze` and `unfreeze` with a budget's name as
        subject take effect.
        """
        await self._do(partial(self._books.note, kind, subject, detail, self._clock.wall(), experiment=experiment))

    def events(self, after: int) -> tuple[Event, ...]:
        """What happened since the event of that number (0: all), in this cache, to any experiment."""
        return self._reader.events(after)

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        """What the cache says of a request now."""
        return self._reader.lookup(key)

    @property
    def owner(self) -> int | None:
        """This process's number among the owners of the cache, while it is entered."""
        return self._owner

    @property
    def budget(self) -> Budget | None:
        """The budget under which this process runs, with what was set of it as its last transaction saw it; None before that."""
        return self._books.budget

    def bought(self, key: RequestKey) -> Kept | None:
        """The reply to a request, where there is one, whatever failed."""
        return self._reader.bought(key)

    def bought_all(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Kept]:
        """The replies to those of several requests that have one."""
        return self._reader.bought_all(keys)

    def is_open(self, key: RequestKey) -> bool:
        """Whether any process has an open attempt for the key."""
        return self._reader.is_open(key)

    def lines(self, job: int) -> tuple[Line, ...]:
        """The open attempts of a job, in the order in which they were reserved."""
        return self._reader.lines(job)

    def remotes(self, provider: str, token: str) -> frozenset[str]:
        """The provider's ids of all jobs of its that are certain, but for the one of the token."""
        return self._reader.remotes(provider, token)

    def request(self, key: RequestKey) -> Request:
        """A request that the cache knows; KeyError when it does not."""
        return self._reader.request(key)

    def enqueued(self, provider: str, model: str | None) -> int:
        """Tokens in the open jobs of a provider, or of one model of it, over all processes."""
        return self._reader.enqueued(provider, model)

    def stranded(self, key: RequestKey) -> str | None:
        """Where a key is held by a job that no process collects now; None when none holds it so."""
        return self._reader.stranded(key)

    def unattended(self) -> str | None:
        """Where all holds of the cache stand in jobs that no process collects, one such place; else None."""
        return self._reader.unattended()

    def standing(self) -> Standing:
        """How the money of the entered experiment and budget stands now."""
        if not self._experiment:
            raise InvariantBroken("standing() without enter()")
        return self._reader.standing(self._experiment, self._budget)

    def matrix(self, keys: Sequence[RequestKey]) -> NDArray[np.float32]:
        """Vectors of keys as float32 (len(keys), dimension); a large matrix is a memory map. See vectors.py."""
        return self._vectors.matrix(keys)

    # -- beside the port: what commands do to a cache

    async def adjust(self, attempt: int, amount: Amount, *, document: str) -> Closed:
        """Book what a closed attempt really cost, on the word of a document. Refused without one."""
        return await self._do(partial(self._books.adjust, attempt, amount, document=document, now=self._clock.wall()))

    async def keep_run(self, run: Run) -> None:
        """Keep what was read of another program's run, in the place of one of the same name, on the record."""
        await self._do(partial(self._keep_run, run, self._clock.wall()))

    def _keep_run(self, run: Run, now: float) -> None:
        self._books.note("import", run.name, foreign.keep(self._books.connection, run, now), now)

    async def unfreeze(self, budget: str, because: str) -> bool:
        """Reopen a frozen budget, on the record; whether it was frozen."""
        return await self._do(partial(self._pins.unfreeze, budget, because, self._clock.wall()))

    async def write_off(self, job: int, *, experiment: str, because: str) -> Amount:
        """End a job that its provider no longer knows; what its open attempts held, which is spent. See `Owners.write_off`."""
        now = self._clock.wall()
        return await self._do(partial(self._owners.write_off, job, experiment=experiment, because=because, now=now))

    async def ask(self, experiment: str, order: Order, *, by: str, within: float | None = None) -> int:
        """Ask something of the living processes of an experiment, on the record; how many there are. `within` (seconds) is how
        long a drain may take.
        """
        now = self._clock.wall()
        until = None if within is None else now + within
        return await self._do(partial(self._orders.ask, experiment, order, by=by, until=until, now=now))

    async def cap(self, budget: Budget, caps: Sequence[Cap]) -> None:
        """Put caps in the place of those of the budget's file, on the record. Refused where one is below what is spent."""
        await self._do(partial(self._orders.cap, budget, caps, self._clock.wall()))

    async def lane(self, lane: LaneSpec, values: Mapping[str, Value]) -> None:
        """Put limits in the place of those of the lane's file, on the record."""
        await self._do(partial(self._orders.lane, lane, values, self._clock.wall()))

    async def progress(self, document: str) -> None:
        """What this process says of itself (JSON), for `status` in another terminal."""
        await self._do(partial(self._owners.progress, document, self._clock.wall()))

    async def pin(
        self, experiment: str, digests: Mapping[str, str], texts: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Pin the digests of files, and the texts of some; for each file that was pinned with another digest before, that
        digest.
        """
        return await self._do(partial(self._pins.pin, experiment, digests, texts or {}, self._clock.wall()))

    async def plan(self, experiment: str, digest: str, files: Mapping[str, str]) -> bool:
        """Record a plan; whether it differs from the experiment's last one."""
        return await self._do(partial(self._pins.plan, experiment, digest, files, self._clock.wall()))

    async def stand(self, experiment: str, *, rests_on: str, document: str) -> None:
        """Keep how an experiment stands (JSON), and on what that rests (JSON): only the last is kept."""
        await self._do(partial(self._pins.stand, experiment, rests_on, document, self._clock.wall()))

    async def seal(
        self, experiment: str, keys: Sequence[RequestKey], *, stated: Stated, reason: str | None = None
    ) -> str:
        """Seal an experiment: its plan's keys in order, their replies, its ledger. The digest. Refused while it runs."""
        now = self._clock.wall()
        return await self._do(
            lambda: make(self._books.written(), experiment, keys, stated=stated, now=now, reason=reason)
        )
