"""The openai dialect as a server speaks it: bodies -> Ask, Given -> bodies and events, and how faults spoil them; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judgerun.simulate import forms, spoil
from judgerun.simulate.ask import (
    DIMENSIONS_MAX,
    EFFORTS,
    Ask,
    Body,
    Call,
    Given,
    Kind,
    Refused,
    Stated,
    Trouble,
    Wrong,
    listed,
    whole,
    words,
)
from judgerun.simulate.events import Stream, event, pieces

PATHS: Mapping[str, Kind] = {"/chat/completions": "chat", "/embeddings": "embed"}
"""Paths under the base URL, with the kind of call."""

CAPS = ("max_completion_tokens", "max_tokens")


def read(call: Call) -> Ask:
    """The call that a body makes. Raises Wrong."""
    body = call.body()
    if not isinstance(body.get("model"), str):
        raise Wrong("you must provide a model parameter")
    return _chat(body, call.digest) if PATHS[call.path] == "chat" else _embed(body, call.digest)


def _chat(body: Body, digest: str) -> Ask:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Wrong("'messages' must be a list that is not empty")
    if body.get("n", 1) != 1:
        raise Wrong("this provider does not answer n times")
    caps = [cap for name in CAPS if (cap := whole(body, name)) is not None]
    thinking, effort = _thinking(body)
    budget = _budget(body)
    options = body.get("stream_options")
    return Ask(
        kind="chat",
        model=body["model"],
        digest=digest,
        messages=tuple(_message(message) for message in messages),
        cap=min(caps, default=None),
        thinking=thinking if budget is None else True,
        budget=budget,
        effort=effort,
        schema=_schema(body.get("response_format")),
        stream=bool(body.get("stream")),
        # OpenAI itself tells no usage unasked; mistral and others do, and are not asked.
        stream_usage=bool(options.get("include_usage")) if isinstance(options, dict) else True,
    )


def _message(message: Any) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Wrong("a message has a role and a content")
    return message["role"], words(message.get("content"))


def _thinking(body: Body) -> tuple[bool | None, float]:
    """Whether to think, and how much. The switches of openai, deepseek, openrouter, novita, cerebras, and of servers that hand
    arguments to a chat template.
    """
    template, reasoning, switch = (body.get(name) for name in ("chat_template_kwargs", "reasoning", "thinking"))
    for held, name in ((template, "enable_thinking"), (template, "thinking"), (body, "enable_thinking")):
        if isinstance(held, dict) and isinstance(held.get(name), bool):
            return held[name], 1.0
    if body.get("disable_reasoning") is True or (isinstance(switch, dict) and switch.get("type") == "disabled"):
        return False, 1.0
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else body.get("reasoning_effort")
    if isinstance(effort, str):
        return effort != "none", EFFORTS.get(effort, 1.0)
    if isinstance(reasoning, dict) and "enabled" in reasoning:
        return bool(reasoning["enabled"]), 1.0
    return (True if isinstance(switch, dict) else None), 1.0


def _budget(body: Body) -> int | None:
    """The most tokens of reasoning, as openrouter and vllm take them. Raises Wrong."""
    budget = whole(body.get("reasoning"), "max_tokens")
    return whole(body, "thinking_token_budget") if budget is None else budget


def _schema(form: Any) -> Any:
    if isinstance(form, dict) and form.get("type") == "json_schema":
        return form.get("json_schema", {}).get("schema")
    return None


def _embed(body: Body, digest: str) -> Ask:
    role = body.get("input_type")
    return Ask(
        kind="embed",
        model=body["model"],
        digest=digest,
        texts=listed(body.get("input"), "input"),
        role=role if isinstance(role, str) else "",
        dimensions=whole(body, "dimensions", most=DIMENSIONS_MAX),
        form=forms.known(body.get("encoding_format") or "float"),
    )


def write(ask: Ask, given: Given) -> Body:
    """The body of a success."""
    return _completion(ask, given) if ask.kind == "chat" else _embeddings(ask, given)


def _completion(ask: Ask, given: Given) -> Body:
    return {
        "id": f"chatcmpl-{ask.digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": ask.model,
        "system_fingerprint": "fp_simulated",
        "choices": [_choice(given)],
        "usage": {
            "prompt_tokens": given.input,
            "completion_tokens": given.output,
            "total_tokens": given.input + given.output,
            "prompt_tokens_details": {"cached_tokens": given.cached},
            "completion_tokens_details": {"reasoning_tokens": given.reasoning},
        },
    }


def _choice(given: Given) -> Body:
    """What a filter blocked has no message at all, as Azure writes it."""
    if given.finish == "blocked":
        return {
            "index": 0,
            "finish_reason": "content_filter",
            "content_filter_results": {"violence": {"filtered": True, "severity": "high"}},
        }
    message = {"role": "assistant", "content": given.text, "refusal": given.refusal}
    return {"index": 0, "message": message, "finish_reason": given.finish}


def _embeddings(ask: Ask, given: Given) -> Body:
    data = [
        {"object": "embedding", "index": n, "embedding": forms.written(vector, ask.form)}
        for n, vector in enumerate(given.vectors or [])
    ]
    usage = {"prompt_tokens": given.input, "total_tokens": given.input}
    return {"object": "list", "model": ask.model, "data": data, "usage": usage}


def _events(ask: Ask, body: Body) -> list[bytes]:
    """A whole answer as events: the role, the text in pieces, the finish, the usage where it was asked for, the end."""
    head = {name: body[name] for name in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"
    if ask.stream_usage:
        head["usage"] = None
    made = [event({**head, "choices": [chunk]}) for choice in body["choices"] for chunk in _chunks(choice)]
    if ask.stream_usage and "usage" in body:
        made.append(event({**head, "choices": [], "usage": body["usage"]}))
    return [*made, event(b"[DONE]")]


def _chunks(choice: Body) -> list[Body]:
    """The events of a choice, each with what it adds to the message."""
    message = choice.get("message", {})
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning_content", "refusal", "content"):
        deltas += [{name: piece} for piece in pieces(message.get(name))]
    made = [{"index": choice["index"], "delta": delta, "finish_reason": None} for delta in deltas]
    if "finish_reason" in choice:
        made.append({"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]})
    return made


def _broken(refused: Refused) -> bytes:
    """An error in the middle of a stream."""
    return event(refused.body)


STREAM = Stream(events=_events, broken=_broken)


ERRORS: Mapping[str, tuple[int, str, str | None]] = {
    "request": (400, "invalid_request_error", None),
    "missing": (404, "invalid_request_error", None),
    "context": (400, "invalid_request_error", "context_length_exceeded"),
    "limit": (429, "rate_limit_error", "rate_limit_exceeded"),
    "quota": (429, "insufficient_quota", "insufficient_quota"),
    "key": (401, "invalid_request_error", "invalid_api_key"),
    "server": (500, "server_error", None),
    "overload": (529, "server_error", None),
    "timeout": (504, "server_error", None),
}
"""Status, type and code. OpenAI itself says 503 of an overload; 529 is what proxies before it were seen to send."""


def error(trouble: Trouble) -> Refused:
    """A trouble in the words of this dialect."""
    status, kind, code = ERRORS[trouble.kind]
    return Refused(
        status=status, body={"error": {"message": trouble.message, "type": kind, "param": None, "code": code}}
    )


def limits(stated: Sequence[Stated], wall: float) -> Mapping[str, str]:
    """Headers that tell how the limits stand."""
    made = {}
    for one in stated:
        made[f"x-ratelimit-limit-{one.unit}"] = str(one.limit)
        made[f"x-ratelimit-remaining-{one.unit}"] = str(one.remaining)
        made[f"x-ratelimit-reset-{one.unit}"] = f"{one.reset:.3f}s"
    return made


def models(names: list[str]) -> Body:
    """The body of /models."""
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "simulated"} for name in names]}


def _no_choices(body: Body) -> None:
    body["choices"] = []


def _finish_missing(body: Body) -> None:
    del body["choices"][0]["finish_reason"]


def _duplicate(body: Body) -> None:
    body["choices" if "choices" in body else "data"] *= 2


def _reasoning_content(body: Body) -> None:
    message = body["choices"][0]["message"]
    message["content"], message["reasoning_content"] = "", message["content"]


def vector_size(body: Body) -> None:
    """The last vector has another size."""
    last = body["data"][-1]
    last["embedding"] = last["embedding"][:8] if len(last["embedding"]) > 8 else last["embedding"] * 2


def vector_nan(body: Body) -> None:
    """The first vector holds a NaN, as JSON writes it."""
    body["data"][0]["embedding"] = [None, *body["data"][0]["embedding"][1:]]


def vector_permuted(body: Body) -> None:
    """The vectors stand in another order, with their right indices."""
    body["data"].reverse()


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": spoil.usage_missing,
    "usage_zero": spoil.usage_zero,
    "other_model": spoil.other_model,
    "duplicate": _duplicate,
    "reasoning_content": _reasoning_content,
    "vector_size": vector_size,
    "vector_nan": vector_nan,
    "vector_permuted": vector_permuted,
}
"""What these faults do to a body of this shape."""
