"""Fusion: several rankings of one query into one."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum


def rrf(rankings: Sequence[Sequence[str]], *, k: int = 60, depth: int = 100) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: (id, score), best first; equal scores by id ascending.

    The score of a document is the sum over rankings of 1 / (k + rank), rank from 1, over the first `depth` places of each
    (G. V. Cormack, C. L. A. Clarke, S. Buettcher, SIGIR 2009, section 2). The sum is rounded once, so that the order of the
    rankings changes nothing. ValueError for k below 0, depth below 1, or an id that stands twice in a ranking.
    """
    if k < 0 or depth < 1:
        raise ValueError(f"k must be at least 0 and depth at least 1, not {k} and {depth}")
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        seen = ranking[:depth]
        if len(set(seen)) < len(seen):
            raise ValueError("an id stands twice in a ranking")
        for rank, document in enumerate(seen, start=1):
            shares.setdefault(document, []).append(1 / (k + rank))
    scores = {document: fsum(parts) for document, parts in shares.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
