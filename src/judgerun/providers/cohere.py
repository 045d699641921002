"""The cohere dialect, v2 of embed and chat: encode, decode and the finish map; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import invariant
from judgerun.model.experiment import Deployment
from judgerun.model.profile import Lack, Profile
from judgerun.model.reply import Failure, Finish, Reply, Usage
from judgerun.model.request import Request
from judgerun.providers import body, fault, usage, vectors
from judgerun.providers.wire import WireCall, WireReply

VERSION = "cohere/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

ROLES: Mapping[str, str] = {"query": "search_query", "document": "search_document"}
"""The input types of our two roles; any other goes as it is written."""

FINISH: Mapping[str, Finish] = {
    "COMPLETE": Finish.STOP,
    "STOP_SEQUENCE": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "TOOL_CALL": Finish.TOOL,
    "ERROR": Finish.ERROR,
    "TIMEOUT": Finish.ERROR,
}
"""A word that does not stand here is `unknown`, never `stop`."""

LACKS = (
    Lack(key="extra.embedding_types", takes=frozenset({"float", "int8"}), right='["float"] or ["int8"]'),
    Lack(
        key="extra.truncate", right="leave it out: a text that is too long is refused and counted, never cut in silence"
    ),
    Lack(key="extra.input_type", right="the key `input_type`"),
    Lack(key="extra.output_dimension", right="the key `dimensions`"),
    Lack(key="extra.texts", right="an embed stage"),
)

_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})
_EMBED = frozenset({"model", "text", "role", "dimensions", "input_type", "normalize", "extra"})


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment."""
    return Profile(
        dialect="cohere",
        adapter=VERSION,
        embed=True,
        thinking=frozenset({"off", "tokens", *deployment.thinking}),
        # Whether max_tokens covers thinking is not documented: a hold needs a ceiling of its own, or the word of a deployment.
        reasoning=deployment.reasoning or "unknown",
        answer=deployment.answer or ("content",),
        parameters=frozenset(
            {
                "temperature",
                "max_output_tokens",
                "thinking",
                "extra",
                "dimensions",
                "instruction",
                "input_type",
                "normalize",
            }
        ),
        required_embed=frozenset({"input_type"}),
        lacks=LACKS,
        texts_max=96,
    )


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The header that carries the key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request, or a batch of embedding requests that differ in their text alone."""
    first = requests[0]
    if first.kind == "embed":
        return WireCall(path="/embed", body=orjson.dumps(_embed_body(requests)))
    invariant(len(requests) == 1, "a chat call carries one request")
    return WireCall(path="/chat", body=orjson.dumps(_chat_body(first, deployment)))


def _chat_body(request: Request, deployment: Deployment) -> dict[str, Any]:
    payload = request.payload
    invariant(payload.keys() <= _CHAT, f"the cohere dialect cannot send {sorted(payload.keys() - _CHAT)}")
    # What we own goes in last: nothing in `extra` may lift the cap that a reservation counted on.
    sent: dict[str, Any] = body.merged(payload.get("extra", {}), _thinking(payload, deployment))
    sent["model"], sent["messages"] = payload["model"], payload["messages"]
    if "temperature" in payload:
        sent["temperature"] = payload["temperature"]
    if "max_output_tokens" in payload:
        sent["max_tokens"] = payload["max_output_tokens"]
    return sent


def _thinking(payload: Mapping[str, Any], deployment: Deployment) -> Mapping[str, Any]:
    """The body fields of the way of thinking: the deployment's own, else the dialect's."""
    if "thinking" not in payload:
        return {}
    way = payload["thinking"]
    if (own := deployment.switch(way)) is not None:
        return own
    return {"thinking": {"type": "disabled"} if way == "off" else {"type": "enabled", "token_budget": way}}


def _embed_body(requests: Sequence[Request]) -> dict[str, Any]:
    payload = requests[0].payload
    invariant(payload.keys() <= _EMBED, f"the cohere dialect cannot send {sorted(payload.keys() - _EMBED)}")
    sent: dict[str, Any] = {
        "embedding_types": ["float"],
        **payload.get("extra", {}),
        "model": payload["model"],
        "texts": [request.payload["text"] for request in requests],
        "input_type": ROLES.get(payload["input_type"], payload["input_type"]),
        "truncate": "NONE",  # else a text that is too long is cut, and nothing tells it
    }
    if "dimensions" in payload:
        sent["output_dimension"] = payload["dimensions"]
    return sent


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The replies in the order of the requests, or why there are none. The status is a success (2xx)."""
    held = body.read(wire)
    if isinstance(held, Failure):
        return held
    return _embedded(requests, held, wire) if requests[0].kind == "embed" else _chat(held, wire)


def _chat(held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    message = held.get("message")
    parts = body.objects(body.mapping(message).get("content") or [])
    if not isinstance(message, dict) or parts is None:
        return fault.malformed(wire, "the body has no message, or its content is no list of parts")
    text = body.text(part.get("text") for part in parts if part.get("type") == "text")
    thoughts = body.text(part.get("thinking") for part in parts if part.get("type") == "thinking")
    if text is None or thoughts is None:
        return fault.malformed(wire, "a part's text is no text")
    raw = body.word(held.get("finish_reason"))
    finish = FINISH.get(raw or "", Finish.UNKNOWN)
    return body.reply(
        wire,
        finish=finish,
        finish_raw=raw,
        text=text,
        thoughts=thoughts,
        usage=_usage(body.mapping(held.get("usage")), said_something=bool(text)),
    )


def _usage(told: Mapping[str, Any], *, said_something: bool) -> Usage:
    """The billed units, by which the price is reckoned: fewer than `tokens`, which counts the provider's preamble and marks too.

    `cached_tokens` is a share of `tokens`, not of the billed units, so that no bucket can hold it. No total is told.
    `said_something`: the reply has visible text, so that 0 output tokens cannot be true; no prompt has 0 tokens either.
    """
    billed = body.mapping(told.get("billed_units"))
    read, written = _count(billed.get("input_tokens")), _count(billed.get("output_tokens"))
    return Usage(input_fresh=read or None, output_visible=None if written == 0 and said_something else written)


def _count(value: Any) -> int | None:
    """A number of units, which the interface declares as a decimal number."""
    return usage.count(int(value) if isinstance(value, float) and value.is_integer() else value)


def _embedded(requests: Sequence[Request], held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    """The vectors of the type that was asked for, in the order of the texts."""
    kind = (requests[0].payload.get("extra", {}).get("embedding_types") or ["float"])[0]
    listed = body.mapping(held.get("embeddings")).get(kind)
    if not isinstance(listed, list):
        return fault.malformed(wire, f"the body has no vectors of {kind}")
    meta = body.mapping(held.get("meta"))
    return vectors.replies(
        requests,
        listed,
        wire,
        envelope={name: value for name, value in held.items() if name not in ("embeddings", "texts")},
        tokens=_count(body.mapping(meta.get("billed_units")).get("input_tokens")),
    )
