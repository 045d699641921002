"""Usage as providers report it -> disjoint buckets and a reported cost; a number that cannot be is unknown, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from judgerun.model.money import NANOS_PER_USD, Nanos
from judgerun.model.reply import Usage

TOKENS_MAX = 10**9
"""More tokens than this in one call is no number of tokens."""


class _Odd(Exception):
    """What is told is no number of tokens, or contradicts itself."""


def chat(told: Any, *, said_something: bool) -> Usage:
    """The buckets of a chat completion's `usage` object.

    `prompt_tokens` includes cached ones and `completion_tokens` includes reasoning, unless `total_tokens` shows that
    reasoning came on top (xai tells how much, Gemini leaves it to the total). `said_something`: the reply has visible text, so
    that 0 output tokens cannot be true.
    """
    if not isinstance(told, dict):
        return Usage()
    try:
        fresh, read, write, write_1h = _input(told)
    except _Odd:
        fresh = read = write = write_1h = None
    try:
        visible, reasoning = _output(told, said_something=said_something)
    except _Odd:
        visible = reasoning = None
    return Usage(
        input_fresh=fresh,
        cache_read=read,
        cache_write=write,
        cache_write_1h=write_1h,
        output_visible=visible,
        reasoning=reasoning,
    )


def beside(
    *,
    fresh: int | None,
    read: int | None,
    written: int | None,
    hour: int | None,
    output: int | None,
    thought: int | None = None,
    said_something: bool,
) -> Usage:
    """The buckets where cached tokens are told beside the fresh ones: `written` holds those for an `hour`, `output` the thinking.
    `said_something` as in `chat`.
    """
    if not fresh and not read and not written:  # no prompt has 0 tokens
        fresh = read = written = None
    if written is None or (hour is not None and hour > written):
        hour = None
    if output == 0 and said_something:
        output = None
    if output is None or (thought is not None and thought > output):
        thought = None
    return Usage(
        input_fresh=fresh,
        cache_read=read,
        cache_write=None if written is None else written - (hour or 0),
        cache_write_1h=hour,
        output_visible=None if output is None else output - (thought or 0),
        reasoning=thought,
    )


def total(told: Any) -> int | None:
    """The provider's own total, with which the buckets must agree."""
    return count(told.get("total_tokens")) if isinstance(told, dict) else None


def _input(told: Mapping[str, Any]) -> tuple[int | None, int | None, int | None, int | None]:
    """Fresh, cache read, cache write for five minutes and for an hour; no prompt has 0 tokens."""
    details = _object(told.get("prompt_tokens_details"))
    hit, miss = _one(told.get("prompt_cache_hit_tokens")), _one(told.get("prompt_cache_miss_tokens"))  # deepseek
    both = None if hit is None or miss is None else hit + miss
    prompt = _one(told.get("prompt_tokens"), both)
    read = _one(details.get("cached_tokens"), hit, told.get("cached_tokens"), told.get("num_cached_tokens"))
    write = _one(details.get("cache_write_tokens"), details.get("cache_creation_tokens"))  # openrouter, litellm
    hour = _one(_object(details.get("cache_creation_token_details")).get("ephemeral_1h_input_tokens"))  # litellm
    if not prompt:
        return None, None, None, None
    fresh = prompt - (read or 0) - (write if write is not None else hour or 0)
    if write is not None and hour is not None:
        write -= hour
    if fresh < 0 or (write or 0) < 0:
        raise _Odd
    return fresh, read, write, hour


def _output(told: Mapping[str, Any], *, said_something: bool) -> tuple[int | None, int | None]:
    """Visible and reasoning."""
    completion, prompt, whole = map(_one, map(told.get, ("completion_tokens", "prompt_tokens", "total_tokens")))
    details = _object(told.get("completion_tokens_details"))
    reasoning = _one(
        details.get("reasoning_tokens"), told.get("reasoning_tokens")
    )  # sglang tells it beside the details
    if completion is None or (completion == 0 and said_something):
        return None, None
    above = None if prompt is None or whole is None else whole - prompt - completion
    if above and above > 0 and reasoning in (None, above):
        return completion, above  # on top of the completion
    if reasoning is None:
        return completion, None
    if reasoning == completion + 1:
        reasoning = completion  # sglang counts the closing tag: all of it was reasoning
    if reasoning > completion:
        raise _Odd
    return completion - reasoning, reasoning


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
    return value if type(value) is int and 0 <= value <= TOKENS_MAX else None  # a bool is none


def _one(*said: Any) -> int | None:
    """The number that all who tell one agree on; None where nobody does."""
    found = None
    for value in said:
        if value is None:
            continue
        told = count(value)
        if told is None or (found is not None and found != told):
            raise _Odd
        found = told
    return found


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
