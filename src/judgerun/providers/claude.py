"""Claude: the thinking and the temperature that each of its models takes, for all dialects that carry them; tables and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from judgerun.errors import EXPERIMENT, Problem, invariant
from judgerun.model.experiment import Model

BUDGET_MIN = 1024
"""The least number of thinking tokens that can be asked for."""

WORDS = ("low", "medium", "high")
"""Efforts; `off` and a number of tokens are the other two things that `thinking` may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a family of models takes. One that takes no temperature takes the default of 1 all the same."""

    words: bool  # an effort, with thinking that adapts to it
    tokens: bool  # a number of thinking tokens
    off: (
        Mapping[str, Any] | None
    )  # fields that turn thinking off; empty: it is off unless asked for; None: it is always on
    temperature: bool = True


_PLAIN = Kind(words=False, tokens=False, off={})
_BUDGET = Kind(words=False, tokens=True, off={})
_EITHER = Kind(words=True, tokens=True, off={})
_ADAPTS = Kind(words=True, tokens=False, off={}, temperature=False)
_SWITCH = Kind(words=True, tokens=False, off={"thinking": {"type": "disabled"}}, temperature=False)
_ALWAYS = Kind(words=True, tokens=False, off=None, temperature=False)

KINDS: tuple[tuple[str, Kind], ...] = (
    ("claude-3-7", _BUDGET),
    ("claude-3", _PLAIN),
    ("claude-haiku-4", _BUDGET),
    ("claude-opus-4-6", _EITHER),
    ("claude-sonnet-4-6", _EITHER),
    ("claude-opus-4-7", _ADAPTS),
    ("claude-opus-4-8", _ADAPTS),
    ("claude-opus-4", _BUDGET),
    ("claude-sonnet-4", _BUDGET),
    ("claude-opus-5-5", _ALWAYS),
    ("claude-sonnet-5-5", _ALWAYS),  # its least setting, between_tools, is not off
    ("claude-fable", _ALWAYS),
    ("claude-mythos-preview", Kind(words=True, tokens=True, off=None, temperature=False)),
    ("claude-mythos", _ALWAYS),
    ("claude", _SWITCH),  # Opus 5, Sonnet 5, Haiku 5.5, and those to come
)
"""The first beginning of a model's name that fits says its kind: the provider's table of what each model rejects with a 400
(platform.claude.com, "Troubleshooting thinking" and "Effort").
"""


def kind(model: str) -> Kind | None:
    """The kind of a model by its id, which may stand behind a vendor's or a region's prefix; None when it is no Claude."""
    at = model.find("claude")
    name = model[at:].replace(".", "-") if at >= 0 else ""
    return next((kind for start, kind in KINDS if name.startswith(start)), None)


def thinking(model: str, asked: str | int) -> Mapping[str, Any]:
    """The fields of a messages body that ask for this thinking. `unfit` has said before what a model does not take."""
    if isinstance(asked, int):
        return {"thinking": {"type": "enabled", "budget_tokens": asked}}
    if asked in WORDS:
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": asked}}
    known = kind(model)
    off = None if known is None else known.off
    invariant(off is not None, f"it is not known how {model} is told not to think")
    return off or {}


def unfit(model: Model) -> Iterator[Problem]:
    """Thinking and temperature that the model's API would answer with a 400."""
    own = model.provider.switch(model.thinking) is not None  # the person's own fields for it: theirs to know
    if model.thinking is not None and not own:
        for wrong, right in _thinking(model, model.thinking):
            yield Problem(EXPERIMENT, f"models.{model.name}.thinking", wrong, right)
    for wrong, right in _temperature(model, thinks=model.thinking not in (None, "off") and not own):
        yield Problem(EXPERIMENT, f"models.{model.name}.temperature", wrong, right)


def _thinking(model: Model, asked: str | int) -> Iterator[tuple[str, str]]:
    known = kind(model.model)
    if known is None:
        own = f"providers.{model.provider.name}.thinking"
        yield f"judgerun knows the thinking of Claude's models alone, not of {model.model!r}", f"its fields in {own}"
    elif isinstance(asked, int):
        cap = model.max_output_tokens
        if not known.tokens:
            yield f"{model.model} takes no number of thinking tokens", _choices(known)
        elif asked < BUDGET_MIN:
            yield f"{asked} thinking tokens are too few", f'"off", or {BUDGET_MIN} and more'
        elif cap is None or asked >= cap:
            yield f"{asked} thinking tokens do not fit in max_output_tokens", f"a cap above {asked}, or fewer of them"
    elif asked in WORDS and not known.words:
        yield f"{model.model} takes no effort", _choices(known)
    elif asked == "off" and known.off is None:
        yield f"{model.model} always thinks", _choices(known)


def _choices(known: Kind) -> str:
    """What `thinking` may be."""
    found = [] if known.off is None else ["off"]
    found += WORDS if known.words else ()
    return "one of " + ", ".join(found + ([f"a number from {BUDGET_MIN}"] if known.tokens else []))


def _temperature(model: Model, *, thinks: bool) -> Iterator[tuple[str, str]]:
    asked, known = model.temperature, kind(model.model)
    if asked is None or asked == 1:
        return
    if known is not None and not known.temperature:
        yield f"{model.model} takes no temperature", "leave it out"
    elif thinks:
        yield "the API takes no temperature while thinking is on", 'leave it out, or thinking = "off"'
    elif asked > 1:
        yield f"{asked} is above what the API takes", "from 0 to 1"
