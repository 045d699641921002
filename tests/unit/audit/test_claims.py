"""Claims: what can be true as it is printed, and what cannot."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.audit.claims import (
    differences,
    numerator,
    tells,
    wrong_change,
    wrong_percent,
    wrong_sets,
    wrong_sum,
    wrong_value,
)


@given(st.integers(1, 5_000), st.data(), st.integers(0, 3))
def test_every_share_of_whole_items_can_be_printed(n: int, data: st.DataObject, places: int) -> None:
    """Whatever the count, rounded half even as most programs do: the percentage passes, and its numerator gives it."""
    count = data.draw(st.integers(0, n))
    printed = str((Decimal(100 * count) / n).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))
    assert wrong_percent(printed, n) is None
    found = numerator(printed, n)
    assert found is not None
    assert abs(Decimal(100 * found) / n - Decimal(printed)) <= Decimal(5).scaleb(-places - 1)


@given(st.integers(1, 90), st.integers(0, 999))
def test_a_percentage_passes_only_where_a_count_gives_it(n: int, tenths: int) -> None:
    """All counts are looked at: a printed percentage passes exactly where one of them rounds to it."""
    printed = f"{tenths / 10:.1f}"
    near = any(abs(Decimal(100 * count) / n - Decimal(printed)) <= Decimal("0.05") for count in range(n + 1))
    assert (wrong_percent(printed, n) is None) == near


@pytest.mark.parametrize(
    ("printed", "n", "count"),
    [("9.3", 118, 11), ("9.4", 118, None), ("32.14", 56, 18), ("50.0", 118, 59), ("100", 3, 3), ("101", 3, None)],
)
def test_known_percentages(printed: str, n: int, count: int | None) -> None:
    """11 of 118 is 9.3%, and nothing of 118 is 9.4%."""
    assert numerator(printed, n) == count
    assert (wrong_percent(printed, n) is None) == (count is not None)


def test_many_items_say_nothing() -> None:
    """Of 117,088 items every percentage with two decimals is some share."""
    assert tells("9.3", 118)
    assert not tells("9.30", 117_088)


@pytest.mark.parametrize(
    ("parts", "total", "fine"),
    [
        (["40", "78"], "118", True),
        (["40", "77"], "118", False),
        (["33.3", "33.3", "33.3"], "100.0", True),
        (["33.3", "33.3", "33.1"], "100.0", False),
    ],
)
def test_roll_ups_add_up_as_they_are_printed(parts: list[str], total: str, fine: bool) -> None:
    """Counts exactly, rounded numbers within what rounding allows."""
    assert (wrong_sum(parts, total) is None) is fine


def test_a_change_is_that_between_its_numbers() -> None:
    """13.6 -> 45.5 is +31.9 or +31.8 as rounded, and not the +18.2 that was printed."""
    assert wrong_change("13.6", "45.5", "31.8") is None
    assert wrong_change("13.6", "45.5", "18.2") == "13.6 -> 45.5 is +31.9, not 18.2"


def test_lists_of_one_length_may_differ() -> None:
    """146 finished and 146 correct are no same set: what either lacks is named."""
    assert wrong_sets(["a", "b"], ["b", "a"]) is None
    assert (
        wrong_sets(["a", "b", "c"], ["b", "c", "d"])
        == "both have 3, and they differ; only the first: a; only the second: d"
    )
    assert wrong_sets(["a"], ["a", "b"]) == "1 and 2; only the second: b"


def test_a_number_is_compared_to_its_decimals() -> None:
    """A computed number is rounded as the claim is printed."""
    assert wrong_value("32.1", 32.142857) is None
    assert wrong_value("32.2", 32.142857) == "it is 32.1, not 32.2"


def test_settings_are_compared_key_by_key() -> None:
    """Each difference is told with its path and both values."""
    one = {"seed": 1, "models": {"glm": {"cap": 16}}, "same": [1]}
    other = {"seed": 2, "models": {"glm": {"cap": 4096}, "haiku": {}}, "same": [1]}
    assert list(differences(one, other)) == [
        "models.glm.cap: 16 and 4096",
        "models.haiku: nothing and {}",
        "seed: 1 and 2",
    ]
