"""Profile: what plan and files must know of an adapter, as data; filled by providers, handed down by the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GATEWAY = frozenset({504, 524})
"""Statuses of a gateway that stopped waiting: what stands behind it may have gone on, and charged."""

Reasoning = Literal["none", "inside", "outside", "unknown"]
"""How an output cap covers hidden reasoning: there is none; inside it (bounded); outside it, or unknown (needs a ceiling)."""

RULES = ("content", "after-think", "reasoning", "prefix")
"""Names of the rules by which an answer is found in a reply: see table/answers.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """What one job of a provider's batch API may hold, and what it costs."""

    requests: int
    bytes: int  # of the file or body that carries them
    factor: str  # decimal: a token in a job costs this share of its usual price
    embed: bool = False  # whether embedding requests may be sent in jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something that models of a dialect do not take: said before a call, where their ids tell it."""

    key: str  # a key of a model, or "extra.FIELD"
    models: str = ""  # a pattern with which their ids begin; "": all models
    takes: frozenset[str] = (
        frozenset()
    )  # the words that they do take ("tokens": a number of tokens); none: leave the key out
    right: str  # what to write instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The facts of one deployment's dialect and, for local models, of its weights."""

    dialect: str
    adapter: str  # dialect/version: part of every request key
    chat: bool = True
    embed: bool = False
    thinking: frozenset[str] = frozenset()  # accepted words; "tokens" when a token count is accepted
    reasoning: Reasoning = "inside"
    cap_field: str | None = None  # body field of the output cap, where a built-in server has another than its dialect
    answer: tuple[str, ...] = ("content",)  # RULES by which the answer is found in a reply, in order
    doubtful: frozenset[int] = GATEWAY  # error statuses that may have been charged
    overload: frozenset[int] = frozenset({503, 529})  # error statuses that say that too much is asked at once
    weights: str | None = None  # digest of weights and configuration of a local model: part of its request keys
    input_limit: int | None = None  # tokens that the model reads; what is beyond is cut and counted
    parameters: frozenset[str] = field(default_factory=frozenset)  # model keys that the adapter can send
    required: frozenset[str] = field(
        default_factory=frozenset
    )  # model keys without which it cannot send a chat request
    required_embed: frozenset[str] = field(default_factory=frozenset)  # the same, of an embedding request
    owned: frozenset[str] = frozenset()  # body fields, `a.b` inside an object, that no switch of thinking may set
    lacks: tuple[Lack, ...] = ()  # what its models do not take, though others of the dialect do
    texts_max: int | None = None  # texts in one embedding call
    texts_tokens_max: int | None = None  # tokens of all texts in one embedding call
    jobs: JobLimits | None = None  # of its batch API; None: it has none
