"""The bedrock dialect (Converse) as a server speaks it: bodies -> Ask, Given -> bodies, and how faults spoil them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from judgerun.simulate import spoil
from judgerun.simulate.ask import Ask, Body, Call, Given, Kind, Refused, Stated, Trouble, Wrong, whole, words

_MODEL = "/model/{model:.+}"
PATHS: Mapping[str, Kind] = {f"{_MODEL}/converse": "chat", f"{_MODEL}/count-tokens": "count"}

STOPS: Mapping[str | None, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "content_filtered",
    "blocked": "guardrail_intervened",
}

STREAM = None


def read(call: Call) -> Ask:
    """The call that a body makes; the model stands in the path. Raises Wrong."""
    body, kind = call.body(), PATHS[call.path]
    if kind == "count":
        body = (body.get("input") or {}).get("converse") or {}
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Wrong("messages: at least one message is required")
    if any(not isinstance(one, dict) or one.get("role") not in ("user", "assistant") for one in messages):
        raise Wrong("messages: a role is user or assistant")
    first = [("system", words(body["system"]))] if body.get("system") else []
    thinking, budget = _thinking(body.get("additionalModelRequestFields") or {})
    return Ask(
        kind=kind,
        model=call.match["model"],
        digest=call.digest,
        messages=(*first, *((one["role"], words(one.get("content"))) for one in messages)),
        cap=whole(body.get("inferenceConfig"), "maxTokens"),
        thinking=thinking,
        budget=budget,
        cache=_cache(body),
    )


def _thinking(fields: Body) -> tuple[bool | None, int | None]:
    """The switch of the Anthropic models, under either of its names."""
    switch = fields.get("thinking") or fields.get("reasoning_config")
    if not isinstance(switch, dict):
        return None, None
    return switch.get("type") != "disabled", whole(switch, "budget_tokens")


def _cache(body: Body) -> Literal["off", "5m", "1h"]:
    contents = [body.get("system") or [], *(one.get("content") or [] for one in body["messages"])]
    points = [block["cachePoint"] for content in contents for block in content if "cachePoint" in block]
    times = {point.get("ttl", "5m") for point in points}
    return "1h" if "1h" in times else "5m" if times else "off"


def write(ask: Ask, given: Given) -> Body:
    """The body of a success."""
    if ask.kind == "count":
        return {"inputTokens": given.input}
    said = given.text if given.refusal is None else given.refusal
    return {
        "metrics": {"latencyMs": 1},
        "output": {"message": {"role": "assistant", "content": list(_blocks(given, said))}},
        "stopReason": STOPS.get(given.finish, given.finish) if given.refusal is None else "content_filtered",
        "usage": _usage(ask, given),
    }


def _blocks(given: Given, said: str | None) -> Iterator[Body]:
    if given.reasoning:
        yield {"reasoningContent": {"reasoningText": {"text": given.thoughts, "signature": "c2lnbmVk"}}}
    if said:
        yield {"text": said}


def _usage(ask: Ask, given: Given) -> dict[str, Any]:
    """Cached input stands beside the input, and only where there was a cache; reasoning is inside the output, and not told."""
    written = given.written + given.written_1h
    told = {
        "inputTokens": given.fresh,
        "outputTokens": given.output,
        "totalTokens": given.input + given.output,
    }
    if ask.cache == "off":
        return told
    hour = [{"ttl": "1h", "inputTokens": given.written_1h}] if given.written_1h else []
    return {**told, "cacheReadInputTokens": given.cached, "cacheWriteInputTokens": written, "cacheDetails": hour}


ERRORS: Mapping[str, tuple[int, str]] = {
    "request": (400, "ValidationException"),
    "missing": (404, "ResourceNotFoundException"),
    "context": (400, "ValidationException"),
    "limit": (429, "ThrottlingException"),
    "quota": (400, "ServiceQuotaExceededException"),
    "key": (403, "AccessDeniedException"),
    "server": (500, "InternalServerException"),
    "overload": (503, "ServiceUnavailableException"),
    "timeout": (504, "ModelTimeoutException"),
}
"""A model's own timeout is a 408; 504 is that of a gateway before it."""


def error(trouble: Trouble) -> Refused:
    """A trouble in the words of this dialect: the body has none but a message, the kind stands in a header."""
    status, kind = ERRORS[trouble.kind]
    message = f"Input is too long for requested model. {trouble.message}"
    body = {"message": message if trouble.kind == "context" else trouble.message}
    return Refused(status=status, body=body, headers={"x-amzn-ErrorType": kind})


def limits(stated: Sequence[Stated], wall: float) -> Mapping[str, str]:
    """Bedrock tells no limits in headers."""
    return {}


def _no_choices(body: Body) -> None:
    body["output"] = {}


def _finish_missing(body: Body) -> None:
    del body["stopReason"]


def _usage_zero(body: Body) -> None:
    body["usage"] = dict.fromkeys(body["usage"], 0)


def _reasoning_content(body: Body) -> None:
    message = body["output"]["message"]
    text = "".join(block.get("text", "") for block in message["content"])
    message["content"] = [{"reasoningContent": {"reasoningText": {"text": text, "signature": "c2lnbmVk"}}}]


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": spoil.usage_missing,
    "usage_zero": _usage_zero,
    "reasoning_content": _reasoning_content,
}
"""No model is named in these bodies: none can be said wrong."""
