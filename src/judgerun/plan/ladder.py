"""Ladder: under which higher caps, and by which other models, a cell may be asked again; the plans that say so; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from judgerun.model.condition import matches
from judgerun.model.event import Event
from judgerun.model.experiment import Model
from judgerun.model.profile import Profile
from judgerun.model.reply import Finish, Reply
from judgerun.plan.requests import Form

EVENT = "escalate"
KINDS = ("truncated", "empty", "unparsed")
"""What of a reply may make it worth asking again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """One plan: the replies of these kinds in the conditions of a key are bought again, cap by cap."""

    condition: str  # a key
    rungs: tuple[int, ...]  # max_output_tokens, rising
    kinds: tuple[str, ...] = ("truncated",)
    because: str = ""
    event: int = 0  # its number in the cache; 0 before it is there

    def document(self) -> dict[str, Any]:
        """As JSON: what its event in the cache tells."""
        names = {"max_output_tokens": self.rungs, "of": self.kinds}
        return {"condition": self.condition, **names, "because": self.because}

    def __str__(self) -> str:
        rungs = ", ".join(map(str, self.rungs))
        return f"{' and '.join(self.kinds)} replies of {self.condition} at {rungs} tokens"


def in_force(events: Iterable[Event], experiment: str) -> tuple[Escalation, ...]:
    """The plans of an experiment, oldest first."""
    return tuple(_read(event) for event in events if event.kind == EVENT and event.experiment == experiment)


def followed(plans: tuple[Escalation, ...], escalation: Escalation | None) -> tuple[Escalation, ...]:
    """The plans with one more, where that is none of them yet."""
    return plans if escalation is None or escalation.event else (*plans, escalation)


def _read(event: Event) -> Escalation:
    said = json.loads(event.detail)
    return Escalation(
        condition=said["condition"],
        rungs=tuple(said["max_output_tokens"]),
        kinds=tuple(said["of"]),
        because=said["because"],
        event=event.id,
    )


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: the cap, and the kinds of replies that are asked again under it."""

    cap: int
    kinds: frozenset[str]


Ladder = tuple[Rung, ...]


def ladder(plans: Iterable[Escalation], condition: str, own: int | None) -> Ladder:
    """The rungs of a condition above its own cap, rising: those of all plans that name it, each with the kinds that any of them
    gives it. So a later plan goes on where an earlier one ends.
    """
    held: dict[int, set[str]] = {}
    for plan in plans:
        if own is not None and matches(plan.condition, condition):
            for cap in plan.rungs:
                if cap > own:
                    held.setdefault(cap, set()).update(plan.kinds)
    return tuple(Rung(cap, frozenset(held[cap])) for cap in sorted(held))


def above(rungs: Ladder, cap: int | None, reply: Reply, *, parsed: bool) -> Rung | None:
    """The next rung for a reply that was given under a cap; None where it stands."""
    for rung in rungs:
        if rung.cap > (cap or 0) and _is(reply, parsed, rung.kinds):
            return rung
    return None


def _is(reply: Reply, parsed: bool, kinds: frozenset[str]) -> bool:
    return (
        (reply.finish is Finish.LENGTH and "truncated" in kinds)
        or (reply.empty and "empty" in kinds)
        or (not parsed and "unparsed" in kinds)
    )


@dataclass(slots=True, kw_only=True)
class Forms:
    """The forms by which one arm asks: its own, under the cap of each rung, and each of these as its failover models ask it."""

    model: Model
    profiles: Mapping[str, Profile]
    models: Mapping[str, Model]  # of the experiment, by name
    own: Form = field(init=False)
    _made: dict[tuple[str, int | None], Form] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = self._form(self.model, self.model.max_output_tokens)

    def at(self, cap: int) -> Form:
        """The arm's own model under another cap."""
        return self._form(self.model, cap)

    def spare(self, form: Form) -> Form | None:
        """The form of the failover of a form's model; under the form's cap, where that is a rung's."""
        if form.model.failover is None:
            return None
        other = self.models[form.model.failover]
        asked = self.model if form.model.name == self.model.name else self.models[form.model.name]
        on_rung = form.model.max_output_tokens != asked.max_output_tokens
        return self._form(other, form.model.max_output_tokens if on_rung else other.max_output_tokens)

    def _form(self, model: Model, cap: int | None) -> Form:
        place = (model.name, cap)
        if (made := self._made.get(place)) is None:
            whole = model if cap == model.max_output_tokens else replace(model, max_output_tokens=cap)
            made = self._made[place] = Form(whole, self.profiles[model.name])
        return made
