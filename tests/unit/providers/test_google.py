"""The google dialect: real bodies, what is sent, what is read, and what is refused before a call."""

from __future__ import annotations

import ast
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
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.plan.requests import Form
from judgerun.providers import fault, google
from judgerun.providers import open as opening
from judgerun.providers.wire import WireReply

PLACE = Deployment(name="google", dialect="google", base_url="https://generativelanguage.googleapis.com/v1beta")
VERTEX = Deployment(
    name="vertex",
    dialect="google",
    base_url="https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google",
)


def a_model(name: str = "gemini-3-flash-preview", provider: Deployment = PLACE, **keys: Any) -> Model:
    return Model(name="m", provider=provider, model=name, **keys)


def asked(model: Model, *messages: tuple[str, str]) -> Request:
    profile = opening.profile(model.provider, model)
    told = [{"role": role, "content": text} for role, text in messages or [("user", "2+2?")]]
    return Form(model, profile).chat(told, 1)


def embedded(model: Model, *texts: str, role: Any = "document") -> list[Request]:
    form = Form(model, opening.profile(model.provider, model))
    return [form.embed(text, role) for text in texts]


CHAT = build("chat", {"model": "m", "messages": []}, deployment="d", adapter="google/1", draw=0)


def read(held: Any, requests: list[Request] | None = None) -> tuple[Reply, ...] | Failure:
    raw = held if isinstance(held, bytes) else orjson.dumps(held)
    return google.decode(requests or [CHAT], WireReply(status=200, headers={}, body=raw, at=0.0), PLACE)


def reply(held: Any) -> Reply:
    told = read(held)
    assert not isinstance(told, Failure), told
    return told[0]


#: File; finish, the provider's word, tokens (fresh, cache read, visible, thoughts; - where the body is silent), total, served
#: model, text. Thoughts of 0 are proven by the total, where the body does not tell them.
REPLIES = r"""
gemini/gemini_chat_generateContent_MAX_TOKENS
    length | MAX_TOKENS | 15 - 5 0 | 20 | gemini-2.5-flash | 'The capital of France is'
gemini/gemini_chat_generateContent_MAX_TOKENS_reasoning
    length | MAX_TOKENS | 15 - 0 2 | 17 | gemini-2.5-pro | ''
gemini/gemini_chat_generateContent_SAFETY
    filter | SAFETY HARM_CATEGORY_HATE_SPEECH | 14 - 0 0 | 14 | gemini-1.5-flash | ''
gemini/gemini_chat_generateContent_STOP_0
    stop | STOP | 14 - 1 0 | 15 | gemini-2.5-flash | '4'
gemini/gemini_chat_generateContent_STOP_1
    stop | STOP | 8 - 8 0 | 16 | gemini-2.5-flash-lite | 'The capital'
gemini/gemini_chat_generateContent_STOP_cached_0
    stop | STOP | 265 594 28 0 | 887 | gemini-2.5-flash | 'I have recorded'
gemini/gemini_chat_generateContent_STOP_cached_1
    stop | STOP | 115 230 37 0 | 382 | gemini-2.5-flash | 'I received'
gemini/gemini_chat_generateContent_STOP_reasoning_0
    stop | STOP | 8 - 6 99 | 113 | gemini-2.5-flash | '{"city": "Paris"}'
gemini/gemini_chat_generateContent_STOP_reasoning_1
    stop | STOP | 9 - 9 34 | 52 | gemini-2.5-flash | 'Hello!'
gemini/gemini_chat_generateContent_STOP_reasoning_cached_0
    stop | STOP | 8 3512 2 42 | 3564 | gemini-2.5-flash | 'Paris.'
gemini/gemini_chat_generateContent_STOP_reasoning_cached_1
    stop | STOP | 8 3512 2 51 | 3573 | gemini-2.5-flash | 'Paris.'
gemini/gemini_stream_streamGenerateContent_STOP
    stop | STOP | 6 - 1 35 | 42 | gemini-2.5-flash | 'Paris'
vertex/vertex_chat_generateContent_STOP_0
    stop | STOP | 13 - 8 0 | 21 | gemini-2.0-flash | 'The capital of France is Paris.\n'
vertex/vertex_chat_generateContent_STOP_1
    stop | STOP | 13 - 8 0 | 21 | gemini-2.0-flash | 'The capital of France is Paris.\n'
vertex/vertex_chat_generateContent_STOP_reasoning_0
    stop | STOP | 13 - 7 32 | 52 | gemini-2.5-flash | 'The capital of France is Paris.'
vertex/vertex_chat_generateContent_STOP_reasoning_1
    stop | STOP | 6 - 1 17 | 24 | gemini-2.5-flash | 'Hello'
vertex/vertex_chat_generateContent_UNEXPECTED_TOOL_CALL_reasoning_0
    tool | UNEXPECTED_TOOL_CALL | 22 - 3 134 | 159 | gemini-3-flash-preview | ''
vertex/vertex_chat_generateContent_UNEXPECTED_TOOL_CALL_reasoning_1
    tool | UNEXPECTED_TOOL_CALL | 22 - 3 142 | 167 | gemini-3-flash-preview | ''
vertex/vertex_stream_streamGenerateContent_STOP
    stop | STOP | 5 - 1 100 | 106 | gemini-3-flash-preview | 'OK'
"""

EMBEDDINGS = {"gemini/gemini_embeddings_batchEmbedContents_0", "gemini/gemini_embeddings_batchEmbedContents_1"}
ERRORS = {
    "gemini/gemini_error_404__error_code_404_message_models_gemini_3_6_flahs": (404, "gemini-3.6-flahs is not found"),
    "gemini/gemini_error_404__error_code_404_message_models_nonexistent_model": (404, "nonexistent-model is not found"),
    "vertex/vertex_error_400__error_code_400_message_Cannot_fetch_content_fro": (400, "Cannot fetch content"),
}
OTHERS = {
    # of the interactions API, and of countTokens: endpoints that are not called
    "gemini/x_openinference_200_in_progress_incomplete_test_generate_interactions_multi_model_messages_True__0",
    "gemini/x_openinference_200_incomplete_test_generate_interactions_multi_model_messages_False__0",
    "gemini/gemini_embeddings_countTokens",
}
OF_OPENAI = {"gemini/gemini_chat_completions_stop", "gemini/gemini_chat_completions_tool_calls"}


def rows() -> list[tuple[str, ...]]:
    """Two lines of the table make one row."""
    lines = [line.strip() for line in REPLIES.strip().splitlines()]
    return [(name, *rest.split(" | ")) for name, rest in zip(lines[::2], lines[1::2], strict=True)]


@needed
@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_replies(row: tuple[str, ...]) -> None:
    """Finish, text, buckets, total and served model of a real body; the buckets sum to the total."""
    name, finish, word, tokens, total, model, begins = row
    told = google.decode([CHAT], recorded(name), PLACE)
    assert not isinstance(told, Failure)
    fresh, read_, visible, thoughts = (None if cell == "-" else int(cell) for cell in tokens.split())
    used = Usage(input_fresh=fresh, cache_read=read_, output_visible=visible, reasoning=thoughts)
    assert (told[0].finish, told[0].finish_raw) == (Finish(finish), word)
    assert (told[0].usage, told[0].reported_tokens, told[0].served_model) == (used, int(total), model)
    assert (used.input or 0) + (used.output or 0) == int(total)
    text = ast.literal_eval(begins)
    assert told[0].text.startswith(text)
    assert bool(told[0].text) == bool(text)


@needed
@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_embeddings(name: str) -> None:
    """A real body has a vector and no usage, so that what it cost is unknown."""
    told = google.decode(embedded(a_model("gemini-embedding-001"), "Hello, world!"), recorded(name), PLACE)
    assert not isinstance(told, Failure)
    assert np.frombuffer(told[0].vector or b"", "<f4") == pytest.approx(
        [-0.039718185, 0.0070917504, 0.04710465, -0.01439842]
    )
    assert (told[0].usage, told[0].input_cut) == (Usage(), None)


@needed
@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str) -> None:
    """A real refusal is final and free."""
    status, says = ERRORS[name]
    told = fault.classify(recorded(name))
    assert (told.status, told.cause, told.billable) == (status, Cause.REJECTED, Billable.NO)
    assert says in told.detail


@needed
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_bodies_of_other_endpoints_are_refused(name: str) -> None:
    """They are malformed here, not half read."""
    told = google.decode([CHAT], recorded(name), PLACE)
    assert isinstance(told, Failure)
    assert told.cause is Cause.MALFORMED


@needed
def test_no_body_is_left_out() -> None:
    """Every recorded exchange of the two APIs stands in a table above, or is of the openai dialect."""
    assert names("gemini", "vertex") == {row[0] for row in rows()} | EMBEDDINGS | set(ERRORS) | OTHERS | OF_OPENAI


def test_what_a_chat_request_becomes() -> None:
    """System text apart, the assistant is the model, and the cap that was reserved for stands above `extra`."""
    model = a_model(
        temperature=0,
        max_output_tokens=16,
        thinking="low",
        extra={"safetySettings": [], "generationConfig": {"responseMimeType": "application/json", "topK": 1}},
    )
    request = asked(model, ("system", "Be terse."), ("user", "2+2?"), ("assistant", "4"), ("user", "3+3?"))
    call = google.encode([request], PLACE)
    assert (call.path, call.query) == ("/models/gemini-3-flash-preview:generateContent", {})
    assert orjson.loads(call.body) == {
        "systemInstruction": {"parts": [{"text": "Be terse."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "2+2?"}]},
            {"role": "model", "parts": [{"text": "4"}]},
            {"role": "user", "parts": [{"text": "3+3?"}]},
        ],
        "safetySettings": [],
        "generationConfig": {
            "responseMimeType": "application/json",
            "topK": 1,
            "temperature": 0,
            "maxOutputTokens": 16,
            "thinkingConfig": {"thinkingLevel": "LOW"},
        },
    }


@pytest.mark.parametrize(
    ("thinking", "own", "config"),
    [
        ("off", {}, {"thinkingBudget": 0}),
        ("high", {}, {"thinkingLevel": "HIGH"}),
        (512, {}, {"thinkingBudget": 512}),
        (
            "off",
            {"off": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}}},
            {"thinkingLevel": "MINIMAL"},
        ),
    ],
)
def test_ways_of_thinking(thinking: Any, own: Any, config: dict[str, Any]) -> None:
    """A budget, a level, or what the deployment says."""
    place = Deployment(name="p", dialect="google", base_url=PLACE.base_url, thinking=own)
    call = google.encode([asked(a_model(provider=place, thinking=thinking))], place)
    assert orjson.loads(call.body)["generationConfig"]["thinkingConfig"] == config


def test_a_streamed_call_and_a_tuned_model() -> None:
    """The adapter in the key says that it is streamed; an id with a slash is a resource name."""
    call = google.encode([asked(a_model("tunedModels/mine", stream=True))], PLACE)
    assert (call.path, call.query) == ("/tunedModels/mine:streamGenerateContent", {"alt": "sse"})


def test_the_key_goes_where_the_host_wants_it() -> None:
    """A key for the Gemini API, a token for Vertex, nothing where there is none."""
    assert google.authorise("k", PLACE) == {"x-goog-api-key": "k"}
    assert google.authorise("t", VERTEX) == {"authorization": "Bearer t"}
    assert google.authorise(None, PLACE) == {}


def test_what_embedding_requests_become() -> None:
    """One entry a text; roles are task types, and what is written stays as it is."""
    model = a_model("gemini-embedding-001", input_type=True, dimensions=768)
    call = google.encode(embedded(model, "a", "b", role="query"), PLACE)
    assert call.path == "/models/gemini-embedding-001:batchEmbedContents"
    shared = {"model": "models/gemini-embedding-001", "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 768}
    assert orjson.loads(call.body) == {"requests": [{**shared, "content": {"parts": [{"text": t}]}} for t in "ab"]}
    other = a_model("gemini-embedding-001", input_type={"query": "CLUSTERING", "document": "CLUSTERING"})
    (sent,) = orjson.loads(google.encode(embedded(other, "a"), PLACE).body)["requests"]
    assert sent["taskType"] == "CLUSTERING"


def test_embeddings_with_usage_settle() -> None:
    """Tokens are shared by the lengths of the texts; a missing vector spoils the body."""
    requests = embedded(a_model("gemini-embedding-001", normalize=True), "a", "bbb")
    told = read(
        {"embeddings": [{"values": [3, 4]}, {"values": [0, 2]}], "usageMetadata": {"promptTokenCount": 8}}, requests
    )
    assert not isinstance(told, Failure)
    assert [one.usage for one in told] == [Usage(input_fresh=n, output_visible=0) for n in (2, 6)]
    assert np.frombuffer(told[0].vector or b"", "<f4") == pytest.approx([0.6, 0.8])
    wrong: list[Any] = [[{"values": [1]}], [{}, {}], "x", None]
    for listed in wrong:
        assert isinstance(read({"embeddings": listed}, requests), Failure)


def candidate(finish: str | None = "STOP", **content: Any) -> dict[str, Any]:
    return {"candidates": [{"content": content, **({"finishReason": finish} if finish else {})}]}


def test_thoughts_are_no_answer() -> None:
    """They are kept only of a reply that finished and says nothing else."""
    thought = {"text": "hm", "thought": True}
    assert (reply(candidate(parts=[thought, {"text": "4"}])).text, reply(candidate(parts=[thought])).text) == ("4", "")
    kept = [
        candidate(parts=[thought]),
        candidate(parts=[thought, {"text": "4"}]),
        candidate("MAX_TOKENS", parts=[thought]),
    ]
    assert [reply(held).thoughts for held in kept] == ["hm", "", ""]


@pytest.mark.parametrize(
    ("held", "finish", "word"),
    [
        (candidate(), Finish.STOP, "STOP"),
        (candidate(parts=[{"functionCall": {"name": "f"}}]), Finish.TOOL, "STOP"),
        (candidate("OTHER"), Finish.UNKNOWN, "OTHER"),
        (candidate("SOMETHING_NEW"), Finish.UNKNOWN, "SOMETHING_NEW"),
        (candidate(None), Finish.UNKNOWN, None),
        (candidate("MALFORMED_FUNCTION_CALL"), Finish.ERROR, "MALFORMED_FUNCTION_CALL"),
        (candidate("RECITATION"), Finish.FILTER, "RECITATION"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, Finish.FILTER, "prompt PROHIBITED_CONTENT"),
        (
            {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [{"category": "HARM", "blocked": True}]}},
            Finish.FILTER,
            "prompt SAFETY HARM",
        ),
    ],
)
def test_ends_without_text_are_replies(held: Any, finish: Finish, word: str | None) -> None:
    """Each with its reason: never an answer, never a crash, never `stop` by default."""
    told = reply(held)
    assert (told.finish, told.finish_raw, told.text, told.usage) == (finish, word, "", Usage())


@pytest.mark.parametrize(
    "held",
    [
        b"no json",
        b"[]",
        {},
        {"candidates": []},
        {"candidates": [], "promptFeedback": {}},
        candidate(parts="text"),
        candidate(parts=[{"text": 4}]),
        b'data: {"candidates": [{"content": {"parts": [{"text": "4"}]}}]}\n\n',  # cut off before its end
        b'data: {"candidates": [{"finishReason": "STOP"}]}\n\ndata: {"candi',
    ],
)
def test_what_cannot_be_read_is_malformed(held: Any) -> None:
    """It may have been charged."""
    told = read(held)
    assert isinstance(told, Failure)
    assert (told.cause, told.billable) == (Cause.MALFORMED, Billable.UNKNOWN)


def test_a_stream_is_one_reply() -> None:
    """Parts are joined, the last usage holds, and an error after some text is a failure."""
    chunks: list[dict[str, Any]] = [
        {**candidate(None, parts=[{"text": "Pa"}]), "usageMetadata": {"promptTokenCount": 6, "totalTokenCount": 6}},
        {
            **candidate("STOP", parts=[{"text": "ris"}]),
            "usageMetadata": {"promptTokenCount": 6, "candidatesTokenCount": 2, "totalTokenCount": 9},
            "modelVersion": "served",
        },
    ]
    raw = b"".join(b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in chunks)
    told = reply(raw)
    assert (told.text, told.finish, told.served_model) == ("Paris", Finish.STOP, "served")
    assert told.usage == Usage(input_fresh=6, output_visible=2, reasoning=1)
    failed = read(raw + b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\n\n')
    assert isinstance(failed, Failure)
    assert (failed.cause, failed.billable) == (Cause.OVERLOADED, Billable.UNKNOWN)


def test_what_a_stream_counts_on_its_way_is_not_its_bill() -> None:
    """Where the chunk that ends a reply tells no usage, the tokens after the last count are in none."""
    chunks: list[dict[str, Any]] = [
        {**candidate(None, parts=[{"text": "Pa"}]), "usageMetadata": {"promptTokenCount": 6, "totalTokenCount": 7}},
        candidate("STOP", parts=[{"text": "ris"}]),
    ]
    told = reply(b"".join(b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in chunks))
    assert (told.text, told.usage, told.reported_tokens) == ("Paris", Usage(), None)


@pytest.mark.parametrize(
    ("told", "said", "expected"),
    [
        # hidden thoughts that only the total tells
        ({"promptTokenCount": 66, "candidatesTokenCount": 6, "totalTokenCount": 100}, True, (66, None, 6, 28)),
        # nothing but thoughts, told by the total alone
        ({"promptTokenCount": 10, "totalTokenCount": 30}, False, (10, None, 0, 20)),
        # text, and no count of it: the output is known, its parts are not
        ({"promptTokenCount": 10, "totalTokenCount": 30}, True, (10, None, 20, None)),
        # a tool's result is read beside the prompt
        (
            {"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 18},
            True,
            (15, None, 3, 0),
        ),
        # no total: what is missing is unknown
        ({"promptTokenCount": 10, "candidatesTokenCount": 3}, True, (10, None, 3, None)),
        ({"promptTokenCount": 10}, False, (10, None, None, None)),
        ({"promptTokenCount": 10, "candidatesTokenCount": 0, "thoughtsTokenCount": 4}, True, (10, None, None, None)),
        # impossible
        (
            {"promptTokenCount": 10, "cachedContentTokenCount": 11, "candidatesTokenCount": 3},
            True,
            (None, None, 3, None),
        ),
        ({"promptTokenCount": 0, "candidatesTokenCount": True, "totalTokenCount": "9"}, True, (None,) * 4),
    ],
)
def test_usage(told: dict[str, Any], said: bool, expected: tuple[int | None, ...]) -> None:
    """What the total leaves is worked out; what cannot be is unknown, never 0."""
    used = google.usage(told, said_something=said)
    assert (used.input_fresh, used.cache_read, used.output_visible, used.reasoning) == expected


COUNTS = st.integers(0, 10_000)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.sets(st.sampled_from(["candidatesTokenCount", "thoughtsTokenCount"])))
def test_buckets_sum_to_the_total(
    fresh: int, cached: int, tools: int, visible: int, thoughts: int, silent: set[str]
) -> None:
    """Nothing is counted twice and nothing is lost, whichever of the output's counts the provider leaves out."""
    told = {
        "promptTokenCount": fresh + cached + 1,
        "cachedContentTokenCount": cached,
        "toolUsePromptTokenCount": tools,
        "candidatesTokenCount": visible + 1,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": fresh + cached + tools + visible + thoughts + 2,
    }
    used = google.usage({name: n for name, n in told.items() if name not in silent}, said_something=True)
    assert used.input is not None
    assert used.output is not None
    assert used.input + used.output == told["totalTokenCount"]


FIELDS = ["candidates", "content", "parts", "text", "thought", "finishReason", "usageMetadata", "promptTokenCount"]
FIELDS += ["promptFeedback", "blockReason", "safetyRatings", "blocked", "error", "embeddings", "values", "modelVersion"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=30,
)


@given(JSON, st.booleans(), st.booleans())
def test_no_json_breaks_the_reading(held: Any, embed: bool, streamed: bool) -> None:
    """Whatever comes is a reply for each request or a failure."""
    requests = embedded(a_model("gemini-embedding-001"), "a", "b") if embed else [CHAT]
    raw = orjson.dumps(held)
    told = read(b"data: " + raw + b"\n\n" + b"data: " + raw if streamed else raw, requests)
    assert isinstance(told, Failure) or len(told) == len(requests)


@pytest.mark.parametrize(
    ("name", "keys", "place"),
    [
        ("gemini-2.5-pro", {"thinking": "off"}, "thinking"),
        ("models/gemini-2.5-pro", {"thinking": "low"}, "thinking"),
        ("gemini-2.5-flash-lite", {"thinking": "high"}, "thinking"),
        ("gemini-3.1-pro-preview", {"thinking": "off"}, "thinking"),
        ("gemini-2.0-flash", {"thinking": 512}, "thinking"),
        ("gemini-embedding-2", {"input_type": True}, "input_type"),
        ("gemini-embedding-001", {"max_input_tokens": 5}, "max_input_tokens"),
        (
            "gemini-3-flash",
            {"extra": {"generationConfig": {"candidateCount": 2}}},
            "extra.generationConfig.candidateCount",
        ),
        ("gemini-3-flash", {"extra": {"contents": []}}, "extra.contents"),
        ("gemini-3-flash", {"extra": {"generation_config": {"candidate_count": 2}}}, "extra.generation_config"),
        (
            "gemini-3-flash",
            {"extra": {"generationConfig": {"max_output_tokens": 2}}},
            "extra.generationConfig.max_output_tokens",
        ),
        ("gemini-3-flash", {"extra": {"cachedContent": "cachedContents/1"}}, "extra.cachedContent"),
        ("gemini-3-flash", {"extra": {"generationConfig": {"topK": 2}}}, None),
        ("gemini-2.5-pro", {"thinking": 128}, None),
        ("gemini-2.5-flash", {"thinking": "off"}, None),
        ("gemini-3-pro-preview", {"thinking": "high"}, None),
        ("gemini-3-flash-preview", {"thinking": "off"}, None),
        ("gemini-flash-latest", {"thinking": "off"}, None),
    ],
)
def test_what_a_model_does_not_take_is_refused(name: str, keys: dict[str, Any], place: str | None) -> None:
    """By its id, before a call; of an unknown one the API says it."""
    if place is None:
        assert opening.profile(PLACE, a_model(name, **keys)).dialect == "google"
        return
    with pytest.raises(Refused) as caught:
        opening.profile(PLACE, a_model(name, **keys))
    assert [problem.place for problem in caught.value.problems] == [f"models.m.{place}"]


def test_profiles() -> None:
    """Vertex has other endpoints for vectors and jobs, which are not spoken."""
    gemini, vertex = google.profile(replace(PLACE, builtin=True)), google.profile(replace(VERTEX, builtin=True))
    assert (gemini.embed, gemini.texts_max, gemini.reasoning) == (True, 100, "inside")
    assert gemini.jobs is not None
    assert (gemini.jobs.factor, gemini.jobs.embed) == ("0.5", False)
    assert (vertex.chat, vertex.embed, vertex.jobs) == (True, False, None)
    (problem,) = opening.unable(a_model(provider=VERTEX), vertex, "embed")
    assert "no embeddings" in str(problem)
    assert opening.unable(a_model(provider=VERTEX), vertex, "chat") == []
