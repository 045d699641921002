"""What a run changes of its process."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from judgerun.api.running import YOUNG, _patient


def test_the_collector_is_patient_during_a_run_alone() -> None:
    """The threshold of the cycle collector is raised inside, also by a second run within, and put back even after an error."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        with suppress(KeyError), _patient():
            with _patient():
                assert gc.get_threshold() == (YOUNG, 10, 10)
            assert gc.get_threshold() == (YOUNG, 10, 10)
            raise KeyError
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("young", [0, 600_000])
def test_a_patience_of_ones_own_is_let_be(young: int) -> None:
    """Who has switched the collector off, or made it more patient already, keeps that."""
    before = gc.get_threshold()
    gc.set_threshold(young, 10, 10)
    try:
        with _patient():
            assert gc.get_threshold() == (young, 10, 10)
    finally:
        gc.set_threshold(*before)


def test_the_collector_looks_at_what_stays_and_not_at_what_comes_and_goes() -> None:
    """Waves of as many objects as 2,000 calls in flight are bring no look of the collector; objects that pile up do."""
    looks: list[str] = []

    def look(phase: str, _: dict[str, int]) -> None:
        looks.append(phase)

    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        with _patient():
            gc.callbacks.append(look)
            for _ in range(4):
                wave = [[number] for number in range(280_000)]
                del wave
            assert looks == []
            kept = [[number] for number in range(2 * YOUNG)]
            assert looks
            del kept
    finally:
        gc.callbacks.remove(look)
        gc.set_threshold(*before)
