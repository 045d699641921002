"""The openai dialect, chat completions and embeddings: encode, decode and the finish map; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import invariant
from judgerun.model.experiment import Deployment
from judgerun.model.profile import JobLimits, Profile
from judgerun.model.reply import Failure, Finish, Reply
from judgerun.model.request import Request
from judgerun.providers import body as bodies
from judgerun.providers import facts, fault, stream, usage, vectors
from judgerun.providers.facts import Facts
from judgerun.providers.jobs.flow import job_limits
from judgerun.providers.wire import WireCall, WireReply

NAME = "openai"

JOBS = JobLimits(requests=50_000, bytes=200_000_000, factor="0.5", embed=True)

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
    "safety": Finish.FILTER,  # Gemini's own words, as openrouter tells them
    "recitation": Finish.FILTER,
    "prohibited_content": Finish.FILTER,
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


_LESS = frozenset({Finish.LENGTH, Finish.FILTER, Finish.REFUSAL})
"""What a router's `stop` may hide: the upstream's own word is believed where it says one of these."""

_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})
_EMBED = frozenset({"model", "text", "role", "dimensions", "input_type", "normalize", "max_input_tokens", "extra"})
_SENT = frozenset(
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
        "stream",
    }
)


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment. Its own table goes before the facts of the server that it
    is like, and these before the dialect's.

    The adapter is the dialect and the version of the server's facts: part of every request key.
    """
    known = facts.of(deployment)
    words = {*known.thinking, *deployment.thinking}
    other_cap = deployment.builtin and known.cap_field != facts.PLAIN.cap_field
    return Profile(
        dialect=NAME,
        adapter=f"{NAME}/{known.version}",
        chat=True,
        embed=True,
        thinking=frozenset(words | {"tokens"} if known.tokens else words),
        reasoning=deployment.reasoning or known.reasoning,
        cap_field=known.cap_field if other_cap else None,
        answer=deployment.answer or known.answer,
        texts_max=known.texts_max,
        texts_tokens_max=known.texts_tokens_max,
        parameters=_SENT,
        # Of other servers with a batch API in this shape the price knows: see jobs/flow.
        jobs=None if deployment.builtin and deployment.name != NAME else job_limits(deployment, JOBS),
    )


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The headers that carry the key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request, or a batch of embedding requests that differ in their text alone."""
    first = requests[0]
    if first.kind == "chat":
        invariant(len(requests) == 1, "a chat call carries one request")
        body = _chat_body(first, deployment)
        once = body.get("stream") is True and facts.of(deployment).hangs_up
        headers = {"connection": "close"} if once else {}
        return WireCall(path="/chat/completions", body=orjson.dumps(body), headers=headers)
    return WireCall(path="/embeddings", body=orjson.dumps(_embed_body(requests, deployment)))


def _chat_body(request: Request, deployment: Deployment) -> dict[str, Any]:
    payload, known = request.payload, facts.of(deployment)
    invariant(payload.keys() <= _CHAT, f"the openai dialect cannot send {sorted(payload.keys() - _CHAT)}")
    words = request.adapter.split()  # the adapter in the request's own key says how it goes out
    owned = {name: payload[name] for name in ("model", "messages", "temperature") if name in payload}
    if "max_output_tokens" in payload:
        owned[_cap_field(words, known)] = payload["max_output_tokens"]
    body: dict[str, Any] = {"model": None, "messages": None, **payload.get("extra", {}), **owned}
    if "thinking" in payload:
        fields = facts.thinking(payload["thinking"], deployment)
        invariant(fields is not None, f"{deployment.name} cannot be told to think {payload['thinking']!r}")
        # What we own goes in last: no other field may lift the cap that a reservation counted on.
        body = {**bodies.merged(body, fields or {}), **owned}
    if "stream" in words:
        body["stream"] = True
        if known.include_usage:
            body["stream_options"] = {"include_usage": True}
    return body


def _cap_field(words: Sequence[str], known: Facts) -> str:
    """The output cap's field: the one in the adapter (`openai/1 cap=FIELD`), else the server's."""
    return next((word.removeprefix("cap=") for word in words if word.startswith("cap=")), known.cap_field)


def _embed_body(requests: Sequence[Request], deployment: Deployment) -> dict[str, Any]:
    payload = requests[0].payload
    invariant(payload.keys() <= _EMBED, f"the openai dialect cannot send {sorted(payload.keys() - _EMBED)}")
    # Built-in deployments have been asked for floats since version 1; base64 is the same numbers in a quarter of the bytes.
    packed = deployment.like is not None and facts.of(deployment).base64
    return {
        "encoding_format": "base64" if packed else "float",
        **payload.get("extra", {}),
        "model": payload["model"],
        "input": [request.payload["text"] for request in requests],
        **{name: payload[name] for name in ("dimensions", "input_type") if name in payload},
    }


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The replies in the order of the requests, or why there are none. The status is a success (2xx)."""
    held = _streamed(wire) if stream.streamed(wire) else bodies.read(wire)
    if isinstance(held, Failure):
        return held
    return vectors.decode(requests, held, wire) if requests[0].kind == "embed" else _chat(held, wire)


def _streamed(wire: WireReply) -> dict[str, Any] | Failure:
    """The body that a stream adds up to: the pieces of its first choice joined, of everything else the last word."""
    body: dict[str, Any] = {}
    choice: dict[str, Any] = {}
    pieces: dict[str, list[Any]] = {"content": [], "reasoning": [], "refusal": []}
    done = False
    for event in stream.events(wire.body):
        if event.data == stream.DONE:
            done = True
            break
        try:
            chunk = bodies.loads(event.data)
        except orjson.JSONDecodeError:
            return fault.malformed(wire, "an event of the stream is no JSON: it was cut off")
        if not isinstance(chunk, dict):
            return fault.malformed(wire, "an event of the stream is no JSON object")
        if event.name == "error" or chunk.get("error"):
            return fault.in_band(chunk.get("error") or chunk, wire)
        listed = bodies.objects(chunk.get("choices")) or []
        if listed and not any(piece.get("finish_reason") for piece in listed):
            chunk.pop("usage", None)  # of what has been said so far
        body |= {name: value for name, value in chunk.items() if value is not None}
        for piece in listed:
            if not piece.get("index"):
                _join(choice, pieces, piece)
    if not done and choice.get("finish_reason") is None:
        return fault.malformed(wire, "the stream was cut off: it told neither a finish reason nor [DONE]")
    joined = {name: bodies.text(held) for name, held in pieces.items()}
    if joined["content"] is None:
        return fault.malformed(wire, "a piece of the stream is neither text nor parts of text")
    return {**body, "choices": [{**choice, "message": joined}] if choice else []}


def _join(choice: dict[str, Any], pieces: Mapping[str, list[Any]], piece: Mapping[str, Any]) -> None:
    """Add one piece of a choice to what there is of it; text that is none is kept as None."""
    delta = bodies.mapping(piece.get("delta"))
    pieces["content"].append(_text(delta.get("content", piece.get("text"))))
    pieces["reasoning"].append(_thoughts(delta))
    pieces["refusal"].append(delta.get("refusal") or "")
    choice |= {"index": 0, **{name: value for name, value in piece.items() if value}}


def _chat(body: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    choices = bodies.objects(body.get("choices"))
    if not choices:
        return fault.malformed(wire, "the body has no choices")
    choice = choices[0]
    finish, raw = _finish(choice)
    if finish is Finish.ERROR or choice.get("error"):
        return fault.in_band(choice.get("error") or {"message": f"it finished with {raw!r}"}, wire)
    message = _message(choice, finish)
    if message is None:
        return fault.malformed(wire, "the choice has no message")
    text = _text(message.get("content"))
    if text is None:
        return fault.malformed(wire, "the message's content is neither text nor parts of text")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        finish, text = Finish.REFUSAL, text or refusal
    told = body.get("usage") or bodies.mapping(body.get("x_groq")).get("usage")
    return bodies.reply(
        wire,
        finish=finish,
        finish_raw=raw,
        text=text,
        thoughts=_thoughts(message),
        usage=usage.chat(told, said_something=bool(text)),
        served_model=bodies.word(body.get("model")),
        fingerprint=" ".join(filter(None, map(bodies.word, map(body.get, _SERVED)))) or None,
        reported_tokens=usage.total(told),
        reported_cost=usage.cost(told),
    )


_SERVED = ("provider", "system_fingerprint")
"""What tells one serving of a model from another: the upstream that a router chose, and the server's own mark."""


def _finish(choice: Mapping[str, Any]) -> tuple[Finish, str | None]:
    """The finish, and the words for it: the server's, then a router's upstream's, the stop string that ended it (a number is the
    end token), and the categories that a filter names.
    """
    raw, native = choice.get("finish_reason"), bodies.word(choice.get("native_finish_reason"))
    words = [raw] if isinstance(raw, str) else []
    finish = FINISH.get(words[0], Finish.UNKNOWN) if words else Finish.UNKNOWN
    if native is not None and native != raw:
        words.append(f"native {native}")
        upstream = FINISH.get(native.lower(), Finish.UNKNOWN)
        finish = upstream if finish is Finish.STOP and upstream in _LESS else finish
    words += [f"matched {held!r}" for held in map(choice.get, ("matched_stop", "stop_reason")) if isinstance(held, str)]
    filters = bodies.mapping(choice.get("content_filter_results")).items()
    words += [f"filtered {name}" for name, held in filters if bodies.mapping(held).get("filtered") is True]
    return finish, "; ".join(words) if words else None


def _message(choice: Mapping[str, Any], finish: Finish) -> Mapping[str, Any] | None:
    """The message of a choice; a legacy completion has its text alone, and a filtered one may have nothing to say."""
    message = choice.get("message")
    if isinstance(message, dict):
        return message
    if isinstance(choice.get("text"), str):
        return {"content": choice["text"]}
    return {} if finish is Finish.FILTER else None


def _text(content: Any) -> str | None:
    """The visible answer: a string, or the text parts of a list; thinking parts are not visible. None when it is neither."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    parts = bodies.objects(content)
    if parts is None:
        return None
    return bodies.text(part.get("text", "") for part in parts if part.get("type") == "text")


def _thoughts(message: Mapping[str, Any]) -> str:
    """The reasoning text beside an answer: a field of its own, or Mistral's thinking parts."""
    told = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(told, str):
        return told
    parts = bodies.objects(message.get("content")) or []
    return "".join(_text(part.get("thinking")) or "" for part in parts if part.get("type") == "thinking")
