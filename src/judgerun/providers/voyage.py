"""The voyage dialect, embeddings alone: encode and decode; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import invariant
from judgerun.model.experiment import Deployment
from judgerun.model.profile import Lack, Profile
from judgerun.model.reply import Failure, Reply
from judgerun.model.request import Request
from judgerun.providers import body, vectors
from judgerun.providers.wire import WireCall, WireReply

VERSION = "voyage/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

LACKS = (
    Lack(key="extra.output_dtype", takes=frozenset({"float", "int8"}), right='"float" or "int8"'),
    Lack(
        key="extra.truncation",
        right="leave it out: a text that is too long is refused and counted, never cut in silence",
    ),
    Lack(key="extra.encoding_format", right="leave it out: it changes no number"),
    Lack(key="extra.input_type", right="the key `input_type`"),
    Lack(key="extra.output_dimension", right="the key `dimensions`"),
)

_EMBED = frozenset({"model", "text", "role", "dimensions", "input_type", "normalize", "extra"})


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect."""
    return Profile(
        dialect="voyage",
        adapter=VERSION,
        chat=False,
        embed=True,
        parameters=frozenset({"extra", "dimensions", "instruction", "input_type", "normalize"}),
        lacks=LACKS,
        texts_max=1000,
        # Of the large models and those of one field; 320,000 and 1,000,000 of others, whose calls are then smaller than need be.
        texts_tokens_max=120_000,
    )


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The header that carries the key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries a batch of embedding requests that differ in their text alone."""
    payload = requests[0].payload
    invariant(
        requests[0].kind == "embed" and payload.keys() <= _EMBED,
        f"the voyage dialect cannot send {requests[0].kind} {sorted(payload.keys() - _EMBED)}",
    )
    sent: dict[str, Any] = {
        **payload.get("extra", {}),
        "model": payload["model"],
        "input": [request.payload["text"] for request in requests],
        "truncation": False,  # else a text that is too long is cut, and nothing tells it
    }
    if not _int8(requests[0]):
        sent["encoding_format"] = "base64"
    if "input_type" in payload:
        sent["input_type"] = payload["input_type"]
    if "dimensions" in payload:
        sent["output_dimension"] = payload["dimensions"]
    return WireCall(path="/embeddings", body=orjson.dumps(sent))


def _int8(request: Request) -> bool:
    return bool(request.payload.get("extra", {}).get("output_dtype") == "int8")


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The vectors in the order of the requests, or why there are none. The status is a success (2xx)."""
    held = body.read(wire)
    if isinstance(held, Failure):
        return held
    return vectors.decode(requests, held, wire, packed="i1" if _int8(requests[0]) else "<f4")
