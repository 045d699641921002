"""The openai dialect, chat completions and embeddings: encode, decode and the finish map; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import invariant
from judgerun.model.experiment import Deployment
from judgerun.model.profile import Profile
from judgerun.model.reply import Failure, Finish, Reply
from judgerun.model.request import Request, digest
from judgerun.providers import fault, usage, vectors
from judgerun.providers.wire import WireCall, WireReply

VERSION = "openai/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

CAP_FIELD = "max_completion_tokens"
"""The output cap's field, where no deployment and no model names another."""

EFFORT: Mapping[str, Mapping[str, Any]] = {
    "off": {"reasoning_effort": "none"},
    "low": {"reasoning_effort": "low"},
    "medium": {"reasoning_effort": "medium"},
    "high": {"reasoning_effort": "high"},
}
EFFORTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # Its own switch turns thinking off; "none" is no word of its chat endpoint.
    "deepseek": {**EFFORT, "off": {"thinking": {"type": "disabled"}}},
}
"""What `thinking` becomes. Servers of one's own that know another switch take it through `extra`."""

FINISH: Mapping[str, Finish] = {
    "stop": Finish.STOP,
    "end_turn": Finish.STOP,
    "eos": Finish.STOP,
    "eos_token": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,  # mistral: the context window ended it
    "model_context_window_exceeded": Finish.LENGTH,
    "content_filter": Finish.FILTER,
    "sensitive": Finish.FILTER,  # zhipu
    "refusal": Finish.REFUSAL,
    "tool_calls": Finish.TOOL,
    "function_call": Finish.TOOL,
    "tool_use": Finish.TOOL,
    "error": Finish.ERROR,
    "abort": Finish.ERROR,
    "network_error": Finish.ERROR,
    "insufficient_system_resource": Finish.ERROR,  # deepseek
}
"""A word that does not stand here is `unknown`, never `stop`."""


_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})
_EMBED = frozenset({"model", "text", "role", "dimensions", "input_type", "normalize", "max_input_tokens", "extra"})


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment."""
    return Profile(
        dialect="openai",
        adapter=VERSION,
        chat=True,
        embed=True,
        thinking=frozenset(EFFORT),
        # DeepSeek has been seen to answer with a few tokens more than its cap: a hold needs a ceiling of its own.
        reasoning="unknown" if deployment.builtin and deployment.name == "deepseek" else "inside",
        parameters=frozenset(
            {
                "temperature",
                "max_output_tokens",
                "thinking",
                "extra",
                "dimensions",
                "instruction",
                "input_type",
                "normalize",
                "max_input_tokens",
            }
        ),
    )


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The headers that carry the key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request, or a batch of embedding requests that differ in their text alone."""
    first = requests[0]
    if first.kind == "chat":
        invariant(len(requests) == 1, "a chat call carries one request")
        return WireCall(path="/chat/completions", body=orjson.dumps(_chat_body(first, deployment)))
    return WireCall(path="/embeddings", body=orjson.dumps(_embed_body(requests)))


def _chat_body(request: Request, deployment: Deployment) -> dict[str, Any]:
    payload = request.payload
    invariant(payload.keys() <= _CHAT, f"the openai dialect cannot send {sorted(payload.keys() - _CHAT)}")
    # What we own goes in last: nothing in `extra` may lift the cap that a reservation counted on.
    body: dict[str, Any] = {"model": None, "messages": None, **payload.get("extra", {})}
    body["model"], body["messages"] = payload["model"], payload["messages"]
    if "temperature" in payload:
        body["temperature"] = payload["temperature"]
    if "max_output_tokens" in payload:
        body[_cap_field(request)] = payload["max_output_tokens"]
    if "thinking" in payload:
        body.update(EFFORTS.get(deployment.name if deployment.builtin else "", EFFORT)[payload["thinking"]])
    return body


def _cap_field(request: Request) -> str:
    """The output cap's field: the adapter in the request's own key says where it is not the dialect's (`openai/1 cap=FIELD`)."""
    words = request.adapter.split()[1:]
    return next((word.removeprefix("cap=") for word in words if word.startswith("cap=")), CAP_FIELD)


def _embed_body(requests: Sequence[Request]) -> dict[str, Any]:
    payload = requests[0].payload
    invariant(payload.keys() <= _EMBED, f"the openai dialect cannot send {sorted(payload.keys() - _EMBED)}")
    return {
        "encoding_format": "float",
        **payload.get("extra", {}),
        "model": payload["model"],
        "input": [request.payload["text"] for request in requests],
        **{name: payload[name] for name in ("dimensions", "input_type") if name in payload},
    }


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The replies in the order of the requests, or why there are none. The status is a success (2xx)."""
    try:
        body = orjson.loads(wire.body)
    except orjson.JSONDecodeError as error:
        return fault.malformed(wire, f"the body is no JSON: {error}")
    if not isinstance(body, dict):
        return fault.malformed(wire, "the body is no JSON object")
    if body.get("error"):
        return fault.in_band(body["error"], wire)
    if requests[0].kind == "embed":
        return vectors.decode(requests, body, wire)
    return _chat(body, wire)


def _chat(body: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return fault.malformed(wire, "the body has no choices")
    choice: Mapping[str, Any] = choices[0]
    raw = choice.get("finish_reason")
    finish_raw = raw if isinstance(raw, str) else None
    finish = Finish.UNKNOWN if finish_raw is None else FINISH.get(finish_raw, Finish.UNKNOWN)
    message = choice.get("message")
    if not isinstance(message, dict):
        if finish not in (Finish.FILTER, Finish.ERROR):  # these may come with nothing to say
            return fault.malformed(wire, "the choice has no message")
        message = {}
    text = _text(message.get("content"))
    if text is None:
        return fault.malformed(wire, "the message's content is neither text nor parts of text")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        finish, text = Finish.REFUSAL, text or refusal
    served, print_ = body.get("model"), body.get("system_fingerprint")
    told = body.get("usage")
    return (
        Reply(
            finish=finish,
            finish_raw=finish_raw,
            text=text,
            usage=usage.chat(told, said_something=bool(text)),
            served_model=served if isinstance(served, str) else None,
            fingerprint=print_ if isinstance(print_, str) and print_ else None,
            reported_cost=usage.cost(told),
            raw=wire.body,
            raw_digest=digest(wire.body),
        ),
    )


def _text(content: Any) -> str | None:
    """The visible answer: a string, or the text parts of a list; thinking parts are not visible. None when it is neither."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return None
    return "".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
