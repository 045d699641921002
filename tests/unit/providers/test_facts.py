"""Facts of servers: what a table in the experiment file, `like` and a built-in name come to in a profile and in the bytes sent."""

from __future__ import annotations

from typing import Any, Literal

import orjson
import pytest

from judgerun.errors import Refused
from judgerun.files.deployments import BUILTIN
from judgerun.model.experiment import Deployment, Model
from judgerun.model.request import Request
from judgerun.plan.requests import Form
from judgerun.providers import facts, openai
from judgerun.providers import open as opening


def a_place(**changes: Any) -> Deployment:
    return Deployment(**{"name": "lab", "dialect": "openai", "base_url": "http://127.0.0.1:1/v1", **changes})


def asked(place: Deployment, **parameters: Any) -> Request:
    """A chat request as the plan makes it, with the adapter in its key."""
    model = Model(name="m", provider=place, model="m", **parameters)
    return Form(model, opening.profile(place, model)).chat([{"role": "user", "content": "hi"}], 1)


def sent(place: Deployment, **parameters: Any) -> dict[str, Any]:
    """The body of a chat call, without its model and messages."""
    body = orjson.loads(openai.encode([asked(place, **parameters)], place).body)
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


def wrong(place: Deployment, **parameters: Any) -> list[str]:
    with pytest.raises(Refused) as caught:
        opening.profile(place, Model(name="m", provider=place, model="m", **parameters))
    return [str(problem) for problem in caught.value.problems]


OFF = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}


@pytest.mark.parametrize(
    ("server", "thinking", "fields"),
    [
        ("openai", "off", {"reasoning_effort": "none"}),
        ("openai", "medium", {"reasoning_effort": "medium"}),
        ("deepseek", "off", {"thinking": {"type": "disabled"}}),
        ("deepseek", "high", {"reasoning_effort": "high"}),
        ("deepinfra", "off", {"reasoning_effort": "none"}),
        ("openrouter", "off", {"reasoning_effort": "none"}),
        ("openrouter", 2048, {"reasoning": {"max_tokens": 2048}}),
        ("mistral", "high", {"reasoning_effort": "high"}),
        ("groq", "off", {"reasoning_effort": "none"}),
        ("together", "off", {"reasoning": {"enabled": False}}),
        ("together", "low", {"reasoning_effort": "low"}),
        ("novita", "off", {"enable_thinking": False}),
        ("vllm", "off", OFF),
        ("vllm", 512, {"thinking_token_budget": 512}),
        ("sglang", "off", OFF),
        ("sglang", "low", {"reasoning_effort": "low"}),
        ("llamacpp", "off", {"reasoning_effort": "none"}),
        ("xai", "high", {"reasoning_effort": "high"}),
        ("zai", "off", {"thinking": {"type": "disabled"}}),
        ("moonshot", "off", {"thinking": {"type": "disabled"}}),
        ("cerebras", "off", {"disable_reasoning": True}),
    ],
)
def test_what_thinking_becomes_at_each_server(server: str, thinking: str | int, fields: dict[str, Any]) -> None:
    """The server's own switch, whether the deployment is built in or only like it."""
    assert sent(a_place(like=server), thinking=thinking) == fields
    if server in BUILTIN:
        assert sent(BUILTIN[server], thinking=thinking) == fields


@pytest.mark.parametrize(
    ("server", "field"),
    [
        *((name, "max_tokens") for name in ("deepseek", "deepinfra", "openrouter", "mistral", "together", "novita")),
        *((name, "max_completion_tokens") for name in ("openai", "groq")),
    ],
)
def test_the_cap_goes_by_the_servers_name_for_it(server: str, field: str) -> None:
    """A deployment that is like another has its field too, and a `cap_field` of its own goes before it."""
    assert sent(BUILTIN[server], max_output_tokens=9) == {field: 9}
    assert sent(a_place(like=server), max_output_tokens=9) == {field: 9}
    assert sent(a_place(like=server, cap_field="n_predict"), max_output_tokens=9) == {"n_predict": 9}


def test_a_new_server_needs_a_table_alone() -> None:
    """The deployment's own words go before those of the server that it is like; what it does not say is that server's."""
    place = a_place(
        like="sglang",
        thinking={"off": {"chat_template_kwargs": {"quiet": True}}, "2048": {"budget": "small"}},
        reasoning="outside",
        answer=("content", "reasoning"),
    )
    assert sent(place, thinking="off") == {"chat_template_kwargs": {"quiet": True}}
    assert sent(place, thinking=2048) == {"budget": "small"}
    assert sent(place, thinking="low") == {"reasoning_effort": "low"}
    made = opening.profile(place, Model(name="m", provider=place, model="m"))
    assert (made.reasoning, made.answer) == ("outside", ("content", "reasoning"))
    assert made.thinking == {"off", "low", "medium", "high", "2048"}


def test_own_fields_of_thinking_join_those_of_extra_and_lift_no_cap() -> None:
    """Two objects become one; what a reservation counted on is written last."""
    fields = {"chat_template_kwargs": {"enable_thinking": False}, "n_predict": 9999}
    place = a_place(thinking={"off": fields}, cap_field="n_predict")
    body = sent(place, thinking="off", max_output_tokens=16, extra={"chat_template_kwargs": {"tone": "dry"}})
    assert body == {"chat_template_kwargs": {"tone": "dry", "enable_thinking": False}, "n_predict": 16}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"like": "vlm"}, "providers.lab.like: no server of the name 'vlm' is known (did you mean 'vllm'?)"),
        ({"like": "hal9000", "answer": ("content",)}, "(one of openai, deepseek, deepinfra, openrouter, "),
        ({"dialect": "anthropic", "like": "vllm"}, "providers.lab.like: the dialect 'anthropic' has no servers"),
        ({"answer": ("content", "after-thinking")}, "'after-thinking' finds no answers (did you mean 'after-think'?)"),
        ({"thinking": {"of": {}}}, "providers.lab.thinking.of: no model can ask for 'of' (did you mean 'off'?)"),
        ({"thinking": {"off": {"n": 8}}}, "providers.lab.thinking.off.n: a switch of thinking may not set 'n'"),
        ({"thinking": {"007": {}}}, "(one of off, low, medium, high, a number of tokens)"),
    ],
)
def test_what_is_wrong_with_a_table_is_refused(changes: dict[str, Any], told: str) -> None:
    """With the right spelling, or the list of choices, before any call."""
    assert told in "\n".join(wrong(a_place(**changes), max_output_tokens=9))


@pytest.mark.parametrize(
    ("server", "thinking", "right"),
    [
        ("deepseek", "medium", "one of off, low, high"),
        ("openai", 2048, "one of off, low, medium, high"),
        ("openrouter", "maximal", "one of off, low, medium, high, a number of tokens"),
    ],
)
def test_a_word_that_a_server_lacks_is_refused(server: str, thinking: str | int, right: str) -> None:
    """Never sent for the server to take it for another."""
    assert wrong(a_place(like=server), thinking=thinking) == [
        f"experiment.toml: models.m.thinking: lab does not take {thinking!r} ({right})"
    ]


def test_every_problem_of_a_deployment_and_its_model_is_named_at_once() -> None:
    """A person corrects a file once."""
    told = wrong(a_place(like="vlm", answer=("contents",), thinking={"of": {}}), thinking="maximal")
    assert [line.split(": ")[1] for line in told] == [
        "providers.lab.like",
        "providers.lab.answer",
        "providers.lab.thinking.of",
        "models.m.thinking",
    ]


@pytest.mark.parametrize(
    ("server", "options"),
    [("openai", {"include_usage": True}), ("vllm", {"include_usage": True}), ("mistral", None), ("zai", None)],
)
def test_a_stream_asks_for_its_usage_where_that_is_understood(server: str, options: dict[str, Any] | None) -> None:
    """A server that does not know the field tells the usage unasked."""
    body = sent(a_place(like=server), stream=True)
    assert body.pop("stream") is True
    assert body == ({} if options is None else {"stream_options": options})


@pytest.mark.parametrize(
    ("place", "stream", "headers"),
    [
        (a_place(like="llamacpp"), True, {"connection": "close"}),
        (a_place(), True, {"connection": "close"}),
        (a_place(like="llamacpp"), False, {}),
        (a_place(like="vllm"), True, {}),
        (BUILTIN["openrouter"], True, {}),
    ],
)
def test_a_connection_that_the_server_will_hang_up_is_not_kept(
    place: Deployment, stream: bool, headers: dict[str, str]
) -> None:
    """llama.cpp closes it after a stream unannounced, and the next call on it would be forfeited."""
    assert openai.encode([asked(place, stream=stream)], place).headers == headers


@pytest.mark.parametrize(
    ("place", "format_"),
    [
        (a_place(like="vllm"), "base64"),
        (a_place(like="openai"), "base64"),
        (a_place(like="sglang"), "float"),
        (a_place(), "float"),
        (BUILTIN["openai"], "float"),
    ],
)
def test_vectors_are_asked_for_in_base64_where_the_server_gives_it(place: Deployment, format_: str) -> None:
    """Built-in deployments go on being asked for floats: their keys stand for these bytes."""
    model = Model(name="e", provider=place, model="e")
    request = Form(model, opening.profile(place, model)).embed("a text", "query")
    assert orjson.loads(openai.encode([request], place).body)["encoding_format"] == format_


@pytest.mark.parametrize(("server", "version"), [("openai", 1), ("deepseek", 1), ("novita", 2), ("together", 2)])
def test_the_version_is_the_servers(server: str, version: int) -> None:
    """A server whose bytes changed has other keys; the replies bought from all others stand."""
    assert asked(BUILTIN[server]).adapter == f"openai/{version}"


@pytest.mark.parametrize("server", ["deepseek", "openrouter", "deepinfra", "mistral", "together", "novita"])
def test_a_built_in_servers_other_cap_stands_in_the_key(server: str) -> None:
    """Replies were bought under such keys; a deployment that is like the server says so by `like`, and may name a field."""
    capped = {"max_output_tokens": 9}
    assert asked(BUILTIN[server], **capped).adapter.split()[1:] == ["cap=max_tokens"]
    assert asked(a_place(like=server), **capped).adapter.split()[1:] == [f"like={server}"]
    named = a_place(like=server, cap_field="n_predict")
    assert asked(named, **capped).adapter.split()[1:] == ["cap=n_predict", f"like={server}"]


def test_what_the_limits_in_headers_count_over() -> None:
    """Groq states requests a day and tokens a minute; of most servers it is not known."""
    assert facts.of(BUILTIN["groq"]).windows == {"requests": 86_400, "tokens": 60}
    assert facts.of(a_place()).windows == {}


def test_every_known_server_names_rules_that_exist() -> None:
    """A table of ours passes the test that a person's table must pass."""
    for name, known in facts.SERVERS.items():
        assert not list(facts.problems(a_place(like=name, answer=known.answer, thinking=known.thinking)))


@pytest.mark.parametrize(
    ("dialect", "fields", "places"),
    [
        ("openai", {"n": 2, "max_tokens": 9}, ["max_tokens", "n"]),
        (
            "openai-responses",
            {"max_output_tokens": 9, "previous_response_id": "r"},
            ["max_output_tokens", "previous_response_id"],
        ),
        ("openai-responses", {"reasoning": {"effort": "low", "summary": "auto"}}, []),
        ("anthropic", {"system": "x", "max_tokens": 9}, ["max_tokens", "system"]),
        ("anthropic", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, []),
        ("google", {"generationConfig": {"candidateCount": 4}}, ["generationConfig.candidateCount"]),
        ("google", {"generationConfig": {"max_output_tokens": 4}}, ["generationConfig.max_output_tokens"]),
        ("google", {"generation_config": {"candidate_count": 4}}, ["generation_config"]),
        ("google", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, []),
        ("bedrock", {"inferenceConfig": {"maxTokens": 9}}, ["inferenceConfig.maxTokens"]),
        ("bedrock", {"additionalModelRequestFields": {"max_tokens": 9}}, ["additionalModelRequestFields.max_tokens"]),
        ("bedrock", {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}}, []),
        ("cohere", {"max_tokens": 9}, ["max_tokens"]),
    ],
)
def test_a_switch_of_thinking_sets_nothing_that_bounds_a_call(
    dialect: str, fields: dict[str, Any], places: list[str]
) -> None:
    """In every dialect, also inside its objects: four candidates cost four times what was reserved."""
    place = a_place(dialect=dialect, thinking={"low": fields})
    keys: dict[str, Any] = {"thinking": "low", "max_output_tokens": 99}
    told = wrong(place, **keys) if places else []
    assert [line.split(": ")[1] for line in told] == [f"providers.lab.thinking.low.{name}" for name in places]
    if not places:
        opening.profile(place, Model(name="m", provider=place, model="m", **keys))


@pytest.mark.parametrize("field", ["messages", "model", "n", "stream", "temperature", ""])
def test_the_output_cap_does_not_go_where_something_else_stands(field: str) -> None:
    """It would go out in the place of the prompt, and bound nothing."""
    (told,) = wrong(a_place(cap_field=field))
    assert told.startswith(f"experiment.toml: providers.lab.cap_field: the output cap cannot go as {field!r}")


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("chat", {"dimensions": 8}),
        ("chat", {"input_type": True}),
        ("chat", {"normalize": True}),
        ("chat", {"instruction": {"query": "q: "}}),
        ("chat", {"max_input_tokens": 5}),
        ("embed", {"temperature": 0}),
        ("embed", {"max_output_tokens": 9}),
        ("embed", {"thinking": "off"}),
        ("embed", {"stream": True}),
    ],
)
def test_a_key_that_no_call_carries_is_refused(kind: Literal["chat", "embed"], keys: dict[str, Any]) -> None:
    """One dropped in silence would be believed to hold."""
    place = a_place()
    model = Model(name="m", provider=place, model="m", **keys)
    (problem,) = opening.unable(model, opening.profile(place, model), kind)
    assert problem.place == f"models.m.{next(iter(keys))}"
    other: Literal["chat", "embed"] = "embed" if kind == "chat" else "chat"
    assert opening.unable(model, opening.profile(place, model), other) == []
