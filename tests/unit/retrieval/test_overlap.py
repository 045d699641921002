"""The lexical score over chosen words: a vocabulary, stopwords, and candidates reordered by either."""

from functools import partial

import pytest

from judgerun.retrieval import lexical


def test_only_words_of_the_vocabulary_count() -> None:
    """Texts that share their verb and nothing else are equal under a vocabulary of verbs."""
    assert lexical.overlap("Heat a mug", "heat some bread", vocabulary={"heat", "cool"}) == 1.0
    assert lexical.overlap("Heat a mug", "cool a mug", vocabulary={"heat", "cool"}) == 0.0


def test_stopwords_do_not_count() -> None:
    """Of heat, mug against cool, mug one word in three is shared once the article is left out."""
    assert lexical.overlap("heat a mug", "cool a mug", stopwords={"a"}) == pytest.approx(1 / 3)
    assert lexical.overlap("heat a mug", "cool a mug", stopwords={"a", "heat", "cool"}) == 1.0


def test_texts_without_a_word_that_counts_score_0() -> None:
    """An empty union is 0, not an error and not 1; an empty vocabulary lets no word count."""
    assert lexical.overlap("mug", "mug", vocabulary={"heat"}) == 0.0
    assert lexical.overlap("mug", "mug", vocabulary=()) == 0.0


def test_candidates_are_reordered_by_the_chosen_words_and_ties_keep_their_order() -> None:
    """The candidate with the query's verb rises; the two without stay as they came."""
    by = partial(lexical.overlap, vocabulary={"heat", "cool"})
    ranked = lexical.rerank("heat a mug", ["cool a mug", "a mug", "heat bread"], by=by)
    assert ranked == [(2, 1.0), (0, 0.0), (1, 0.0)]
