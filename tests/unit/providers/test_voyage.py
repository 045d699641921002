"""The voyage dialect: real bodies, what is sent, and what is refused before a call."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.recorded import names, needed, recorded
from judgerun.errors import Refused
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Failure, Usage
from judgerun.model.request import Request
from judgerun.plan.requests import Form
from judgerun.providers import fault, voyage
from judgerun.providers import open as opening
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="voyage", dialect="voyage", base_url="https://api.voyageai.com/v1")


def a_model(**keys: Any) -> Model:
    return Model(name="m", provider=PLACE, model="voyage-4", **keys)


def embedded(model: Model, *texts: str, role: Any = "document") -> list[Request]:
    form = Form(model, opening.profile(PLACE, model))
    return [form.embed(text, role) for text in texts]


BODIES = {"voyage/voyage_embeddings_embeddings_0": "voyage-4", "voyage/voyage_embeddings_embeddings_1": "voyage-3.5"}
ERROR = "voyage/voyage_error_400__detail_Model_nonexistent_is_not_supported_Supported_mo"


@needed
@pytest.mark.parametrize("name", sorted(BODIES))
def test_embeddings(name: str) -> None:
    """The collection shortened its vectors, and such base64 is no vector; made whole again, the body is read."""
    held = recorded(name)
    requests = embedded(a_model(), "Hello, world!")
    cut = voyage.decode(requests, held, PLACE)
    assert isinstance(cut, Failure)
    assert cut.cause is Cause.MALFORMED
    body = orjson.loads(held.body)
    kept = body["data"][0]["embedding"].split(".")[0]
    body["data"][0]["embedding"] = kept[: len(kept) // 16 * 16]
    told = voyage.decode(requests, replace(held, body=orjson.dumps(body)), PLACE)
    assert not isinstance(told, Failure)
    assert (told[0].served_model, told[0].usage) == (BODIES[name], Usage(input_fresh=3, output_visible=0))
    assert len(told[0].vector or b"") == len(kept) // 16 * 12


@needed
def test_an_error() -> None:
    """A real refusal is final and free."""
    told = fault.classify(recorded(ERROR))
    assert (told.status, told.cause, told.billable) == (400, Cause.REJECTED, Billable.NO)
    assert "nonexistent" in told.detail


@needed
def test_no_body_is_left_out() -> None:
    """Every recorded exchange stands above."""
    assert names("voyage") == {*BODIES, ERROR}


def test_what_embedding_requests_become() -> None:
    """The role as it is, the size by its own name, and no text cut in silence."""
    model = a_model(input_type=True, dimensions=512, extra={"priority": 1})
    call = voyage.encode(embedded(model, "a", "b", role="query"), PLACE)
    assert call.path == "/embeddings"
    assert orjson.loads(call.body) == {
        "model": "voyage-4",
        "input": ["a", "b"],
        "input_type": "query",
        "output_dimension": 512,
        "truncation": False,
        "encoding_format": "base64",
        "priority": 1,
    }
    assert voyage.authorise("k", PLACE) == {"authorization": "Bearer k"}


def test_int8_is_asked_for_as_a_list_and_read_as_float32() -> None:
    """Numbers stay what they are, in a list or in base64."""
    requests = embedded(a_model(extra={"output_dtype": "int8"}), "a")
    sent = orjson.loads(voyage.encode(requests, PLACE).body)
    assert (sent["output_dtype"], "encoding_format" in sent) == ("int8", False)
    for packed in ([-128, 0, 127], base64.b64encode(np.array([-128, 0, 127], "i1").tobytes()).decode()):
        raw = orjson.dumps({"data": [{"index": 0, "embedding": packed}]})
        told = voyage.decode(requests, WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)
        assert not isinstance(told, Failure)
        assert np.frombuffer(told[0].vector or b"", "<f4").tolist() == [-128.0, 0.0, 127.0]


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        (
            "The example at index 0 in your batch has too many tokens and does not fit into the model's context window",
            "too long",
        ),
        ("The max allowed tokens per submitted batch is 120000. Your batch has 124302 tokens", "rejected"),
    ],
)
def test_a_text_above_the_window_is_told_from_a_call_above_its_limit(detail: str, cause: str) -> None:
    """The first is counted as too long; the second is none of its texts' fault, and halves do better. No patience helps either."""
    wire = WireReply(status=400, headers={}, body=orjson.dumps({"detail": detail}), at=0.0)
    assert fault.classify(wire).cause is Cause(cause)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"extra": {"output_dtype": "binary"}}, "extra.output_dtype"),
        ({"extra": {"truncation": True}}, "extra.truncation"),
        ({"extra": {"input_type": "query"}}, "extra.input_type"),
        ({"stream": True}, "stream"),
        ({"temperature": 0}, "temperature"),
        ({"extra": {"output_dtype": "int8"}}, None),
    ],
)
def test_what_cannot_be_asked_is_refused(keys: dict[str, Any], place: str | None) -> None:
    """Before a call."""
    if place is None:
        assert opening.profile(PLACE, a_model(**keys)).texts_max == 1000
        return
    with pytest.raises(Refused) as caught:
        opening.profile(PLACE, a_model(**keys))
    assert [problem.place for problem in caught.value.problems] == [f"models.m.{place}"]


def test_it_has_no_chat() -> None:
    """A chat stage is refused."""
    (problem,) = opening.unable(a_model(), voyage.profile(PLACE), "chat")
    assert "has no chat" in str(problem)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "embedding", "index", "usage", "total_tokens", "error"]), inner, max_size=4
        )
    ),
    max_leaves=30,
)


@given(JSON)
def test_no_json_breaks_the_reading(held: Any) -> None:
    """Whatever comes is a reply for each request or a failure."""
    requests = embedded(a_model(), "a", "b")
    told = voyage.decode(requests, WireReply(status=200, headers={}, body=orjson.dumps(held), at=0.0), PLACE)
    assert isinstance(told, Failure) or len(told) == 2
