"""Estimate and Significance: a number with how it was got. Everything that analysis gives is one of these or plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval. `value` is None where there is none, with the reason in `note`; never 0 for that."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int  # rows that entered
    level: float = 0.95
    method: str = ""  # how the interval was made, with its version
    convention: str = ""  # what of the definition could have been otherwise
    seed: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """The outcome of a test. `p` is None where the test has none, with the reason in `note`."""

    p: float | None
    n: int  # units compared
    method: str
    statistic: float | None = None
    note: str = ""
