"""Profile: what plan and files must know of an adapter, as data; filled by providers, handed down by the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The facts of one deployment's dialect and, for local models, of its weights."""

    dialect: str
    adapter: str  # dialect/version: part of every request key
    chat: bool = True
    embed: bool = False
    thinking: frozenset[str] = frozenset()  # accepted words; "tokens" when a token count is accepted
    reasoning: Literal["none", "inside", "outside", "unknown"] = "inside"
    """How the output cap covers hidden reasoning: inside it (bounded), outside it (needs a ceiling), unknown (needs one)."""
    bills_errors: bool = False  # whether an error status before any body may have been charged
    weights: str | None = None  # digest of weights and configuration of a local model: part of its request keys
    input_limit: int | None = None  # tokens that the model reads; what is beyond is cut and counted
    parameters: frozenset[str] = field(default_factory=frozenset)  # model keys that the adapter can send
