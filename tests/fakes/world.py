"""One seed's world: knobs, faults, a provider, a cache, and whole runs on it in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Self

from fakes import tables
from fakes.clock import LoopClock
from fakes.flow import Arm, FakeFlow, deployment, model
from fakes.judge import judge_books, judge_replies
from fakes.mortal import Killed, Mortal, WatchedProvider, WatchedStore
from fakes.provider import FAULTS, FakeProvider
from fakes.simulated import SimulatedProvider
from judgerun.dispatch.gates import Rule
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.run import Ending, Run
from judgerun.errors import Exit
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Deployment, Embed, Experiment, Model, PriceSpec, Stage, TextOf
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import LaneSpec
from judgerun.model.request import RequestKey
from judgerun.model.rows import Inputs
from judgerun.plan.counts import Counts
from judgerun.plan.flow import Flow
from judgerun.ports import Jobs, Provider
from judgerun.providers.open import connect
from judgerun.store.inline import Inline

VIRTUAL_MAX_S = 5_000.0
"""Longer than any run here may last, in virtual seconds: ten times what the slowest of a thousand seeds took."""

PRICE = Price(rates=PriceSpec(input=1_000_000_000, output=4_000_000_000), source="tests", checked=date(2027, 1, 1))


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
    real: bool = False  # the real flow over an experiment made by hand, instead of the small one
    simulated: bool = False  # the program's own simulated provider, with the faults that it knows
    condition_cap: int | None = None  # nanos of the condition solve/a


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
        real=rng.random() < 0.5,
        condition_cap=rng.choice([None, None, None, rng.randint(80_000, 1_000_000)]),
    )


class RealFlow(Flow):
    """The program's own flow, which can be asked once at the end whether all is done."""

    @property
    def complete(self) -> bool:
        """No cell is pending, and none that should exist is missing."""
        self.finish()
        return all(not counts.pending for counts in self.counts())


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one run of a process came to."""

    ending: Ending | None  # None: killed
    complete: bool  # every cell that there should be has its outcome
    flow: FakeFlow | RealFlow
    progress: Progress
    store: WatchedStore


class World:
    """A provider, a cache and as many runs on it as a test likes."""

    def __init__(
        self, place: Path, seed: int, knobs: Knobs, *, mutant: str = "", provider_seed: int | None = None
    ) -> None:
        self.seed = seed
        self.knobs = knobs
        self.mutant = mutant
        self.clock = LoopClock()
        self.findings: list[str] = []
        self.path = place / "cache.db"
        said = seed if provider_seed is None else provider_seed
        self.server: FakeProvider | SimulatedProvider = FakeProvider(
            seed=said, weights=knobs.weights, latency=knobs.latency, retry_after=knobs.retry_after
        )
        if knobs.simulated:
            price = (PRICE.rates.input, PRICE.rates.output)
            self.server = SimulatedProvider(
                seed=said, weights=knobs.weights, price=price, wall=self.clock.wall, began=self.clock.start
            )
        caps = [Cap("nanos", "total", "", knobs.cap)]
        if knobs.calls is not None:
            caps.append(Cap("calls", "total", "", knobs.calls))
        if knobs.condition_cap is not None:
            caps.append(Cap("nanos", "condition", "solve/a", knobs.condition_cap))
        self.budget = Budget(name="b", caps=tuple(caps))
        self.experiment = Experiment(name="e", folder="", seed=seed)
        self.text: Callable[[int, Arm], str] = lambda row, arm: f"row {row} of {arm.name}"
        self.outcomes: list[Outcome] = []
        self.gate: Rule | None = None

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_task_factory(_tagging)
        await self.server.start()
        self.lab = deployment("lab", self.server.url)
        self.arms = self.default_arms(self.lab)
        if self.knobs.real:
            self.experiment = self.written(self.lab)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    def default_arms(self, lab: Deployment) -> list[Arm]:
        """Two chat conditions, one of them graded; and an embedding condition where the knobs say so."""
        arms = [Arm(name="a", model=model("a", lab), grader=model("g", lab)), Arm(name="b", model=model("b", lab))]
        if self.knobs.embed:
            arms.append(Arm(name="v", model=model("v", lab), embed=True))
        return arms

    def written(self, lab: Deployment) -> Experiment:
        """About the same as an experiment: two solvers, a grader of both, vectors of the rows."""
        given = {"provider": lab}
        stages: list[Stage] = [
            tables.chat(
                "solve",
                "rows",
                tables.arm("a", "p", "solve {{ text }}", given=given),
                tables.arm("b", "p", "solve {{ text }} too", given=given),
            ),
            tables.chat(
                "grade",
                "solve",
                tables.arm("g", "q", "grade {{ id }} {{ solve.reply }}", given=given, admit=("stop", "length")),
            ),
        ]
        if self.knobs.embed:
            queries = (TextOf(table="rows", expression="rows.text"),)
            stages.append(
                Embed(name="vectors", kind="embed", feeds=("rows",), models=(model("v", lab),), queries=queries)
            )
        return Experiment(name="e", folder="", seed=self.seed, models=(), stages=tuple(stages))

    def paired(self, one: Deployment, other: Deployment) -> Experiment:
        """Two solvers at two providers, with a cell of each row for both."""
        first = tables.arm("a", "p", "solve {{ text }}", given={"provider": one})
        second = tables.arm("b", "p", "solve {{ text }} too", given={"provider": other})
        return Experiment(name="e", folder="", seed=self.seed, stages=(tables.chat("solve", "rows", first, second),))

    def graded(self, solver: Deployment, grader: Deployment) -> Experiment:
        """A solver at one provider, and its grader at another."""
        first = tables.arm("a", "p", "solve {{ text }}", given={"provider": solver})
        ask = "grade {{ id }} {{ solve.reply }}"
        second = tables.arm("g", "q", ask, given={"provider": grader}, admit=("stop", "length"))
        stages = (tables.chat("solve", "rows", first), tables.chat("grade", "solve", second))
        return Experiment(name="e", folder="", seed=self.seed, stages=stages)

    def flow(self, lookup: Callable[[RequestKey], Kept | Lost | None], rows: int) -> FakeFlow | RealFlow:
        """A fresh flow over the cache as it is."""
        if not self.knobs.real:
            return FakeFlow(self.arms, rows, lookup, text=self.text)

        def kept(key: RequestKey) -> Kept | None:
            found = lookup(key)
            return found if isinstance(found, Kept) else None

        profile = tables.PROFILE
        return RealFlow(
            self.experiment,
            Inputs(tables={"rows": tables.numbered("rows", rows)}),
            profiles=dict.fromkeys(self.models(), profile),
            lookup=kept,
            many=lambda keys: {key: found for key in keys if (found := kept(key)) is not None},
            matrix=_no_matrix,
        )

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

    def jobs(self, mortal: Mortal) -> Jobs | None:
        """The batch API of a provider, as one process has it."""
        return None

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
        surveyed: Sequence[Counts] = (),
        began: Callable[[Run], None] = lambda run: None,
        progress: Progress | None = None,
    ) -> Outcome:
        """One process, from opening the cache to its end. Whatever it was doing when it was killed stops there."""
        mortal = mortal or Mortal()
        inner = Inline.open(self.path, clock=self.clock, durable=False)
        store = WatchedStore(inner, self.budget, mortal, self.findings, self.mutant)
        models = self.models()
        deployments = {held.provider.name: held.provider for held in models.values()}
        providers: dict[str, Provider] = {
            name: WatchedProvider(provider, mortal, self.mutant, jobs=self.jobs(mortal))
            for name, provider in connect(deployments.values(), models.values(), {}).items()
        }
        flow = self.flow(store.lookup, self.knobs.rows if rows is None else rows)
        progress = progress or Progress()
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
            surveyed=surveyed,
        )
        began(run)
        token = _PROCESS.set(next(_numbers))
        handles = [asyncio.get_running_loop().call_later(at, run.stop) for at in stops]
        ending: Ending | None = None
        complete = False
        try:
            async with asyncio.timeout(VIRTUAL_MAX_S):
                ending = await run.main()
            complete = flow.complete
        except Killed:
            mortal.dead = True
            await _bury(_PROCESS.get())
        except TimeoutError:
            self.findings.append(f"run {number} did not end in {VIRTUAL_MAX_S:.0f} virtual seconds")
        finally:
            _PROCESS.reset(token)
            for handle in handles:
                handle.cancel()
            for provider in providers.values():
                await provider.aclose()
            await inner.aclose()
        outcome = Outcome(ending=ending, complete=complete, flow=flow, progress=progress, store=store)
        self.outcomes.append(outcome)
        return outcome


def _no_matrix(keys: Sequence[RequestKey]) -> Any:
    raise AssertionError(f"nothing here ranks, and yet {len(keys)} vectors were asked for")


_numbers = itertools.count(1)
_PROCESS: ContextVar[int] = ContextVar("process", default=0)
"""To which of the simulated processes the running code belongs; 0 is the world itself."""


def _tagging(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> asyncio.Task[Any]:
    """A task that knows its process."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **given)
    task.process = _PROCESS.get()  # type: ignore[attr-defined]
    return task


async def _bury(process: int) -> None:
    """End what a dead process left in the loop."""
    left = [task for task in asyncio.all_tasks() if getattr(task, "process", 0) == process]
    left = [task for task in left if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def play(
    place: Path, seed: int, *, mutant: str = "", knobs: Knobs | None = None, provider_seed: int | None = None
) -> World:
    """A whole life: a run under faults that may be killed or stopped, then a healthy provider, then once more for nothing."""
    knobs = knobs or draw(seed)
    async with World(place, seed, knobs, mutant=mutant, provider_seed=provider_seed) as world:
        mortal = Mortal(knobs.die_at, knobs.die_after)
        stops = [at for at in (knobs.stop_at, knobs.stop_again) if at is not None]
        await world.run(number=0, mortal=mortal, stops=stops)
        await asyncio.sleep(1000.0)  # what the provider still had in hand when the process ended
        world.server.weights = {}
        await _unfreeze(world)
        second = await world.run(number=1)
        complete = second.complete
        world.findings += judge_books(world.path, world.server.bill)
        if not knobs.simulated:
            world.findings += judge_replies(world.path)
        world.findings += _judge_end(second, complete)
        sent = len(world.server.bill.hits)
        third = await world.run(number=2)
        if complete and len(world.server.bill.hits) != sent:
            world.findings.append("a rerun after completion sent again")
        if complete and (third.ending is None or third.ending.code is not Exit.DONE):
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


def _judge_end(outcome: Outcome, complete: bool) -> list[str]:
    """Liveness: a run on a healthy provider finishes, unless its money is gone."""
    ending = outcome.ending
    if ending is None or ending.code is Exit.EXHAUSTED:  # None: it has not ended, which is a finding already
        return []
    if ending.code is not Exit.DONE:
        return [f"a run on a healthy provider ended with {ending.code.name}: {ending.reason}"]
    if not complete:
        return ["a run on a healthy provider ended without all cells"]
    return []
