"""The openai dialect as a server speaks it: bodies -> Ask, Given -> bodies, and how faults spoil them; pure."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable, Mapping
from typing import Any, Literal

import orjson

from judgerun.simulate.ask import Ask, Given, Wrong

Body = dict[str, Any]

PATHS: Mapping[str, Literal["chat", "embed"]] = {"/chat/completions": "chat", "/embeddings": "embed"}
"""Paths under the base URL, with the kind of call."""

CAPS = ("max_completion_tokens", "max_tokens")


def read(path: str, raw: bytes) -> Ask:
    """The call that a body makes. Raises Wrong."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise Wrong("the body is no JSON") from None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise Wrong("you must provide a model parameter")
    digest = hashlib.blake2b(raw, digest_size=16).hexdigest()
    return _chat(body, digest) if PATHS[path] == "chat" else _embed(body, digest)


def _chat(body: dict[str, Any], digest: str) -> Ask:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Wrong("'messages' must be a list that is not empty")
    if body.get("stream") or body.get("n", 1) != 1:
        raise Wrong("this provider neither streams nor answers n times")
    caps = [body[name] for name in CAPS if body.get(name) is not None]
    if any(not isinstance(cap, int) or cap < 1 for cap in caps):
        raise Wrong("the output cap must be a whole number above 0")
    return Ask(
        kind="chat",
        model=body["model"],
        digest=digest,
        messages=tuple(_message(message) for message in messages),
        cap=min(caps, default=None),
        thinking=_thinking(body),
        schema=_schema(body.get("response_format")),
    )


def _message(message: Any) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Wrong("a message has a role and a content")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise Wrong("a message's content is text")
    return message["role"], content


def _thinking(body: dict[str, Any]) -> bool | None:
    switch = body.get("thinking")
    if isinstance(switch, dict):
        return switch.get("type") != "disabled"
    effort = body.get("reasoning_effort")
    return None if effort is None else effort != "none"


def _schema(form: Any) -> Any:
    if not isinstance(form, dict):
        return None
    if form.get("type") == "json_schema":
        return form.get("json_schema", {}).get("schema")
    return None


def _embed(body: dict[str, Any], digest: str) -> Ask:
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise Wrong("'input' must be a text or a list of texts, none of them empty")
    dimensions = body.get("dimensions")
    if dimensions is not None and (not isinstance(dimensions, int) or not 1 <= dimensions <= 8192):
        raise Wrong("'dimensions' must be a whole number from 1 to 8192")
    return Ask(
        kind="embed",
        model=body["model"],
        digest=digest,
        texts=tuple(texts),
        dimensions=dimensions,
        base64=body.get("encoding_format") == "base64",
    )


def write(ask: Ask, given: Given) -> dict[str, Any]:
    """The body of a success."""
    return _completion(ask, given) if ask.kind == "chat" else _embeddings(ask, given)


def _completion(ask: Ask, given: Given) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": given.text, "refusal": given.refusal}
    return {
        "id": f"chatcmpl-{ask.digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": ask.model,
        "system_fingerprint": "fp_simulated",
        "choices": [{"index": 0, "message": message, "finish_reason": given.finish}],
        "usage": {
            "prompt_tokens": given.input,
            "completion_tokens": given.output,
            "total_tokens": given.input + given.output,
            "prompt_tokens_details": {"cached_tokens": given.cached},
            "completion_tokens_details": {"reasoning_tokens": given.reasoning},
        },
    }


def _embeddings(ask: Ask, given: Given) -> dict[str, Any]:
    vectors = given.vectors or []
    data = [
        {"object": "embedding", "index": n, "embedding": _packed(vector) if ask.base64 else vector}
        for n, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": given.input, "total_tokens": given.input}
    return {"object": "list", "model": ask.model, "data": data, "usage": usage}


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def error(kind: str, message: str, code: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def models(names: list[str]) -> dict[str, Any]:
    """The body of /models."""
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "simulated"} for name in names]}


def _no_choices(body: Body) -> None:
    body["choices"] = []


def _finish_missing(body: Body) -> None:
    del body["choices"][0]["finish_reason"]


def _usage_missing(body: Body) -> None:
    del body["usage"]


def _usage_zero(body: Body) -> None:
    body["usage"] = {name: 0 for name, value in body["usage"].items() if isinstance(value, int)}


def _other_model(body: Body) -> None:
    body["model"] += "-other"


def _duplicate(body: Body) -> None:
    body["choices" if "choices" in body else "data"] *= 2


def _error_200(body: Body) -> None:
    body.clear()
    body.update(error("server_error", "the upstream had a bad moment", "upstream_error"))


def _vector_size(body: Body) -> None:
    last = body["data"][-1]
    last["embedding"] = last["embedding"][:8] if len(last["embedding"]) > 8 else last["embedding"] * 2


def _vector_nan(body: Body) -> None:
    body["data"][0]["embedding"] = [None, *body["data"][0]["embedding"][1:]]  # as JSON writes a NaN


def _vector_permuted(body: Body) -> None:
    body["data"].reverse()


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": _usage_missing,
    "usage_zero": _usage_zero,
    "other_model": _other_model,
    "duplicate": _duplicate,
    "error_200": _error_200,
    "vector_size": _vector_size,
    "vector_nan": _vector_nan,
    "vector_permuted": _vector_permuted,
}
"""What these faults do to a body of this shape."""
