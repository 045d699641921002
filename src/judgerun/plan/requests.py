"""Requests: which parameters of a model are really sent, and how many tokens a request can hold at most."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from judgerun.errors import invariant
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell
from judgerun.model.making import maker
from judgerun.model.profile import Profile
from judgerun.model.request import Request, build, canonical, digest


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What counts the tokens of a model's texts; `name` is how reservations tell it."""

    name: str
    tokens: Callable[[str], int]


Count = Callable[[Model], Tokenizer | None]
"""A model's own tokenizer; None where there is none."""

SERVER = "server"
"""The `tokenizer` of a model whose own server counts, right before each reservation."""

MESSAGE_TOKENS = 64
"""Allowance for each message: role marks, separators, and what a chat template puts before the first."""

TEXT_TOKENS = 16
"""Allowance for each embedded text: start and end marks."""


_REQUEST = maker(Request)


class Mould:
    """The canonical JSON of requests that differ in one payload field and in the draw alone, cut at these two places.

    It gives the same bytes as `model.request.build`, without sorting and checking again what all of them share.
    """

    def __init__(
        self, kind: Literal["chat", "embed"], field: str, payload: Mapping[str, Any], *, deployment: str, adapter: str
    ) -> None:
        self._kind: Literal["chat", "embed"] = kind
        self._deployment = deployment
        self._adapter = adapter
        mark = "text"
        while mark.encode() in canonical(payload):
            mark += "_"
        marked = build(kind, {**payload, field: mark}, deployment=deployment, adapter=adapter, draw=0)
        # Keys are sorted: the draw comes before the payload, and no string before it can hold a bare quote.
        self._head, rest = _cut(marked.canonical, b'"draw":', b"0")
        self._middle, self._tail = _cut(rest, b'"%s":' % field.encode(), b'"%s"' % mark.encode())

    def request(self, payload: Mapping[str, Any], varying: Any, draw: int) -> Request:
        """The request with this payload, of which `varying` is the field that was left open."""
        body = b"".join(
            (self._head, b"%d" % draw, self._middle, orjson.dumps(varying, option=orjson.OPT_SORT_KEYS), self._tail)
        )
        key = hashlib.sha256(body).digest()
        return _REQUEST(self._kind, payload, self._deployment, self._adapter, draw, key, body)


def _cut(whole: bytes, name: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """What stands before and after the first `mark` that follows its name."""
    head, found, tail = whole.partition(name + mark)
    invariant(bool(found), f"{name!r} does not stand in the request")
    return head + name, tail


class Form:
    """The request of one model, but for its text: what all its requests share is worked out once."""

    def __init__(self, model: Model, profile: Profile) -> None:
        self.model = model
        self.profile = profile
        self.answer = profile.answer
        where = {"deployment": model.provider.key_part, "adapter": adapter(model, profile)}
        self._chat = chat_parameters(model)
        self._embed = {role: embed_parameters(model, role) for role in ("query", "document")}
        self._asked = Mould("chat", "messages", self._chat, **where)
        self._embedded = {role: Mould("embed", "text", given, **where) for role, given in self._embed.items()}

    def chat(self, messages: Sequence[Mapping[str, str]], draw: int) -> Request:
        """The request that asks these messages."""
        return self._asked.request({**self._chat, "messages": messages}, messages, draw)

    def embed(self, text: str, role: Literal["query", "document"]) -> Request:
        """The request for the vector of a text in that role."""
        whole = self.model.instruction.get(role, "") + text
        return self._embedded[role].request({**self._embed[role], "text": whole}, whole, 1)

    def bound(self, request: Request, count: Count | None) -> tuple[int, str]:
        """The most input tokens that the request can hold, and by what that is known: "tokens:NAME" or "bytes".

        Every token of a byte-level tokenizer covers at least one byte, so the bytes bound the tokens. One that normalises its
        text first may make more: only its own count is a bound.
        """
        tokenizer = None if count is None else count(self.model)
        if tokenizer is None:
            total, by = sum(len(text.encode()) for text in texts_of(request)), "bytes"
        else:
            total, by = sum(map(tokenizer.tokens, texts_of(request))), f"tokens:{tokenizer.name}"
        total += allowance(request)
        limit = self.profile.input_limit if request.kind == "embed" else None
        return (total if limit is None else min(total, limit)), by


def texts_of(request: Request) -> list[str]:
    """What a request gives to read: its one text, or the contents of its messages."""
    if request.kind == "embed":
        return [request.payload["text"]]
    return [message["content"] for message in request.payload["messages"]]


def allowance(request: Request) -> int:
    """The most tokens that may stand around and between the texts of a request; what `extra` adds is bounded by its bytes."""
    if request.kind == "embed":
        return TEXT_TOKENS
    extra = request.payload.get("extra")
    return MESSAGE_TOKENS * len(request.payload["messages"]) + (len(canonical(extra)) if extra else 0)


def counted(cell: Cell, tokens: int) -> Cell:
    """The cell with its input bounded by the count of its server, in the place of its bytes."""
    return replace(cell, input_bound=tokens + allowance(cell.request), input_bound_by=f"tokens:{SERVER}")


def adapter(model: Model, profile: Profile) -> str:
    """What of the adapter stands in request keys: its version; the field of the cap, where it is not the dialect's; where a
    deployment says so, the server whose habits it has and its own switch of thinking; whether the reply is streamed; the weights
    and the input limit of a local model.
    """
    parts = [profile.adapter]
    cap_field = model.provider.cap_field or profile.cap_field
    if cap_field is not None and model.max_output_tokens is not None:
        parts.append(f"cap={cap_field}")
    if model.provider.like is not None:
        parts.append(f"like={model.provider.like}")
    if (written := model.provider.switch(model.thinking)) is not None:
        parts.append(f"thinking={digest([canonical(written)])[:16]}")
    if model.stream:
        parts.append("stream")
    if profile.weights is not None:
        parts.append(f"weights={profile.weights}")
        parts.append(f"limit={profile.input_limit}")
    return " ".join(parts)


def chat_parameters(model: Model) -> dict[str, Any]:
    """The parameters of a chat request that are really sent, without its messages."""
    payload: dict[str, Any] = {"model": model.model}
    for name in ("temperature", "max_output_tokens", "thinking"):
        value = getattr(model, name)
        if value is not None:
            payload[name] = value
    if model.extra:
        payload["extra"] = dict(model.extra)
    return payload


def embed_parameters(model: Model, role: Literal["query", "document"] | str) -> dict[str, Any]:
    """The parameters of an embedding request that are really sent, without its text."""
    payload: dict[str, Any] = {"model": model.model, "role": role}
    if isinstance(model.input_type, Mapping):
        if role in model.input_type:
            payload["input_type"] = model.input_type[role]
    elif model.input_type:
        payload["input_type"] = role
    for name in ("dimensions", "max_input_tokens"):
        value = getattr(model, name)
        if value is not None:
            payload[name] = value
    if model.normalize:
        payload["normalize"] = True
    if model.extra:
        payload["extra"] = dict(model.extra)
    return payload
