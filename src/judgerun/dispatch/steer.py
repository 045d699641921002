"""Steer: what a person asks of this process from another terminal, heard through the events of the cache, and done here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from judgerun.dispatch.room import Room
from judgerun.errors import Exit
from judgerun.model.event import Event
from judgerun.model.setting import Setting, read_setting
from judgerun.ports import Order
from judgerun.table.gate import baselines


class Steer:
    """Listens for one owner. An order names the owners to which it was given, so what was asked of earlier ones does not act."""

    def __init__(self, room: Room, *, owner: int, pump: Callable[[], None]) -> None:
        """`pump` has the scheduler look again, over lanes that may be wider now."""
        self._room = room
        self._owner = owner
        self._pump = pump
        self._budget = room.given.budget
        self._settings: list[Setting] = []
        self._heard = 0
        self._since = 0  # the newest event when it began to listen
        self._paused_at = 0.0
        self._until: float | None = None  # on the run's clock: when the drain has lasted long enough

    def begin(self, before: Sequence[Event]) -> None:
        """Do what is set or was asked of this owner already, by all that happened before, and then what came since."""
        self._heard = self._since = before[-1].id if before else 0
        self._take(before)
        self.hear()

    def hear(self) -> None:
        """Do what was asked since the last time, and let conditions go on that a person has reopened."""
        room = self._room
        events = room.given.store.events(self._heard)
        self._heard = events[-1].id if events else self._heard
        self._take(events)
        for condition, since in baselines(events, room.given.experiment.name).items():
            room.reopen(condition, since)
        if self._until is not None and room.given.clock.now() >= self._until:
            self._until = None
            self._say("the drain took too long: what is in flight is forfeited")
            room.abandon()

    def _take(self, events: Sequence[Event]) -> None:
        told = [read_setting(event.id, event.subject, event.detail) for event in events if event.kind == "set"]
        if told:
            self._settings += told
            self._set()
        name = self._room.given.experiment.name
        self._obey([json.loads(event.detail) for event in events if (event.kind, event.subject) == ("ask", name)])

    def _obey(self, orders: Iterable[Mapping[str, Any]]) -> None:
        """Do what was asked of this owner; of pauses and their ends that were heard at once, the last."""
        paused: Mapping[str, Any] | None = None
        for said in orders:
            if self._owner in said["owners"]:
                match Order(said["what"]):
                    case Order.PAUSE | Order.UNPAUSE:
                        paused = said
                    case Order.STOP:
                        self._drain(said["by"], said["until"])
                    case Order.NOW:
                        self._say(f"asked to stop at once by {said['by']}: what is in flight is forfeited")
                        self._room.halt(Exit.INTERRUPTED, "interrupted")
                        self._room.abandon()
        if paused is not None:
            (self._begin_pause if paused["what"] == Order.PAUSE else self._end_pause)(paused["by"])

    def _drain(self, by: str, until: float | None) -> None:
        self._say(f"asked to stop by {by}: nothing new is sent, calls in flight finish")
        if until is not None:
            clock = self._room.given.clock
            self._until = clock.now() + until - clock.wall()
        self._room.halt(Exit.INTERRUPTED, "interrupted")

    def _begin_pause(self, by: str) -> None:
        room = self._room
        if not room.pause.on:
            self._paused_at = room.given.clock.now()
            room.pause.begin()
            room.progress.paused = True
            self._say(f"paused by {by}: nothing new is sent, calls in flight finish; judgerun unpause")

    def _end_pause(self, by: str) -> None:
        room = self._room
        if room.pause.on:
            room.lanes.forgive(uncounted=0.0, stopped=room.given.clock.now() - self._paused_at)
            room.lanes.restart()
            room.pause.end()
            room.progress.paused = False
            self._say(f"unpaused by {by}")
            self._pump()

    def _set(self) -> None:
        """Run by what was set. What the ledger lets through is not asked here: it reads the caps for itself."""
        room, before = self._room, {str(cap): cap.limit for cap in self._budget.caps}
        self._budget = self._budget.amended(self._settings, since=self._since)
        for cap in self._budget.caps:
            if cap.limit != before[str(cap)]:
                self._say(f"the cap {cap} of budget {self._budget.name} is now {cap.told(cap.limit)}")
            if cap.limit > before[str(cap)]:
                room.refill(str(cap))
        for lane in room.lanes.amend(self._settings, since=self._since):
            self._say(f"lane {lane} goes by what was set")
        room.money.wake_all()
        self._pump()

    def _say(self, words: str) -> None:
        self._room.progress.news.append(words)
