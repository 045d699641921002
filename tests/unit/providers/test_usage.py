"""Usage: disjoint buckets that sum to what was reported; the impossible is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.reply import Usage
from judgerun.providers import usage


def u(fresh: Any, read: Any, write: Any, visible: Any, reasoning: Any, hour: Any = None) -> Usage:
    return Usage(
        input_fresh=fresh,
        cache_read=read,
        cache_write=write,
        cache_write_1h=hour,
        output_visible=visible,
        reasoning=reasoning,
    )


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, u(None, None, None, None, None)),
        ({}, u(None, None, None, None, None)),
        ({"prompt_tokens": 10, "completion_tokens": 3}, u(10, None, None, 3, None)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
            u(10, None, None, 3, None),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 45},
            },
            u(30, 60, 10, 5, 45),
        ),
        ({"prompt_tokens": 64, "completion_tokens": 6, "num_cached_tokens": 32}, u(32, 32, None, 6, None)),
        ({"prompt_tokens": 64, "completion_tokens": 6, "prompt_cache_hit_tokens": 32}, u(32, 32, None, 6, None)),
        # sglang: reasoning beside the details, and one above the completion
        ({"prompt_tokens": 9, "completion_tokens": 16, "reasoning_tokens": 17}, u(9, None, None, 0, 16)),
        # xai: on top of the completion, as the total shows
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            u(10, None, None, 5, 100),
        ),
        # gemini: on top too, and only the total shows it
        ({"prompt_tokens": 66, "completion_tokens": 6, "total_tokens": 100}, u(66, None, None, 6, 28)),
        # deepseek: hits and misses are the prompt
        ({"prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2, "completion_tokens": 1}, u(2, 8, None, 1, None)),
        # litellm: writes for five minutes and for an hour are inside one number
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "prompt_tokens_details": {
                    "cached_tokens": 60,
                    "cache_creation_tokens": 30,
                    "cache_creation_token_details": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
                },
            },
            u(10, 60, 20, 5, None, hour=10),
        ),
        # contradictions
        (
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2, "completion_tokens": 1},
            u(None, None, None, 1, None),
        ),
        (
            {"prompt_tokens": 9, "cached_tokens": 2, "num_cached_tokens": 3, "completion_tokens": 1},
            u(None, None, None, 1, None),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": -1}},
            u(None, None, None, 1, None),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": "2"}},
            u(9, None, None, None, None),
        ),
        # impossible
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}},
            u(None, None, None, 5, None),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 60}},
            u(10, None, None, None, None),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, u(None, None, None, None, None)),
        ({"prompt_tokens": -1, "completion_tokens": -1}, u(None, None, None, None, None)),
        ({"prompt_tokens": True, "completion_tokens": "5"}, u(None, None, None, None, None)),
        ({"prompt_tokens": 10.0, "completion_tokens": 10**12}, u(None, None, None, None, None)),
    ],
)
def test_chat_usage(told: Any, expected: Usage) -> None:
    """Every dialect's spelling comes to the same five buckets."""
    assert usage.chat(told, said_something=True) == expected


def test_no_output_tokens_for_no_text_is_a_true_zero() -> None:
    """0 is believed where it can be."""
    assert usage.chat({"prompt_tokens": 9, "completion_tokens": 0}, said_something=False).output == 0


@pytest.mark.parametrize(
    ("told", "expected"), [({"total_tokens": 11}, 11), ({"total_tokens": -1}, None), ({}, None), (None, None)]
)
def test_the_providers_own_total(told: Any, expected: int | None) -> None:
    """It is kept as told, for the audit that compares it with the buckets."""
    assert usage.total(told) == expected


COUNTS = st.integers(0, 10_000)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_buckets_sum_to_what_was_reported(fresh: int, read: int, write: int, visible: int, reasoning: int) -> None:
    """Nothing is counted twice and nothing is lost."""
    prompt, completion = fresh + read + write + 1, visible + reasoning + 1
    told = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    made = usage.chat(told, said_something=True)
    assert (made.input, made.output) == (prompt, completion)


@pytest.mark.parametrize(
    ("told", "nanos"),
    [
        ({"cost": 0.01355025}, 13_550_250),
        ({"cost": 0.0076509169000000005}, 7_650_917),
        ({"cost": 4.5e-05}, 45_000),
        ({"cost": 0}, 0),
        ({"cost": "0.25"}, 250_000_000),
        ({"estimated_cost": 1.2e-06}, 1_200),
        ({"cost": None}, None),
        ({"cost": -1}, None),
        ({"cost": True}, None),
        ({"cost": {"total_cost": 1}}, None),
        ({"cost": "free"}, None),
        ({"cost": float("nan")}, None),
        ({}, None),
        (None, None),
    ],
)
def test_reported_costs(told: Any, nanos: int | None) -> None:
    """Dollars come to whole nanos by decimals alone."""
    assert usage.cost(told) == nanos


@pytest.mark.parametrize(
    ("told", "tokens"),
    [
        ({"prompt_tokens": 10, "total_tokens": 12}, 10),
        ({"total_tokens": 3}, 3),
        ({"prompt_tokens": 0}, None),
        (None, None),
    ],
)
def test_tokens_of_an_embedding_call(told: Any, tokens: int | None) -> None:
    """The prompt's, or the total where that is all that is told."""
    assert usage.embedded(told) == tokens
