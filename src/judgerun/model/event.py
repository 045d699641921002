"""Event: something that happened to a run, or that a person asked of one, as the cache keeps it; rows of one table, never changed.

The kinds, with what the subject names, and what the detail tells (JSON where it says so):

    stop end          experiment      how a run ended: why, or that nothing was left to do
    recover           experiment      how many holds of dead processes were forfeited
    forfeit cancel    experiment      what a person did to a job
    pin               experiment      a file that changed since the last run
    freeze unfreeze   budget          why
    gate              condition       which limit stopped it, the numbers, and bad items (JSON)
    resume            condition       why it goes on all the same, why it had stopped, and how it stood then (JSON)
    quote             experiment      what a call of each condition was quoted at when it first ran (JSON)
    pilot             experiment      a launch certificate (JSON)
    escalate          experiment      a plan by which items are bought again under higher caps (JSON)
    ask               experiment      pause, unpause, stop or now, of which living processes, by whom, until when (JSON)
    set               budget B, lane L   a cap or a limit in the place of what the file says (JSON: key, was, now)
    register          experiment      what is fixed: items by name, their digest, how many replies were there (JSON)
    exclude           condition key, item ID  what is left out, or taken in again, why, how many replies were there (JSON)
    import            run             files of another program that were read, with their digests
    reconcile         report          a statement's files with their digests, the verdict, the parts of the residual (JSON)
    recount           experiment      the output tokens of replies, counted anew, by request (JSON)
    slow stall        provider        one of its models is slow or silent, what was done about it, and that it is over
    open              provider        its breaker opened, half-opened or closed
    suspend           experiment      for how long the machine, or the process, was asleep
    failover          model           to which model its cells go, and why
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
