"""The lexical control, BM25 and rank fusion against their written formulas."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.retrieval import lexical
from judgerun.retrieval.bm25 import Index, Options, options
from judgerun.retrieval.fusion import rrf


def indel(a: str, b: str) -> float:
    """2 LCS / (len a + len b) by the textbook table; 1 for two empty texts."""
    row = [0] * (len(b) + 1)
    for x in a:
        above = row[:]
        for place, y in enumerate(b, start=1):
            row[place] = above[place - 1] + 1 if x == y else max(above[place], row[place - 1])
    return 2 * row[-1] / (len(a) + len(b)) if a or b else 1.0


@given(st.text(max_size=25), st.text(max_size=25))
def test_lexical_score_is_the_mean_of_its_three_parts(a: str, b: str) -> None:
    """Jaccard of words, indel ratio of characters, ratio of lengths."""
    left, right = lexical.words(a), lexical.words(b)
    jaccard = len(left & right) / len(left | right) if left | right else 0.0
    lengths = min(len(a), len(b)) / max(len(a), len(b)) if a or b else 0.0
    assert lexical.score(a, b) == pytest.approx((jaccard + indel(a, b) + lengths) / 3, abs=1e-9)


def test_words_are_runs_of_word_characters_in_lower_case() -> None:
    """Case and punctuation do not count for words, but count for characters."""
    assert lexical.words("Put a MUG, a mug_2!") == {"put", "a", "mug", "mug_2"}
    assert lexical.score("abc", "abc") == 1
    assert lexical.score("ABC", "abc") == pytest.approx((1 + 0 + 1) / 3)


def test_rerank_keeps_the_order_of_equal_candidates() -> None:
    """Best first; equal scores in the order given."""
    ranked = lexical.rerank("put a mug", ["heat an egg", "put a mug", "heat an egg", "put a cup"])
    assert [place for place, _ in ranked] == [1, 3, 0, 2]
    assert ranked[0][1] == 1


TEXTS = ["The cat sat", "a dog", "cat Cat dog", "", "the the the"]
IDS = ["e", "d", "c", "b", "a"]


def lucene(query: list[str], k1: float, b: float) -> list[float]:
    """Lucene's BM25 in words: idf log(1 + (N - df + .5) / (df + .5)), tf / (tf + k1 (1 - b + b len / mean))."""
    words = [text.lower().split() for text in TEXTS]
    mean = sum(map(len, words)) / len(words)
    found = []
    for document in words:
        score = 0.0
        for word in query:
            held = sum(word in other for other in words)
            if held and (tf := document.count(word)):
                score += (
                    log(1 + (len(words) - held + 0.5) / (held + 0.5))
                    * tf
                    / (tf + k1 * (1 - b + b * len(document) / mean))
                )
        found.append(score)
    return found


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0)])
@pytest.mark.parametrize("query", ["cat", "the DOG", "cat cat dog", "unknown cat"])
def test_bm25_follows_its_formula(query: str, k1: float, b: float) -> None:
    """Scores equal the Lucene variant, by default with k1 1.2 and b .75; a doubled query word counts twice."""
    index = Index(TEXTS, ids=IDS, options=Options(k1=k1, b=b))
    np.testing.assert_allclose(index.scores(query), lucene(query.lower().split(), k1, b), rtol=1e-5)


def test_bm25_ranks_only_what_holds_a_word_and_ties_go_by_id() -> None:
    """Documents without a word of the query are not ranked; equal scores go by id, also at the last place."""
    index = Index(["x y", "x y", "z", "x y"], ids=["c", "b", "d", "a"])
    assert [row for row, _ in index.rank("x", k=10)] == [3, 1, 0]
    assert [row for row, _ in index.rank("x", k=2)] == [3, 1]
    assert index.rank("nothing here", k=3) == []
    assert index.rank("", k=3) == []
    assert Index(["", ""], ids=["a", "b"]).rank("x", k=3) == []
    assert Index([], ids=[]).rank("x", k=3) == []


def test_bm25_options_are_checked() -> None:
    """Unknown options, wrong types and values out of range are told; lists of stop words and 'english' are taken."""
    assert options({}) == Options(k1=1.2, b=0.75)
    assert options({"k1": 0.9, "stopwords": ["the"], "method": "atire"}) == Options(
        k1=0.9, stopwords=("the",), method="atire"
    )
    assert Index(["the cat"], ids=["a"], options=options({"stopwords": "english"})).words("The cat") == ["cat"]
    assert Index(["x"], ids=["a"], options=options({"lower": False, "token": "[A-Z]"})).words("aBC") == ["B", "C"]
    for wrong in (
        {"k": 1},
        {"k1": "1"},
        {"k1": True},
        {"b": 2},
        {"k1": -1},
        {"method": "tfidf"},
        {"stopwords": "german"},
        {"token": "("},
        {"lower": 1},
    ):
        with pytest.raises(ValueError, match=r"."):
            options(wrong)
    with pytest.raises(ValueError, match="stands twice"):
        Index(["x", "y"], ids=["a", "a"])


def test_rrf_adds_reciprocal_ranks() -> None:
    """1 / (60 + rank) over rankings, ties by id, only the first `depth` places."""
    fused = rrf([["a", "b", "c"], ["b", "d"]])
    assert fused[0] == ("b", pytest.approx(1 / 62 + 1 / 61))
    assert [document for document, _ in fused] == ["b", "a", "d", "c"]
    assert [document for document, _ in rrf([["z", "y"], ["y", "z"]])] == ["y", "z"]
    assert [document for document, _ in rrf([["a", "b"], ["c", "b"]], depth=1)] == ["a", "c"]
    assert rrf([]) == rrf([[], []]) == []


@given(
    st.lists(st.permutations("abcdef").map(lambda order: order[:4]), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_rrf_does_not_depend_on_the_order_of_rankings(rankings: list[list[str]], random: object) -> None:
    """The fused ranking, scores included, is the same for every order of its rankings."""
    shuffled = rankings[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rrf(rankings) == rrf(shuffled)


def test_rrf_refuses_what_is_no_ranking() -> None:
    """An id twice, a depth below 1 and a negative k are refused."""
    for rankings, k, depth in (([["a", "a"]], 60, 10), ([["a"]], 60, 0), ([["a"]], -1, 10)):
        with pytest.raises(ValueError, match=r"."):
            rrf(rankings, k=k, depth=depth)
