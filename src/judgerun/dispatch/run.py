"""Run: one experiment from its flow to an ending; what others call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import anyio

from judgerun.dispatch.gates import Gates, Rule
from judgerun.dispatch.lane import Lanes
from judgerun.dispatch.money import Money
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.recover import recover, tick
from judgerun.dispatch.room import Flow, Given, Prices, Room
from judgerun.dispatch.scheduler import Scheduler
from judgerun.dispatch.waits import Waits
from judgerun.errors import Exit, strongest
from judgerun.ledger.budget import Budget
from judgerun.model.experiment import Experiment, Model
from judgerun.model.lane import LaneSpec
from judgerun.plan.counts import Counts
from judgerun.ports import Clock, Provider, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended: the code that wins, why, and every reason that held."""

    code: Exit
    reason: str | None
    codes: Mapping[Exit, str]


class Run:
    """One run. `await Run(...).main()` once; `stop()` from a signal handler or anywhere in the same loop."""

    def __init__(
        self,
        flow: Flow,
        *,
        store: Store,
        providers: Mapping[str, Provider],
        models: Mapping[str, Model],
        clock: Clock,
        lanes: Mapping[str, LaneSpec],
        budget: Budget,
        prices: Prices,
        rng: random.Random,
        experiment: Experiment,
        progress: Progress,
        gates: Rule | None = None,
        surveyed: Iterable[Counts] = (),
        scrub: Callable[[str], str] = str,
    ) -> None:
        """`providers` by deployment name, `models` by the experiment's names. `gates` judges the counts of a condition;
        `surveyed` are the counts as the cache has them, judged before anything is sent. `rng` draws the jitter of backoffs and
        nothing else. `scrub` takes known secrets out of a text.
        """
        given = Given(
            flow=flow,
            store=store,
            providers=providers,
            models=models,
            clock=clock,
            budget=budget,
            prices=prices,
            rng=rng,
            experiment=experiment,
            scrub=scrub,
        )
        waits = Waits(clock=clock, progress=progress)
        self._room = Room(
            given=given,
            progress=progress,
            waits=waits,
            lanes=Lanes(lanes, clock=clock, waits=waits, ids={name: model.model for name, model in models.items()}),
            money=Money(waits),
            gates=Gates(gates),
        )
        self._surveyed = tuple(surveyed)
        self._width = self._room.lanes.width((model.provider.name, model.name) for model in models.values())

    def stop(self) -> None:
        """Drain: send nothing new, let what is in flight finish. Asked again: forfeit what is in flight and end now."""
        if Exit.INTERRUPTED in self._room.codes:
            self._room.abandon()
        else:
            self._room.halt(Exit.INTERRUPTED, "interrupted")

    async def main(self) -> Ending:
        """Recover, run, leave. Raises nothing of the world: it is in the Ending. A cancellation forfeits what is in flight,
        waits until that is durable, and passes on.
        """
        life = asyncio.ensure_future(self._live())
        try:
            return await asyncio.shield(life)
        except asyncio.CancelledError:
            if life.done():
                raise
            self.stop()
            self._room.abandon()
            with anyio.CancelScope(shield=True):
                while not life.done():
                    try:
                        await asyncio.wait([life])
                    except asyncio.CancelledError:
                        continue  # asked again: the holds must have their end all the same
            raise

    async def _live(self) -> Ending:
        room, store = self._room, self._room.given.store
        experiment, entered = room.given.experiment.name, False
        with room.contained():
            await store.enter(experiment=experiment, budget=room.given.budget)
            entered = True
            await recover(room)
            await room.judge(self._surveyed)
            await self._dispatch()
        ending = self._ending()
        with room.contained():
            if entered:
                await store.note(
                    "end" if ending.reason is None else "stop", experiment, ending.reason or "nothing left to do"
                )
                await store.leave({str(cause): seconds for cause, seconds in room.progress.idle.items()}, {})
        return self._ending()

    async def _dispatch(self) -> None:
        ticker = asyncio.ensure_future(tick(self._room, stop=self.stop))
        try:
            await Scheduler(self._room, width=self._width).run()
        finally:
            ticker.cancel()
            await asyncio.wait([ticker])
            await self._room.lanes.aclose()

    def _ending(self) -> Ending:
        codes = dict(self._room.codes)
        code = strongest(codes)
        reason, standing = codes.get(code), self._room.progress.standing()
        if reason is not None and standing:
            reason = f"{reason}; {standing}; run again to collect"
        return Ending(code=code, reason=reason, codes=codes)
