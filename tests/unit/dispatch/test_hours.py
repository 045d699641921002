"""The account of a lane: its causes add up to slots times time whatever is told to it; lateness; the places of lanes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import tables
from fakes.flow import deployment
from judgerun.dispatch.beat import Place, places
from judgerun.dispatch.hours import DOING, SLOT_CAUSES, Account, Hours, SlotCause, Stint
from judgerun.dispatch.progress import Lateness
from judgerun.model.experiment import Experiment

Step = tuple[int, float, SlotCause, bool]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 9.0), st.sampled_from(DOING), st.booleans()), max_size=40),
    st.integers(0, 4),
    st.lists(st.integers(1, 40), max_size=3),
)
def test_causes_add_up_to_slots_times_time(steps: list[Step], cut: int, closings: list[int]) -> None:
    """Whatever four pieces of work do, and whenever the account is closed: nothing is lost, doubled or negative."""
    account = Account("lab", width=lambda: (4, 4 - cut), now=0.0)
    work = [Stint((account,), 0.0) for _ in range(4)]
    now = 0.0
    for number, (who, after, doing, holds) in enumerate(steps):
        now += after
        work[who].holds = int(holds)
        work[who].turn(doing, now)
        if number in closings:
            account.close(now, "window")
    account.close(now + 1.0, "nothing left")
    assert sum(account.spent.values()) == pytest.approx(4 * (now + 1.0))
    assert min(account.spent.values()) >= -1e-6


def test_a_free_slot_goes_to_what_its_work_waits_for_and_the_rest_to_the_reason() -> None:
    """Of four slots one sends, one was cut, one is the backoff's; for the last there is no work."""
    account = Account("lab", width=lambda: (4, 3), now=0.0)
    busy, sleeping = Stint((account,), 0.0), Stint((account,), 0.0)
    busy.holds = 1
    busy.turn("sending", 0.0)
    sleeping.turn("backoff", 0.0)
    assert account.present() == {"sending": 1}
    account.close(10.0, "upstream")
    assert account.shares == {"sending": 10.0, "backoff": 10.0, "cut": 10.0, "upstream": 10.0}


def test_work_that_waits_for_a_slot_of_another_lane_is_told_by_the_lane_that_gave_one() -> None:
    """Work with a slot of its model's lane that waits for one of its provider: the model's lane tells of the other, and the
    provider's, all of whose slots send, of nothing but sending.
    """
    hours = Hours()
    own = hours.open("lab/a", width=lambda: (1, 1), now=0.0)
    outer = hours.open("lab", width=lambda: (1, 1), now=0.0)
    other, waits = Stint((outer,), 0.0), Stint((own, outer), 0.0)
    other.holds = waits.holds = 1
    other.turn("sending", 0.0)
    waits.turn("other lane", 0.0)
    hours.close(10.0, lambda account: "unknown")
    assert hours.spent() == {"lab/a": {"other lane": 10.0}, "lab": {"sending": 10.0}}
    assert set(SLOT_CAUSES) >= set(DOING)


def test_lateness_tells_the_recent_and_the_worst() -> None:
    """What is long ago is no more than the worst of all."""
    lateness = Lateness(beats=3)
    for late in (0.5, 0.0, 0.15, 0.2):
        lateness.note(late)
    assert (lateness.most, lateness.recent, lateness.held_up) == (0.5, 0.2, 2)


def test_a_lane_is_fed_by_rows_or_by_the_stages_upstream() -> None:
    """A solver's lane is fed by the rows; its grader's waits for it; a lane that no stage asks has no place."""
    lab, fast, spare = (deployment(name, "http://127.0.0.1:1/v1") for name in ("lab", "fast", "spare"))
    solver = tables.arm("a", "p", "solve {{ text }}", given={"provider": lab})
    grader = tables.arm("g", "q", "grade {{ solve.reply }}", given={"provider": fast})
    unused = tables.arm("u", "r", "none", given={"provider": spare})
    stages = (tables.chat("solve", "rows", solver), tables.chat("grade", "solve", grader))
    found = places(Experiment(name="e", folder="", seed=1, stages=stages), [solver.model, grader.model, unused.model])
    assert found["lab"] == found["lab/a"] == Place(fed=True, upstream=frozenset())
    assert found["fast"] == Place(fed=False, upstream=frozenset({"solve"}))
    assert "spare" not in found
