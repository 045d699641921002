"""Gates: conditions whose replies went bad stop, with all that they feed, until a person reopens them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from judgerun.plan.counts import Counts
from judgerun.table.gate import Fired, Sums

Rule = Callable[[Collection[Counts], Mapping[str, Sums], Collection[str]], list[Fired]]
"""The conditions that must stop, of all counts of a run, given from which sums on reopened ones are judged, and which stopped
before."""

EVERY = 8
"""Resolved cells between two looks at the counts, or half as many as there are conditions: a look walks over all of them."""
REASONS_MAX = 4
"""So many gates are named in the reason of an ending."""


class Gates:
    """Which conditions a gate has stopped."""

    def __init__(self, rule: Rule | None) -> None:
        self._rule = rule
        self._resolved = 0
        self._every = EVERY
        self._since: dict[str, Sums] = {}  # reopened conditions, and from where on they are judged
        self.fired: dict[str, str] = {}  # condition -> why
        self._told: dict[str, str] = {}  # what fired -> what became of it

    def resume(self, since: Mapping[str, Sums], counts: Iterable[Counts]) -> None:
        """Judge conditions that were reopened before this run from there on. Failed cells are tried anew by every run. A condition
        that has fewer replies now than then has other requests, whose replies are all judged; what is asked again under a
        higher cap has a reply.
        """
        done = {held.condition: held.done + held.climbing for held in counts}
        for condition, sums in since.items():
            if done.get(condition, 0) >= sums.done:
                self._since[condition] = replace(sums, failed=0)

    def look(self, counts: Iterable[Counts]) -> list[Fired]:
        """Judge every condition; those that fire now, with the reason."""
        self._resolved = 0
        if self._rule is None:
            return []
        counts = tuple(counts)
        self._every = max(EVERY, len(counts) // 2)
        fired = self._rule(counts, self._since, self.fired)
        self.fired.update((each.condition, each.why) for each in fired)
        return fired

    def reopen(self, condition: str, since: Sums, counts: Iterable[Counts]) -> str | None:
        """Let a condition go on, judged by what comes from now on; why it had stopped, None when it had not."""
        own = next((Sums.of(held) for held in counts if held.condition == condition), Sums())
        self._since[condition] = own.most(replace(since, failed=0))
        return self.fired.pop(condition, None)

    def tell(self, reason: str, then: str = "") -> str:
        """What fired in this run, with what became of it: all reasons in one line, or the first few and how many more there are."""
        self._told[reason] = then
        said = ["; ".join(filter(None, pair)) for pair in self._told.items()]
        more = len(said) - REASONS_MAX
        return "; ".join((*said[:REASONS_MAX], *([f"and {more} more"] if more > 0 else [])))

    def due(self, resolved: int) -> bool:
        """Whether so many more resolved cells make a look due."""
        self._resolved += resolved
        return self._rule is not None and self._resolved >= self._every

    def stopped(self, conditions: tuple[str, ...]) -> bool:
        """Whether any of these conditions was stopped."""
        return any(condition in self.fired for condition in conditions)
