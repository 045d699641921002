"""The dialects by name, what a module of one offers, and the base paths under which each is served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from judgerun.simulate import anthropic, bedrock, cohere, google, openai, responses, voyage
from judgerun.simulate.ask import Ask, Body, Call, Given, Kind, Refused, Stated, Trouble
from judgerun.simulate.events import Stream


class Dialect(Protocol):
    """What a dialect's module offers; a new dialect is one new file and one more entry in DIALECTS and BASES."""

    @property
    def PATHS(self) -> Mapping[str, Kind]: ...

    @property
    def SPOILS(self) -> Mapping[str, Callable[[Body], None]]: ...

    @property
    def STREAM(self) -> Stream | None: ...

    def read(self, call: Call) -> Ask: ...

    def write(self, ask: Ask, given: Given) -> Body: ...

    def error(self, trouble: Trouble) -> Refused: ...

    def limits(self, stated: Sequence[Stated], wall: float) -> Mapping[str, str]: ...


DIALECTS: Mapping[str, Dialect] = {
    "openai": openai,
    "openai-responses": responses,
    "anthropic": anthropic,
    "google": google,
    "voyage": voyage,
    "cohere": cohere,
    "bedrock": bedrock,
}

VERTEX = "/google/v1/projects/{project}/locations/{location}/publishers/google"
BASES: Mapping[str, tuple[str, ...]] = {
    "openai": ("/v1", "", "/openai/v1"),
    "openai-responses": ("/v1", "", "/openai/v1"),
    "anthropic": ("/anthropic/v1", "/v1", ""),
    "google": ("/google/v1beta", "/v1beta", "", VERTEX),
    "voyage": ("/voyage/v1",),
    "cohere": ("/cohere/v2", "/v2"),
    "bedrock": ("/bedrock", ""),
}
"""The first is the one to give out; where paths do not collide a dialect is also served without a prefix."""
