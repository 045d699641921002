"""Laws: how a simulated model behaves: how long it thinks and writes, how often it errs, how fast it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from judgerun.simulate import answer, chance, vectors
from judgerun.simulate.ask import Ask, Given, Trouble, cut, tokens

_THINKER = re.compile(r"reason|think|\bo[1-9]\b|\br1\b", re.I)

REASONING_MEDIAN = 400.0
SPOKEN = 0.25
"""The share of its output that a thinking model says aloud, where its law tells the whole."""
MUSING = "Let me weigh this."
"""What a model shows of its reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One model's habits. Lengths are lognormal: medians in tokens, `spread` of the logarithm."""

    deliberation: float = 180.0  # of the prose before an answer, where a prompt asks for some
    essay: float = 380.0  # of a solution or another long text
    spread: float = 0.8
    reasoning: float = 0.0  # of the hidden reasoning; 0: it has none
    outputs: Mapping[int | None, float] = field(
        default_factory=dict
    )  # of all output, by the cap of the call: over the three
    error: float = 0.1  # how often it gives another answer than the one that it would
    mumble: float = 0.0  # how often it says nothing that can be read as an answer
    cached: float = 0.2  # how often half of its input is served from a cache
    context: int = 128_000  # input and output tokens that fit
    dimensions: int = 64
    first_s: float = 0.03  # median seconds to the first byte
    token_s: float = 0.0004  # seconds for each output token


def habit(seed: int, model: str, laws: Mapping[str, Law]) -> Law:
    """The law of a model: the one given for its name, else one that follows from its name."""
    if model in laws:
        return laws[model]
    error = 0.04 + 0.14 * chance.uniform(seed, "error", model)
    return Law(error=error, reasoning=REASONING_MEDIAN if _THINKER.search(model) else 0.0)


def overlong(law: Law, ask: Ask) -> Trouble | None:
    """Why a call does not fit into the model's context; None where it does. A text of several to embed counts by itself."""
    needed = ask.input + (ask.cap or 0)
    if ask.kind == "embed":
        needed = 0 if ask.truncate else max(map(tokens, ask.texts))
    if needed <= law.context:
        return None
    told = f"this model's maximum context length is {law.context} tokens; the request needs {needed}"
    return Trouble(kind="context", message=told)


def give(seed: int, law: Law, ask: Ask) -> Given:
    """The answer: a pure function of the seed, the law and the body's bytes."""
    if ask.kind == "embed":
        return _embedded(seed, law, ask)
    words = (seed, ask.model, ask.digest)
    thinks = law.reasoning > 0 if ask.thinking is None else ask.thinking
    text = answer.answer(ask, words, _habits(law, ask, thinks=thinks))
    visible = tokens(text)
    reasoning = _reasoning(law, ask, words, visible) if thinks else 0
    given = Given(text=text, input=ask.input, visible=visible, reasoning=reasoning)
    given.thoughts = MUSING if reasoning else ""
    _cache(law, ask, given, words)
    if ask.cap is not None and given.output > ask.cap:
        given.finish = "length"
        given.reasoning = min(reasoning, ask.cap)
        given.text = cut(text, ask.cap - given.reasoning)
        given.visible = ask.cap - given.reasoning
    return given


def _embedded(seed: int, law: Law, ask: Ask) -> Given:
    """Vectors; of a text that is too long only what fits is read, and charged."""
    texts = [cut(text, law.context) for text in ask.texts]
    size = ask.dimensions or law.dimensions
    made = [vectors.embed(seed, ask.model, text, size, role=ask.role) for text in texts]
    return Given(vectors=made, input=sum(map(tokens, texts)))


def _cache(law: Law, ask: Ask, given: Given, words: tuple[object, ...]) -> None:
    """Half of the input, in blocks of 64 tokens, comes from a cache; else it is written to one, where the body asks for that."""
    half = ask.input // 128 * 64
    if ask.cache == "off":
        return
    if chance.uniform(*words, "cached") < law.cached:
        given.cached = half
    elif ask.cache == "5m":
        given.written = half
    elif ask.cache == "1h":
        given.written_1h = half


def _habits(law: Law, ask: Ask, *, thinks: bool) -> answer.Habits:
    """How the visible text comes about."""
    if (whole := law.outputs.get(ask.cap)) is None:
        return answer.Habits(law.deliberation, law.essay, law.spread, law.error, law.mumble)
    prose = whole * SPOKEN if thinks else whole
    return answer.Habits(prose, prose, law.spread, law.error, law.mumble)


def _reasoning(law: Law, ask: Ask, words: tuple[object, ...], visible: int) -> int:
    """Tokens of the hidden reasoning of a call that thinks: what its text leaves of the whole, where the law tells that."""
    whole = law.outputs.get(ask.cap)
    median = (law.reasoning or REASONING_MEDIAN) * ask.effort if whole is None else whole
    wanted = round(chance.lognormal(median, law.spread, *words, "reasoning"))
    if whole is not None:
        wanted = max(0, wanted - visible)
    return wanted if ask.budget is None else min(wanted, ask.budget)


def latency(seed: int, law: Law, ask: Ask, given: Given, nth: int) -> float:
    """Seconds until the answer is whole; `nth` is how often this body has come before."""
    first = chance.lognormal(law.first_s, 0.5, seed, ask.digest, nth, "latency")
    return first + law.token_s * given.output
