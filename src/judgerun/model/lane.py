"""LaneSpec: the slots and rates of one provider, or of one model inside it, as written; Limit, as a provider states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["requests", "tokens", "input tokens", "output tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpec:
    """`name` is `provider` or `provider/model`. A rate of None is no limit of ours."""

    name: str
    concurrency: int = 8  # slots of each process
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_per_day: int | None = None  # rolling 24 hours
    timeout_s: float = 600.0
    attempts_max: int = 5
    batch_size: int = 32  # texts per embedding call
    enqueued_tokens: int | None = None  # tokens in all jobs of the batch lane that have not ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A rate limit as the headers of a response state it; None where they do not say."""

    unit: Unit
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None  # seconds until `remaining` is `limit` again
    window_s: float | None = None  # over how many seconds `limit` counts, where the provider's profile knows
