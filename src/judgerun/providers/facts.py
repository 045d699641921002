"""Facts: what known servers of the openai dialect do differently, as a table; which of it holds at a deployment; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from judgerun.errors import EXPERIMENT, Problem
from judgerun.model.experiment import Deployment
from judgerun.model.profile import RULES, Reasoning

Fields = Mapping[str, Any]
"""Fields of a request's body."""

WORDS = ("off", "low", "medium", "high")
"""The words of `thinking`; a number of tokens is the other thing that it may be."""

CAPS = frozenset({"max_tokens", "max_completion_tokens"})
OWNED = CAPS | {"model", "messages", "temperature", "n", "stream"}
"""Body fields that no switch of thinking may set, in any dialect: they say what is asked, or bound what it costs."""

MINUTE, DAY = 60.0, 86_400.0


def _effort(*words: str) -> dict[str, Fields]:
    return {word: {"reasoning_effort": word} for word in words}


_DISABLED: Fields = {"thinking": {"type": "disabled"}}
_TEMPLATE: Fields = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
"""Templates of Qwen and GLM ask for the one, of DeepSeek and Granite for the other; what a template does not ask for is nothing."""

EFFORT: Mapping[str, Fields] = {"off": {"reasoning_effort": "none"}, **_effort("low", "medium", "high")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one server does; the defaults are the dialect's own."""

    version: int = 1  # raised whenever the same payload would become other bytes at this server
    cap_field: str = "max_completion_tokens"  # of the output cap: one that ignored an unknown name would not be bounded
    thinking: Mapping[str, Fields] = field(default_factory=lambda: EFFORT)  # what each word becomes
    tokens: tuple[str, ...] = ()  # the path of the body field that takes a number of thinking tokens; empty: none does
    reasoning: Reasoning = "inside"
    answer: tuple[str, ...] = ("content",)
    windows: Mapping[str, float] = field(default_factory=dict)
    """Seconds over which `x-ratelimit-limit-requests` and `-tokens` count, where the server documents it."""
    include_usage: bool = True  # understands `stream_options`; one that does not tells the usage of a stream unasked
    hangs_up: bool = False
    """Closes the connection after a stream without saying so: the next call on it would be in doubt."""
    base64: bool = False  # gives embeddings in base64
    texts_max: int | None = None  # in one embedding call
    texts_tokens_max: int | None = None


PLAIN = Facts(hangs_up=True)
"""A server of which nothing is known but its dialect."""

_TAGGED = ("content", "after-think")
"""Of some models the server leaves the think block in the content: groq and cerebras of Qwen, together of DeepSeek-R1, a server of
one's own of all of them, where it was started without its reasoning parser.
"""

SERVERS: Mapping[str, Facts] = {
    "openai": Facts(
        windows={"requests": MINUTE, "tokens": MINUTE}, base64=True, texts_max=2048, texts_tokens_max=300_000
    ),
    # It has been seen to answer with a few tokens more than its cap: a hold needs a ceiling of its own. `medium` would be `high`.
    "deepseek": Facts(
        cap_field="max_tokens", thinking={"off": _DISABLED, **_effort("low", "high")}, reasoning="unknown"
    ),
    "deepinfra": Facts(cap_field="max_tokens"),
    "openrouter": Facts(cap_field="max_tokens", tokens=("reasoning", "max_tokens")),
    # Whether it takes `stream_options` could not be confirmed; it ends every stream with the usage.
    "mistral": Facts(cap_field="max_tokens", include_usage=False),
    "groq": Facts(answer=_TAGGED, windows={"requests": DAY, "tokens": MINUTE}),
    "together": Facts(
        version=2,  # 1 sent `reasoning_effort: none`, which its hybrid models do not document
        cap_field="max_tokens",
        thinking={**EFFORT, "off": {"reasoning": {"enabled": False}}},
        answer=_TAGGED,
    ),
    "novita": Facts(
        version=2,  # 1 sent `reasoning_effort: none`, under which its models went on thinking
        cap_field="max_tokens",
        thinking={**EFFORT, "off": {"enable_thinking": False}},
    ),
    # A number of tokens needs a server that was started with its reasoning configuration.
    "vllm": Facts(
        thinking={**EFFORT, "off": _TEMPLATE}, tokens=("thinking_token_budget",), answer=_TAGGED, base64=True
    ),
    "sglang": Facts(thinking={**EFFORT, "off": _TEMPLATE}, answer=_TAGGED),
    "llamacpp": Facts(answer=_TAGGED, hangs_up=True, base64=True),
    # It counts reasoning beside the completion; whether its cap covers it is not documented.
    "xai": Facts(reasoning="unknown"),
    "zai": Facts(  # whether its cap covers reasoning is not documented
        cap_field="max_tokens",
        thinking={"off": _DISABLED, **_effort("low", "high")},
        reasoning="unknown",
        include_usage=False,
    ),
    "moonshot": Facts(  # whether its cap covers reasoning could not be confirmed
        thinking={"off": _DISABLED, **_effort("low", "high")}, reasoning="unknown"
    ),
    "cerebras": Facts(  # whether its cap covers reasoning could not be confirmed
        thinking={"off": {"disable_reasoning": True}, **_effort("low", "medium", "high")},
        reasoning="unknown",
        answer=_TAGGED,
    ),
}
"""By the names that `like` may give; a built-in deployment has those of its own name."""


def of(deployment: Deployment) -> Facts:
    """The facts of the server that a deployment is, or is like; its own table is not in them."""
    name = deployment.like if deployment.like is not None else deployment.name if deployment.builtin else ""
    return SERVERS.get(name, PLAIN)


def thinking(value: str | int, deployment: Deployment) -> Fields | None:
    """The body fields that a word or a number of tokens becomes at a deployment: by its own table, else by its server's.
    None where neither has it.
    """
    known = of(deployment)
    if (own := deployment.switch(value)) is not None:
        return own
    if isinstance(value, str):
        return known.thinking.get(value)
    if not known.tokens:
        return None
    fields: Any = value
    for name in reversed(known.tokens):
        fields = {name: fields}
    return dict(fields)


def problems(deployment: Deployment, owned: Collection[str] = ()) -> Iterator[Problem]:
    """What is wrong with `like`, `cap_field`, `answer` and `thinking` of a deployment's own table. `owned`: what its dialect adds
    to OWNED.
    """
    place = f"providers.{deployment.name}"
    if deployment.like is not None and deployment.dialect != "openai":
        wrong = f"the dialect {deployment.dialect!r} has no servers that another could be like"
        yield Problem(EXPERIMENT, f"{place}.like", wrong, "leave it out")
    elif deployment.like is not None and deployment.like not in SERVERS:
        wrong = f"no server of the name {deployment.like!r} is known"
        yield Problem(EXPERIMENT, f"{place}.like", wrong, choice(deployment.like, SERVERS))
    if deployment.cap_field is not None and deployment.dialect != "openai":
        wrong = f"the dialect {deployment.dialect!r} has one field for its output cap"
        yield Problem(EXPERIMENT, f"{place}.cap_field", wrong, "leave it out")
    elif deployment.cap_field in {"", *(OWNED - CAPS)}:
        wrong = f"the output cap cannot go as {deployment.cap_field!r}"
        yield Problem(EXPERIMENT, f"{place}.cap_field", wrong, choice(deployment.cap_field, sorted(CAPS)))
    for rule in deployment.answer:
        if rule not in RULES:
            yield Problem(EXPERIMENT, f"{place}.answer", f"{rule!r} finds no answers", choice(rule, RULES))
    for word, fields in deployment.thinking.items():
        for name in sorted(name for name in OWNED.union(owned) if _holds(fields, name)):
            wrong = f"a switch of thinking may not set {name!r}"
            yield Problem(EXPERIMENT, f"{place}.thinking.{word}.{name}", wrong, "leave it out")
        if word not in WORDS and not (word.isdecimal() and word == str(int(word))):
            wrong = f"no model can ask for {word!r}"
            yield Problem(EXPERIMENT, f"{place}.thinking.{word}", wrong, choice(word, (*WORDS, "a number of tokens")))


def _holds(fields: Fields, name: str) -> bool:
    """Whether fields hold a field; `a.b` is the field b of the object a."""
    here: Any = fields
    for part in name.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True


def choice(word: str, known: Iterable[str]) -> str:
    """What would be right instead of an unknown word: the nearest of the known ones, else all of them."""
    words = list(known)
    near = get_close_matches(word, words, n=1)
    return f"did you mean {near[0]!r}?" if near else f"one of {', '.join(words)}"
