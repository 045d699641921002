"""Piles of lengths at a cap, and texts that look cut: columns in, values out."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.audit.pileup import SLACK_MAX, cut, discover, find, slack


def smooth(n: int, seed: int, *, scale: float = 8_000) -> list[int]:
    """Lengths as answers have them: log-normal."""
    return [int(length) + 1 for length in np.random.default_rng(seed).lognormal(np.log(scale), 0.9, n)]


def capped(n: int, seed: int, cap: int) -> list[int]:
    """The same, cut at a cap as providers cut: mostly at it, some a token or two before or beyond."""
    rng = np.random.default_rng(seed)
    return [
        length if length < cap - 20 else cap + int(rng.choice([-2, -1, 0, 0, 0, 1, 5])) for length in smooth(n, seed)
    ]


def test_replies_that_stop_just_short_of_the_cap_are_counted_as_cut() -> None:
    """At the cap, one or two tokens under it and a few beyond: all are found; the rule `tokens >= cap` misses some."""
    lengths = capped(400, 3, 16_384)
    pile = find(lengths, 16_384)
    true = sum(length > 16_384 - 20 for length in smooth(400, 3))
    assert pile.count == true > sum(length >= 16_384 for length in lengths)
    assert pile.found
    assert pile.error is not None
    assert pile.error < 0.05


@pytest.mark.parametrize("seed", range(20))
def test_lengths_that_no_cap_cut_show_no_pile(seed: int) -> None:
    """Where lengths run past a value smoothly, the mass around it is no pile."""
    lengths = [length for length in smooth(500, seed) if length <= 8_200]
    assert not find(lengths, 8_192).found or find(lengths, 8_192).count > 40


@pytest.mark.parametrize("seed", range(20))
def test_a_cap_that_nobody_stated_is_found(seed: int) -> None:
    """The commonest and greatest length is the cap; without a cap none is found."""
    lengths = capped(300, seed, 12_288)
    found = discover(lengths)
    assert found is not None
    assert abs(found.cap - 12_288) <= SLACK_MAX
    assert discover(smooth(300, seed)) is None


def test_answers_of_one_length_are_no_pile() -> None:
    """A judge that answers with five tokens each time is not cut, and neither is a form of 131 tokens."""
    assert discover([5] * 200) is None
    assert discover([131] * 200) is None
    assert discover([]) is None


@pytest.mark.parametrize(("cap", "off"), [(16, 0), (63, 0), (64, 1), (256, 4), (512, 8), (32_768, 8)])
def test_the_slack_is_smaller_for_small_caps(cap: int, off: int) -> None:
    """At a cap of 16 tokens only those that used all are cut; from 512 on those within 8 tokens."""
    assert slack(cap) == off


@given(st.lists(st.integers(0, 2_000), max_size=60), st.integers(1, 1_500))
def test_every_reply_at_or_beyond_the_cap_is_counted(lengths: list[int], cap: int) -> None:
    """Whatever the lengths: all from the cap on are counted, none further below it than the slack, and p is a probability."""
    pile = find(lengths, cap)
    for length, at in zip(lengths, pile.capped, strict=True):
        assert at >= (length >= cap)
        assert at <= (length >= cap - SLACK_MAX)
    assert 0 <= pile.p <= 1
    assert pile.error is None or 0 <= pile.error <= 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```python\nx = 1", "a code fence is open"),
        ("So we have $$x = 2", "a formula is open"),
        ('{"verdict": "yes", "reason": "becau', "an object is open"),
        (
            "The first of the three cases that we have to look at is the one in which both of",
            "it stops inside a sentence",
        ),
        ("Hence, by the lemma,", "it stops inside a sentence"),
        ("4", None),
        ("POSITIVE", None),
        ("", None),
        ("The first of the three cases that we have to look at is the one in which both hold.", None),
        ("```\nx = 1\n```", None),
        ('{"verdict": "yes"}', None),
    ],
)
def test_texts_that_look_cut(text: str, why: str | None) -> None:
    """What is opened and not closed, and prose that stops inside a sentence; a short answer needs no full stop."""
    assert cut(text) == why


def test_the_studys_own_counts() -> None:
    """On the study's solver calls lengths alone give 64, 66 and 65 truncated of 210 each, where tokens >= cap gives 61, 60, 60."""
    folder = os.environ.get("JUDGERUN_DATA")
    if not folder:
        pytest.skip("JUDGERUN_DATA names no folder with the study's token counts")
    with (Path(folder) / "structural-retrieval" / "utility_run_tokens.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    told = {}
    for condition in ("none", "dumb", "gold"):
        held = {row["query_id"]: int(row["solver_completion_tokens"]) for row in rows if row["condition"] == condition}
        pile = find(list(held.values()), 32_768)
        assert pile.found
        assert pile.error is not None
        assert pile.error < 0.01
        told[condition] = (len(held), pile.count, sum(length >= 32_768 for length in held.values()))
    assert told == {"none": (210, 64, 61), "dumb": (210, 66, 60), "gold": (210, 65, 60)}
