"""What to do after a failure: pure, but for the random number that it is handed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tenacity import RetryCallState, Retrying, wait_exponential

from judgerun.model.reply import CLOSING, RETRIABLE, UNCOUNTED, Failure

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
WAIT_MAX_S = 600.0
"""How long a cell waits in all for a provider that is patient-less (429) or out of reach, before that means something."""

#: The window of the backoff: 1, 2, 4 ... 60 s. The place within it is drawn here, since tenacity's own jitter draws from the
#: global generator, which no seed of ours reaches.
_WINDOW = wait_exponential(multiplier=BACKOFF_FIRST_S, max=BACKOFF_MAX_S)


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after so many seconds; `counted` says whether the try that failed uses up one of `attempts_max`."""

    after: float
    counted: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The cell is lost."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseProvider:
    """Nothing more will work at this provider now; its cells stay pending."""

    reason: str


Next = Again | GiveUp | CloseProvider


def says(failure: Failure) -> str:
    """A failure in a few words, for people."""
    status = f" (http {failure.status})" if failure.status else ""
    detail = f": {failure.detail[:200]}" if failure.detail else ""
    return f"{failure.cause.value}{status}{detail}"


def decide(
    failure: Failure,
    *,
    tries: int,
    failures: int,
    waited: float,
    alive: bool,
    attempts_max: int,
    rng: random.Random,
    wait_max: float = WAIT_MAX_S,
) -> Next:
    """What follows a failure.

    `tries` counts the tries of the cell before this one that were counted; `failures` all before this one; `waited` is the
    sum of the seconds that the cell slept after failures that were not counted; `alive` says whether the provider has
    answered anybody since the cell began to wait. A try counts when it may have been billed or was a server's error. One that
    did not reach the provider, or was asked to be patient, only costs time: past `wait_max` the provider is closed, or, where
    it keeps answering others, the request itself is at fault and the cell is given up.
    """
    if failure.cause in CLOSING:
        return CloseProvider(says(failure))
    if failure.cause not in RETRIABLE:
        return GiveUp(says(failure))
    if failure.cause in UNCOUNTED:
        if waited >= wait_max:
            why = f"{says(failure)}, for {waited:.0f} s"
            return GiveUp(f"{why}, while others were answered") if alive else CloseProvider(why)
        return Again(min(_after(failure, failures, rng, wait_max), wait_max - waited), counted=False)
    if tries + 1 >= attempts_max:
        return GiveUp(f"{tries + 1} tries, the last {says(failure)}")
    return Again(_after(failure, failures, rng, wait_max), counted=True)


@dataclass(slots=True)
class Tries:
    """What the tries of a cell, or of a batch of texts, came to so far."""

    counted: int = 0
    failed: int = 0  # all
    waited: float = 0.0  # seconds slept after failures that do not count
    answered: int = 0  # how many calls the provider had answered when the waiting began

    def after(self, failure: Failure, *, answered: int, attempts_max: int, rng: random.Random) -> Next:
        """What follows a further failure, which is added to them; `answered` calls the provider has answered by now."""
        if not self.waited:
            self.answered = answered
        following = decide(
            failure,
            tries=self.counted,
            failures=self.failed,
            waited=self.waited,
            alive=answered > self.answered,
            attempts_max=attempts_max,
            rng=rng,
        )
        if isinstance(following, Again):
            self.failed += 1
            self.counted += following.counted
            self.waited += 0.0 if following.counted else following.after
        return following


def _after(failure: Failure, failures: int, rng: random.Random, wait_max: float) -> float:
    """Seconds until the next try: full jitter in a widening window, but not before the provider's own hint.

    A hint is kept however long, up to `wait_max`; beyond that it is no hint but a fault. Up to a tenth more is added, so that
    all whom a provider sent away do not come back in one moment.
    """
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = failures + 1
    drawn = rng.uniform(0.0, _WINDOW(state))
    if failure.retry_after is None:
        return drawn
    hint = min(max(failure.retry_after, 0.0), wait_max)
    return max(drawn, hint + rng.uniform(0.0, min(1.0, hint / 10)))
