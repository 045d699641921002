"""Tokenize: the question to a server's own tokenizer and what it answers; pure, bytes in and values out."""

from __future__ import annotations

import orjson

from judgerun.model.request import Request
from judgerun.plan.requests import texts_of
from judgerun.providers.usage import count
from judgerun.providers.wire import WireCall, WireReply

PATH = "/tokenize"


def ask(request: Request) -> WireCall:
    """The call that asks how many tokens the texts of a request have, joined by line ends.

    vLLM and sglang read `prompt`, llama.cpp reads `content`; each leaves the other's field alone.
    """
    text = "\n".join(texts_of(request))
    body = {"model": request.payload["model"], "prompt": text, "content": text}
    return WireCall(path=PATH, body=orjson.dumps(body), rooted=True)


def told(wire: WireReply) -> int | None:
    """The count: vLLM and sglang state it as `count`, of llama.cpp's answer the `tokens` are counted. None for any other answer."""
    if wire.status != 200:
        return None
    try:
        body = orjson.loads(wire.body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(body, dict):
        return None
    tokens = body.get("tokens")
    return count(body.get("count", len(tokens) if isinstance(tokens, list) else None))
