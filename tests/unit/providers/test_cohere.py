"""The cohere dialect: real bodies, what is sent, and what is refused before a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.recorded import names, needed, recorded
from judgerun.errors import Refused
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.plan.requests import Form
from judgerun.providers import cohere, fault
from judgerun.providers import open as opening
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="cohere", dialect="cohere", base_url="https://api.cohere.com/v2")
CHAT = build("chat", {"model": "m", "messages": []}, deployment="d", adapter="cohere/1", draw=0)


def a_model(**keys: Any) -> Model:
    return Model(name="m", provider=PLACE, model="embed-v4.0", **keys)


def form(model: Model) -> Form:
    return Form(model, opening.profile(PLACE, model))


def embedded(*texts: str, role: Any = "document", **keys: Any) -> list[Request]:
    made = form(a_model(**{"input_type": True, **keys}))
    return [made.embed(text, role) for text in texts]


def read(held: Any, requests: list[Request]) -> tuple[Reply, ...] | Failure:
    return cohere.decode(requests, WireReply(status=200, headers={}, body=orjson.dumps(held), at=0.0), PLACE)


#: Finish, the provider's word, billed input and output, how the text begins.
CHATS = {
    "cohere/cohere_chat_chat_COMPLETE_0": ("stop", "COMPLETE", 2406, 2, "Hello!"),
    "cohere/cohere_chat_chat_COMPLETE_1": ("stop", "COMPLETE", 1, 9, "Hello! How can"),
    "cohere/cohere_chat_chat_STOP_SEQUENCE": ("stop", "STOP_SEQUENCE", 25, 9, "The capital of France"),
    "cohere/cohere_chat_chat_TOOL_CALL_0": ("tool", "TOOL_CALL", 41, 25, ""),
    "cohere/cohere_chat_chat_TOOL_CALL_1": ("tool", "TOOL_CALL", 33, 22, ""),
}
EMBEDDINGS = {
    "cohere/cohere_embeddings_embed_0": [-0.018445116, 0.008921167, -0.0011377502, 0.050874762],
    "cohere/cohere_embeddings_embed_1": [-0.017963495, 0.007474743, -0.0016501701, 0.050635356],
}
ERROR = "cohere/cohere_error_404__id_8bd5b608_887c_49f7_a6b3_d3bd5830c3de_message_m"


@needed
@pytest.mark.parametrize("name", sorted(CHATS))
def test_chats(name: str) -> None:
    """Finish, text and billed units of a real body."""
    finish, word, read_, written, begins = CHATS[name]
    told = cohere.decode([CHAT], recorded(name), PLACE)
    assert not isinstance(told, Failure)
    assert (told[0].finish, told[0].finish_raw) == (Finish(finish), word)
    assert told[0].usage == Usage(input_fresh=read_, output_visible=written)
    assert told[0].text.startswith(begins)
    assert bool(told[0].text) == bool(begins)


@needed
@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_embeddings(name: str) -> None:
    """Vector and billed tokens of a real body."""
    told = cohere.decode(embedded("Hello, world!"), recorded(name), PLACE)
    assert not isinstance(told, Failure)
    assert np.frombuffer(told[0].vector or b"", "<f4") == pytest.approx(EMBEDDINGS[name])
    assert told[0].usage == Usage(input_fresh=4, output_visible=0)
    assert b"Hello" not in told[0].raw


@needed
def test_an_error() -> None:
    """A real refusal is final and free."""
    told = fault.classify(recorded(ERROR))
    assert (told.status, told.cause, told.billable) == (404, Cause.REJECTED, Billable.NO)
    assert "'nonexistent' not found" in told.detail


@needed
def test_no_body_is_left_out() -> None:
    """Every recorded exchange stands above."""
    assert names("cohere") == {*CHATS, *EMBEDDINGS, ERROR}


def test_what_embedding_requests_become() -> None:
    """Roles in the provider's words, other words as they are, and no text cut in silence."""
    call = cohere.encode(embedded("a", "b", role="query", dimensions=256), PLACE)
    assert call.path == "/embed"
    assert orjson.loads(call.body) == {
        "model": "embed-v4.0",
        "texts": ["a", "b"],
        "input_type": "search_query",
        "embedding_types": ["float"],
        "output_dimension": 256,
        "truncate": "NONE",
    }
    written = embedded("a", input_type={"query": "clustering", "document": "clustering"})
    assert orjson.loads(cohere.encode(written, PLACE).body)["input_type"] == "clustering"
    assert cohere.authorise("k", PLACE) == {"authorization": "Bearer k"}


def test_int8_is_read_as_float32() -> None:
    """The type that was asked for is the one that is read."""
    requests = embedded("a", "b", extra={"embedding_types": ["int8"]})
    told = read({"embeddings": {"int8": [[-128, 5], [0, 127]], "float": [[1.0, 1.0]]}}, requests)
    assert not isinstance(told, Failure)
    assert [np.frombuffer(one.vector or b"", "<f4").tolist() for one in told] == [[-128.0, 5.0], [0.0, 127.0]]


@pytest.mark.parametrize("held", [{"float": [[1], [2]]}, {"int8": [[1]]}, {"float": {}}, [[1.0]], None])
def test_vectors_that_were_not_asked_for_are_malformed(held: Any) -> None:
    """Another type, another number, none at all."""
    told = read({"embeddings": held}, embedded("a"))
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


@pytest.mark.parametrize(
    ("thinking", "sent"), [("off", {"type": "disabled"}), (500, {"type": "enabled", "token_budget": 500})]
)
def test_what_a_chat_request_becomes(thinking: Any, sent: dict[str, Any]) -> None:
    """The cap that was reserved for stands above `extra`."""
    model = a_model(temperature=0, max_output_tokens=16, thinking=thinking, extra={"p": 0.5})
    messages = [{"role": "user", "content": "2+2?"}]
    call = cohere.encode([form(model).chat(messages, 1)], PLACE)
    assert call.path == "/chat"
    assert orjson.loads(call.body) == {
        "model": "embed-v4.0",
        "messages": messages,
        "temperature": 0,
        "max_tokens": 16,
        "thinking": sent,
        "p": 0.5,
    }


def chat(finish: str, *content: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"finish_reason": finish, "message": {"role": "assistant", "content": list(content)}, **rest}


THOUGHT = {"type": "thinking", "thinking": "hm"}


@pytest.mark.parametrize(
    ("held", "finish", "text", "thoughts"),
    [
        (chat("COMPLETE", THOUGHT, {"type": "text", "text": "4"}), Finish.STOP, "4", ""),
        (chat("COMPLETE", THOUGHT), Finish.STOP, "", "hm"),
        (chat("MAX_TOKENS", THOUGHT), Finish.LENGTH, "", ""),
        (chat("ERROR"), Finish.ERROR, "", ""),
        (chat("TIMEOUT"), Finish.ERROR, "", ""),
        (chat("NEW_WORD"), Finish.UNKNOWN, "", ""),
    ],
)
def test_ends(held: Any, finish: Finish, text: str, thoughts: str) -> None:
    """Each with its reason; thoughts are no answer; without usage nothing is known of the cost."""
    told = read(held, [CHAT])
    assert not isinstance(told, Failure)
    assert (told[0].finish, told[0].text, told[0].thoughts, told[0].usage) == (finish, text, thoughts, Usage())


def test_units_may_be_decimal_numbers() -> None:
    """2.0 is 2; half a token is no number of tokens."""
    for units, expected in ((2.0, 2), (2.5, None)):
        told = read(chat("COMPLETE", usage={"billed_units": {"input_tokens": units, "output_tokens": 1}}), [CHAT])
        assert not isinstance(told, Failure)
        assert told[0].usage == Usage(input_fresh=expected, output_visible=1)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"extra": {"embedding_types": ["ubinary"]}}, "extra.embedding_types"),
        ({"extra": {"truncate": "END"}}, "extra.truncate"),
        ({"stream": True}, "stream"),
        ({"thinking": "low"}, "thinking"),
    ],
)
def test_what_cannot_be_asked_is_refused(keys: dict[str, Any], place: str) -> None:
    """Before a call."""
    with pytest.raises(Refused) as caught:
        opening.profile(PLACE, a_model(**keys))
    assert [problem.place for problem in caught.value.problems] == [f"models.m.{place}"]


def test_an_embedder_needs_an_input_type_and_a_chat_model_none() -> None:
    """The API refuses to embed without one."""
    known = opening.profile(PLACE, a_model())
    (problem,) = opening.unable(a_model(), known, "embed")
    assert problem.place == "models.m.input_type"
    assert opening.unable(a_model(input_type=True), known, "embed") == opening.unable(a_model(), known, "chat") == []
    assert (known.texts_max, known.reasoning) == (96, "unknown")


FIELDS = [
    "embeddings",
    "float",
    "int8",
    "meta",
    "billed_units",
    "input_tokens",
    "message",
    "content",
    "type",
    "text",
    "thinking",
]
FIELDS += ["finish_reason", "usage", "error"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(["text", "thinking", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=30,
)


@given(JSON, st.booleans())
def test_no_json_breaks_the_reading(held: Any, embed: bool) -> None:
    """Whatever comes is a reply for each request or a failure."""
    requests = embedded("a", "b") if embed else [CHAT]
    told = read(held, requests)
    assert isinstance(told, Failure) or len(told) == len(requests)
