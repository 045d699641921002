"""Vectors of an embeddings body -> Replies, for every dialect: order, size and finiteness are checked here, and nothing else is."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

from judgerun.ledger.outcome import apportion
from judgerun.model.money import Nanos
from judgerun.model.reply import Failure, Finish, Reply, Usage
from judgerun.model.request import Request, digest
from judgerun.providers import fault, usage
from judgerun.providers.wire import WireReply

Vector = npt.NDArray[np.float32]

Packed = Literal["<f4", "i1"]
"""What the bytes of a base64 vector are: little-endian float32, or int8."""


class _Wrong(Exception):
    """Why a body is no list of vectors."""


def decode(
    requests: Sequence[Request], body: Mapping[str, Any], wire: WireReply, *, packed: Packed = "<f4"
) -> tuple[Reply, ...] | Failure:
    """The replies of a body with the items `{embedding, index}` in `data`, as OpenAI and Voyage write it."""
    data = body.get("data")
    try:
        listed = _ordered(data, len(requests))
    except _Wrong as wrong:
        return fault.malformed(wire, str(wrong))
    return replies(
        requests,
        [item.get("embedding") for item in listed],
        wire,
        envelope={**body, "data": [_without_vector(item) for item in data or ()]},
        tokens=usage.embedded(body.get("usage")),
        cost=usage.cost(body.get("usage")),
        served=body.get("model"),
        packed=packed,
    )


def replies(
    requests: Sequence[Request],
    listed: Sequence[Any],
    wire: WireReply,
    *,
    envelope: Mapping[str, Any],
    tokens: int | None,
    cost: Nanos | None = None,
    served: Any = None,
    packed: Packed = "<f4",
) -> tuple[Reply, ...] | Failure:
    """One reply a request, from vectors in the order of the requests: lists of numbers, or base64.

    `envelope` is the body without its vectors; `tokens` and `cost` are of the whole call, and shared by the texts' lengths. Whole
    numbers (int8) become the float32 of the same value: no provider tells a scale, and a cosine has none. A vector of the wrong
    size, with a NaN or an infinity, makes the whole body malformed.
    """
    payload = requests[0].payload
    try:
        found = _vectors(listed, len(requests), payload.get("dimensions"), packed)
    except _Wrong as wrong:
        return fault.malformed(wire, str(wrong))
    if payload.get("normalize"):
        found = [unit(vector) for vector in found]
    lengths = [len(request.payload["text"].encode()) for request in requests]
    costs: Sequence[int | None] = [None] * len(requests) if cost is None else apportion(cost, lengths)
    raw, whole = orjson.dumps(envelope), digest(wire.body)
    return tuple(
        Reply(
            finish=Finish.STOP,
            vector=vector.tobytes(),
            usage=used,
            served_model=served if isinstance(served, str) else None,
            reported_cost=share,
            raw=raw,
            raw_digest=whole,
        )
        for vector, used, share in zip(found, _shared(tokens, lengths), costs, strict=True)
    )


def unit(vector: Vector) -> Vector:
    """The vector at length 1; a zero vector stays as it is."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector if length == 0 else (vector / length).astype("<f4")


def _shared(tokens: int | None, lengths: Sequence[int]) -> list[Usage]:
    """The tokens of a call, apportioned to its texts by their lengths; an embedding has no output."""
    if not tokens:
        return [Usage() for _ in lengths]
    return [Usage(input_fresh=share, output_visible=0) for share in apportion(tokens, lengths)]


def _ordered(data: Any, n: int) -> list[Mapping[str, Any]]:
    """The items in the order of their indices, where they have any."""
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise _Wrong("the body has no list of vectors")
    indices = [item.get("index") for item in data]
    if all(index is None for index in indices):
        return data
    if sorted(indices, key=str) != sorted(range(n), key=str):
        raise _Wrong(f"the indices of {len(data)} vectors are not each of {n} texts once")
    return [item for _, item in sorted(zip(indices, data, strict=True), key=lambda pair: int(pair[0]))]


def _vectors(listed: Sequence[Any], n: int, size: Any, packed: Packed) -> list[Vector]:
    """As many vectors as texts, all of one size."""
    if len(listed) != n:
        raise _Wrong(f"{len(listed)} vectors for {n} texts")
    found = [_vector(value, packed) for value in listed]
    sizes = {vector.size for vector in found}
    if len(sizes) != 1 or (size is not None and sizes != {size}):
        raise _Wrong(
            f"vectors of {sorted(sizes)} numbers" + (f" where {size} were asked for" if size is not None else "")
        )
    return found


def _vector(value: Any, packed: Packed) -> Vector:
    """A vector from a list of numbers or from base64."""
    if isinstance(value, str):
        try:
            made = np.frombuffer(base64.b64decode(value, validate=True), dtype=packed).astype("<f4")
        except (binascii.Error, ValueError):
            raise _Wrong(f"a vector is no base64 of {np.dtype(packed).name}") from None
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
