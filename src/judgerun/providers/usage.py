"""Usage as the openai dialect reports it -> disjoint buckets and a reported cost; a number that cannot be is unknown, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from judgerun.model.money import NANOS_PER_USD, Nanos
from judgerun.model.reply import Usage

TOKENS_MAX = 10**9
"""More tokens than this in one call is no number of tokens."""

_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")  # deepseek, together, mistral


def chat(told: Any, *, said_something: bool) -> Usage:
    """The buckets of a chat completion's `usage` object.

    `prompt_tokens` includes cached ones and `completion_tokens` includes reasoning, unless `total_tokens` shows that
    reasoning came on top. `said_something`: the reply has visible text, so that 0 output tokens cannot be true.
    """
    if not isinstance(told, dict):
        return Usage()
    fresh, read, write = _input(told)
    visible, reasoning = _output(told, said_something=said_something)
    return Usage(input_fresh=fresh, cache_read=read, cache_write=write, output_visible=visible, reasoning=reasoning)


def _input(told: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Fresh, cache read and cache write; no prompt has 0 tokens."""
    prompt = count(told.get("prompt_tokens"))
    if not prompt:
        return None, None, None
    details = _object(told.get("prompt_tokens_details"))
    read = count(details.get("cached_tokens"))
    if read is None:
        read = next((n for n in map(count, map(told.get, _CACHED)) if n is not None), None)
    write = count(details.get("cache_write_tokens"))
    fresh = prompt - (read or 0) - (write or 0)
    return (fresh, read, write) if fresh >= 0 else (None, None, None)


def _output(told: Mapping[str, Any], *, said_something: bool) -> tuple[int | None, int | None]:
    """Visible and reasoning."""
    completion = count(told.get("completion_tokens"))
    if completion is None or (completion == 0 and said_something):
        return None, None
    reasoning = count(_object(told.get("completion_tokens_details")).get("reasoning_tokens"))
    if reasoning is None:
        reasoning = count(told.get("reasoning_tokens"))  # sglang
    if reasoning is None:
        return completion, None
    prompt, total = count(told.get("prompt_tokens")), count(told.get("total_tokens"))
    if reasoning and prompt is not None and total == prompt + completion + reasoning:
        return completion, reasoning  # xai: on top of the completion
    if reasoning == completion + 1:
        reasoning = completion  # sglang counts the closing tag: all of it was reasoning
    return (completion - reasoning, reasoning) if reasoning <= completion else (None, None)


def embedded(told: Any) -> int | None:
    """Tokens of an embedding call; no text has 0 tokens."""
    if not isinstance(told, dict):
        return None
    tokens = count(told.get("prompt_tokens"))
    if tokens is None:
        tokens = count(told.get("total_tokens"))
    return tokens or None


def cost(told: Any) -> Nanos | None:
    """What the provider says that it charged (OpenRouter `cost`, DeepInfra `estimated_cost`, USD), to the nearest nano."""
    if not isinstance(told, dict):
        return None
    said = told.get("cost", told.get("estimated_cost"))
    if isinstance(said, bool) or not isinstance(said, (int, float, str)):
        return None
    try:
        amount = Decimal(str(said))  # str() of a double is the shortest decimal that means it: what the provider wrote
    except InvalidOperation:
        return None
    if not amount.is_finite() or not 0 <= amount <= NANOS_PER_USD:
        return None
    return int((amount * NANOS_PER_USD).to_integral_value(rounding=ROUND_HALF_EVEN))


def count(value: Any) -> int | None:
    """A number of tokens; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= TOKENS_MAX else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
