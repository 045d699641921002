"""The voyage dialect as a server speaks it: bodies -> Ask, Given -> bodies, and how faults spoil them; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from judgerun.simulate import forms, openai
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
)

PATHS: Mapping[str, Kind] = {"/embeddings": "embed"}
TEXTS_MAX = 1000
ROLES = (None, "query", "document")

STREAM = None


def read(call: Call) -> Ask:
    """The call that a body makes. Raises Wrong."""
    body = call.body()
    if not isinstance(body.get("model"), str):
        raise Wrong("model: field required")
    unknown = body.keys() - {
        "input", "model", "input_type", "truncation", "output_dimension", "output_dtype", "encoding_format"
    }  # fmt: skip
    if unknown:
        raise Wrong(f"Argument '{min(unknown)}' is not supported by our API")
    if body.get("input_type") not in ROLES:
        raise Wrong("input_type: must be null, query or document")
    packed, kind = body.get("encoding_format"), str(body.get("output_dtype", "float"))
    form = forms.known({"float": "base64", "int8": "base64_int8"}.get(kind, kind) if packed == "base64" else kind)
    return Ask(
        kind="embed",
        model=body["model"],
        digest=call.digest,
        texts=listed(body.get("input"), "input", TEXTS_MAX),
        role=body.get("input_type") or "",
        dimensions=whole(body, "output_dimension", most=DIMENSIONS_MAX),
        form=form,
        truncate=body.get("truncation", True) is True,
    )


def write(ask: Ask, given: Given) -> Body:
    """The body of a success."""
    data = [
        {"object": "embedding", "embedding": forms.written(vector, ask.form), "index": n}
        for n, vector in enumerate(given.vectors or [])
    ]
    return {"object": "list", "data": data, "model": ask.model, "usage": {"total_tokens": given.input}}


STATUSES: Mapping[str, int] = {
    "missing": 400,
    "limit": 429,
    "quota": 429,
    "key": 401,
    "server": 500,
    "overload": 503,
    "timeout": 504,
}
"""What stands not here is a 400. That an empty account is told with 429 could not be confirmed."""


def error(trouble: Trouble) -> Refused:
    """A trouble in the words of this dialect."""
    return Refused(status=STATUSES.get(trouble.kind, 400), body={"detail": trouble.message})


def limits(stated: Sequence[Stated], wall: float) -> Mapping[str, str]:
    """No headers that tell limits are known of this provider."""
    return {}


_KNOWN = ("usage_missing", "usage_zero", "other_model", "duplicate", "vector_size", "vector_nan", "vector_permuted")

SPOILS: Mapping[str, Callable[[Body], None]] = {name: openai.SPOILS[name] for name in _KNOWN}
"""A list of vectors as openai has it is spoilt as openai's is."""
