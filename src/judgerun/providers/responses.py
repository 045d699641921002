"""The openai-responses dialect: encode, decode and the tables of finishes and items; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import EXPERIMENT, Problem, invariant
from judgerun.model.experiment import Deployment, Model
from judgerun.model.profile import JobLimits, Profile
from judgerun.model.reply import Failure, Finish, Reply
from judgerun.model.request import Request
from judgerun.providers import body as bodies
from judgerun.providers import fault, stream, usage
from judgerun.providers.jobs.flow import job_limits
from judgerun.providers.wire import WireCall, WireReply

VERSION = "openai-responses/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

JOBS = JobLimits(requests=50_000, bytes=200_000_000, factor="0.5")

CAP_MIN = 16
"""OpenAI refuses a smaller output cap."""

EFFORT: Mapping[str, str] = {"off": "none", "low": "low", "medium": "medium", "high": "high"}
"""What `thinking` becomes: the effort of `reasoning`."""

DONE = frozenset({"completed", "complete"})
"""Statuses of a whole answer."""

WAITING = frozenset({"queued", "in_progress"})
"""Statuses of a response that is made in the background."""

INCOMPLETE: Mapping[str, Finish] = {"max_output_tokens": Finish.LENGTH, "content_filter": Finish.FILTER}
"""Why an answer is not whole. A reason that does not stand here is `unknown`, never `stop`."""

CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_approval_request",
    }
)
"""Items that wait for something from us. Tools that the server itself runs (a web search, an interpreter) are none of them."""

_UNCOUNTED = "a prompt file: no bound counts the input that this brings in"
OWNED: Mapping[str, str] = {
    "model": "the key `model`",
    "input": "a prompt file",
    "instructions": "the [system] part of a prompt file",
    "max_output_tokens": "the key `max_output_tokens`",
    "temperature": "the key `temperature`",
    "reasoning.effort": "the key `thinking`",
    "stream": "the key `stream`",
    "background": "nothing: replies are waited for",
    "previous_response_id": _UNCOUNTED,
    "conversation": _UNCOUNTED,
    "prompt": _UNCOUNTED,
}
"""Body fields that `extra` may not hold, and what says them instead."""

SWITCHED = frozenset({"reasoning.effort"})
"""Those of them that a switch of thinking sets."""

_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment. Reasoning counts towards `max_output_tokens`."""
    return Profile(
        dialect="openai-responses",
        adapter=VERSION,
        thinking=frozenset({*EFFORT, *deployment.thinking}),
        reasoning=deployment.reasoning or "inside",
        answer=deployment.answer or ("content",),
        parameters=frozenset({"temperature", "max_output_tokens", "thinking", "extra", "stream"}),
        owned=frozenset(OWNED) - SWITCHED,
        lacks=bodies.lacks(OWNED),
        jobs=job_limits(deployment, JOBS),
    )


def unfit(model: Model) -> Iterator[Problem]:
    """What the API would refuse in the keys of this model taken together."""
    cap = model.max_output_tokens
    if model.provider.builtin and cap is not None and cap < CAP_MIN:
        place = f"models.{model.name}.max_output_tokens"
        yield Problem(EXPERIMENT, place, f"the API takes no cap of {cap}", f"{CAP_MIN} and more")


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The headers that carry the key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request. The provider is asked to store nothing, unless `extra` says otherwise."""
    (request,) = requests
    invariant(request.kind == "chat", "the openai-responses dialect has no embeddings")
    return WireCall(path="/responses", body=orjson.dumps(_body(request, deployment)))


def _body(request: Request, deployment: Deployment) -> dict[str, Any]:
    payload = request.payload
    invariant(payload.keys() <= _CHAT, f"the openai-responses dialect cannot send {sorted(payload.keys() - _CHAT)}")
    body = {"store": False, **bodies.stripped(payload.get("extra", {}), OWNED)}
    if "thinking" in payload:
        own = deployment.switch(payload["thinking"])
        effort = {"reasoning": {"effort": EFFORT[payload["thinking"]]}} if own is None else own
        body = bodies.merged(body, effort)
    body |= {"model": payload["model"], "input": payload["messages"]}
    for name in ("temperature", "max_output_tokens"):
        if name in payload:
            body[name] = payload[name]
    if "stream" in request.adapter.split():
        body["stream"] = True
    return body


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The reply, or why there is none. The status is a success (2xx)."""
    held = _streamed(wire) if stream.streamed(wire) else bodies.read(wire)
    return held if isinstance(held, Failure) else _reply(held, wire)


def _reply(held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    status = bodies.word(held.get("status"))
    if status not in DONE and status != "incomplete":
        kind = "a background response" if status in WAITING else "a response that is no answer"
        return fault.malformed(wire, f"{kind}: its status is {status}")
    items = bodies.objects(held.get("output"))
    if items is None:
        return fault.malformed(wire, "the body has no output")
    parts = list(_parts(items))
    text = _joined(parts, "output_text")
    refusal = _joined(parts, "refusal")
    thoughts = _joined(parts, "thought")
    if text is None or refusal is None or thoughts is None:
        return fault.malformed(wire, "a part of the output has no text")
    finish, raw = _finish(held, status, items)
    if refusal.strip():
        finish, text = Finish.REFUSAL, text or refusal
    told = bodies.mapping(held.get("usage"))
    return bodies.reply(
        wire,
        finish=finish,
        finish_raw=raw,
        text=text,
        thoughts=thoughts,
        usage=usage.chat(_named(told), said_something=bool(text)),
        served_model=bodies.word(held.get("model")),
        reported_tokens=usage.count(told.get("total_tokens")),
        reported_cost=usage.cost(told),
    )


def _finish(held: Mapping[str, Any], status: str, items: Sequence[Mapping[str, Any]]) -> tuple[Finish, str]:
    """The finish and the provider's own word for it: the reason where an answer is not whole, else the status."""
    if status not in DONE:
        reason = bodies.word(bodies.mapping(held.get("incomplete_details")).get("reason"))
        return INCOMPLETE.get(reason or "", Finish.UNKNOWN), reason or status
    return (Finish.TOOL if any(item.get("type") in CALLS for item in items) else Finish.STOP), status


def _parts(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Kind and text of each part. Reasoning, its summary, and what a model remarks on the way to its answer are thoughts."""
    for item in items:
        held = [*(bodies.objects(item.get("summary")) or ()), *(bodies.objects(item.get("content")) or ())]
        if item.get("type") == "reasoning" or (item.get("type") == "message" and item.get("phase") == "commentary"):
            yield from (("thought", part.get("text")) for part in held)
        elif item.get("type") == "message":
            yield from ((str(part.get("type")), part.get("text", part.get("refusal"))) for part in held)


def _joined(parts: Sequence[tuple[str, Any]], kind: str) -> str | None:
    return bodies.text(text for name, text in parts if name == kind)


def _named(told: Mapping[str, Any]) -> dict[str, Any]:
    """This dialect's usage under the names of the chat endpoint: what they mean is the same."""
    names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
    details = {f"{name}_details": f"{chat}_details" for name, chat in names.items()}
    return {chat: told.get(name) for name, chat in {**names, **details}.items()}


def _streamed(wire: WireReply) -> Mapping[str, Any] | Failure:
    """The response that the last event of a stream holds. A stream without one has broken off."""
    events = bodies.events(wire)
    if isinstance(events, Failure):
        return events
    for event in reversed(events):
        if event.get("type") == "error" or event.get("error"):
            return fault.in_band(event.get("error") or event, wire)
        if event.get("type") in _ENDS:
            held = bodies.mapping(event.get("response"))
            return fault.in_band(held["error"], wire) if held.get("error") else held
    return fault.malformed(wire, "the stream ends before its response")
