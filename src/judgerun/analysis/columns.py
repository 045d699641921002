"""What columns analysis accepts: checks alone, apart from every computation.

The policy for NaN, here and in all of analysis: it is refused. Whether a row without a value is dropped, counted as false or
bounded is a decision that belongs to the question, so it is made before the numbers come here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def column(values: npt.ArrayLike, name: str = "values") -> Floats:
    """One-dimensional float64; booleans count as 0 and 1. ValueError for another shape, NaN, infinity, or what is no number."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} are not numbers but {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    made = array.astype(np.float64)
    if not np.isfinite(made).all():
        raise ValueError(f"{name} hold NaN or infinity at place {int(np.flatnonzero(~np.isfinite(made))[0])}")
    return made


def pair(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Two columns of one length. ValueError as in `column`, or for lengths that differ."""
    a, b = column(first, "the first values"), column(second, "the second values")
    if len(a) != len(b):
        raise ValueError(f"the columns differ in length: {len(a)} and {len(b)}")
    return a, b


def flags(values: npt.ArrayLike, name: str = "values") -> npt.NDArray[np.bool_]:
    """A column of truth values; 0 and 1 serve too. ValueError for anything else."""
    made = column(values, name)
    if not ((made == 0) | (made == 1)).all():
        raise ValueError(f"{name} are not all true or false")
    return made.astype(np.bool_)


def level(confidence: float) -> float:
    """A confidence level. ValueError unless it lies strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not {confidence}")
    return confidence


def share(k: int, n: int) -> None:
    """Check that k of n can be. ValueError unless 0 <= k <= n."""
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} cannot be")
