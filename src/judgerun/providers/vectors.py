"""Vectors of an openai embeddings body -> Replies: order, size and finiteness are checked here and nothing else is."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from judgerun.ledger.outcome import apportion
from judgerun.model.reply import Failure, Finish, Reply
from judgerun.model.request import Request, digest
from judgerun.providers import fault, usage
from judgerun.providers.wire import WireReply

Vector = npt.NDArray[np.float32]


class _Wrong(Exception):
    """Why a body is no list of vectors."""


def decode(requests: Sequence[Request], body: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    """One reply a request, in order. A vector of the wrong size, with a NaN or an infinity, makes the whole body malformed."""
    data = body.get("data")
    try:
        found = _vectors(data, len(requests), requests[0].payload.get("dimensions"))
    except _Wrong as wrong:
        return fault.malformed(wire, str(wrong))
    if requests[0].payload.get("normalize"):
        found = [unit(vector) for vector in found]
    envelope = orjson.dumps({**body, "data": [_without_vector(item) for item in data or ()]})
    whole = digest(wire.body)
    lengths = [len(request.payload["text"].encode()) for request in requests]
    usages = usage.embeddings(body.get("usage"), lengths)
    told = usage.cost(body.get("usage"))
    costs: Sequence[int | None] = [None] * len(requests) if told is None else apportion(told, lengths)
    served = body.get("model")
    return tuple(
        Reply(
            finish=Finish.STOP,
            vector=vector.tobytes(),
            usage=used,
            served_model=served if isinstance(served, str) else None,
            reported_cost=cost,
            raw=envelope,
            raw_digest=whole,
        )
        for vector, used, cost in zip(found, usages, costs, strict=True)
    )


def unit(vector: Vector) -> Vector:
    """The vector at length 1; a zero vector stays as it is."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector if length == 0 else (vector / length).astype("<f4")


def _vectors(data: Any, n: int, size: Any) -> list[Vector]:
    """Vectors in the order of their indices."""
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise _Wrong("the body has no list of vectors")
    if len(data) != n:
        raise _Wrong(f"{len(data)} vectors for {n} texts")
    found = [_vector(item.get("embedding")) for item in data]
    sizes = {vector.size for vector in found}
    if len(sizes) != 1 or (size is not None and sizes != {size}):
        raise _Wrong(
            f"vectors of {sorted(sizes)} numbers" + (f" where {size} were asked for" if size is not None else "")
        )
    indices = [item.get("index") for item in data]
    if any(index is not None for index in indices):
        if sorted(indices, key=str) != sorted(range(n), key=str):
            raise _Wrong("the vectors' indices are not each text once")
        found = [vector for _, vector in sorted(zip(indices, found, strict=True), key=lambda pair: int(pair[0]))]
    return found


def _vector(value: Any) -> Vector:
    """A vector from a list of numbers or from base64 of little-endian float32."""
    if isinstance(value, str):
        try:
            made = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
        except (binascii.Error, ValueError):
            raise _Wrong("a vector is no base64 of float32") from None
    elif isinstance(value, list):
        try:
            numbers = np.array(value)
        except ValueError:
            raise _Wrong("a vector is no flat list of numbers") from None
        if numbers.dtype.kind not in "fi" or numbers.ndim != 1:
            raise _Wrong("a vector is no flat list of numbers")
        with np.errstate(over="ignore"):  # what does not fit becomes an infinity, refused below
            made = numbers.astype("<f4")
    else:
        raise _Wrong("an item has no vector")
    if made.size == 0:
        raise _Wrong("a vector is empty")
    if not np.isfinite(made).all():
        raise _Wrong("a vector holds a number that is not finite")
    return made


def _without_vector(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "embedding"}
