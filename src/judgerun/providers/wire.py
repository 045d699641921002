"""WireCall and WireReply: the bytes of one HTTP exchange, as values; no key, no dialect and no socket may stand here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

BODY_BYTES_MAX = 32 * 2**20
"""A body above it is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """One HTTP request. `path` is appended to the base URL, or to its host when `rooted`; the transport adds the key."""

    path: str
    body: bytes = b""
    method: Literal["POST", "GET"] = "POST"
    rooted: bool = False
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # of this call alone, such as another content type


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """A whole response. Header names are asked for in lower case; `at` is the Unix time of its arrival."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    at: float
