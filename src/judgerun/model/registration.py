"""Registration: what will be asked and judged, fixed on the record, and how what the file says now stands to that."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from judgerun.model.event import Event
from judgerun.model.experiment import Chat, Experiment
from judgerun.model.request import canonical, digest

KIND = "register"
Standing = Literal["registered", "post hoc", "unregistered", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One word on the record. `items` are canonical texts by name; `replies` is how many replies of the experiment were there."""

    at: float  # Unix seconds
    digest: str
    items: Mapping[str, str]
    replies: int
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """How one question, gate or rule of the file stands to what was registered; `why` says more where it is not as registered."""

    name: str
    standing: Standing
    why: str = ""


def items(experiment: Experiment) -> dict[str, str]:
    """What is fixed beforehand, as canonical JSON by name: each question, and of each arm of a chat stage its gate, its parse rule,
    what it admits, and the slices of each stage.
    """
    held: dict[str, Any] = {
        f"question {question.name}": dataclasses.asdict(question) for question in experiment.questions
    }
    for stage in experiment.stages:
        if stage.slices:
            held[f"slices of {stage.name}"] = list(stage.slices)
        for arm in stage.arms if isinstance(stage, Chat) else ():
            name, settings = f"{stage.name}/{arm.model.name}/{arm.prompt.name}", arm.settings
            held[f"gate of {name}"] = None if settings.gate is None else dataclasses.asdict(settings.gate)
            held[f"rule of {name}"] = {
                "parse": dataclasses.asdict(settings.parse),
                "admit": list(settings.admit),
                "expect": settings.expect,
            }
    return {name: canonical(_plain(value)).decode() for name, value in held.items()}


def _plain(value: Any) -> Any:
    """The value as JSON has it: tuples and sets as lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value))
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def digest_of(held: Mapping[str, str]) -> str:
    """Hex sha256 over the items, in order of their names."""
    return digest([part.encode() for name in sorted(held) for part in (name, held[name])])


def registrations(events: Iterable[Event], experiment: str) -> tuple[Registration, ...]:
    """What was registered of an experiment, oldest first."""
    told = (
        (event.at, json.loads(event.detail))
        for event in events
        if event.kind == KIND and event.experiment == experiment
    )
    return tuple(Registration(at=at, **detail) for at, detail in told)


def standings(now: Mapping[str, str], held: Iterable[Registration]) -> list[Item]:
    """How each item of now, and each that was registered and is gone, stands to the registrations. What was registered before the
    first reply and is as it was then is registered; what was changed, added or registered later is post hoc.
    """
    told = list(held)
    first = next((one for one in told if not one.replies), None)
    before = {} if first is None else dict(first.items)
    for one in told:
        if not one.replies:
            before.update(one.items)  # amended before anything was known
    later = {name: text for one in told if one.replies for name, text in one.items.items()}
    found = [_standing(name, now[name], before, later) for name in now]
    gone = (name for name in before if name not in now)
    return found + [
        Item(name=name, standing="dropped", why="it was registered, and the file no longer has it") for name in gone
    ]


def _standing(name: str, text: str, before: Mapping[str, str], later: Mapping[str, str]) -> Item:
    if before.get(name) == text:
        return Item(name=name, standing="registered")
    if name in before:
        return Item(name=name, standing="post hoc", why=f"it was registered otherwise: {_changed(before[name], text)}")
    if later.get(name) == text:
        return Item(name=name, standing="post hoc", why="it was registered after the first reply")
    if before or later:
        return Item(name=name, standing="post hoc", why="it was not registered before the first reply")
    return Item(name=name, standing="unregistered")


def _changed(was: str, now: str) -> str:
    """Key by key what changed between two canonical texts."""
    one, other = json.loads(was), json.loads(now)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return f"{was} is now {now}"
    keys = [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
    return ", ".join(f"{key} was {json.dumps(one.get(key))}, is {json.dumps(other.get(key))}" for key in keys)
