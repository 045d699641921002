"""Waiver: a person's reason why one kind of finding does not block a seal."""

from __future__ import annotations

from dataclasses import dataclass

from judgerun.model.condition import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One row of audits/waivers.toml. `condition` is a key as in budgets; empty: any condition."""

    experiment: str
    check: str
    because: str
    condition: str = ""

    def covers(self, *, experiment: str, check: str, condition: str) -> bool:
        """Whether this waiver speaks of such a finding."""
        at = not self.condition or matches(self.condition, condition)
        return self.experiment == experiment and self.check == check and at
