"""One seed's world: knobs, faults, a provider, a cache, runs on it; and the judge, which reads the provider's own bill."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from fakes.clock import LoopClock
from fakes.flow import Arm, FakeFlow, deployment, model
from fakes.provider import FAULTS, FakeProvider, text_for
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.run import Ending, Run
from judgerun.errors import Exit
from judgerun.ledger.budget import Budget, Cap, Leaf
from judgerun.ledger.entry import Amount, Decision, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Deployment, Experiment, Model, PriceSpec
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import LaneSpec
from judgerun.model.reply import Billable
from judgerun.model.request import Request, RequestKey
from judgerun.plan.counts import Counts
from judgerun.ports import Answer, Claim, Closed, Closing, Grant, Provider, Standing
from judgerun.providers.open import connect
from judgerun.store.inline import Inline

VIRTUAL_MAX_S = 20_000.0
"""Longer than any run here may last, in virtual seconds."""

PRICE = Price(rates=PriceSpec(input=1_000_000_000, output=4_000_000_000), source="tests", checked=date(2027, 1, 1))


class Killed(BaseException):
    """The process is gone: nothing of it runs on, and no handler of ordinary errors sees this."""


@dataclass(slots=True)
class Mortal:
    """A process that dies at its n-th step; steps are store operations and sends."""

    steps: int | None = None
    after: bool = False  # the step's effect stands, but the process never learns of it
    dead: bool = False

    def before_step(self) -> None:
        if self.dead:
            raise Killed
        if self.steps is not None:
            self.steps -= 1
            if self.steps <= 0 and not self.after:
                self.dead = True
                raise Killed

    def after_step(self) -> None:
        if self.dead:
            raise Killed
        if self.steps is not None and self.steps <= 0:
            self.dead = True
            raise Killed


class WatchedStore:
    """A Store around another, which looks at the books after every commit, dies with its process, and bears a mutant."""

    def __init__(self, inner: Inline, budget: Budget, mortal: Mortal, findings: list[str], mutant: str = "") -> None:
        self._inner = inner
        self._budget = budget
        self._mortal = mortal
        self._findings = findings
        self._mutant = mutant
        self._needs: dict[int, Amount] = {}
        self.reserved: list[tuple[int, str]] = []  # (attempt, condition), in order
        self.decisions: dict[Decision, int] = {}

    async def enter(self, *, experiment: str, budget: Budget) -> int:
        self._mortal.before_step()
        owner = await self._inner.enter(experiment=experiment, budget=budget)
        self._mortal.after_step()
        return owner

    async def leave(self, idle: Mapping[str, float]) -> None:
        self._mortal.before_step()
        await self._inner.leave(idle)
        self._mortal.after_step()
        self._look()

    async def recover(self) -> int:
        self._mortal.before_step()
        if self._mutant == "no recovery":
            return 0
        found = await self._inner.recover()
        self._mortal.after_step()
        self._look()
        return found

    async def reserve(self, claim: Claim) -> Grant:
        self._mortal.before_step()
        grant = await self._inner.reserve(claim)
        self._mortal.after_step()
        self.decisions[grant.decision] = self.decisions.get(grant.decision, 0) + 1
        if grant.attempt is not None:
            self._needs[grant.attempt] = claim.need
            self.reserved.append((grant.attempt, claim.condition))
        self._look()
        return grant

    async def close(self, closing: Closing) -> Closed:
        self._mortal.before_step()
        closed = await self._inner.close(self._mutated(closing))
        self._mortal.after_step()
        self._look()
        return closed

    def _mutated(self, closing: Closing) -> Closing:
        need = self._needs[closing.attempt]
        unknown = closing.failure is not None and closing.failure.billable is Billable.UNKNOWN
        if self._mutant == "void on unknown" and closing.kind is EntryKind.FORFEIT and unknown:
            return _replaced(closing, kind=EntryKind.VOID, amount=Amount())
        if self._mutant == "clipped overrun" and closing.kind is EntryKind.SETTLE:
            clipped = Amount(min(closing.amount.nanos, need.nanos), 1, min(closing.amount.tokens, need.tokens))
            return _replaced(closing, amount=clipped)
        return closing

    async def lose(self, request: Request, reason: str) -> None:
        self._mortal.before_step()
        await self._inner.lose(request, reason)
        self._mortal.after_step()

    async def note(self, kind: str, subject: str, detail: str) -> None:
        self._mortal.before_step()
        await self._inner.note(kind, subject, detail)
        self._mortal.after_step()

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        self._mortal.after_step()
        return self._inner.lookup(key)

    def is_open(self, key: RequestKey) -> bool:
        self._mortal.after_step()
        return self._inner.is_open(key)

    def stop_asked(self) -> bool:
        self._mortal.after_step()
        return self._inner.stop_asked()

    def standing(self) -> Standing:
        return self._inner.standing()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _look(self) -> None:
        """Promise 1, at this commit."""
        for problem in over_cap(self._inner, self._budget):
            self._findings.append(problem)


def _replaced(closing: Closing, **changes: Any) -> Closing:
    fields = {name: getattr(closing, name) for name in Closing.__slots__}
    return Closing(**{**fields, **changes})


def over_cap(store: Inline, budget: Budget) -> list[str]:
    """The caps that are passed though the budget is not frozen, from the rows of the accounts."""
    db = store._books.connection
    frozen = db.execute(
        "select kind from event where kind in ('freeze', 'unfreeze') order by id desc limit 1"
    ).fetchone()
    if frozen is not None:  # once frozen, the true bill may stand above the cap for good
        return []
    rows = db.execute(
        "select budget, experiment, stage, condition, provider, day, settled_nanos + forfeited_nanos + held_nanos,"
        " settled_calls + forfeited_calls + held_calls from account"
    ).fetchall()
    found = []
    for cap in budget.caps:
        place = {"nanos": 6, "calls": 7}[cap.unit]
        spent = sum(row[place] for row in rows if cap.covers(Leaf(*row[:6]), row[5]))
        if cap.kind != "day" and spent > cap.limit:
            found.append(f"{cap}: {spent} above {cap.limit}")
    return found


class WatchedProvider:
    """A Provider around another, which dies with its process and bears a mutant."""

    def __init__(self, inner: Provider, mortal: Mortal, mutant: str = "") -> None:
        self._inner = inner
        self._mortal = mortal
        self._mutant = mutant
        self.profile = inner.profile

    async def send(self, requests: Sequence[Request], *, timeout_s: float, attempt: int) -> Answer:
        self._mortal.before_step()
        answer = await self._inner.send(requests, timeout_s=timeout_s, attempt=attempt)
        if self._mutant == "hidden retry" and answer.failure is not None:
            answer = await self._inner.send(requests, timeout_s=timeout_s, attempt=attempt)
        self._mortal.after_step()
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a seed draws besides faults."""

    rows: int = 10
    cap: int = 10**12  # nanos
    calls: int | None = None
    concurrency: int = 4
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    attempts_max: int = 4
    timeout_s: float = 20.0
    weights: Mapping[str, float] = field(default_factory=dict)
    latency: tuple[float, float] = (0.2, 3.0)
    die_at: int | None = None
    die_after: bool = False
    stop_at: float | None = None
    stop_again: float | None = None
    retry_after: str = "2"
    embed: bool = False


def draw(seed: int) -> Knobs:
    """The knobs of a seed: swarm weights, so that runs differ in kind and not only in amount."""
    rng = random.Random(f"knobs {seed}")
    weights = {fault: rng.choice([0.0, 0.0, 0.0, 0.1, 0.3]) for fault in FAULTS}
    weights["overrun"] = rng.choice([0.0, 0.0, 0.0, 0.0, 0.05])
    weights["quota"] = rng.choice([0.0, 0.0, 0.0, 0.0, 0.02])
    weights["rejected"] = rng.choice([0.0, 0.0, 0.05])
    die = rng.random() < 0.5
    stop = not die and rng.random() < 0.5
    at = rng.uniform(0.0, 40.0)
    return Knobs(
        rows=rng.randint(3, 12),
        cap=rng.choice([10**12, rng.randint(100_000, 4_000_000)]),
        calls=rng.choice([None, None, rng.randint(5, 60)]),
        concurrency=rng.randint(1, 8),
        requests_per_minute=rng.choice([None, None, rng.randint(5, 40)]),
        tokens_per_minute=rng.choice([None, None, None, rng.randint(300, 3000)]),
        attempts_max=rng.randint(1, 5),
        timeout_s=rng.choice([5.0, 20.0, 60.0]),
        weights=weights,
        latency=rng.choice([(0.01, 0.1), (0.2, 3.0), (1.0, 4.0)]),
        die_at=rng.randint(3, 120) if die else None,
        die_after=rng.random() < 0.5,
        stop_at=at if stop else None,
        stop_again=at + rng.uniform(0.0, 3.0) if stop and rng.random() < 0.5 else None,
        retry_after=rng.choice(["2", "0", "7.5", "30", "soon"]),
        embed=rng.random() < 0.4,
    )


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one run of a process came to."""

    ending: Ending | None  # None: killed
    flow: FakeFlow
    progress: Progress
    store: WatchedStore


class World:
    """A provider, a cache and as many runs on it as a test likes."""

    def __init__(self, place: Path, seed: int, knobs: Knobs, *, mutant: str = "") -> None:
        self.seed = seed
        self.knobs = knobs
        self.mutant = mutant
        self.clock = LoopClock()
        self.findings: list[str] = []
        self.path = place / "cache.db"
        self.server = FakeProvider(
            seed=seed, weights=knobs.weights, latency=knobs.latency, retry_after=knobs.retry_after
        )
        caps = [Cap("nanos", "total", "", knobs.cap)]
        if knobs.calls is not None:
            caps.append(Cap("calls", "total", "", knobs.calls))
        self.budget = Budget(name="b", caps=tuple(caps))
        self.experiment = Experiment(name="e", folder="", seed=seed)
        self.gate: Callable[[Counts], str | None] | None = None

    async def __aenter__(self) -> World:
        await self.server.start()
        self.lab = deployment("lab", self.server.url)
        self.arms = self.default_arms(self.lab)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    def default_arms(self, lab: Deployment) -> list[Arm]:
        """Two chat conditions, one of them graded; and an embedding condition where the knobs say so."""
        arms = [Arm(name="a", model=model("a", lab), grader=model("g", lab)), Arm(name="b", model=model("b", lab))]
        if self.knobs.embed:
            arms.append(Arm(name="v", model=model("v", lab), embed=True))
        return arms

    def lanes(self) -> dict[str, LaneSpec]:
        knobs = self.knobs
        return {
            "lab": LaneSpec(
                name="lab",
                concurrency=knobs.concurrency,
                requests_per_minute=knobs.requests_per_minute,
                tokens_per_minute=knobs.tokens_per_minute,
                attempts_max=knobs.attempts_max,
                timeout_s=knobs.timeout_s,
                batch_size=4,
            )
        }

    def models(self) -> dict[str, Model]:
        held = [arm.model for arm in self.arms] + [arm.grader for arm in self.arms if arm.grader is not None]
        return {held_model.name: held_model for held_model in held}

    async def run(
        self,
        *,
        number: int = 0,
        mortal: Mortal | None = None,
        stops: Sequence[float] = (),
        lanes: Mapping[str, LaneSpec] | None = None,
        rows: int | None = None,
    ) -> Outcome:
        """One process, from opening the cache to its end. Whatever it was doing when it was killed stops there."""
        mortal = mortal or Mortal()
        inner = Inline.open(self.path, clock=self.clock, durable=False)
        store = WatchedStore(inner, self.budget, mortal, self.findings, self.mutant)
        models = self.models()
        deployments = {held.provider.name: held.provider for held in models.values()}
        providers: dict[str, Provider] = {
            name: WatchedProvider(provider, mortal, self.mutant)
            for name, provider in connect(deployments.values(), models.values(), {}).items()
        }
        flow = FakeFlow(self.arms, self.knobs.rows if rows is None else rows, store.lookup)
        progress = Progress()
        run = Run(
            flow,
            store=store,
            providers=providers,
            models=models,
            clock=self.clock,
            lanes=self.lanes() if lanes is None else lanes,
            budget=self.budget,
            prices=lambda held, day: PRICE,
            rng=random.Random(f"run {self.seed} {number}"),
            experiment=self.experiment,
            progress=progress,
            gates=self.gate,
        )
        before = asyncio.all_tasks()
        handles = [asyncio.get_running_loop().call_later(at, run.stop) for at in stops]
        ending: Ending | None = None
        try:
            async with asyncio.timeout(VIRTUAL_MAX_S):
                ending = await run.main()
        except Killed:
            mortal.dead = True
            await _bury(before)
        except TimeoutError:
            self.findings.append(f"run {number} did not end in {VIRTUAL_MAX_S:.0f} virtual seconds")
        finally:
            for handle in handles:
                handle.cancel()
            for provider in providers.values():
                await provider.aclose()
            await inner.aclose()
        return Outcome(ending=ending, flow=flow, progress=progress, store=store)


async def _bury(before: set[asyncio.Task[Any]]) -> None:
    """What the dead process left in the loop. The server's own tasks are not its."""
    left = [
        task
        for task in asyncio.all_tasks() - before
        if task is not asyncio.current_task() and "RequestHandler" not in repr(task.get_coro())
    ]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


# -- the judge


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of the cache, read as anybody could."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def judge_books(world: World) -> list[str]:
    """Properties 2-5: the ledger against the provider's bill, once every process has left or was recovered."""
    found = []
    bill = world.server.bill
    entries = rows_of(world.path, "select attempt, kind, nanos from entry order by id")
    reserves = {attempt for attempt, kind, _ in entries if kind == "reserve"}
    if strangers := {hit.attempt for hit in bill.hits} - reserves:
        found.append(f"sent without a reserve: {strangers}")
    booked: dict[int, int] = {}
    ends: dict[int, list[str]] = {attempt: [] for attempt in reserves}
    for attempt, kind, nanos in entries:
        if kind in ("settle", "forfeit"):
            booked[attempt] = booked.get(attempt, 0) + nanos
        if kind != "reserve":
            ends[attempt].append(kind)
    if wrong := {attempt: kinds for attempt, kinds in ends.items() if len(kinds) != 1}:
        found.append(f"not exactly one end: {wrong}")
    for attempt, charged in bill.charged.items():
        if charged > booked.get(attempt or 0, 0):
            found.append(f"attempt {attempt} was billed {charged}, booked {booked.get(attempt or 0, 0)}")
    doubtful = {attempt for attempt, kinds in ends.items() if "forfeit" in kinds}
    for attempt, amount in booked.items():
        if attempt not in doubtful and amount != bill.charged.get(attempt, 0):
            found.append(f"attempt {attempt} was settled at {amount}, billed {bill.charged.get(attempt, 0)}")
    hits: dict[int | None, int] = {}
    for hit in bill.hits:
        hits[hit.attempt] = hits.get(hit.attempt, 0) + 1
    if twice := {attempt for attempt, n in hits.items() if n > 1}:
        found.append(f"one attempt, several requests: {twice}")
    doubled = rows_of(world.path, "select request from reply group by request having count(*) > 1")
    if doubled:
        found.append(f"several replies to one request: {doubled}")
    return found


def judge_replies(world: World, outcome: Outcome) -> list[str]:
    """Property 7: what stands in the cache is what the provider says to that request, whenever and beside whatever it came."""
    found = []
    for place, kept in outcome.flow.outcomes.items():
        cell = outcome.flow.cells[place]
        if isinstance(kept, Kept) and cell.request.kind == "chat" and kept.reply.text != text_for(cell.request.payload):
            found.append(f"{place}: {kept.reply.text!r}")
    return found


def trace(world: World) -> str:
    """A digest of all that reached the provider, and when, and of all that the ledger holds."""
    hits = [(round(hit.at, 6), hit.attempt, hit.digest) for hit in world.server.bill.hits]
    entries = rows_of(world.path, "select attempt, kind, nanos, calls, tokens, at from entry order by id")
    return hashlib.sha256(repr((hits, entries)).encode()).hexdigest()[:16]


async def play(place: Path, seed: int, *, mutant: str = "", knobs: Knobs | None = None) -> World:
    """A whole life: a run under faults that may be killed or stopped, then a healthy provider, then once more for nothing."""
    knobs = knobs or draw(seed)
    async with World(place, seed, knobs, mutant=mutant) as world:
        mortal = Mortal(knobs.die_at, knobs.die_after)
        stops = [at for at in (knobs.stop_at, knobs.stop_again) if at is not None]
        await world.run(number=0, mortal=mortal, stops=stops)
        await asyncio.sleep(1000.0)  # what the provider still had in hand when the process ended
        world.server.weights = {}
        await _unfreeze(world)
        second = await world.run(number=1)
        world.findings += judge_books(world) + judge_replies(world, second)
        world.findings += _judge_end(second)
        sent = len(world.server.bill.hits)
        third = await world.run(number=2)
        if second.flow.complete and len(world.server.bill.hits) != sent:
            world.findings.append("a rerun after completion sent again")
        if second.flow.complete and (third.ending is None or third.ending.code is not Exit.DONE):
            world.findings.append(f"a rerun after completion ended with {third.ending}")
        if knobs.requests_per_minute is not None:
            worst = world.server.bill.worst_window(60.0)
            if worst > knobs.requests_per_minute:
                world.findings.append(f"{worst} requests in 60 s where {knobs.requests_per_minute} are allowed")
        return world


async def _unfreeze(world: World) -> None:
    store = Inline.open(world.path, clock=world.clock, durable=False)
    await store.unfreeze(world.budget.name, "the simulation goes on")
    await store.aclose()


def _judge_end(outcome: Outcome) -> list[str]:
    """Liveness: a run on a healthy provider finishes, unless its money is gone."""
    ending = outcome.ending
    if ending is None or ending.code is Exit.EXHAUSTED:  # None: it has not ended, which is a finding already
        return []
    if ending.code is not Exit.DONE:
        return [f"a run on a healthy provider ended with {ending.code.name}: {ending.reason}"]
    if not outcome.flow.complete:
        return ["a run on a healthy provider ended without all cells"]
    return []
