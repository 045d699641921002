"""Recovery and the other things that a run does by the clock: calls that wait are called again, what a person asks is heard."""

from __future__ import annotations

from judgerun.dispatch.health import Vigil
from judgerun.dispatch.progress import WaitCause
from judgerun.dispatch.room import Room
from judgerun.dispatch.steer import Steer
from judgerun.errors import Exit
from judgerun.model.request import RequestKey

TICK_S = 0.1
"""While anybody waits for money: how often other processes are thought of."""
LOOK_S = 1.0
"""How often orders are heard, and dead processes are looked for."""


async def recover(room: Room) -> None:
    """Forfeit the calls that dead processes left open, put it on record, and take over the jobs that ended ones left standing."""
    found = await room.given.store.recover()
    if found:
        told = f"{found} holds of dead processes were forfeited"
        room.progress.recovered += found
        room.progress.news.append(told)
        await room.given.store.note("recover", room.given.experiment.name, told)
    await room.adopt()


async def stranded(room: Room, key: RequestKey) -> str | None:
    """Where a key is held by a job that nobody collects; None when it is not, or when this run could take the job over."""
    if room.given.store.stranded(key) is None:
        return None
    await recover(room)
    return room.given.store.stranded(key)


async def tick(room: Room, steer: Steer) -> None:
    """By the clock, until cancelled. Money and keys held by a process that died come back only when somebody looks."""
    clock, store, waiting = room.given.clock, room.given.store, room.progress.waiting
    looked, vigil = clock.now(), Vigil(room)
    vain: str | None = None  # where all holds stood at the last look
    while True:
        await vigil.sleep(TICK_S if room.money.waiting else LOOK_S)
        with room.contained():
            room.money.wake_all()
            await vigil.look()
            if clock.now() - looked < LOOK_S:
                continue
            looked = clock.now()
            steer.hear()
            if waiting["money"] or waiting["other process"]:
                await recover(room)
            where = store.unattended() if _broke(room) else None
            if where is not None and where == vain:
                why = f"what is left of the money is held by {where}, which no process collects: run that first"
                room.halt(Exit.EXHAUSTED, why)
            vain = where


def _broke(room: Room) -> bool:
    """Whether all that this run still does is wait for money."""
    waiting = room.progress.waiting
    others: tuple[WaitCause, ...] = ("slot", "rate", "backoff", "job", "paused")
    return bool(waiting["money"]) and not room.progress.in_flight and not any(waiting[cause] for cause in others)
