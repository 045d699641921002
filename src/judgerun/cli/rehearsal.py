"""Rehearsals: a whole experiment on the simulated provider, in virtual time and a cache of its own; predicts, spends nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judgerun.api.project import FREE, Project, snapshot
from judgerun.api.running import World, pinned, run
from judgerun.api.state import Result, state
from judgerun.errors import Problem, Refused
from judgerun.ledger.budget import Budget
from judgerun.model.experiment import Chat, Deployment, Experiment, Model
from judgerun.model.money import format_usd
from judgerun.simulate import virtual
from judgerun.simulate.law import REASONING_MEDIAN, Law
from judgerun.simulate.server import Simulator
from judgerun.simulate.serving import serving

CACHE = "rehearsal.db"
FIRST_S = 0.8
TOKEN_S = 0.02
"""A simulated model's first byte comes after so long at the median, and then a token after each so many seconds."""
MEDIAN = 0.726
"""The median of a lognormal length whose logarithm spreads by 0.8, as a share of its mean: exp(-0.8^2 / 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a rehearsal predicts."""

    result: Result
    seconds: float  # virtual: how long the run would take at these lanes and lengths
    resumed: bool  # it went on with an earlier rehearsal, so that `seconds` are only of the rest

    def document(self) -> dict[str, Any]:
        """The object of `run --rehearse --json`: that of `run --json`, and what was predicted beside the money."""
        told = {"seconds": round(self.seconds, 1), "resumed": self.resumed}
        return {**self.result.document(), "rehearsal": told}


def rehearse(project: Project, budget: Budget, *, seed: int, log: Callable[[str], None]) -> Rehearsed:
    """Run the whole experiment under the budget with every model at the simulated provider: the real requests, prices, caps,
    lanes and gates, answers by a law of lengths. An interrupted rehearsal of the same files goes on; else it starts anew.
    """
    with snapshot(project.workspace.cache) as view:
        spent = 0 if view is None else view.standing(project.name, budget.name).budget.high
    if spent:
        log(
            f"warning: budget {budget.name} has spent {format_usd(spent)} USD: a rehearsal begins with all of it, and no reply"
        )
    budget = replace(budget, written=())  # what was set is the cap in rehearsal.db, whose events know nothing of it
    rehearsed = project.at(project.workspace.root / CACHE)
    started = time.time()
    return virtual.run(_rehearse(rehearsed, budget, seed=seed, start=started, log=log))


async def _rehearse(
    project: Project, budget: Budget, *, seed: int, start: float, log: Callable[[str], None]
) -> Rehearsed:
    async with serving(Simulator(seed=seed, models=laws(project.experiment)).app()) as urls:
        there = project.remodelled(lambda model: _moved(model, urls))
        _refuse_two(there)
        resumed = _goes_on(there, budget)
        if not resumed:
            _clear(there.workspace.cache)
        clock = virtual.LoopClock(start)
        began = clock.now()
        result = await run(there, budget=budget, yes=True, signals=True, world=World(clock=clock, inline=True), log=log)
        return Rehearsed(result=result, seconds=clock.now() - began, resumed=resumed)


def _refuse_two(project: Project) -> None:
    """Refused while another rehearsal runs in this workspace: one that starts anew would take its cache away."""
    with snapshot(project.workspace.cache) as view:
        running = [owner.experiment for owner in view.owners() if owner.alive] if view is not None else []
    if running:
        wrong = f"a rehearsal of {running[0]} runs in this workspace"
        raise Refused(Problem(CACHE, "", wrong, "let it end, or take another --workspace"))


def _goes_on(project: Project, budget: Budget) -> bool:
    """Whether the rehearsal cache holds the beginning of a rehearsal of the very same files."""
    with snapshot(project.workspace.cache) as view:
        known = {} if view is None else dict(view.pins(project.name))
    return bool(known) and known == pinned(project) and state(project, budget=budget).state != "complete"


def _clear(cache: Path) -> None:
    """Remove an earlier rehearsal: it holds nothing that was paid for."""
    for path in cache.parent.glob(f"{cache.name}*"):
        path.unlink()
    shutil.rmtree(cache.with_suffix(".vectors"), ignore_errors=True)


def _moved(model: Model, urls: Mapping[str, str]) -> Model:
    """The model at the simulated provider, with the request keys and the price that it really has. A local model's texts go to
    a simulated embedder that costs nothing.
    """
    place = model.provider
    if place.dialect == "local":
        there = Deployment(name=place.name, dialect="openai", identity="local", price=FREE, base_url=urls["openai"])
    else:
        there = replace(place, base_url=urls[place.dialect], identity=place.key_part, api_key_env=None)
    return replace(model, provider=there)


def laws(experiment: Experiment) -> dict[str, Law]:
    """The law of each model, by the provider's id: outputs, hidden reasoning included, as long as the experiment expects those of
    the model's arms (which calls tell apart by their caps), reasoning where thinking is on.
    """
    outputs: dict[str, dict[int | None, float]] = {}
    thinks: dict[str, bool] = {}
    for stage in experiment.stages:
        for arm in stage.arms if isinstance(stage, Chat) else ():
            name, cap = arm.model.model, arm.model.max_output_tokens
            own = outputs.setdefault(name, {})
            if expected := arm.settings.output_tokens_expected:
                own[cap] = max(own.get(cap, 0.0), MEDIAN * expected)
            thinks[name] = thinks.get(name, False) or arm.model.thinking not in (None, "off", 0)
    usual = Law(first_s=FIRST_S, token_s=TOKEN_S)
    return {
        name: replace(usual, outputs=own, reasoning=REASONING_MEDIAN if thinks[name] else 0.0)
        for name, own in outputs.items()
    }
