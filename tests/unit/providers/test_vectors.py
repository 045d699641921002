"""Vectors: order, size, finiteness; base64; what is kept of the body."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from judgerun.model.experiment import Deployment
from judgerun.model.reply import Cause, Failure, Reply
from judgerun.model.request import Request, build
from judgerun.providers import openai, vectors
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1")


def texts(n: int, **parameters: Any) -> list[Request]:
    return [
        build(
            "embed",
            {"model": "e", "text": f"text {k}", "role": "document", **parameters},
            deployment="d",
            adapter="openai/1",
            draw=0,
        )
        for k in range(n)
    ]


def read(data: Any, requests: list[Request], **rest: Any) -> tuple[Reply, ...] | Failure:
    raw = orjson.dumps({"object": "list", "data": data, "model": "served", **rest})
    return openai.decode(requests, WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)


def numbers(reply: Reply) -> list[float]:
    assert reply.vector is not None
    return [float(value) for value in np.frombuffer(reply.vector, dtype="<f4")]


def items(*vectors: Any, order: list[int] | None = None) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": n, "embedding": vectors[n]} for n in (order or list(range(len(vectors))))]


@given(arrays.arrays(np.float32, (3, 5), elements=st.floats(-1e6, 1e6, width=32)), st.permutations([0, 1, 2]))
def test_vectors_come_back_bit_by_bit_in_the_order_of_their_indices(matrix: Any, order: list[int]) -> None:
    """Floats and base64 give the same float32, in whatever order they arrive."""
    plain = read(items(*matrix.tolist(), order=order), texts(3))
    packed = read(
        items(*[base64.b64encode(row.astype("<f4").tobytes()).decode() for row in matrix], order=order), texts(3)
    )
    assert not isinstance(plain, Failure)
    assert not isinstance(packed, Failure)
    expected = [row.astype("<f4").tobytes() for row in matrix]
    assert [reply.vector for reply in plain] == expected == [reply.vector for reply in packed]


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (None, {}),
        ([], {}),
        (items([1.0, 2.0]), {}),
        (items([1.0, 2.0], [1.0]), {}),
        (items([1.0, 2.0], [1.0, None]), {}),
        (items([1.0, 2.0], [1.0, "0.5"]), {}),
        (items([1.0, 2.0], [1.0, 1e39]), {}),
        (items([1.0, 2.0], [[1.0], [2.0]]), {}),
        (items([], []), {}),
        (items([True, False], [True, True]), {}),
        (items("AAAA", "not base64!"), {}),
        (items("AAAA", "AAAAAAA="), {}),
        (items([1.0], None), {}),
        (items([1.0, 2.0], [3.0, 4.0]), {"dimensions": 3}),
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}], {}),
        ([{"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [2.0]}], {}),
        ([{"index": 0, "embedding": [1.0]}, {"embedding": [2.0]}], {}),
        ([{"index": "0", "embedding": [1.0]}, {"index": "1", "embedding": [2.0]}], {}),
        (["x", "y"], {}),
    ],
)
def test_anything_wrong_spoils_the_body(data: Any, parameters: dict[str, Any]) -> None:
    """A wrong count, size, index or number: no vector of such a body is trusted."""
    told = read(data, texts(2, **parameters))
    assert isinstance(told, Failure)
    assert told.cause is Cause.MALFORMED


@given(arrays.arrays(np.int8, (3, 5)), st.permutations([0, 1, 2]))
def test_int8_vectors_keep_their_numbers(matrix: Any, order: list[int]) -> None:
    """A list of whole numbers and base64 of int8 give the float32 of the same values: no scale is invented."""
    plain = body(items(*matrix.tolist(), order=order), texts(3))
    packed = body(items(*[base64.b64encode(row.tobytes()).decode() for row in matrix], order=order), texts(3))
    expected = [row.astype("<f4").tobytes() for row in matrix]
    assert [reply.vector for reply in plain] == expected == [reply.vector for reply in packed]


def body(data: Any, requests: list[Request]) -> tuple[Reply, ...]:
    """The replies of a body whose vectors are int8."""
    wire = WireReply(status=200, headers={}, body=b"{}", at=0.0)
    told = vectors.decode(requests, {"data": data}, wire, packed="i1")
    assert not isinstance(told, Failure)
    return told


def test_tokens_and_cost_of_a_call_are_shared_by_the_lengths_of_its_texts() -> None:
    """Nothing is lost in sharing, an embedding has no output, and what is not told stays unknown."""
    wire = WireReply(status=200, headers={}, body=b"{}", at=0.0)
    requests = [replace(texts(1)[0], payload={"text": "x" * n}) for n in (1, 1, 8)]
    for tokens, expected in ((10, [1, 1, 8]), (None, [None] * 3)):
        told = vectors.replies(requests, [[1.0]] * 3, wire, envelope={}, tokens=tokens, cost=7)
        assert not isinstance(told, Failure)
        assert [reply.usage.input for reply in told] == expected
        assert [reply.usage.output for reply in told] == [None if n is None else 0 for n in expected]
        assert [reply.reported_cost for reply in told] == [1, 1, 5]


def test_without_any_index_the_order_of_the_list_holds() -> None:
    """Some servers leave it out."""
    told = read([{"embedding": [1.0]}, {"embedding": [2.0]}], texts(2))
    assert not isinstance(told, Failure)
    assert [numbers(reply) for reply in told] == [[1.0], [2.0]]


def test_the_envelope_is_kept_without_vectors_and_the_digest_is_of_the_whole() -> None:
    """The cache holds what the vectors do not say, and can prove the rest."""
    raw = orjson.dumps({"data": items([1.0]), "model": "served", "usage": {"prompt_tokens": 4, "cost": 0.5}})
    told = openai.decode(texts(1), WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)
    assert not isinstance(told, Failure)
    assert told[0].raw_digest == hashlib.sha256(raw).hexdigest()
    assert orjson.loads(told[0].raw) == {
        "data": [{"object": "embedding", "index": 0}],
        "model": "served",
        "usage": {"prompt_tokens": 4, "cost": 0.5},
    }
    assert (told[0].served_model, told[0].reported_cost) == ("served", 500_000_000)


def test_normalize_gives_unit_vectors_and_leaves_zero_alone() -> None:
    """`normalize` is ours to do where the server has no such word."""
    told = read(items([3.0, 4.0], [0.0, 0.0]), texts(2, normalize=True))
    assert not isinstance(told, Failure)
    assert numbers(told[0]) == pytest.approx([0.6, 0.8])
    assert numbers(told[1]) == [0.0, 0.0]
