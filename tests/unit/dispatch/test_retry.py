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
    assert isinstance(after(cause, tries=3), Again)
    assert after(cause, tries=3) == Again(after=pytest.approx(0.134, abs=0.01), counted=True)
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
