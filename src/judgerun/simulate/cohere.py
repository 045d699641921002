"""The cohere dialect (v2) as a server speaks it: bodies -> Ask, Given -> bodies, and how faults spoil them; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judgerun.simulate import forms
from judgerun.simulate.ask import (
    DIMENSIONS_MAX,
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

PATHS: Mapping[str, Kind] = {"/chat": "chat", "/embed": "embed"}
TEXTS_MAX = 96
ROLES = ("search_query", "search_document", "classification", "clustering")
TEMPLATE, ENDING = 66, 2
"""Tokens of input and of output that are counted beside those that are billed."""

FINISHES: Mapping[str | None, str] = {
    "stop": "COMPLETE",
    "length": "MAX_TOKENS",
    "content_filter": "ERROR",
    "blocked": "ERROR",
}

STREAM = None


def read(call: Call) -> Ask:
    """The call that a body makes. Raises Wrong."""
    body = call.body()
    if not isinstance(body.get("model"), str):
        raise Wrong("model is required")
    return _chat(body, call.digest) if PATHS[call.path] == "chat" else _embed(body, call.digest)


def _chat(body: Body, digest: str) -> Ask:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or any(not isinstance(one, dict) for one in messages):
        raise Wrong("messages must be a list that is not empty")
    if body.get("stream"):
        raise Wrong("this provider does not stream in this dialect")
    thinking, form = body.get("thinking") or {}, body.get("response_format") or {}
    return Ask(
        kind="chat",
        model=body["model"],
        digest=digest,
        messages=tuple((str(one.get("role")), words(one.get("content"))) for one in messages),
        cap=whole(body, "max_tokens"),
        thinking=thinking.get("type") != "disabled" if thinking else None,
        budget=whole(thinking, "token_budget"),
        thoughts=True,
        schema=form.get("json_schema"),
        cache="off",
    )


def _embed(body: Body, digest: str) -> Ask:
    if body.get("input_type") not in ROLES:
        raise Wrong(f"valid input_type must be provided: one of {', '.join(ROLES)}")
    kinds = body.get("embedding_types") or ["float"]
    if len(kinds) != 1 or kinds[0] not in ("float", "int8", "base64"):
        raise Wrong("this provider gives one of the embedding_types float, int8, base64")
    return Ask(
        kind="embed",
        model=body["model"],
        digest=digest,
        texts=listed(body.get("texts"), "texts", TEXTS_MAX),
        role=body["input_type"],
        dimensions=whole(body, "output_dimension", most=DIMENSIONS_MAX),
        form=forms.known(kinds[0]),
        truncate=body.get("truncate", "END") != "NONE",
    )


def write(ask: Ask, given: Given) -> Body:
    """The body of a success."""
    if ask.kind == "embed":
        made = [forms.written(vector, ask.form) for vector in given.vectors or []]
        return {
            "id": ask.digest,
            "embeddings": {ask.form: made},
            "texts": list(ask.texts),
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": given.input}},
            "response_type": "embeddings_by_type",
        }
    said = given.text if given.refusal is None else given.refusal
    parts = [{"type": "thinking", "thinking": given.thoughts}] if given.reasoning else []
    parts += [{"type": "text", "text": said}] if said else []
    return {
        "id": ask.digest,
        "finish_reason": FINISHES.get(given.finish, given.finish),
        "message": {"role": "assistant", "content": parts},
        "usage": {
            "billed_units": {"input_tokens": given.input, "output_tokens": given.output},
            "tokens": {"input_tokens": given.input + TEMPLATE, "output_tokens": given.output + ENDING},
        },
    }


STATUSES: Mapping[str, int] = {
    "missing": 404,
    "limit": 429,
    "quota": 402,
    "key": 401,
    "server": 500,
    "overload": 503,
    "timeout": 504,
}
"""What stands not here is a 400."""


def error(trouble: Trouble) -> Refused:
    """A trouble in the words of this dialect."""
    return Refused(status=STATUSES.get(trouble.kind, 400), body={"id": "simulated", "message": trouble.message})


def limits(stated: Sequence[Stated], wall: float) -> Mapping[str, str]:
    """No headers that tell limits are known of this provider."""
    return {}


def _no_choices(body: Body) -> None:
    del body["message"]


def _finish_missing(body: Body) -> None:
    del body["finish_reason"]


def _usage(body: Body) -> Body:
    told: Body = body["usage"] if "usage" in body else body["meta"]
    return told


def _usage_missing(body: Body) -> None:
    _usage(body).clear()


def _usage_zero(body: Body) -> None:
    for counts in _usage(body).values():
        counts.update({name: 0 for name in counts if name.endswith("_tokens")})


def _reasoning_content(body: Body) -> None:
    text = "".join(part.get("text", "") for part in body["message"]["content"])
    body["message"]["content"] = [{"type": "thinking", "thinking": text}]


def _vectors(body: Body) -> list[Any]:
    made: list[Any]
    (made,) = body["embeddings"].values()
    return made


def _duplicate(body: Body) -> None:
    if "embeddings" in body:
        _vectors(body).extend([*_vectors(body)])


def _vector_size(body: Body) -> None:
    made = _vectors(body)
    made[-1] = made[-1][:8] if len(made[-1]) > 8 else made[-1] * 2


def _vector_nan(body: Body) -> None:
    made = _vectors(body)
    made[0] = [None, *made[0][1:]]  # as JSON writes a NaN


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": _usage_missing,
    "usage_zero": _usage_zero,
    "reasoning_content": _reasoning_content,
    "duplicate": _duplicate,
    "vector_size": _vector_size,
    "vector_nan": _vector_nan,
}
"""No model is named and no vector numbered in these bodies: nothing can be said wrong of either."""
