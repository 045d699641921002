"""Run: one experiment from its flow to an ending; what others call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from judgerun.dispatch.beat import Beat
from judgerun.dispatch.gates import Gates, Rule
from judgerun.dispatch.lane import Lanes
from judgerun.dispatch.money import Money
from judgerun.dispatch.pause import Pause
from judgerun.dispatch.progress import Progress
from judgerun.dispatch.recover import recover, tick
from judgerun.dispatch.room import Flow, Given, Prices, Room
from judgerun.dispatch.scheduler import Scheduler
from judgerun.dispatch.steer import Steer
from judgerun.dispatch.waits import Waits
from judgerun.errors import Exit, strongest
from judgerun.ledger.budget import Budget
from judgerun.model.event import Event
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
        stays: bool = False,
    ) -> None:
        """`providers` by deployment name, `models` by the experiment's names. `gates` judges the counts of all conditions;
        `surveyed` are the counts as the cache has them, judged before anything is sent. `rng` draws the jitter of backoffs, of
        pauses and of starts, and nothing else. `scrub` takes known secrets out of a text. Who `stays` is still the owner when it
        has ended, for another run of the same store.
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
            lanes=Lanes(
                lanes, clock=clock, waits=waits, rng=rng, ids={name: held.model for name, held in models.items()}
            ),
            money=Money(waits),
            pause=Pause(waits),
            gates=Gates(gates),
        )
        self._surveyed = tuple(surveyed)
        self._stays = stays
        self._lanes = [(model.provider.name, model.name) for model in models.values()]

    def stop(self) -> bool:
        """Drain: send nothing new, let what is in flight finish. Asked again, by whomever the first time: forfeit what is in flight
        and end now. Whether that was the case.
        """
        again = Exit.INTERRUPTED in self._room.codes
        if again:
            self._room.abandon()
        else:
            self._room.halt(Exit.INTERRUPTED, "interrupted")
        return again

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
            owner = await store.enter(experiment=experiment, budget=room.given.budget)
            entered = True
            await recover(room)
            events = store.events(0)
            await room.judge_first(self._surveyed, events)
            await self._dispatch(owner, events)
        ending = self._ending()
        with room.contained():
            if entered:
                await room.keep()
                await store.note(
                    "end" if ending.reason is None else "stop", experiment, ending.reason or "nothing left to do"
                )
                idle = {str(cause): seconds for cause, seconds in room.progress.idle.items()}
                await store.leave(idle, room.progress.hours.spent(), stays=self._stays)
        return self._ending()

    async def _dispatch(self, owner: int, events: Sequence[Event]) -> None:
        self._room.lanes.restart()
        room = self._room
        scheduler = Scheduler(room, width=lambda: room.lanes.width(self._lanes))
        steer = Steer(room, owner=owner, pump=scheduler.widen)
        steer.begin(events)
        ticker = asyncio.ensure_future(tick(room, steer))
        beat = Beat(self._room, scheduler)
        try:
            beat.start()
            await scheduler.run()
        finally:
            beat.stop()
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
