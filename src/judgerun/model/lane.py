"""LaneSpec: the slots and rates of one provider, or of one model inside it, as a person wrote them."""

from __future__ import annotations

from dataclasses import dataclass


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
