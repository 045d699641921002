"""Agreement of several raters: Krippendorff's alpha, and all coefficients of two with their intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.analysis.agreement import Metric, coefficients, exact, kappa, krippendorff, weighted_kappa

#: Four observers of twelve units with gaps: the example by which Krippendorff explains alpha (1 to 5; None: not judged).
OBSERVED = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


@pytest.mark.parametrize(("metric", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(metric: Metric, alpha: float) -> None:
    """Krippendorff's own example gives his own numbers."""
    found = krippendorff(list(zip(*OBSERVED, strict=True)), metric)
    assert found is not None
    assert round(found, 3) == alpha


def test_alpha_where_nothing_varies_or_nobody_judged_twice() -> None:
    """One value throughout, or units with one rating each: not defined."""
    assert krippendorff([(1, 1), (1, 1)]) is None
    assert krippendorff([(1, None), (None, 2)]) is None
    assert krippendorff([]) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_coefficients_are_those_of_the_plain_functions(pairs: list[tuple[int, int]]) -> None:
    """The point values of all at once are those of each function alone, and lie within their intervals' range of -1 to 1."""
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    told = coefficients(first, second, metric="ordinal", seed=3, resamples=50)
    assert told["exact"].value == pytest.approx(exact(first, second))
    for name, value in (("kappa", kappa(first, second)), ("weighted kappa", weighted_kappa(first, second))):
        assert told[name].value == (None if value is None else pytest.approx(value))
    alpha = krippendorff(pairs, "ordinal")
    assert told["alpha"].value == (None if alpha is None else pytest.approx(alpha))
