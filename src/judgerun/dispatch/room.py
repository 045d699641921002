"""Room: what all attempts of one run share, and why work may no longer go on."""

from __future__ import annotations

import asyncio
import random
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from types import TracebackType
from typing import Any, Protocol

from judgerun.dispatch.gates import Gates
from judgerun.dispatch.hours import Account
from judgerun.dispatch.lane import Lanes, Route
from judgerun.dispatch.money import Money, Scope
from judgerun.dispatch.pause import Pause
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.waits import Waiter, Waits
from judgerun.dispatch.work import ancestry
from judgerun.errors import Exit, InvariantBroken, Problem, Refused, StoreError
from judgerun.ledger.budget import Budget, Leaf
from judgerun.ledger.prices import Price
from judgerun.model.event import Event
from judgerun.model.experiment import Experiment, Model
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.plan.counts import Counts
from judgerun.ports import Clock, Provider, Store
from judgerun.table.gate import Sums, baselines, stopped, unfired

DAY_S = 86_400

_KEYS = re.compile(r"(?i)(bearer\s+|\bsk-|\bx?-?api-?key['\"]?\s*[:=]\s*['\"]?)[A-Za-z0-9_\-.]{6,}")

Prices = Callable[[Model, date], Price | None]


class Flow(Protocol):
    """What dispatch needs of plan/flow.py."""

    def take(self, *, blocks: int | None = None) -> Cell | None:
        """The next ready cell in plan order, after at most so many further blocks were opened; None when none is ready."""
        ...

    @property
    def drained(self) -> bool:
        """No ready cell and no unopened block; open cells may still bring new ones."""
        ...

    def forgo(self, cell: Cell) -> None:
        """Leave a taken cell pending, and forget it; a cell that shares its call may become ready in its place."""
        ...

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        """What became of a cell; new cells may become ready."""
        ...

    def counts(self) -> tuple[Counts, ...]:
        """How the cells stand, per condition."""
        ...

    def divert(self, cell: Cell) -> Cell | None:
        """The same cell as its model's `failover` asks it; None where none is named."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a run is given."""

    flow: Flow
    store: Store
    providers: Mapping[str, Provider]  # by deployment name
    models: Mapping[str, Model]  # by the experiment's name
    clock: Clock
    budget: Budget
    prices: Prices
    rng: random.Random
    experiment: Experiment
    scrub: Callable[[str], str]


async def _nothing() -> None:
    return None


@dataclass(slots=True, kw_only=True)
class Room:
    """The shared state of one run. All of it is touched by one thread, between awaits."""

    given: Given
    progress: Progress
    waits: Waits
    lanes: Lanes
    money: Money
    gates: Gates
    pause: Pause
    codes: dict[Exit, str] = field(default_factory=dict)  # why, the first of each kind; of gates all
    halted: bool = False  # nothing new is sent
    closed: dict[str, str] = field(default_factory=dict)  # provider -> why
    stranded: set[str] = field(default_factory=set)  # what was told of jobs that only others can collect
    shut: dict[str, str] = field(default_factory=dict)  # model whose jobs are not taken -> why
    exhausted: dict[Scope, str] = field(default_factory=dict)  # scope -> why
    answered: dict[str, int] = field(default_factory=dict)  # provider -> calls that it answered
    left: dict[str, str] = field(default_factory=dict)  # model whose cells go to its failover -> why
    diverted: set[str] = field(default_factory=set)  # those of which a cell has gone
    unkept: list[tuple[str, str, str]] = field(default_factory=list)  # events that are not on record yet
    resolved: int = 0  # cells
    adopt: Callable[[], Awaitable[None]] = _nothing  # take over the jobs of ended processes: jobs.py says
    sending: dict[asyncio.Task[Any], None] = field(default_factory=dict)  # in the order of their sends
    _scopes: dict[tuple[str, str, str], tuple[Scope, ...]] = field(default_factory=dict)
    _accounts: dict[int, tuple[Route, tuple[Account, ...]]] = field(default_factory=dict)
    _ancestry: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _prices: dict[tuple[str, str | None, int], Price | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waits.lost = self.lost

    # -- why work may not go on

    def lost(self, work: Waiter) -> bool:
        """Whether this work has lost its purpose: its cells stay pending."""
        if self.halted or work.asks in self.left:
            return True
        return self._narrowed and self._out(work.provider, work.conditions, work.scopes)

    def dropped(self, cell: Cell) -> bool:
        """The same of a cell that is no work yet."""
        if self.halted or cell.model in self.shut or cell.model in self.left:
            return True
        return self._narrowed and self._out(cell.provider, self.ancestry(cell.condition), self.scopes(cell))

    @property
    def _narrowed(self) -> bool:
        return bool(self.closed or self.gates.fired or self.exhausted)

    def _out(self, provider: str, conditions: tuple[str, ...], scopes: tuple[Scope, ...]) -> bool:
        return (
            provider in self.closed
            or self.gates.stopped(conditions)
            or any(scope in self.exhausted for scope in scopes)
        )

    def halt(self, code: Exit, why: str) -> None:
        """Send nothing new; what waits ends, what is in flight finishes."""
        self.codes.setdefault(code, why)
        self.halted = True
        self.waits.end()

    def abandon(self) -> None:
        """Wait for nothing: what is in flight is cancelled and its holds forfeited."""
        for task in list(self.sending):
            task.cancel()

    def close_provider(self, name: str, why: str) -> None:
        """Send nothing more to a provider; other providers go on."""
        if name not in self.closed:
            self.closed[name] = self.progress.closed[name] = why
            models = [model for model in self.given.models.values() if model.provider.name == name]
            if any(model.failover is None or model.lane is not None for model in models):
                self._unserved(name)
            self.progress.news.append(f"provider {name} is closed, others go on: {why}")
            self.waits.end()

    def leave(self, model: str, why: str) -> None:
        """Send nothing more to a model while this process lives: its cells go to its failover."""
        if model not in self.left:
            self.left[model] = why
            self.waits.end()

    def divert(self, cell: Cell) -> Cell | None:
        """A cell that cannot be sent, as its model's failover asks it; None where it stays pending: none is named, that cannot be
        sent either, or it is no trouble of the provider that keeps it.
        """
        first = cell
        while not self._stopped(cell) and (why := self.left.get(cell.model) or self.closed.get(cell.provider)):
            if (other := self.given.flow.divert(cell)) is None:
                break
            if cell.model not in self.diverted:
                self.diverted.add(cell.model)
                self.tell("failover", cell.model, f"its cells go to {other.model}: {why}")
            cell = other
        if cell is not first and not self.dropped(cell):
            return cell
        if cell.provider in self.closed:
            self._unserved(cell.provider)
        self.given.flow.forgo(cell)
        return None

    def _unserved(self, provider: str) -> None:
        """Cells stay pending because a provider is closed."""
        self.codes.setdefault(Exit.PROVIDER, f"{provider}: {self.closed[provider]}")

    def _stopped(self, cell: Cell) -> bool:
        """Whether a cell is not to be sent at all, whoever is asked."""
        scopes = self.scopes(cell)
        stopped = self.gates.stopped(self.ancestry(cell.condition))
        return self.halted or stopped or any(scope in self.exhausted for scope in scopes)

    def shut_lane(self, model: Model, why: str) -> None:
        """Send no more jobs of a model: its provider has no batch API for it. Calls, and jobs of other models, go on."""
        if model.name not in self.shut:
            self.shut[model.name] = why
            told = f"{model.provider.name}: jobs of model {model.name} are not taken: {why}"
            self.codes.setdefault(Exit.PROVIDER, told)
            self.progress.news.append(told)

    def strand(self, provider: str, where: str) -> None:
        """Calls that this run needs are in a job that only another can collect: they stay pending."""
        why = f"{provider}: calls of this experiment are in {where}, and no process collects it: run that first"
        self.codes.setdefault(Exit.PROVIDER, why)
        if why not in self.stranded:
            self.stranded.add(why)
            self.progress.news.append(why)

    def exhaust(self, scope: Scope) -> None:
        """Close a scope for good: a later, smaller request is not let in, it would select short prompts."""
        if scope in self.exhausted:
            return
        why = f"budget {self.given.budget.name}: {scope} exhausted"
        self.exhausted[scope] = why
        self.progress.news.append(why)
        kinds = {cap.kind for cap in self.given.budget.caps if str(cap) == scope}
        if kinds & {"total", "day", "experiment"}:  # these cover every cell of the run
            self.halt(Exit.EXHAUSTED, why)
        else:
            self.codes.setdefault(Exit.EXHAUSTED, why)
            self.waits.end()

    def refill(self, scope: Scope) -> None:
        """A cap was raised: what its scope still has goes on. A run that is ending for it ends."""
        if self.halted or (why := self.exhausted.pop(scope, None)) is None:
            return
        told = "its cap was raised; the cells that it passed over wait for the next run"
        self.progress.news.append(f"{scope}: {told}")
        if self.codes.get(Exit.EXHAUSTED) == why:
            self.codes[Exit.EXHAUSTED] = f"{why}; {told}"

    def contained(self) -> Contained:
        """A block out of which nothing passes that must not pass the borders of a run."""
        return Contained(self)

    def contain(self, error: Exception) -> None:
        """What may not pass becomes the end of the run: trouble of the store, a refusal, our own bug."""
        if isinstance(error, StoreError):
            self.halt(Exit.STORE, self.scrub(str(error)))
        elif isinstance(error, Refused):
            self.halt(Exit.REFUSED, self.scrub(str(error)))
        else:  # our own bug: told in full, and nothing in flight is trusted
            self.halt(Exit.BUG, self.scrub("".join(traceback.format_exception(error))))
            self.abandon()

    # -- what is told

    def tell(self, kind: str, subject: str, detail: str) -> None:
        """Say it to whoever watches, and note it for the record."""
        detail = self.scrub(detail)
        self.progress.news.append(f"{subject}: {detail}")
        self.unkept.append((kind, subject, detail))

    async def keep(self) -> None:
        """Put on record what was noted for it."""
        while self.unkept:
            await self.given.store.note(*self.unkept.pop(0))

    # -- what comes back

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        """What became of a taken cell, to the flow."""
        self.given.flow.resolve(cell, outcome)
        self.resolved += 1

    def bought(self, cell: Cell) -> None:
        """Another run has bought the cell meanwhile: the store said that its reply is kept."""
        kept = self.given.store.lookup(cell.request.key)
        if not isinstance(kept, Kept):
            raise InvariantBroken("the store said that a reply is kept, and does not find it")
        self.resolve(cell, kept)

    def heard(self, provider: str) -> None:
        """A provider has answered a call: its trouble is over."""
        self.progress.answers += 1
        self.answered[provider] = self.answered.get(provider, 0) + 1
        self.progress.trouble.pop(provider, None)

    def frozen(self, why: str) -> None:
        """The ledger said that the budget is frozen."""
        self.halt(Exit.FROZEN, f"budget {self.given.budget.name} is frozen{': ' * bool(why)}{why}")

    # -- gates

    async def look_at_gates(self) -> None:
        """Judge the conditions as the flow counts them."""
        await self.judge(self.given.flow.counts())

    async def judge(self, counts: Iterable[Counts]) -> None:
        """Stop the conditions whose gates fire, with their downstream, on record."""
        for fired in self.gates.look(counts):
            reason = f"gate of {fired.condition}: {fired.why}"
            self.codes[Exit.GATE] = self.gates.tell(reason)
            self.progress.news.append(reason)
            self.waits.end()
            await self.given.store.note("gate", fired.condition, fired.detail())

    async def judge_first(self, counts: Iterable[Counts], events: Sequence[Event]) -> None:
        """The same before anything is sent, by the counts of the cache and all that happened to it: what a run before this one
        stopped, and what is within its gate now, is reopened on record.
        """
        counts, name = tuple(counts), self.given.experiment.name
        self.gates.resume(baselines(events, name), counts)
        await self.judge(counts)
        for condition, was in stopped(events, name).items():
            if condition not in self.gates.fired:
                await self.given.store.note("resume", condition, unfired(was))

    def reopen(self, condition: str, since: Sums) -> None:
        """Let a condition go on with the cells that it has not passed over, judged by what comes from now on."""
        why = self.gates.reopen(condition, since, self.given.flow.counts())
        if why is not None:
            told = f"{condition} was reopened; the cells that it passed over wait for the next run"
            self.progress.news.append(told)
            self.codes[Exit.GATE] = self.gates.tell(f"gate of {condition}: {why}", told)

    # -- what is looked up again and again

    def accounts(self, route: Route) -> tuple[Account, ...]:
        """The hours of the lanes of a route."""
        if (held := self._accounts.get(id(route))) is None:
            now, hours = self.given.clock.now(), self.progress.hours
            made = tuple(hours.open(lane.spec.name, width=lane.bounds, now=now) for lane in route.lanes)
            held = self._accounts[id(route)] = (route, made)
        return held[1]

    def scopes(self, cell: Cell) -> tuple[Scope, ...]:
        """The names of the caps that cover a cell."""
        place = (cell.stage, cell.condition, cell.provider)
        if (scopes := self._scopes.get(place)) is None:
            budget, day = self.given.budget, ""
            leaf = Leaf(budget.name, self.given.experiment.name, cell.stage, cell.condition, cell.provider, day)
            scopes = tuple(str(cap) for cap in budget.caps if cap.covers(leaf, day))
            self._scopes[place] = scopes
        return scopes

    def ancestry(self, condition: str) -> tuple[str, ...]:
        """A condition and those upstream of it."""
        if (names := self._ancestry.get(condition)) is None:
            names = self._ancestry[condition] = ancestry(condition)
        return names

    def price(self, model: Model, *, at: float | None = None) -> Price:
        """The price of a model on the day of a moment (Unix time; now, where none is given). Refused where none is in force: there
        was one before the start, but a price may end while a run goes on.
        """
        day = int((self.given.clock.wall() if at is None else at) // DAY_S)
        place = (model.name, model.lane, day)
        if place not in self._prices:
            self._prices[place] = self.given.prices(model, datetime.fromtimestamp(day * DAY_S, tz=UTC).date())
        if (price := self._prices[place]) is None:
            name = f"{model.provider.name}/{model.model}"
            raise Refused(Problem("budgets/prices.toml", name, "no price is in force today", "add one, or `price_as`"))
        return price

    def scrub(self, text: str) -> str:
        """The text without what looks like, or is known to be, a key."""
        return _KEYS.sub(r"\1[key]", self.given.scrub(text))


class Contained:
    """The block of `Room.contained`: entered several times for each call, so it is no generator."""

    __slots__ = ("_room",)

    def __init__(self, room: Room) -> None:
        self._room = room

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False  # nothing went wrong, or the task is cancelled, or the process ends
        self._room.contain(error)
        return True
