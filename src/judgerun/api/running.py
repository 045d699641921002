"""Running: from a project and a budget to an ending; wires files, providers, store and dispatch, and decides nothing else."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from judgerun.api.changes import files, texts
from judgerun.api.escalation import told
from judgerun.api.gates import failed_limit, quote_first, rule
from judgerun.api.project import Project, load, weights_pins
from judgerun.api.quoting import Quoted, quote
from judgerun.api.sockets import ready
from judgerun.api.stand import LastRun, keep
from judgerun.api.state import Result, State, state
from judgerun.api.steering import budget_named
from judgerun.api.watching import Watch, hearing, saying
from judgerun.audit.completion import STARVED_MAX
from judgerun.dispatch.clock import WallClock
from judgerun.dispatch.eta import Open, levels
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.room import Flow as Dispatched
from judgerun.dispatch.run import Ending, Run
from judgerun.errors import Exit, Problem, Refused, strongest
from judgerun.files.toml import pointing
from judgerun.ledger.budget import Budget
from judgerun.model.condition import canary_of
from judgerun.model.lane import passed
from judgerun.model.money import Nanos, format_usd
from judgerun.plan.counts import Counts
from judgerun.plan.flow import Flow
from judgerun.plan.ladder import EVENT, Escalation, in_force
from judgerun.ports import Clock, Provider
from judgerun.providers.open import connect, scrubber
from judgerun.store.cache import Cache
from judgerun.store.front import Front
from judgerun.store.inline import Inline
from judgerun.store.snapshot import Snapshot

YOUNG = 500_000
"""Young objects before Python looks for cycles among them. The calls in flight are some sixty each, all alive, and a call leaves no
cycles: so this is more than what comes and goes with 2,000 of them, and a look comes only where something really stays. At its
usual 700 looks in vain take a quarter of the CPU of a call, and at 50,000 each holds up the loop by up to 200 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a run stands on: a clock, and how its cache is opened. A rehearsal has others than this machine's."""

    clock: Clock = field(default_factory=WallClock)
    inline: bool = False  # the cache without a thread and without waiting for the disk: for virtual time alone
    store: Front | None = None  # the cache, where whoever runs several parts has opened it for all of them

    @asynccontextmanager
    async def opened(self, path: Path) -> AsyncIterator[Front]:
        """The cache at a path, while inside."""
        if self.store is not None:
            yield self.store
        elif self.inline:
            async with Inline.open(path, clock=self.clock, durable=False) as store:
                yield store
        else:
            async with await Cache.open(path, clock=self.clock) as store:
                yield store


async def run(
    experiment: Project | str | Path,
    *,
    budget: Budget | str | None = None,
    cache: str | Path | None = None,
    yes: bool = False,
    only: str | None = None,
    limit: int | None = None,
    escalation: Escalation | None = None,
    signals: bool = False,
    stays: bool = False,
    world: World = World(),
    narrow: Callable[[Flow], Dispatched] | None = None,
    watch: Callable[[Watch], None] | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run or resume an experiment under a budget, as far as money, gates and providers let it.

    `experiment` is a project from `load`, or a name or path. `budget` may be left out where the workspace has only one.
    `only` is a condition key, `limit` a number of blocks. With `signals` the first SIGINT or SIGTERM drains, the second
    stops at once. With an `escalation` it buys again by that plan, and sends nothing else. `world` stands in the place of this
    machine's clock and disk; who `stays` is still an owner of its store at the end. `narrow` may keep cells of the flow (whose
    rows are then kept) from being sent. `watch` is called each second with the run's progress.

    Raises Refused, before any call is made, for everything that a person wrote wrong, for an unknown price under a dollar
    cap, and for spending above the budget's `confirm_above` without `yes`.
    """
    project = experiment if isinstance(experiment, Project) else load(experiment)
    if cache is not None:
        project = project.at(Path(cache))
    held = budget if isinstance(budget, Budget) else budget_named(project.workspace, budget)
    with pointing(project.loaded.path):
        providers = connect(project.deployments, project.experiment.models, project.workspace.environ)
    if not world.inline:
        ready(project)
    whole = only is None and limit is None and narrow is None and escalation is None
    quoted = quote(project, held, only=only, limit=limit, escalation=escalation)
    _agree(quoted, held, escalation, yes, log)
    try:
        async with world.opened(project.workspace.cache) as store:
            with _patient(), Snapshot.open(project.workspace.cache, fixed=False) as vectors:
                await _pin(project, store, log)
                calls = await quote_first(store, project.name, quoted.quote.lines)
                flow = project.flow(
                    lookup=store.bought,
                    many=store.bought_all,
                    matrix=vectors.matrix,
                    count=project.count(),
                    keep=narrow is not None,
                    only=only if escalation is None else escalation.condition,
                    limit=limit,
                    plans=await _plans(project, store, escalation),
                    buys="all" if escalation is None else "rungs",
                )
                clock, progress = world.clock, Progress()
                sent = flow if narrow is None else narrow(flow)
                runner = _runner(project, held, quoted, calls, sent, store, providers, clock, progress, stays=stays)
                watched = _watched(project, held, quoted, flow, store, progress, whole=whole)
                async with saying(watched, clock, watch, log), hearing(runner, signals, log):
                    ending = await runner.main()
                await store.plan(project.name, flow.digest, pinned(project))
                known = _known(flow, ending) if whole else None
    finally:
        for provider in providers.values():
            await provider.aclose()
    held = held.amended(project.workspace.settings())  # while it ran, too
    result = replace(_result(project, held, ending, known), closed=dict(progress.closed))
    if not world.inline and result.code is not Exit.STORE:
        ended = LastRun(budget=held, code=result.code, reason=result.reason) if whole else None
        await keep(project, result.state, ended)
    return result


def _agree(
    quoted: Quoted, budget: Budget, escalation: Escalation | None, yes: bool, log: Callable[[str], None]
) -> None:
    """Tell what is asked again, what changed and what to beware of. Refused where what may be spent needs a yes."""
    if escalation is not None:
        log(told(escalation, quoted.quote))
    for change in quoted.changes:
        log(change)
    refuse_unconfirmed(quoted, budget, yes=yes)
    for warning in quoted.warnings:
        log(f"warning: {warning}")


def _watched(
    project: Project, budget: Budget, quoted: Quoted, flow: Flow, store: Front, progress: Progress, *, whole: bool
) -> Watch:
    """What a watcher of the run is given."""
    return Watch(
        progress=progress,
        flow=flow,
        cache=store,
        budget=budget,
        goal={x.condition: x.cached + x.shared + x.failed + x.to_send for x in quoted.quote.lines},
        now=0.0,
        opened=_opened(project, quoted),
        whole=whole,
    )


def _opened(project: Project, quoted: Quoted) -> dict[str, Open]:
    """What each condition asks of which lanes, as it was quoted; cells of the batch lane wait for no slot."""
    level, models = levels(project.experiment), project.models
    found = {}
    for line in quoted.quote.lines:
        model = models[line.model]
        if model.lane != "batch":
            lanes = passed(model.provider.name, model.name, project.lanes)
            found[line.condition] = Open(lanes=lanes, level=level[line.stage], cells=line.to_send, alone_s=line.seconds)
    return found


def _runner(
    project: Project,
    budget: Budget,
    quoted: Quoted,
    calls: Mapping[str, Nanos],
    flow: Dispatched,
    store: Front,
    providers: Mapping[str, Provider],
    clock: Clock,
    progress: Progress,
    *,
    stays: bool,
) -> Run:
    """The run of a project over a flow. `calls` is what a call of each condition was quoted at."""
    return Run(
        flow,
        store=store,
        providers=providers,
        models=project.models,
        clock=clock,
        lanes=project.lanes,
        budget=budget,
        prices=project.price,
        rng=random.Random(project.experiment.seed),
        experiment=project.experiment,
        progress=progress,
        gates=rule(project.experiment, calls),
        surveyed=quoted.counts,
        scrub=scrubber(project.deployments, project.workspace.environ).text,
        stays=stays,
    )


@contextmanager
def _patient() -> Iterator[None]:
    """While inside, the collector of cycles waits for `YOUNG` objects; whoever made it more patient already is let be."""
    young, *older = gc.get_threshold()
    if young == 0 or young >= YOUNG:
        yield
        return
    gc.collect()  # the survey before the run, whose parts hold each other, would now stay for long
    gc.set_threshold(YOUNG, *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)


def refuse_unconfirmed(quoted: Quoted, budget: Budget, *, yes: bool) -> None:
    """Raise Refused where what may be spent passes `confirm_above` and nobody said yes."""
    refuse_above(quoted.at_risk, budget, yes=yes)


def refuse_above(at_risk: Nanos, budget: Budget, *, yes: bool) -> None:
    """The same of an amount."""
    if at_risk > budget.confirm_above and not yes:
        wrong = (
            f"up to {format_usd(at_risk)} USD may be spent, above confirm_above = {format_usd(budget.confirm_above)}"
        )
        raise Refused(
            Problem(f"budgets/{budget.name}.toml", "confirm_above", wrong, "say --yes, or raise confirm_above")
        )


def pinned(project: Project) -> dict[str, str]:
    """What is pinned at the first run: the digests of all files, and of the weights of local models."""
    return files(project) | weights_pins(project.profiles, project.experiment.models)


async def _plans(project: Project, store: Front, escalation: Escalation | None) -> tuple[Escalation, ...]:
    """The escalations in force, the new one put on record first."""
    if escalation is not None and not escalation.event:
        await store.note(EVENT, project.name, json.dumps(escalation.document()), experiment=project.name)
    return in_force(store.events(0), project.name)


async def _pin(project: Project, store: Front, log: Callable[[str], None]) -> None:
    """Pin the digests of all files at the first run. A change of files has been told with the quote; of weights it is told here."""
    weights = weights_pins(project.profiles, project.experiment.models)
    for changed in await store.pin(project.name, pinned(project), texts(project)):
        if changed in weights:
            log(f"{changed} changed since the last run: requests made from it are new ones")


def _known(flow: Flow, ending: Ending) -> tuple[Counts, ...] | None:
    """The counts of a run that left nothing open: a survey would only find them again. None where it must be asked: cells are
    left, or share calls (which a survey books on the first in plan order, a run on the first that came).
    """
    if ending.code is not Exit.DONE:
        return None
    flow.finish()
    counts = flow.counts()
    return None if any(count.pending or count.shared for count in counts) else counts


def _result(project: Project, budget: Budget, ending: Ending, counts: tuple[Counts, ...] | None) -> Result:
    """The ending, with the audit's word where the run is complete: failed cells beyond the limit are 8."""
    after = state(project, budget=budget, counts=counts)
    codes = {**ending.codes}
    if after.state == "complete":
        failed = failing(project, after)
        if failed is not None:
            codes.setdefault(Exit.FINDINGS, failed)
    code = strongest(codes)
    return Result(code=code, reason=codes.get(code), state=after)


def failing(project: Project, state: State) -> str | None:
    """Why a complete experiment has more failed cells than it may, by the same limits as the audit; None when it has not."""
    bad = [
        c
        for c in state.counts
        if not canary_of(c.condition)
        and (
            c.failed - c.starved > failed_limit(project.experiment, c) * c.tried or c.starved > STARVED_MAX * c.planned
        )
    ]
    if not bad:
        return None
    worst = max(bad, key=lambda count: count.failed)
    where = f"{worst.failed} of them of {worst.condition}"
    return f"{sum(count.failed for count in bad)} cells failed, {where}: judgerun show {project.name} --failed"
