"""Gates: conditions whose replies went bad stop, with all that they feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from judgerun.plan.counts import Counts

Rule = Callable[[Counts], str | None]
"""Why a condition with these counts must stop; None when it need not, or has no gate."""

EVERY = 8
"""Resolved cells between two looks at the counts, or half as many as there are conditions: a look walks over all of them."""


class Gates:
    """Which conditions a gate has stopped."""

    def __init__(self, rule: Rule | None) -> None:
        self._rule = rule
        self._since = 0
        self._every = EVERY
        self.fired: dict[str, str] = {}  # condition -> why

    def look(self, counts: Iterable[Counts]) -> list[tuple[str, str]]:
        """Judge every condition; those that fire now, with the reason."""
        self._since = 0
        if self._rule is None:
            return []
        counts = tuple(counts)
        self._every = max(EVERY, len(counts) // 2)
        fired = [
            (held.condition, why)
            for held in counts
            if held.condition not in self.fired and (why := self._rule(held)) is not None
        ]
        self.fired.update(fired)
        return fired

    def due(self, resolved: int) -> bool:
        """Whether so many more resolved cells make a look due."""
        self._since += resolved
        return self._rule is not None and self._since >= self._every

    def stopped(self, conditions: tuple[str, ...]) -> bool:
        """Whether any of these conditions was stopped."""
        return any(condition in self.fired for condition in conditions)
