"""Waiver: a person's reason why one kind of finding does not block a seal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from judgerun.model.condition import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One row of audits/waivers.toml. `condition` is a key as in budgets; empty: any condition. After the day `until` it waives
    nothing any more.
    """

    experiment: str
    check: str
    because: str
    condition: str = ""
    until: date | None = None

    def lapsed(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.until is not None and today > self.until

    def covers(self, *, experiment: str, check: str, condition: str) -> bool:
        """Whether this waiver speaks of such a finding."""
        at = not self.condition or matches(self.condition, condition)
        return self.experiment == experiment and self.check == check and at
