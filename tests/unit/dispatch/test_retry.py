"""Retry: what follows which failure, and how long it takes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.dispatch.retry import BACKOFF_MAX_S, WAIT_MAX_S, Again, CloseProvider, GiveUp, Next, decide
from judgerun.model.reply import Billable, Cause, Failure


def after(cause: Cause, *, retry_after: float | None = None, **given_: object) -> Next:
    """What follows a failure of that cause."""
    failure = Failure(cause=cause, billable=Billable.UNKNOWN, retry_after=retry_after, status=599, detail="said")
    values: dict[str, object] = {"tries": 0, "failures": 0, "waited": 0.0, "alive": False, "attempts_max": 5}
    return decide(failure, rng=random.Random(1), **{**values, **given_})  # type: ignore[arg-type]


@pytest.mark.parametrize("cause", [Cause.QUOTA, Cause.UNAUTHORISED])
def test_out_of_credit_closes_the_provider(cause: Cause) -> None:
    """Nothing more will work there, whatever tries are left."""
    assert isinstance(after(cause), CloseProvider)


@pytest.mark.parametrize("cause", [Cause.REJECTED, Cause.TOO_LONG])
def test_what_fails_for_good_is_given_up_at_once(cause: Cause) -> None:
    """The same request would fail again: no second try, and the reason names status and detail."""
    said = after(cause)
    assert isinstance(said, GiveUp)
    assert "599" in said.reason
    assert "said" in said.reason


@pytest.mark.parametrize(
    "cause", [Cause.TIMED_OUT, Cause.DISCONNECTED, Cause.MALFORMED, Cause.OVERSIZED, Cause.OVERLOADED]
)
def test_tries_that_may_be_billed_count(cause: Cause) -> None:
    """They are repeated until `attempts_max`, and then the cell is lost; one attempt means one."""
    again = after(cause, tries=3)
    assert isinstance(again, Again)
    assert again.counted
    assert again.after == pytest.approx(0.134, abs=0.01)
    assert isinstance(after(cause, tries=4), GiveUp)
    assert isinstance(after(cause, attempts_max=1), GiveUp)


@pytest.mark.parametrize("cause", [Cause.RATE_LIMITED, Cause.NOT_SENT])
def test_patience_does_not_count_but_ends(cause: Cause) -> None:
    """A provider that cannot be reached or asks for patience uses up no try; past the limit it is closed, unless it answers
    others: then this request is at fault.
    """
    said = after(cause, tries=0, attempts_max=1)
    assert isinstance(said, Again)
    assert not said.counted
    assert isinstance(after(cause, waited=WAIT_MAX_S), CloseProvider)
    assert isinstance(after(cause, waited=WAIT_MAX_S, alive=True), GiveUp)


@given(
    hint=st.floats(0, 1e9),
    waited=st.floats(0, WAIT_MAX_S - 1),
    failures=st.integers(0, 10_000),
    seed=st.integers(0, 1000),
)
def test_hint_is_kept_and_bounded(hint: float, waited: float, failures: int, seed: int) -> None:
    """Never before the provider's hint, as far as the total wait allows; never beyond that total."""
    failure = Failure(cause=Cause.RATE_LIMITED, billable=Billable.NO, retry_after=hint)
    said = decide(
        failure,
        tries=0,
        failures=failures,
        waited=waited,
        alive=True,
        attempts_max=5,
        rng=random.Random(seed),
    )
    assert isinstance(said, Again)
    assert min(hint, WAIT_MAX_S - waited) <= said.after <= WAIT_MAX_S - waited


@given(failures=st.integers(0, 10_000), seed=st.integers(0, 1000))
def test_backoff_is_full_jitter_in_a_bounded_window(failures: int, seed: int) -> None:
    """Between nothing and 1, 2, 4 ... 60 seconds, drawn from the generator that is handed in."""
    failure = Failure(cause=Cause.OVERLOADED, billable=Billable.NO)

    def drawn() -> Next:
        return decide(
            failure,
            tries=0,
            failures=failures,
            waited=0,
            alive=True,
            attempts_max=5,
            rng=random.Random(seed),
        )

    said = drawn()
    assert isinstance(said, Again)
    assert 0 <= said.after <= min(2.0 ** min(failures, 10), BACKOFF_MAX_S)
    assert said == drawn()


def test_those_sent_away_together_do_not_come_back_together() -> None:
    """The same hint given to a hundred cells spreads their next tries."""
    rng = random.Random(3)
    failure = Failure(cause=Cause.RATE_LIMITED, billable=Billable.NO, retry_after=30.0)
    said = [decide(failure, tries=0, failures=0, waited=0, alive=True, attempts_max=5, rng=rng) for _ in range(100)]
    times = {again.after for again in said if isinstance(again, Again)}
    assert len(times) == 100
    assert 30.0 <= min(times) <= max(times) <= 31.0


def life(cause: Cause, *, hint: float | None, attempts_max: int, seed: int) -> tuple[list[float], int, Next]:
    """A cell whose every try fails: how long it slept each time, how many tries were made, and how it ended."""
    rng, waits = random.Random(seed), list[float]()
    tries, waited = 0, 0.0
    while True:
        failure = Failure(cause=cause, billable=Billable.UNKNOWN, retry_after=hint)
        said = decide(
            failure,
            tries=tries,
            failures=len(waits),
            waited=waited,
            alive=False,
            attempts_max=attempts_max,
            rng=rng,
        )
        if not isinstance(said, Again):
            return waits, len(waits) + 1, said
        waits.append(said.after)
        tries += said.counted
        waited += 0.0 if said.counted else said.after


@given(hint=st.none() | st.sampled_from([0.0, 2.0, 89.0, 599.0, 900.0, 1e9]), seed=st.integers(0, 50))
def test_the_sum_of_waits_is_bounded_and_reached(hint: float | None, seed: int) -> None:
    """Whatever each 429 asks for, nothing at all included, a cell waits as long in all as the limit says, and then it ends."""
    waits, _, end = life(Cause.RATE_LIMITED, hint=hint, attempts_max=1, seed=seed)
    assert sum(waits) == pytest.approx(WAIT_MAX_S)
    assert isinstance(end, CloseProvider)


@pytest.mark.parametrize("attempts_max", [1, 2, 5])
def test_attempts_max_is_the_number_of_tries(attempts_max: int) -> None:
    """One means one: nothing is asked again after a try that counts."""
    waits, tries, end = life(Cause.OVERLOADED, hint=None, attempts_max=attempts_max, seed=1)
    assert (len(waits), tries) == (attempts_max - 1, attempts_max)
    assert isinstance(end, GiveUp)


def test_a_hint_does_not_widen_the_backoff_nor_does_none_at_all_end_it() -> None:
    """The window widens with the failures alone. A hint of 0 adds nothing to it, and takes nothing away: who is sent away with
    it again and again would else ask without a pause.
    """
    patient, _, _ = life(Cause.OVERLOADED, hint=89.0, attempts_max=9, seed=4)
    assert all(89.0 <= wait <= 90.0 for wait in patient)
    eager, _, _ = life(Cause.OVERLOADED, hint=0.0, attempts_max=9, seed=4)
    assert all(0.0 < wait <= min(2.0**n, BACKOFF_MAX_S) for n, wait in enumerate(eager))
