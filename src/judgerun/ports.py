"""The seam: Provider, Store and Clock as Protocols, and the values that cross it. Nothing else is abstract."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from judgerun.ledger.budget import Budget
from judgerun.ledger.entry import Amount, Decision, EntryKind
from judgerun.model.event import Event
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import Limit
from judgerun.model.money import Nanos
from judgerun.model.profile import JobLimits, Profile
from judgerun.model.reply import Failure, Reply
from judgerun.model.request import Request, RequestKey

LaneTime = Mapping[str, Mapping[str, float]]
"""Lane -> cause -> slot-seconds: what the slots of a lane were busy with, or waited for, over a run or an experiment's life."""


class Clock(Protocol):
    """Time as a dependency."""

    def now(self) -> float:
        """Monotonic seconds, for durations and deadlines."""
        ...

    def wall(self) -> float:
        """Unix seconds, for records, rate windows of the cache, and days."""
        ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a provider gave for one attempt: a reply for each request, in order; or the failure of all of them."""

    replies: tuple[Reply, ...] = ()
    failure: Failure | None = None
    status: int | None = None
    served_by: str | None = None  # the provider's own request id, where it gives one
    latency_ms: int | None = None  # of a call; one in a job has none
    limits: tuple[Limit, ...] = ()  # as its headers state them


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a job stands at its provider."""

    ended: bool  # nothing more will be done: its results may be collected
    told: str  # the provider's own word for it
    failure: Failure | None = None  # why the whole job was refused: none of its requests was done, or charged


class Jobs(Protocol):
    """A provider's batch API. A job is a set of requests sent as one, each known by its key in hex. Like `send`, no method raises
    for what the world does, and none retries.
    """

    limits: JobLimits

    def size(self, request: Request) -> int:
        """Bytes that the request takes in a job."""
        ...

    async def submit(self, requests: Sequence[Request], *, token: str, timeout_s: float) -> str | Failure:
        """Hand a job over; the provider's id of it. `token` names it at the provider, so that `find` can tell it. After a failure
        that may have been charged (billable is not `no`) the job may exist: ask `find`.
        """
        ...

    async def find(
        self, requests: Sequence[Request], *, token: str, since: float, known: Collection[str], timeout_s: float
    ) -> str | Look | Failure | None:
        """The id of the job that was submitted as `token` at the Unix time `since`, by our clock, or later; None when the
        provider has none; a Look when that will show only later. `known` are its ids of jobs under other tokens.
        """
        ...

    async def look(self, job: str, *, timeout_s: float) -> Look | Failure:
        """How a job stands."""
        ...

    async def collect(
        self, job: str, requests: Sequence[Request], *, timeout_s: float
    ) -> Mapping[RequestKey, Answer] | Failure:
        """What became of each request of an ended job. A request on which the provider says nothing is not in it."""
        ...

    async def cancel(self, job: str, *, timeout_s: float) -> Failure | None:
        """Ask that nothing more of a job be done; what is done is charged, and can be collected once it has ended."""
        ...


class Provider(Protocol):
    """One deployment. `send` never raises for what the world does; cancellation passes through it."""

    profile: Profile
    jobs: Jobs | None  # its batch API, where it has one

    async def count(self, request: Request) -> int | None:
        """Input tokens of a request by the server's own tokenizer; None when it has none that can be asked."""
        ...

    async def send(self, requests: Sequence[Request], *, timeout_s: float, attempt: int) -> Answer:
        """Make one HTTP call (or one local computation) carrying these requests. Never retries. `attempt` is sent along as
        the header `x-judgerun-attempt`, so that a provider's own books can be compared with the ledger.
        """
        ...

    def reset(self, asleep: float) -> None:
        """The machine was asleep, for so many monotonic seconds: connections that idled are not trusted, and calls in flight get
        that time on top.
        """
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A rate limit that belongs to the cache: counted over all its attempts of a provider, or of one model of it."""

    provider: str
    model: str | None  # None: all models of the provider
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A reservation asked for: one attempt carrying one request, or a batch of embedding requests."""

    requests: tuple[Request, ...]
    stage: str
    condition: str
    provider: str
    model: str
    need: Amount  # the worst case; calls is 1
    tokens_expected: (
        int  # debited in the rate windows until the settle says better; in a job: the input that it enqueues
    )
    bound_by: str  # how the input bound was got
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a reservation was told. `attempt` only when reserved; `scope` names the cap that said wait or exhausted."""

    decision: Decision
    attempt: int | None = None
    scope: str = ""
    delay: float = 0.0  # seconds until the rate window may have room
    keys: tuple[RequestKey, ...] = ()  # of kept or held requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The end of an attempt: settle, void or forfeit, and the replies, in one commit."""

    attempt: int
    kind: EntryKind
    amount: Amount  # what is booked: the bill for a settle, the hold for a forfeit, nothing for a void
    sent: bool = True
    status: int | None = None
    failure: Failure | None = None
    replies: tuple[tuple[Request, Reply, Nanos | None], ...] = ()  # with each one's share of the bill
    served_by: str | None = None
    latency_ms: int | None = None
    at: float | None = None  # Unix time of the answer; None: when the end is recorded


@dataclass(frozen=True, slots=True)
class Closed:
    """What closing an attempt brought about."""

    overrun: bool = False  # the bill passed the hold: the budget is frozen


class Order(StrEnum):
    """What a person asks of the processes that run an experiment: the `what` of an event of kind "ask"."""

    PAUSE = "pause"  # nothing new is sent, until
    UNPAUSE = "unpause"
    STOP = "stop"  # drain; past the moment `until`, if it names one, what is in flight is forfeited
    NOW = "now"  # what is in flight is forfeited


class JobState(StrEnum):
    """How a job stands in the cache."""

    FILLING = "filling"  # its holds are committed; nothing has been sent
    SUBMITTING = "submitting"  # committed before the first byte of its submit: the provider may have it
    SUBMITTED = "submitted"  # the provider has it, and told its id
    ENDED = "ended"  # every attempt of it is closed


class Place(NamedTuple):
    """Whose job it is: the name of a deployment and what of it stands in keys, and the experiment's name of a model."""

    provider: str
    deployment: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftJob:
    """A job that an ended process left standing."""

    id: int
    place: Place
    token: str
    state: JobState
    remote: str | None  # the provider's id of it, once it is submitted
    at: float  # Unix time of its first reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An open attempt of a job, as it was reserved."""

    attempt: int
    key: RequestKey
    stage: str
    condition: str
    need: Amount
    tokens_expected: int
    bound_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enlisted:
    """What claims for a job were told, up to the first that was refused; `job` is None while nothing was reserved for it."""

    job: int | None
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """An interval: low = settled, high = settled + forfeited + held."""

    settled: Nanos = 0
    forfeited: Nanos = 0
    held: Nanos = 0

    @property
    def low(self) -> Nanos:
        return self.settled

    @property
    def high(self) -> Nanos:
        return self.settled + self.forfeited + self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the money of an experiment and of its budget stands."""

    experiment: Spend = field(default_factory=Spend)
    budget: Spend = field(default_factory=Spend)
    conditions: Mapping[str, Spend] = field(default_factory=dict)  # of the experiment
    attempts: int = 0  # tries of the experiment whose bytes left
    frozen: str | None = None  # why, when the budget is frozen
    idle: Mapping[str, float] = field(default_factory=dict)  # cause -> cell-seconds, over the experiment's life
    lanes: LaneTime = field(default_factory=dict)


class Store(Protocol):
    """The cache as a run sees it. Every method that writes returns only when what it wrote is durable. StoreError on trouble."""

    async def enter(self, *, experiment: str, budget: Budget) -> int:
        """Register this process as an owner (row and OS lock), or go on as the one that it stayed. The owner id."""
        ...

    async def leave(self, idle: Mapping[str, float], lanes: LaneTime, *, stays: bool = False) -> None:
        """Close the owner: forfeit the calls that it left open, add its idle seconds (cause -> cell-seconds) and the time of its
        lanes. Its submitted jobs stand with their holds. Who `stays` goes on as the same owner with its next `enter`.
        """
        ...

    async def recover(self) -> int:
        """Forfeit the calls that dead owners left open; how many. Jobs of theirs that were, or may have been, submitted stand."""
        ...

    def left(self) -> Sequence[LeftJob]:
        """The jobs that ended processes of the entered experiment left standing."""
        ...

    async def adopt(self, jobs: Collection[int]) -> Set[int]:
        """Become the owner of these of the jobs left standing; those that nobody else has taken meanwhile."""
        ...

    async def enlist(self, claims: Sequence[Claim], *, token: str, deployment: str) -> Enlisted:
        """Reserve claims of one request each for the job of a token, in order and in one commit, up to the first that is
        refused (what is kept or held is passed over). The job is `filling`, and made with its first attempt.
        """
        ...

    async def move(self, job: int, state: JobState, *, remote: str | None = None, detail: str | None = None) -> None:
        """A job goes on. InvariantBroken for a state that cannot follow, and for the end of a job with open attempts."""
        ...

    async def reserve(self, claim: Claim) -> Grant:
        """One atomic decision over kept, held, frozen, every cap and every rate window; on `reserved` an open attempt."""
        ...

    async def close(self, closing: Closing) -> Closed:
        """Exactly one closing for each reserve; a second is InvariantBroken."""
        ...

    async def close_all(self, closings: Sequence[Closing]) -> Sequence[Closed]:
        """Several closings in one commit."""
        ...

    async def lose(self, request: Request, reason: str) -> None:
        """Record that a request failed with no attempts left."""
        ...

    async def note(self, kind: str, subject: str, detail: str) -> None:
        """An event row of the entered experiment: see model/event.py for the kinds."""
        ...

    def events(self, after: int) -> Sequence[Event]:
        """What happened since the event of that number (0: all), in this cache, to any experiment."""
        ...

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        """What the cache says of a request now."""
        ...

    def is_open(self, key: RequestKey) -> bool:
        """Whether any process has an open attempt for the key."""
        ...

    def lines(self, job: int) -> Sequence[Line]:
        """The open attempts of a job, in the order in which they were reserved."""
        ...

    def remotes(self, provider: str, token: str) -> Set[str]:
        """The provider's ids of all jobs of its that are certain, but for the one of the token."""
        ...

    def request(self, key: RequestKey) -> Request:
        """A request that the cache knows; KeyError when it does not."""
        ...

    def enqueued(self, provider: str, model: str | None) -> int:
        """Tokens in the open jobs of a provider, or of one model of it, over all processes."""
        ...

    def stranded(self, key: RequestKey) -> str | None:
        """Where a key is held by a job that no process collects now, in words; None when none holds it so."""
        ...

    def unattended(self) -> str | None:
        """Where all holds of the cache stand in jobs that no process collects, one such place in words; else None: then waiting
        for money may have an end.
        """
        ...

    def standing(self) -> Standing:
        """How the money stands now."""
        ...

    async def aclose(self) -> None: ...
