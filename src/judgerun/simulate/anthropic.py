"""The anthropic dialect as a server speaks it: bodies -> Ask, Given -> bodies and events, and how faults spoil them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from judgerun.simulate import spoil
from judgerun.simulate.ask import EFFORTS, Ask, Body, Call, Given, Kind, Refused, Stated, Trouble, Wrong, whole, words
from judgerun.simulate.events import Stream, event, pieces

PATHS: Mapping[str, Kind] = {"/messages": "chat", "/messages/count_tokens": "count"}
BUDGET_MIN = 1024
"""A thinking budget has at least so many tokens, and fewer than the cap."""

STOPS: Mapping[str | None, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "blocked": "refusal",
}


def read(call: Call) -> Ask:
    """The call that a body makes. Raises Wrong."""
    if "anthropic-version" not in call.headers:
        raise Wrong("anthropic-version: header is required")
    return parse(call.body(), call.digest, PATHS[call.path])


def parse(body: Body, digest: str, kind: Kind = "chat") -> Ask:
    """The call that the parameters of a message make. Raises Wrong."""
    if not isinstance(body.get("model"), str):
        raise Wrong("model: Field required")
    cap = whole(body, "max_tokens")
    if cap is None and kind == "chat":
        raise Wrong("max_tokens: Field required")
    thinking, budget = _thinking(body, cap)
    output = body.get("output_config") or {}
    form = output.get("format") or {}
    return Ask(
        kind=kind,
        model=body["model"],
        digest=digest,
        messages=_messages(body),
        cap=cap,
        thinking=thinking,
        budget=budget,
        effort=EFFORTS.get(str(output.get("effort")), 1.0),
        thoughts=True,
        schema=form.get("schema") if form.get("type") == "json_schema" else None,
        cache=_cache(body),
        stream=bool(body.get("stream")),
    )


def _messages(body: Body) -> tuple[tuple[str, str], ...]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Wrong("messages: at least one message is required")
    roles = [one.get("role") if isinstance(one, dict) else None for one in messages]
    if roles[0] == "system" or not set(roles) <= {"user", "assistant", "system"}:
        raise Wrong("messages: a role is user or assistant; the system prompt is a field of its own")
    first = [("system", words(body["system"]))] if body.get("system") else []
    return (*first, *((one["role"], words(one.get("content"))) for one in messages))


def _thinking(body: Body, cap: int | None) -> tuple[bool | None, int | None]:
    match body.get("thinking"):
        case None:
            return None, None
        case {"type": "disabled"}:
            return False, None
        case {"type": "adaptive"}:
            return True, None
        case {"type": "enabled"} as switch:
            budget = whole(switch, "budget_tokens", least=BUDGET_MIN)
            if budget is None or (cap is not None and budget >= cap):
                raise Wrong("`max_tokens` must be greater than `thinking.budget_tokens`")
            if body.get("temperature", 1) != 1:
                raise Wrong("`temperature` may only be set to 1 when thinking is enabled")
            return True, budget
    raise Wrong("thinking: type is enabled, disabled or adaptive")


def _cache(body: Body) -> Literal["off", "5m", "1h"]:
    """The longest time that any part of the body is to be cached for."""
    times = set(_times(body))
    return "1h" if "1h" in times else "5m" if times else "off"


def _times(held: Any) -> Iterator[str]:
    if isinstance(held, dict):
        mark = held.get("cache_control")
        if isinstance(mark, dict):
            yield str(mark.get("ttl", "5m"))
        for name in ("system", "messages", "content"):
            yield from _times(held.get(name))
    elif isinstance(held, list):
        for one in held:
            yield from _times(one)


def write(ask: Ask, given: Given) -> Body:
    """The body of a success."""
    if ask.kind == "count":
        return {"input_tokens": given.input}
    stop = STOPS.get(given.finish, given.finish) if given.refusal is None else "refusal"
    category = "cyber" if given.finish == "blocked" else None
    return {
        "id": f"msg_{ask.digest}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": list(_blocks(given)),
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": category, "explanation": None} if stop == "refusal" else None,
        "usage": {
            "input_tokens": given.fresh,
            "cache_creation_input_tokens": given.written + given.written_1h,
            "cache_read_input_tokens": given.cached,
            "cache_creation": {
                "ephemeral_5m_input_tokens": given.written,
                "ephemeral_1h_input_tokens": given.written_1h,
            },
            "output_tokens": given.output,
            "output_tokens_details": {"thinking_tokens": given.reasoning},
            "service_tier": "standard",
        },
    }


def _blocks(given: Given) -> Iterator[Body]:
    """The thinking where there was some, then the text where there is any."""
    if given.reasoning:
        yield {"type": "thinking", "thinking": given.thoughts, "signature": "c2lnbmVk"}
    said = given.text or given.refusal
    if said:
        yield {"type": "text", "text": said}


def _events(ask: Ask, body: Body) -> list[bytes]:
    """A whole answer as events; the input is told at the start, the output and why it stopped near the end."""
    usage = body.get("usage")
    start = {**body, "content": [], "stop_reason": None, "stop_details": None}
    if usage is not None:
        start["usage"] = {**usage, "output_tokens": min(1, usage["output_tokens"])}
    events: list[Body] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(body.get("content", ())):
        events += _deltas(index, block)
    if "stop_reason" in body:
        delta = {name: body[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
        events.append({"type": "message_delta", "delta": delta, **({} if usage is None else {"usage": usage})})
    events.append({"type": "message_stop"})
    events.insert(1, {"type": "ping"})
    return [event(data, data["type"]) for data in events]


def _deltas(index: int, block: Body) -> Iterator[Body]:
    kind = block["type"]
    yield {"type": "content_block_start", "index": index, "content_block": {**block, kind: ""}}
    for piece in pieces(block[kind]):
        yield {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: piece}}
    if "signature" in block:
        signed = {"type": "signature_delta", "signature": block["signature"]}
        yield {"type": "content_block_delta", "index": index, "delta": signed}
    yield {"type": "content_block_stop", "index": index}


def _broken(refused: Refused) -> bytes:
    """An error in the middle of a stream."""
    return event(refused.body, "error")


STREAM = Stream(events=_events, broken=_broken)


ERRORS: Mapping[str, tuple[int, str]] = {
    "request": (400, "invalid_request_error"),
    "missing": (404, "not_found_error"),
    "context": (400, "invalid_request_error"),
    "limit": (429, "rate_limit_error"),
    "quota": (400, "invalid_request_error"),
    "key": (401, "authentication_error"),
    "server": (500, "api_error"),
    "overload": (529, "overloaded_error"),
    "timeout": (504, "timeout_error"),
}
CREDIT = "Your credit balance is too low to access the Anthropic API."


def error(trouble: Trouble) -> Refused:
    """A trouble in the words of this dialect."""
    status, kind = ERRORS[trouble.kind]
    message = CREDIT if trouble.kind == "quota" else trouble.message
    if trouble.kind == "context":
        message = f"prompt is too long: {message}"
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_simulated"}
    return Refused(status=status, body=body)


def limits(stated: Sequence[Stated], wall: float) -> Mapping[str, str]:
    """Headers that tell how the limits stand; a reset is a time of day."""
    made = {}
    for one in stated:
        at = datetime.fromtimestamp(wall, UTC) + timedelta(seconds=one.reset)
        made[f"anthropic-ratelimit-{one.unit}-limit"] = str(one.limit)
        made[f"anthropic-ratelimit-{one.unit}-remaining"] = str(one.remaining)
        made[f"anthropic-ratelimit-{one.unit}-reset"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return made


def _no_choices(body: Body) -> None:
    del body["content"]


def _finish_missing(body: Body) -> None:
    del body["stop_reason"]


def _reasoning_content(body: Body) -> None:
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    body["content"] = [{"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}]


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": spoil.usage_missing,
    "usage_zero": spoil.usage_zero,
    "other_model": spoil.other_model,
    "reasoning_content": _reasoning_content,
}
