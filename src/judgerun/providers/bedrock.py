"""The bedrock dialect, converse by API key (requests are never signed): encode, decode and the table of stop reasons; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import EXPERIMENT, Problem, invariant
from judgerun.model.experiment import Deployment, Model
from judgerun.model.profile import Profile
from judgerun.model.reply import Failure, Finish, Reply, Usage
from judgerun.model.request import Request
from judgerun.providers import body as bodies
from judgerun.providers import claude, fault
from judgerun.providers.usage import beside, count
from judgerun.providers.wire import WireCall, WireReply

VERSION = "bedrock/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

FINISH: Mapping[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "guardrail_intervened": Finish.FILTER,
    "content_filtered": Finish.FILTER,
    "malformed_model_output": Finish.ERROR,
    "malformed_tool_use": Finish.ERROR,
}
"""A word that does not stand here is `unknown`, never `stop`."""

MODEL_FIELDS = "additionalModelRequestFields"
"""Where a model's own fields stand, such as Claude's thinking."""

OWNED: Mapping[str, str] = {
    "messages": "a prompt file",
    "system": "the [system] part of a prompt file",
    "inferenceConfig.maxTokens": "the key `max_output_tokens`",
    "inferenceConfig.temperature": "the key `temperature`",
    f"{MODEL_FIELDS}.max_tokens": "the key `max_output_tokens`",
    f"{MODEL_FIELDS}.temperature": "the key `temperature`",
    f"{MODEL_FIELDS}.thinking": "the key `thinking`, or a word of its own in the provider's table",
    f"{MODEL_FIELDS}.output_config.effort": "the key `thinking`",
}
"""Body fields that `extra` may not hold, and what says them instead."""

SWITCHED = frozenset({f"{MODEL_FIELDS}.thinking", f"{MODEL_FIELDS}.output_config.effort"})
"""Those of them that a switch of thinking sets."""

_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment. It has no stream of text events, and no jobs here."""
    return Profile(
        dialect="bedrock",
        adapter=VERSION,
        thinking=frozenset({"off", "tokens", *claude.WORDS, *deployment.thinking}),
        reasoning=deployment.reasoning or "inside",
        answer=deployment.answer or ("content",),
        parameters=frozenset({"temperature", "max_output_tokens", "thinking", "extra"}),
        owned=frozenset(OWNED) - SWITCHED,
        lacks=bodies.lacks(OWNED),
    )


def unfit(model: Model) -> Iterator[Problem]:
    """What the API would refuse in the keys of this model taken together, and an id that cannot stand in a path."""
    if "/" in model.model:
        place, right = f"models.{model.name}.model", "the id of the model or of its inference profile"
        yield Problem(EXPERIMENT, place, "an id with a slash cannot stand in the path of a call", right)
    yield from claude.unfit(model)


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The headers that carry the key, a Bedrock API key (AWS_BEARER_TOKEN_BEDROCK)."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request."""
    (request,) = requests
    invariant(request.kind == "chat", "the bedrock dialect has no embeddings")
    body = orjson.dumps(_body(request.payload, deployment))
    return WireCall(path=f"/model/{request.payload['model']}/converse", body=body)


def _body(payload: Mapping[str, Any], deployment: Deployment) -> dict[str, Any]:
    invariant(payload.keys() <= _CHAT, f"the bedrock dialect cannot send {sorted(payload.keys() - _CHAT)}")
    body = bodies.stripped(payload.get("extra", {}), OWNED)
    if "thinking" in payload:
        own = deployment.switch(payload["thinking"])
        asked = {MODEL_FIELDS: claude.thinking(payload["model"], payload["thinking"])} if own is None else own
        body = bodies.merged(body, {name: fields for name, fields in asked.items() if fields})
    names = {"max_output_tokens": "maxTokens", "temperature": "temperature"}
    config = {field: payload[name] for name, field in names.items() if name in payload}
    body = bodies.merged(body, {"inferenceConfig": config} if config else {})
    messages = [(message["role"], [{"text": message["content"]}]) for message in payload["messages"]]
    body["messages"] = [{"role": role, "content": content} for role, content in messages if role != "system"]
    system = [block for role, content in messages if role == "system" for block in content]
    return {**body, "system": system} if system else body


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The reply, or why there is none. The status is a success (2xx)."""
    held = bodies.read(wire)
    if isinstance(held, Failure):
        return held
    message = bodies.mapping(bodies.mapping(held.get("output")).get("message"))
    content = bodies.objects(message.get("content"))
    if content is None:
        return fault.malformed(wire, "the body has no content")
    text = bodies.text(block["text"] for block in content if "text" in block)
    reasoning = [
        bodies.mapping(bodies.mapping(block.get("reasoningContent")).get("reasoningText")) for block in content
    ]
    thoughts = bodies.text(block.get("text", "") for block in reasoning)
    if text is None or thoughts is None:
        return fault.malformed(wire, "a block of the content has no text")
    reason = bodies.word(held.get("stopReason"))
    finish = FINISH.get(reason or "", Finish.UNKNOWN)
    told = bodies.mapping(held.get("usage"))
    return bodies.reply(
        wire,
        finish=finish,
        finish_raw=reason,
        text=text,
        thoughts=thoughts,
        usage=usage(told, said_something=bool(text)),
        reported_tokens=count(told.get("totalTokens")),
    )


def usage(told: Mapping[str, Any], *, said_something: bool) -> Usage:
    """The buckets of a `usage` object. `inputTokens` are the fresh ones alone; `outputTokens` hold the reasoning, which is not told
    apart. `said_something`: the reply has visible text, so that 0 output tokens cannot be true.
    """
    hours = [item for item in bodies.objects(told.get("cacheDetails")) or () if item.get("ttl") == "1h"]
    return beside(
        fresh=count(told.get("inputTokens")),
        read=count(told.get("cacheReadInputTokens")),
        written=count(told.get("cacheWriteInputTokens")),
        hour=count(hours[0].get("inputTokens")) if hours else None,
        output=count(told.get("outputTokens")),
        said_something=said_something,
    )
