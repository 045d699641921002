"""BM25 over texts held in memory: the k best documents of every query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

METHODS = ("lucene", "robertson", "atire")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How words are made and weighted.

    `method` names a variant of the formula (C. Kamphuis et al., ECIR 2020, table 1). A word is a
    match of `token` in the text, lower-cased where `lower`; `stopwords` are dropped ("english" is a list of 33 words).
    """

    k1: float = 1.2
    b: float = 0.75
    method: str = "lucene"
    token: str = r"\w+"
    lower: bool = True
    stopwords: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is none of {', '.join(METHODS)}")
        if not (self.k1 >= 0 and 0 <= self.b <= 1):
            raise ValueError(f"k1 must be at least 0 and b within 0..1, not {self.k1} and {self.b}")
        if isinstance(self.stopwords, str) and self.stopwords != "english":
            raise ValueError(f"stopwords {self.stopwords!r} is neither a list of words nor 'english'")
        try:
            re.compile(self.token)
        except re.error as error:
            raise ValueError(f"token {self.token!r} is no regular expression: {error}") from error


def options(written: Mapping[str, Any]) -> Options:
    """Options from what a person wrote. ValueError names what is unknown or has the wrong type."""
    known = {field.name for field in fields(Options)}
    unknown = sorted(set(written) - known)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no option of bm25; known are {', '.join(sorted(known))}")
    made: dict[str, Any] = {}
    for name, value in written.items():
        if isinstance(value, list):
            value = tuple(map(str, value))
        if not _fits(name, value):
            raise ValueError(f"{name} cannot be {value!r}")
        made[name] = value
    return Options(**made)


def _fits(name: str, value: object) -> bool:
    if name in ("k1", "b"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "lower":
        return isinstance(value, bool)
    return isinstance(value, str) or (name == "stopwords" and isinstance(value, tuple))


class Index:
    """The weights of a corpus, made once and asked often."""

    __slots__ = ("_index", "_known", "_options", "_ranks", "_size", "_stopwords", "_token")

    def __init__(self, documents: Sequence[str], *, ids: Sequence[str], options: Options | None = None) -> None:
        if len(ids) != len(documents):
            raise ValueError(f"{len(ids)} ids for {len(documents)} documents")
        if len(set(ids)) != len(ids):
            raise ValueError("an id stands twice among the documents")
        self._options = options or Options()
        self._token = re.compile(self._options.token)
        self._stopwords = frozenset(_stopwords(self._options))
        self._size = len(documents)
        self._ranks = np.empty(len(ids), np.int64)
        self._ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        words = [self.words(document) for document in documents]
        self._known = frozenset(word for document in words for word in document)
        self._index: Any = None
        if self._known:
            import bm25s  # brings scipy: half of the time that the program takes to start

            self._index = bm25s.BM25(k1=self._options.k1, b=self._options.b, method=self._options.method)
            self._index.index(words, create_empty_token=False, show_progress=False)

    def words(self, text: str) -> list[str]:
        """The words of a text, in order."""
        found = self._token.findall(text.lower() if self._options.lower else text)
        return [word for word in found if word not in self._stopwords]

    def scores(self, query: str) -> npt.NDArray[np.float32]:
        """The score of every document; all 0 where no word of the query stands in the corpus."""
        words = [word for word in self.words(query) if word in self._known]
        if not words:
            return np.zeros(self._size, np.float32)
        return cast("npt.NDArray[np.float32]", self._index.get_scores(words))

    def rank(self, query: str, *, k: int) -> list[tuple[int, float]]:
        """(row, score) of the k best documents, best first, ties by id ascending, at the last place too.

        Fewer than k where fewer score above 0: a document without a word of the query has no place in the ranking.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        scores = self.scores(query)
        among = np.flatnonzero(scores > 0)
        if len(among) > k:
            bar = np.partition(scores[among], len(among) - k)[len(among) - k]
            among = among[scores[among] >= bar]
        best = among[np.lexsort((self._ranks[among], -scores[among]))][:k]
        return [(int(row), float(scores[row])) for row in best]


def _stopwords(chosen: Options) -> Sequence[str]:
    if chosen.stopwords == "english":
        import bm25s

        return cast("Sequence[str]", bm25s.stopwords.STOPWORDS_EN)
    return cast("Sequence[str]", chosen.stopwords)
