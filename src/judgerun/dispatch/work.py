"""Work: one or more cells that share an attempt, and the states through which they pass.

A try goes in one order: money queue, slot, rate turn, reservation, send, close. The order is what makes the promises hold:

- The reservation commits last, right before the first byte leaves, and asks the caps and the windows of the cache once more.
  So a hold exists only on a call that is about to be sent: nobody waits while holding money, and no two runs can deadlock.
- What must wait for money, for another process or for a backoff owns neither slot nor turn meanwhile.
- From the reservation to its close nothing but the second stop interferes, and even that ends in a close: each reservation
  has exactly one end.
- The slot is held until the close is durable. Released earlier, twice as many calls could stand between an answer and its
  record, which a kill would lose.

Which state holds what, and whether a stop may end it:

    state      slot  turn  hold  a stop ends it
    MONEY       -     -     -    yes
    SLOT        -     -     -    yes
    TURN       yes    -     -    yes    (with a lane of its own, a model owns that slot and turn before the provider's; the leave
                                         of the breaker and the turn of what the provider states come before any slot)
    CLAIM      yes   yes    ?    no: what it is granted is voided unsent
    SENT       yes   used  yes   no; the second stop does, and the hold is forfeited
    CLOSED     yes   used   -    no
    BACKOFF     -     -     -    yes
    FOREIGN     -     -     -    yes
    DONE        -     -     -    (every cell has a reply or a reason)
    PENDING     -     -     -    (dropped: a later run may fill it)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from judgerun.dispatch.hours import OUTSIDE, Stint
from judgerun.dispatch.lane import Route
from judgerun.dispatch.money import Scope
from judgerun.dispatch.retry import Tries
from judgerun.dispatch.slots import Rank
from judgerun.errors import InvariantBroken
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell


class State(Enum):
    """Where a piece of work stands."""

    MONEY = auto()
    SLOT = auto()
    TURN = auto()
    CLAIM = auto()
    SENT = auto()
    CLOSED = auto()
    BACKOFF = auto()
    FOREIGN = auto()
    DONE = auto()
    PENDING = auto()

    __hash__ = object.__hash__  # Enum's own is Python, and is asked for sixteen times a call


#: Which state may follow which.
NEXT: Mapping[State, frozenset[State]] = {
    State.MONEY: frozenset({State.SLOT, State.PENDING}),
    State.SLOT: frozenset({State.TURN, State.PENDING}),
    State.TURN: frozenset({State.SLOT, State.CLAIM, State.MONEY, State.PENDING}),
    State.CLAIM: frozenset({State.SENT, State.CLOSED, State.MONEY, State.FOREIGN, State.DONE, State.PENDING}),
    State.SENT: frozenset({State.CLOSED}),
    State.CLOSED: frozenset({State.DONE, State.BACKOFF, State.MONEY, State.PENDING}),
    State.BACKOFF: frozenset({State.MONEY, State.PENDING}),
    State.FOREIGN: frozenset({State.MONEY, State.PENDING}),
    State.DONE: frozenset(),
    State.PENDING: frozenset(),
}


@dataclass(slots=True, kw_only=True, eq=False)
class Work:
    """Cells that share an attempt: one chat cell, or a batch of embedding cells of one condition and model."""

    cells: list[Cell]
    embed: bool  # a batch of embedding cells
    rank: Rank  # of the first cell
    model: Model
    route: Route
    scopes: tuple[Scope, ...]  # the caps that cover it
    conditions: tuple[str, ...]  # its own and those upstream
    state: State = State.MONEY
    task: asyncio.Task[None] | None = None  # that drives it
    stint: Stint = OUTSIDE  # in the hours of its lanes, once it is started
    called: Scope | None = None  # the money queue whose head it is while it tries
    tries: Tries = field(default_factory=Tries)
    foreign: bool = False  # another process may hold a key open: look before trying
    away: bool = False  # its provider was away when its last try failed

    @property
    def provider(self) -> str:
        """The deployment that serves it."""
        return self.model.provider.name

    @property
    def asks(self) -> str:
        """The experiment's name of the model."""
        return self.model.name

    @property
    def failed(self) -> int:
        """Tries that failed."""
        return self.tries.failed

    @property
    def size(self) -> int:
        """Cells."""
        return len(self.cells)

    def enter(self, state: State) -> None:
        """Pass to a state that may follow this one."""
        if state not in NEXT[self.state]:
            raise InvariantBroken(f"an attempt went from {self.state.name} to {state.name}")
        self.state = state


def ancestry(condition: str) -> tuple[str, ...]:
    """A condition and those upstream of it: the tails of its name after each `@`."""
    segments = condition.split("@")
    return tuple("@".join(segments[n:]) for n in range(len(segments)))
