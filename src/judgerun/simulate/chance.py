"""Chance: numbers that are a pure function of a seed and some words; no generator and no state may live here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeVar

T = TypeVar("T")
_NORMAL = NormalDist()


def number(*words: object) -> int:
    """A number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=8).digest(), "big")


def uniform(*words: object) -> float:
    """A number in (0, 1), the ends left out."""
    return (number(*words) + 0.5) / 2**64


def lognormal(median: float, spread: float, *words: object) -> float:
    """A positive number; `spread` is the standard deviation of its logarithm."""
    return median * math.exp(spread * _NORMAL.inv_cdf(uniform(*words)))


def pick(options: Sequence[T], *words: object) -> T:
    """One of the options, each as likely."""
    return options[number(*words) % len(options)]
