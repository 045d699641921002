"""The answer law: what a simulated model says, read off from how the prompt wants to be answered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from judgerun.simulate import chance, hints, prose, schema
from judgerun.simulate.ask import Ask

Words = tuple[object, ...]

_DELIBERATE = re.compile(
    r"step by step|think|explain|first say|reason|deliberat|in (?:one|a few|two) sentences?|go through", re.I
)
_REWRITE = re.compile(r"rewrit|paraphras|reformulat|in other words|shorten", re.I)
_MUMBLE = "There is much to be said for each of them, and I would rather not decide."


@dataclass(frozen=True, slots=True)
class Habits:
    """What of a model's law shapes its words; medians in tokens."""

    deliberation: float
    essay: float
    spread: float
    error: float
    mumble: float


def answer(ask: Ask, words: Words, habits: Habits) -> str:
    """The whole visible text, before any cap. `words` seed every chance in it."""
    seed = words[0]
    held = ask.schema or hints.schema(ask.prompt)
    erring = chance.uniform(*words, "error") < habits.error
    if held is not None:  # models that do not err say the same
        return schema.instance(held, words if erring else (seed, ask.prompt))
    if chance.uniform(*words, "mumble") < habits.mumble:
        return _MUMBLE
    wanted = hints.wanted(ask.prompt) or hints.wanted("\n".join(text for _, text in ask.messages))
    if wanted is None:
        return _free(ask, words, habits)
    core = _core(ask.prompt, wanted, seed)
    if erring:
        core = chance.pick([option for option in wanted.options if option != core] or [core], *words, "other")
    said = wanted.form.format(core)
    if wanted.marker or (not wanted.only and _DELIBERATE.search(hints.ending(ask.prompt))):
        length = chance.lognormal(habits.deliberation, habits.spread, *words, "deliberation")
        before = prose.deliberate(ask.prompt, length, words)
        return f"{before}\n{wanted.marker}{' ' if wanted.marker else ''}{said}"
    return said


def _core(prompt: str, wanted: hints.Wanted, seed: object) -> str:
    """The answer that every model would give, did none err: it hangs on the prompt's content, not on who is asked."""
    if wanted.kind == "choice":
        best = hints.likest(prompt)
        if best is not None and str(best) in wanted.options:
            return str(best)
    if wanted.kind == "score":
        steps = prose.steps(prompt)
        if steps is not None:
            return wanted.options[min(steps, len(wanted.options) - 1)]
    if wanted.kind == "label":
        better = hints.better(prompt, wanted.options, seed)
        if better is not None:
            return better
        # The first label named is the commoner one: a judge of drift finds little of it.
        draw = chance.uniform(seed, prompt, "label")
        return wanted.options[0] if draw < 0.7 else chance.pick(wanted.options, seed, prompt, "label 2")
    return chance.pick(wanted.options, seed, prompt, "core")


def _free(ask: Ask, words: Words, habits: Habits) -> str:
    """Free text: a rewritten query, or a solution in numbered steps with a result."""
    query = hints.query(ask.prompt)
    if query is not None and _REWRITE.search(ask.prompt):
        return prose.rewrite(query, ask.prompt, words)
    return prose.solve(ask.prompt, chance.lognormal(habits.essay, habits.spread, *words, "essay"), words)
