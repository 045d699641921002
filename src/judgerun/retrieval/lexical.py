"""The lexical control: how alike two texts look on the surface, and candidates reordered by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from rapidfuzz import fuzz

_WORD = re.compile(r"\w+")


def score(a: str, b: str) -> float:
    """Surface similarity in 0..1: the mean of three numbers.

    Jaccard's coefficient of the sets of `\\w+` runs of the lower-cased texts (0 where both are empty); the indel similarity
    of the texts as they are, 2 LCS / (sum of lengths), which is rapidfuzz's `fuzz.ratio` / 100 and not a Levenshtein ratio
    (1 for two empty texts); and the shorter length in characters over the longer (0 for two empty texts).
    """
    return (jaccard(words(a), words(b)) + fuzz.ratio(a, b) / 100 + _lengths(a, b)) / 3


def words(text: str) -> frozenset[str]:
    """The set of `\\w+` runs of the lower-cased text."""
    return frozenset(_WORD.findall(text.lower()))


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """|a and b| / |a or b|; 0 where both are empty."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def overlap(
    a: str, b: str, *, vocabulary: Collection[str] | None = None, stopwords: Collection[str] = frozenset()
) -> float:
    """Jaccard's coefficient alone, in 0..1, over the words that count: those of `vocabulary` (None: all) less `stopwords`.

    Both lists hold lower-case words, as `words` makes them. 0 where no word that counts stands in either text.
    """
    left, right = words(a).difference(stopwords), words(b).difference(stopwords)
    if vocabulary is not None:
        left, right = left.intersection(vocabulary), right.intersection(vocabulary)
    return jaccard(left, right)


def rerank(
    query: str, candidates: Sequence[str], *, by: Callable[[str, str], float] = score
) -> list[tuple[int, float]]:
    """Places of `candidates` (from 0) with their scores under `by`, best first; equal scores keep their order of arrival."""
    scored = [(place, by(query, candidate)) for place, candidate in enumerate(candidates)]
    return sorted(scored, key=lambda pair: -pair[1])


def _lengths(a: str, b: str) -> float:
    longer = max(len(a), len(b))
    return min(len(a), len(b)) / longer if longer else 0.0
