"""The anthropic dialect, messages: encode, decode and the table of stop reasons; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import Problem, invariant
from judgerun.model.experiment import Deployment, Model
from judgerun.model.profile import JobLimits, Profile
from judgerun.model.reply import Failure, Finish, Reply, Usage
from judgerun.model.request import Request
from judgerun.providers import body as bodies
from judgerun.providers import claude, fault, stream
from judgerun.providers.jobs.flow import job_limits
from judgerun.providers.usage import beside, count
from judgerun.providers.wire import WireCall, WireReply

VERSION = "anthropic/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

API = "2023-06-01"
"""The version of the API that is asked for."""

JOBS = JobLimits(requests=100_000, bytes=256_000_000, factor="0.5")

FINISH: Mapping[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "pause_turn": Finish.TOOL,  # a tool of the server has more to do: the turn is not at its end
    "refusal": Finish.REFUSAL,
}
"""A word that does not stand here is `unknown`, never `stop`."""

OWNED: Mapping[str, str] = {
    "model": "the key `model`",
    "messages": "a prompt file",
    "system": "the [system] part of a prompt file",
    "max_tokens": "the key `max_output_tokens`",
    "temperature": "the key `temperature`",
    "thinking": "the key `thinking`, or a word of its own in the provider's table",
    "output_config.effort": "the key `thinking`",
    "stream": "the key `stream`",
}
"""Body fields that `extra` may not hold, and what says them instead."""

SWITCHED = frozenset({"thinking", "output_config.effort"})
"""Those of them that a switch of thinking sets."""

_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment. Thinking counts towards `max_tokens`."""
    return Profile(
        dialect="anthropic",
        adapter=VERSION,
        thinking=frozenset({"off", "tokens", *claude.WORDS, *deployment.thinking}),
        reasoning=deployment.reasoning or "inside",
        answer=deployment.answer or ("content",),
        parameters=frozenset({"temperature", "max_output_tokens", "thinking", "extra", "stream"}),
        required=frozenset({"max_output_tokens"}),
        owned=frozenset(OWNED) - SWITCHED,
        lacks=bodies.lacks(OWNED),
        jobs=job_limits(deployment, JOBS),
    )


def unfit(model: Model) -> Iterator[Problem]:
    """What the API would refuse in the keys of this model taken together."""
    return claude.unfit(model)


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The headers that carry the key and name the version of the API."""
    version = {"anthropic-version": API}
    return {**version, "x-api-key": key} if key else version


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request."""
    (request,) = requests
    invariant(request.kind == "chat", "the anthropic dialect has no embeddings")
    return WireCall(path="/messages", body=orjson.dumps(_body(request, deployment)))


def _body(request: Request, deployment: Deployment) -> dict[str, Any]:
    payload = request.payload
    invariant(payload.keys() <= _CHAT, f"the anthropic dialect cannot send {sorted(payload.keys() - _CHAT)}")
    body = bodies.stripped(payload.get("extra", {}), OWNED)
    if "thinking" in payload:
        own = deployment.switch(payload["thinking"])
        body = bodies.merged(body, claude.thinking(payload["model"], payload["thinking"]) if own is None else own)
    system, messages = _split(payload["messages"])
    body |= {"model": payload["model"], "messages": messages, "max_tokens": payload["max_output_tokens"]}
    if system:
        body["system"] = system
    if "temperature" in payload:
        body["temperature"] = payload["temperature"]
    if "stream" in request.adapter.split():
        body["stream"] = True
    return body


def _split(messages: Sequence[Mapping[str, str]]) -> tuple[str | list[dict[str, str]], list[Mapping[str, str]]]:
    """The system messages at the head, and the others. One further down keeps its place: what a model makes of it is its own."""
    head = 0
    while head < len(messages) and messages[head]["role"] == "system":
        head += 1
    texts = [message["content"] for message in messages[:head]]
    system = texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]
    return system, list(messages[head:])


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The reply, or why there is none. The status is a success (2xx)."""
    held = _streamed(wire) if stream.streamed(wire) else bodies.read(wire)
    return held if isinstance(held, Failure) else _reply(held, wire)


def _reply(held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    content = bodies.objects(held.get("content"))
    if content is None:
        return fault.malformed(wire, "the body has no content")
    text = bodies.text(block.get("text") for block in content if block.get("type") == "text")
    thoughts = bodies.text(block.get("thinking") for block in content if block.get("type") == "thinking")
    if text is None or thoughts is None:
        return fault.malformed(wire, "a block of the content has no text")
    reason = bodies.word(held.get("stop_reason"))
    finish = FINISH.get(reason or "", Finish.UNKNOWN)
    category = bodies.word(bodies.mapping(held.get("stop_details")).get("category"))
    return bodies.reply(
        wire,
        finish=finish,
        finish_raw=f"{reason}: {category}" if reason == "refusal" and category else reason,
        text=text,
        thoughts=thoughts,
        usage=usage(held.get("usage"), said_something=bool(text)),
        served_model=bodies.word(held.get("model")),
    )


def usage(told: Any, *, said_something: bool) -> Usage:
    """The buckets of a `usage` object. `input_tokens` are the fresh ones alone; `output_tokens` hold the thinking, which older
    bodies do not tell apart. `said_something`: the reply has visible text, so that 0 output tokens cannot be true.
    """
    told = bodies.mapping(told)
    return beside(
        fresh=count(told.get("input_tokens")),
        read=count(told.get("cache_read_input_tokens")),
        written=count(told.get("cache_creation_input_tokens")),
        hour=count(bodies.mapping(told.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        output=count(told.get("output_tokens")),
        thought=count(bodies.mapping(told.get("output_tokens_details")).get("thinking_tokens")),
        said_something=said_something,
    )


def _streamed(wire: WireReply) -> dict[str, Any] | Failure:
    """The message that a stream of events makes. One without its last event has broken off."""
    events = bodies.events(wire)
    if isinstance(events, Failure):
        return events
    named = {str(event.get("type")): event for event in events}
    if "error" in named:
        return fault.in_band(named["error"].get("error"), wire)
    if "message_start" not in named or "message_stop" not in named:
        return fault.malformed(wire, "the stream ends before its message")
    start = bodies.mapping(named["message_start"].get("message"))
    last = named.get("message_delta", {})
    counted = {name: value for name, value in bodies.mapping(last.get("usage")).items() if value is not None}
    # The output that the start counts is what there was of it then.
    input_ = {
        name: value for name, value in bodies.mapping(start.get("usage")).items() if not name.startswith("output")
    }
    return {
        **start,
        **bodies.mapping(last.get("delta")),
        "usage": {**input_, **counted},
        "content": _blocks(events),
    }


def _blocks(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of the content, each with the pieces that came after its start."""
    blocks: dict[str, dict[str, Any]] = {}
    for event in events:
        index = str(event.get("index"))
        if event.get("type") == "content_block_start":
            blocks[index] = dict(bodies.mapping(event.get("content_block")))
        elif event.get("type") == "content_block_delta" and index in blocks:
            delta, block = bodies.mapping(event.get("delta")), blocks[index]
            for name in ("text", "thinking"):
                if delta.get("type") == f"{name}_delta":
                    block[name] = bodies.text((block.get(name, ""), delta.get(name)))
    return list(blocks.values())
