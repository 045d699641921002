"""Samples: which ids a stage takes, the same in every condition, stable when rows are added."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable


def place(seed: int, id: str) -> bytes:
    """Where an id stands: sha256 of "seed:id". A smaller sample is inside a larger one."""
    return hashlib.sha256(f"{seed}:{id}".encode()).digest()


def sampled(ids: Iterable[str], count: int, seed: int) -> frozenset[str]:
    """The first `count` distinct ids by their places; all of them where there are no more."""
    return frozenset(heapq.nsmallest(count, set(ids), key=lambda id: place(seed, id)))
