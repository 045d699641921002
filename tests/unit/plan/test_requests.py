"""Requests: the mould gives the same bytes as the plain way; only what is really sent stands in a payload; bounds hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes.flow import chat
from fakes.tables import LAB, PROFILE, model
from judgerun.model.experiment import Deployment
from judgerun.model.profile import Profile
from judgerun.model.request import build
from judgerun.plan.requests import Form, Mould, Tokenizer, adapter, chat_parameters, counted, embed_parameters

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
)
EXTRA = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), SCALARS, max_size=4)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(EXTRA, st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 1000), st.sampled_from([None, 0, 0.7, 1, 1e-7]))
def test_a_mould_gives_the_canonical_bytes(
    extra: dict[str, Any], texts: list[str], draw: int, temperature: Any
) -> None:
    """The key and the canonical JSON of a moulded request are those of `build`, whatever the texts and parameters."""
    given = chat_parameters(
        model("m", extra={**extra, "text": "text", "x": {"messages": "text_"}}, temperature=temperature)
    )
    messages = [{"role": "user", "content": text} for text in texts]
    mould = Mould("chat", "messages", given, deployment="lab", adapter="openai/1")
    made = mould.request({**given, "messages": messages}, messages, draw)
    plain = build("chat", {**given, "messages": messages}, deployment="lab", adapter="openai/1", draw=draw)
    assert made == plain


@given(TEXTS, st.sampled_from(["query", "document"]))
def test_an_embedding_mould_gives_the_canonical_bytes(text: str, role: Any) -> None:
    """The same of embeddings, with the instruction in front of the text."""
    held = model("e", instruction={"query": "find: "}, dimensions=8)
    made = Form(held, PROFILE).embed(text, role)
    payload = {**embed_parameters(held, role), "text": ("find: " if role == "query" else "") + text}
    assert made == build("embed", payload, deployment="lab", adapter="openai/1", draw=1)


def test_only_what_is_sent_stands_in_a_payload() -> None:
    """A parameter that the experiment leaves out is absent, not null; zero is a value."""
    assert chat_parameters(model("m", max_output_tokens=None)) == {"model": "id-m"}
    assert chat_parameters(model("m", temperature=0, thinking="off")) == {
        "model": "id-m",
        "temperature": 0,
        "max_output_tokens": 16,
        "thinking": "off",
    }
    assert embed_parameters(model("e", input_type={"query": "search_query"}), "query")["input_type"] == "search_query"
    assert "input_type" not in embed_parameters(model("e", input_type={"query": "search_query"}), "document")
    assert embed_parameters(model("e", input_type=True, normalize=True), "document") == {
        "model": "id-e",
        "role": "document",
        "input_type": "document",
        "normalize": True,
    }


def test_what_changes_the_bytes_changes_the_key() -> None:
    """The field of the cap and the weights of a local model stand in the key, though not in the payload."""
    plain = model("m")
    other = model("m", provider=Deployment(name="lab", dialect="openai", identity="lab", cap_field="max_tokens"))
    assert adapter(plain, PROFILE) != adapter(other, PROFILE)
    local = Profile(dialect="local", adapter="local/1", weights="abc", input_limit=256)
    assert adapter(plain, local) != adapter(
        plain, Profile(dialect="local", adapter="local/1", weights="abd", input_limit=256)
    )
    assert adapter(plain, local) != adapter(
        plain, Profile(dialect="local", adapter="local/1", weights="abc", input_limit=128)
    )
    messages = [{"role": "user", "content": "x"}]
    assert Form(plain, PROFILE).chat(messages, 1).key != Form(other, PROFILE).chat(messages, 1).key


def test_the_bound_is_bytes_unless_tokens_are_counted() -> None:
    """Without a tokenizer every byte may be a token; with one its count holds; each with an allowance per message."""
    form = Form(model("m"), PROFILE)
    request = form.chat([{"role": "system", "content": "é"}, {"role": "user", "content": "abc"}], 1)
    assert form.bound(request, None) == (2 + 3 + 2 * 64, "bytes")
    assert form.bound(request, lambda held: Tokenizer("letters", len)) == (1 + 3 + 2 * 64, "tokens:letters")
    assert form.bound(request, lambda held: None) == (2 + 3 + 2 * 64, "bytes")


def test_a_count_of_the_server_takes_the_place_of_the_bytes() -> None:
    """The same allowance is put around it; `extra` is bounded by its bytes."""
    form = Form(model("m", extra={"schema": "abc"}), PROFILE)
    request = form.chat([{"role": "user", "content": "x" * 500}], 1)
    cell = replace(chat(model("m"), "", stage="s", condition="c", item="i", rank=(0,)), request=request)
    made = counted(cell, 100)
    assert (made.input_bound, made.input_bound_by) == (100 + 64 + len('{"schema":"abc"}'), "tokens:server")
    assert form.bound(request, None) == (500 + 64 + len('{"schema":"abc"}'), "bytes")
    embedded = counted(replace(cell, request=form.embed("text", "query")), 3)
    assert embedded.input_bound == 3 + 16


def test_an_embedder_that_cuts_reads_no_more_than_its_limit() -> None:
    """The bound of a text is no larger than what the model reads."""
    form = Form(model("e"), Profile(dialect="local", adapter="local/1", input_limit=20))
    assert form.bound(form.embed("x" * 500, "query"), None) == (20, "bytes")
    assert LAB.key_part == "lab"
