"""The arms of a chat stage: models x prompts, each with its settings after all `at` patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from judgerun.files.deployments import with_parameters
from judgerun.files.faults import Faults, hint
from judgerun.files.kinds import ArmShape, AtShape, ChatShape, GateShape
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import twice
from judgerun.files.prompts import ReadPrompt
from judgerun.files.rules import read_rule
from judgerun.model.condition import matches
from judgerun.model.experiment import Arm, Gate, Model, Settings

_MODEL_KEYS = ("temperature", "max_output_tokens", "thinking", "extra", "cap_field")
_SETTING_KEYS = tuple(ArmShape.model_fields)
_SHARES = ("truncated", "empty", "unparsed", "refused", "failed", "length")
_SHORT_CAP = 256  # tokens under which a provider's default thinking may leave nothing for the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What the arms of a file are made from: models and prompts by name (None: declared, but wrong)."""

    folder: Path
    models: Mapping[str, Model | None]
    prompts: Mapping[str, ReadPrompt | None]
    digests: dict[str, str]


def read_arms(faults: Faults, path: KeyPath, shape: ChatShape, shelf: Shelf) -> tuple[Arm, ...]:
    """Every arm that is not skipped, models first."""
    patterns = _patterns(faults, path, shape)
    models = _named(faults, (*path, "models"), "model", shape.models, shelf.models)
    prompts = _named(faults, (*path, "prompts"), "prompt", shape.prompts, shelf.prompts)
    arms: list[Arm] = []
    skipped = 0
    pairs = [(model, prompt) for model in shape.models for prompt in shape.prompts]
    for model_name, prompt_name in pairs:
        here = [(pattern, at) for pattern, at in patterns.items() if matches(pattern, f"{model_name}/{prompt_name}")]
        if _skipped(here):
            skipped += 1
            continue
        model, prompt = models.get(model_name), prompts.get(prompt_name)
        if model is not None and prompt is not None:
            arm = _arm(faults, path, shape, shelf, model, prompt, here)
            if arm is not None:
                arms.append(arm)
    _check_patterns(faults, path, patterns, pairs)
    if pairs and skipped == len(pairs):
        faults.add((*path, "at"), "every arm is skipped", "at least one that is not")
    return tuple(arms)


def _named(faults: Faults, path: KeyPath, what: str, names: list[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """The things that a list names; unknown ones, empty lists and repetitions noted."""
    if not names:
        faults.add(path, f"no {what} is named", f"at least one {what}")
    for name in twice(names):
        faults.add(path, f"the {what} {name!r} is named twice", "each once")
    for name in names:
        if name not in known:
            faults.unknown(path, what, name, known)
    return {name: known.get(name) for name in names}


def _patterns(faults: Faults, path: KeyPath, shape: ChatShape) -> dict[str, AtShape]:
    """The `at` tables in file order. A pattern over rounds comes later."""
    patterns = {}
    for pattern, raw in shape.at.items():
        here = (*path, "at", pattern)
        if not isinstance(raw, Mapping):
            faults.add(
                here, f"{pattern!r} stands directly below [stage.at]", '[stage.at."*/*"] above it, or the stage itself'
            )
            continue
        at = faults.read(AtShape, raw, here, mend=True)
        if pattern.startswith("round="):
            faults.add(here, "settings for a round come later", "rounds come later")
        elif at is not None:
            patterns[pattern] = at
    return patterns


def _check_patterns(
    faults: Faults, path: KeyPath, patterns: Mapping[str, AtShape], pairs: list[tuple[str, str]]
) -> None:
    names = [f"{model}/{prompt}" for model, prompt in pairs]
    for pattern in patterns:
        if not any(matches(pattern, name) for name in names):
            faults.add((*path, "at", pattern), f"the pattern {pattern!r} matches no arm", hint(pattern, names))


def _skipped(here: list[tuple[str, AtShape]]) -> bool:
    """What the last pattern that says `skip` says."""
    said = [at.skip for _, at in here if "skip" in at.model_fields_set]
    return bool(said and said[-1])


def _arm(
    faults: Faults,
    path: KeyPath,
    shape: ChatShape,
    shelf: Shelf,
    model: Model,
    prompt: ReadPrompt,
    here: list[tuple[str, AtShape]],
) -> Arm | None:
    keys: dict[str, tuple[KeyPath, Any]] = {
        key: ((*path, key), getattr(shape, key)) for key in _SETTING_KEYS if getattr(shape, key) is not None
    }
    for pattern, at in here:
        where = (*path, "at", pattern)
        model = with_parameters(faults, where, model, at)
        for key in at.model_fields_set - {"skip", *_MODEL_KEYS}:
            keys[key] = ((*where, key), getattr(at, key))
    place, raw = keys.pop("parse", ((*path, "parse"), None))
    rule = read_rule(faults, place, raw, folder=shelf.folder, digests=shelf.digests)
    if rule is None:
        return None
    if "gate" in keys:
        expects = "output_tokens_expected" in keys
        keys["gate"] = (keys["gate"][0], _gate(faults, *keys["gate"], expects=expects))
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, (_, value) in keys.items()
    }
    _warn(faults, path, model, f"{model.name}/{prompt.prompt.name}")
    return Arm(model=model, prompt=prompt.prompt, settings=Settings(parse=rule, **values))


def _gate(faults: Faults, path: KeyPath, shape: GateShape, *, expects: bool) -> Gate:
    """The gate of an arm; `expects` says whether the arm tells how long its answers should be."""
    shares = shape.model_dump(include=set(_SHARES), exclude_none=True)
    limits = {key: float(shares[key]) for key in _SHARES if key in shares}
    difference = None if shape.difference is None else float(shape.difference)
    for key, value in {**limits, "difference": difference}.items():
        if value is not None and not 0 < value <= 1:
            faults.add((*path, key), f"the limit {value:g} is no share", "above 0, at most 1")
    if shape.cost is not None and not 1 <= shape.cost < inf:
        faults.add(
            (*path, "cost"), f"the factor {shape.cost} is below 1", "how many times the quoted cost a call may be: 2.0"
        )
    if "length" in limits and not expects:
        wrong = "nothing says how long an answer should be"
        faults.add((*path, "length"), wrong, "output_tokens_expected beside the gate")
    if not limits and shape.cost is None and difference is None:
        faults.add(path, "the gate has no limit", f"{', '.join(_SHARES)}, cost or difference")
    cost = None if shape.cost is None else float(shape.cost)
    return Gate(limits=limits, cost=cost, difference=difference, after=shape.after)


def _warn(faults: Faults, path: KeyPath, model: Model, arm: str) -> None:
    if model.provider.dialect == "local":
        faults.add((*path, "models"), f"{model.name!r} runs in this process and only embeds", "a model that chats")
    elif model.max_output_tokens is None:
        wrong = f"{arm} has no max_output_tokens: nothing bounds a reply"
        faults.warn((*path, "models"), wrong, "a cap, or a [ceiling] in the budget")
    elif model.thinking is None and model.max_output_tokens < _SHORT_CAP:
        wrong = f"{arm} leaves thinking to the provider under a cap of {model.max_output_tokens} tokens"
        faults.warn((*path, "models"), wrong, 'thinking = "off", or a cap of at least 256')
