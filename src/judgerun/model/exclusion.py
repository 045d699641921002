"""Exclusion: what a person has left out of every comparison, on the record, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from judgerun.model.condition import matches
from judgerun.model.event import Event

KIND = "exclude"
ITEM = "item "


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """`subject` is a key of conditions as in budgets, or `item ID`. `replies` is how many replies of the experiment were there when
    it was decided: from 1 on whoever decided could have seen them.
    """

    subject: str
    because: str
    replies: int

    @property
    def item(self) -> str | None:
        """The id of a row that is left out; None where conditions are."""
        return self.subject.removeprefix(ITEM) if self.subject.startswith(ITEM) else None

    def covers(self, condition: str) -> bool:
        """Whether a condition, or one that fed it, is left out."""
        parts = condition.split("@")
        tails = ("@".join(parts[n:]) for n in range(len(parts)))
        return self.item is None and any(matches(self.subject, tail) for tail in tails)

    def __str__(self) -> str:
        when = "before the first reply" if not self.replies else f"when {self.replies} replies were there"
        return f"{self.subject} is left out of every comparison: {self.because} (decided {when})"


def excluded(events: Iterable[Event], experiment: str) -> tuple[Exclusion, ...]:
    """What is left out by the events of an experiment, oldest first; the last word on a subject holds."""
    held: dict[str, Exclusion] = {}
    for event in events:
        if event.kind != KIND or event.experiment != experiment:
            continue
        told = json.loads(event.detail)
        held.pop(event.subject, None)
        if not told["undo"]:
            held[event.subject] = Exclusion(subject=event.subject, because=told["because"], replies=told["replies"])
    return tuple(held.values())
