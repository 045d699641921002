"""Forecasts: small cases by hand, and how often what came lay within, over laws with long tails and points at the cap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.analysis.columns import Floats
from judgerun.analysis.forecast import Group, Sums, beyond, forecast, later, middle

Draw = Callable[[np.random.Generator, int], Floats]
CAP = 40.0


def group(
    amounts: list[float] | Floats, *, left: float, most: float = CAP, weights: list[float] | None = None
) -> Group:
    """One unit."""
    held = np.asarray(amounts, dtype=np.float64)
    each = np.ones(len(held)) if weights is None else np.asarray(weights, dtype=np.float64)
    return Group(weights=each, amounts=held[:, None], most=np.array([most]), left=left)


def drawn(one: Group, *, seed: int = 3, resamples: int = 1_000) -> Sums:
    """The draws of one group."""
    return forecast([one], rng=np.random.default_rng(seed), resamples=resamples)[0]


def test_items_that_all_cost_their_most_leave_no_doubt() -> None:
    """Nothing can cost more, and the mean is theirs."""
    sums = drawn(group([5.0] * 4, left=10, most=5.0))
    assert np.allclose(sums.high, 50.0)
    assert np.allclose(sums.plain, 50.0)
    assert sums.low.max() <= 50.0


def test_one_item_leaves_half_of_what_comes_unseen() -> None:
    """With n = 1 the share of the unseen is uniform: of very many items a half on average, and 95 % at its 95 % quantile."""
    sums = drawn(group([0.0], left=100_000, most=1.0), resamples=20_000)
    assert sums.high.mean() / 100_000 == pytest.approx(0.5, abs=0.01)
    assert np.quantile(sums.high, 0.95) / 100_000 == pytest.approx(0.95, abs=0.01)
    assert not sums.low.any()
    assert not sums.plain.any()


def test_a_group_without_an_observed_cell_is_taken_at_its_most() -> None:
    """Weight 0 everywhere, or no item at all: what is expected, and every draw above it, is the most; the least is nothing."""
    for empty in (group([0.0, 0.0], left=7, most=2.0, weights=[0, 0]), group([], left=7, most=2.0)):
        sums = drawn(empty)
        assert empty.means[0] == 14.0
        assert np.allclose(sums.plain, 14.0)
        assert np.allclose(sums.high, 14.0)
        assert np.allclose(sums.low, 0.0)


def test_the_mean_is_that_of_a_cell_times_the_cells_that_are_left() -> None:
    """Items of two cells and one: 9 for 3 cells makes 3 a cell; the draws centre on it when many are left."""
    one = group([8.0, 1.0], left=12, weights=[2, 1])
    assert one.means[0] == 36.0


def test_costs_of_one_item_in_two_groups_come_together() -> None:
    """Two groups with the same costs are drawn alike; one with a quarter of the cells left scatters more, as it must."""
    held = np.random.default_rng(1).lognormal(0, 1, 30)
    same = forecast([group(held, left=400), group(held, left=400)], rng=np.random.default_rng(2), resamples=500)
    assert np.array_equal(same[0].high, same[1].high)
    fewer = forecast([group(held, left=400), group(held, left=5)], rng=np.random.default_rng(2), resamples=2_000)
    spread = [float(one.plain.std() / one.plain.mean()) for one in fewer]
    assert spread[1] > 1.5 * spread[0]


def test_groups_of_different_items_are_refused() -> None:
    """Their rows do not belong together."""
    with pytest.raises(ValueError, match="differ in their items"):
        forecast([group([1.0], left=1), group([1.0, 2.0], left=1)], rng=np.random.default_rng(0))


def test_the_same_generator_gives_the_same_draws_in_chunks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte; nothing is lost or drawn twice where draws do not fit at once."""
    held = group(np.random.default_rng(1).lognormal(0, 1, 9), left=50)
    assert drawn(held).high.tobytes() == drawn(held).high.tobytes()
    monkeypatch.setattr("judgerun.analysis.forecast.CHUNK", 70)
    assert drawn(held).high.shape == (1_000, 1)


def tailed(sigma: float) -> Draw:
    return lambda rng, n: np.minimum(rng.lognormal(0, sigma, n), CAP)


def capped(share: float) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < share, CAP, rng.lognormal(0, 0.5, n))


def mixed(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.2, np.minimum(rng.lognormal(2.5, 0.5, n), CAP), rng.lognormal(0, 0.3, n))


LAWS: dict[str, Draw] = {
    "tail": tailed(1.0),
    "long tail": tailed(1.5),
    "1 % at the cap": capped(0.01),
    "5 % at the cap": capped(0.05),
    "mixture": mixed,
}
TRIALS = 200
SLACK = 3.3 * float(np.sqrt(0.05 * 0.95 / TRIALS))  # one in a thousand of a true 95 %


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n", "left"), [(8, 200), (30, 500), (50, 20)])
def test_the_rest_costs_what_was_foretold_under_every_law(law: str, n: int, left: int) -> None:
    """The sum lies above the 5 % quantile, and below the 95 % quantile, at least as often as they say, also of eight items; where
    next to all of the tail is unseen the plain bootstrap does not come near that.
    """
    seed = 11
    rng = np.random.default_rng(seed)
    above = below = plain = 0
    for _ in range(TRIALS):
        seen, came = LAWS[law](rng, n), float(LAWS[law](rng, left).sum())
        sums = forecast([group(seen, left=left)], rng=rng, resamples=400)[0]
        above += bool(came >= np.quantile(sums.low, 0.05))
        below += bool(came <= np.quantile(sums.high, 0.95))
        plain += bool(came <= np.quantile(sums.plain, 0.95))
    print(f"{law}: seed {seed}, n {n}, left {left}: above {above}, below {below}, plain {plain} of {TRIALS}")
    assert above / TRIALS >= 0.95 - SLACK
    assert below / TRIALS >= 0.95 - SLACK
    if n == 8:
        assert plain / TRIALS < 0.95 - SLACK


def test_later_counts_by_hand() -> None:
    """After none of none, one more is bad with a half; after 1 of 1, with 3/4 (Jeffreys); the quantiles and tails of these."""
    assert later(0, 0, more=1) == pytest.approx([0.5, 0.5])
    assert later(1, 1, more=1) == pytest.approx([0.25, 0.75])
    assert later(3, 9, more=0) == pytest.approx([1.0])
    assert middle(np.array([0.25, 0.75]), level=0.9) == (0, 1)
    assert middle(np.array([0.01, 0.98, 0.01]), level=0.9) == (1, 1)
    assert beyond(np.array([0.25, 0.75]), 0.0) == pytest.approx(0.75)
    assert beyond(np.array([0.25, 0.75]), -0.1) == pytest.approx(1.0)
    assert beyond(np.array([0.25, 0.75]), 1.0) == 0.0


@given(n=st.integers(0, 60), bad=st.integers(0, 60), more=st.integers(0, 300))
def test_later_counts_are_probabilities_about_the_right_mean(n: int, bad: int, more: int) -> None:
    """They sum to one, and their mean is more x (k + 1/2) / (n + 1)."""
    k = min(n, bad)
    found = later(k, n, more=more)
    assert len(found) == more + 1
    assert found.sum() == pytest.approx(1.0)
    assert float(found @ np.arange(more + 1)) == pytest.approx(more * (k + 0.5) / (n + 1), rel=1e-6, abs=1e-9)
    low, high = middle(found, level=0.9)
    assert found[low : high + 1].sum() >= 0.9 - 1e-9


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.1, 0.5])
def test_predicted_counts_hold_what_came(rate: float) -> None:
    """The 90 % interval of the bad ones of the rest holds it in about nine of ten runs, or more where few are bad."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(TRIALS):
        k, came = int(rng.binomial(30, rate)), int(rng.binomial(200, rate))
        low, high = middle(later(k, 30, more=200), level=0.9)
        held += low <= came <= high
    print(f"seed 5, rate {rate}: {held} of {TRIALS}")
    assert held / TRIALS >= 0.9 - 3.3 * float(np.sqrt(0.09 / TRIALS))
