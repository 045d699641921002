"""Event: something that happened to a run, or that a person asked of one, as the cache keeps it; rows of one table, never changed.

The kinds, with whose name the subject is, and what the detail tells (JSON where it says so):

    stop end          experiment      how a run ended
    recover           experiment      holds of dead processes that were forfeited
    forfeit cancel    experiment      what a person did to a job
    pin               experiment      a file that changed since the last run
    freeze unfreeze   budget          why
    gate              condition       which limit stopped it, the numbers, and bad items (JSON)
    resume            condition       why it goes on all the same, and how it stood then (JSON)
    quote             experiment      what a call of each condition was quoted at when it first ran (JSON)
    pilot             experiment      a launch certificate (JSON)
    escalate          experiment      a plan by which items are bought again under higher caps (JSON)
    ask               experiment      pause, unpause, stop or now, of processes that live (JSON: of which owners, until when)
    set               budget or lane  a cap or a limit in the place of what is written (JSON: key, was, now)
    slow stall open   provider        what the scheduler saw of a provider, and what it did
    suspend           experiment      that the machine was asleep
    failover          model           that its cells go to another one
"""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    """One row. `experiment` is None where it concerns no single one."""

    id: int
    at: float  # Unix seconds
    kind: str
    subject: str
    detail: str
    experiment: str | None
