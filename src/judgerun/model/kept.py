"""What the cache says of a request: Kept (a reply is there), Lost (tried and given up); and Cell, the unit of work."""

from __future__ import annotations

from dataclasses import dataclass

from judgerun.model.money import Nanos
from judgerun.model.reply import Reply
from judgerun.model.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A reply in the cache (without its raw body and, for embeddings, without its vector)."""

    reply: Reply
    attempt: int
    experiment: str  # whose attempt bought it
    cost: Nanos | None = None  # settled for it; None when its hold was forfeited


@dataclass(frozen=True, slots=True)
class Lost:
    """A failed cell: no reply, and no attempts left."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """condition x id x draws, with the request that would fill it."""

    stage: str
    condition: str  # full name; names of upstream conditions are its tails after each "@"
    id: str
    draws: tuple[tuple[str, int], ...]  # (stage, draw), its own first, then upstream's
    block: str
    provider: str
    model: str  # the experiment's name of the model
    request: Request
    rank: tuple[int, ...]  # plan order: lower goes first
    input_bound: int  # tokens, a true upper bound
    input_bound_by: str  # "bytes", or the name of the tokenizer that counted
    output_cap: int | None  # tokens that the provider's cap allows; None where none is sent
    output_expected: int | None = None  # tokens, for quotes and token rates
    further: tuple[int, ...] = ()  # caps under which it may have to be asked again
    climbing: bool = False  # it is asked under a higher cap than its condition's own
