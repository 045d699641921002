"""WireCall and WireReply: the bytes of one HTTP exchange, as values; no key, no dialect and no socket may stand here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """One POST. `path` is appended to the deployment's base URL; the transport adds the key."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """A whole response. Header names are asked for in lower case; `at` is the Unix time of its arrival."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    at: float
