"""LaneSpec: the slots and rates of one provider, or of one model inside it, as written; Limit, as a provider states it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from judgerun.model.setting import Setting, Value, in_force

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
    written: LaneSpec | None = None  # as the file has it, where something was set in its place

    @property
    def filed(self) -> LaneSpec:
        """As the file has it."""
        return self.written or self

    def amended(self, settings: Iterable[Setting], *, since: int | None = None) -> LaneSpec:
        """With what was set in the place of what the file says: see `in_force`."""
        told, filed = tuple(settings), self.filed
        values: dict[str, Any] = {
            key: in_force(told, f"lane {self.name}", key, getattr(filed, key), since=since) for key in SETTABLE
        }
        changed = replace(filed, **values)
        return filed if changed == filed else replace(changed, written=filed)

    @property
    def amendments(self) -> list[str]:
        """What is in force in the place of what the file says, in words."""
        pairs = ((key, getattr(self, key), getattr(self.filed, key)) for key in SETTABLE)
        return [f"{key} = {limit(now)}, {limit(was)} in the file" for key, now, was in pairs if now != was]


def passed(provider: str, model: str, lanes: Container[str]) -> tuple[str, ...]:
    """The names of the lanes that a call of a model passes, where lanes of these names are written: its own, if it has one, and
    that of its provider, which is always there.
    """
    own = f"{provider}/{model}"
    return (own, provider) if own in lanes else (provider,)


def limit(value: Value) -> str:
    """A limit of a lane as a person writes it."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


SETTABLE = (
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "requests_per_day",
    "timeout_s",
    "attempts_max",
    "batch_size",
)
"""What of a lane may be set while it runs."""


def lanes_in_force(
    lanes: Mapping[str, LaneSpec], settings: Iterable[Setting], *, since: int | None = None
) -> Mapping[str, LaneSpec]:
    """All lanes with what was set. A provider has a lane though no file names it; a lane inside it is made by a file alone."""
    told = tuple(one for one in settings if one.subject.startswith("lane "))
    named = {one.subject.removeprefix("lane ") for one in told}
    found = {name: LaneSpec(name=name) for name in sorted(named) if "/" not in name} | dict(lanes)
    return {name: spec.amended(told, since=since) for name, spec in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A rate limit as the headers of a response state it; None where they do not say."""

    unit: Unit
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None  # seconds until `remaining` is `limit` again
    window_s: float | None = None  # over how many seconds `limit` counts, where the provider's profile knows
