"""The google dialect (Gemini API, Vertex): generateContent, batchEmbedContents, the finish map; pure, bytes in and values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import orjson

from judgerun.errors import invariant
from judgerun.model.experiment import Deployment
from judgerun.model.profile import JobLimits, Lack, Profile
from judgerun.model.reply import Failure, Finish, Reply, Usage
from judgerun.model.request import Request
from judgerun.providers import body, fault, stream, vectors
from judgerun.providers.jobs.flow import job_limits
from judgerun.providers.usage import count
from judgerun.providers.wire import WireCall, WireReply

VERSION = "google/1"
"""Part of every request key: raised whenever the same payload would become other bytes."""

VERTEX = "aiplatform.googleapis.com"
"""The end of Vertex's hosts, before which a region may stand: they want a token where the Gemini API wants a key."""

JOBS = JobLimits(requests=100_000, bytes=19_000_000, factor="0.5")
"""The sum of inline requests stays under 20 MB; no number of requests is stated, so that the bytes end a job first."""

TASKS: Mapping[str, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}
"""The task types of our two roles; any other input type goes as it is written."""

ROLES: Mapping[str, str] = {"user": "user", "assistant": "model"}

THINKING: Mapping[str, Mapping[str, Any]] = {
    "off": {"thinkingBudget": 0},
    "low": {"thinkingLevel": "LOW"},
    "medium": {"thinkingLevel": "MEDIUM"},
    "high": {"thinkingLevel": "HIGH"},
}
"""What `thinking` becomes: a level for Gemini 3 and later, a budget of tokens for Gemini 2.5."""

FINISH: Mapping[str, Finish] = {
    "STOP": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "SAFETY": Finish.FILTER,
    "RECITATION": Finish.FILTER,
    "LANGUAGE": Finish.FILTER,
    "BLOCKLIST": Finish.FILTER,
    "PROHIBITED_CONTENT": Finish.FILTER,
    "SPII": Finish.FILTER,
    "MODEL_ARMOR": Finish.FILTER,  # vertex
    "IMAGE_SAFETY": Finish.FILTER,
    "IMAGE_PROHIBITED_CONTENT": Finish.FILTER,
    "IMAGE_RECITATION": Finish.FILTER,
    "UNEXPECTED_TOOL_CALL": Finish.TOOL,
    "TOO_MANY_TOOL_CALLS": Finish.TOOL,
    "MALFORMED_FUNCTION_CALL": Finish.ERROR,
    "IMAGE_OTHER": Finish.ERROR,
    "NO_IMAGE": Finish.ERROR,
}
"""A word that does not stand here is `unknown`, never `stop`; so are OTHER and FINISH_REASON_UNSPECIFIED, which tell nothing."""

OWNED: Mapping[str, str] = {
    "contents": "a prompt file",
    "systemInstruction": "the [system] part of a prompt file",
    "generationConfig.candidateCount": "the key `draws` of the stage",
    "generationConfig.maxOutputTokens": "the key `max_output_tokens`",
    "generationConfig.temperature": "the key `temperature`",
    "taskType": "the key `input_type`",
    "outputDimensionality": "the key `dimensions`",
    "cachedContent": "a prompt file: no bound counts the input that this brings in",
    "generation_config": "generationConfig",
    "system_instruction": "the [system] part of a prompt file",
    "generationConfig.candidate_count": "the key `draws` of the stage",
    "generationConfig.max_output_tokens": "the key `max_output_tokens`",
    "task_type": "the key `input_type`",
    "output_dimensionality": "the key `dimensions`",
    "cached_content": "a prompt file: no bound counts the input that this brings in",
}
"""Fields that `extra` may not hold, and what says them. The API takes each name in both spellings."""

_TASK_AS_TEXT = 'instruction = { query = "task: search result | query: ", document = "title: none | text: " }'
LACKS = (
    Lack(key="thinking", models=r"gemini-(1|2\.0)", right="leave it out: this model does not think"),
    Lack(
        key="thinking", models=r"gemini-2\.5-pro", takes=frozenset({"tokens"}), right="a number of tokens, at least 128"
    ),
    Lack(
        key="thinking",
        models=r"gemini-2\.5-flash",
        takes=frozenset({"off", "tokens"}),
        right='"off", or a number of tokens',
    ),
    Lack(
        key="thinking",
        models=r"gemini-3(\.\d+)?-pro",
        takes=frozenset({"low", "medium", "high", "tokens"}),
        right='"low" or "high": it cannot be turned off',
    ),
    Lack(key="input_type", models=r"gemini-embedding-2", right=f"{_TASK_AS_TEXT}: this model ignores a task type"),
    *body.lacks(OWNED),
)
"""What models do not take. Of a model that is not named here the API says it."""

_CHAT = frozenset({"model", "messages", "temperature", "max_output_tokens", "thinking", "extra"})
_EMBED = frozenset({"model", "text", "role", "dimensions", "input_type", "normalize", "extra"})


def profile(deployment: Deployment) -> Profile:
    """What plan and files must know of this dialect at this deployment."""
    gemini = not _vertex(deployment)  # Vertex embeds and takes jobs at endpoints of another shape, which are not spoken
    return Profile(
        dialect="google",
        adapter=VERSION,
        embed=gemini,
        thinking=frozenset({*THINKING, *deployment.thinking, "tokens"}),
        reasoning=deployment.reasoning or "inside",  # thoughts count against maxOutputTokens
        answer=deployment.answer or ("content",),
        parameters=frozenset(
            {
                "temperature",
                "max_output_tokens",
                "thinking",
                "extra",
                "stream",
                "dimensions",
                "instruction",
                "input_type",
                "normalize",
            }
        ),
        owned=frozenset(OWNED),
        lacks=LACKS,
        texts_max=100,  # the API refuses the 101st; it states no limit of tokens for all texts of a call
        jobs=job_limits(deployment, JOBS) if gemini else None,
    )


def _vertex(deployment: Deployment) -> bool:
    return (urlsplit(deployment.base_url).hostname or "").endswith(VERTEX)


def authorise(key: str | None, deployment: Deployment) -> Mapping[str, str]:
    """The header that carries the key; at Vertex, the token."""
    if not key:
        return {}
    return {"authorization": f"Bearer {key}"} if _vertex(deployment) else {"x-goog-api-key": key}


def encode(requests: Sequence[Request], deployment: Deployment) -> WireCall:
    """The HTTP call that carries one chat request, or a batch of embedding requests that differ in their text alone."""
    first = requests[0]
    name = _name(first)
    if first.kind == "embed":
        return WireCall(path=f"/{name}:batchEmbedContents", body=orjson.dumps(_embed_body(requests)))
    invariant(len(requests) == 1, "a chat call carries one request")
    sent = orjson.dumps(chat_body(first, deployment))
    if "stream" in first.adapter.split():
        return WireCall(path=f"/{name}:streamGenerateContent", body=sent, query={"alt": "sse"})
    return WireCall(path=f"/{name}:generateContent", body=sent)


def _name(request: Request) -> str:
    """The resource name of a model: `models/ID`, unless the id is written as one (`tunedModels/...`)."""
    model: str = request.payload["model"]
    return model if "/" in model else f"models/{model}"


def chat_body(request: Request, deployment: Deployment) -> dict[str, Any]:
    """The body of one chat request, which is also what stands for it in a job."""
    payload = request.payload
    invariant(payload.keys() <= _CHAT, f"the google dialect cannot send {sorted(payload.keys() - _CHAT)}")
    messages = payload["messages"]
    system = [{"text": message["content"]} for message in messages if message["role"] == "system"]
    sent: dict[str, Any] = {
        "contents": [
            {"role": ROLES[message["role"]], "parts": [{"text": message["content"]}]}
            for message in messages
            if message["role"] != "system"
        ]
    }
    if system:
        sent["systemInstruction"] = {"parts": system}
    config: dict[str, Any] = {}
    if "temperature" in payload:
        config["temperature"] = payload["temperature"]
    if "max_output_tokens" in payload:
        config["maxOutputTokens"] = payload["max_output_tokens"]
    # What we own goes in last: nothing in `extra` may lift the cap that a reservation counted on.
    fields = body.merged(body.stripped(payload.get("extra", {}), OWNED), _thinking(payload, deployment))
    return body.merged(fields, {**sent, "generationConfig": config} if config else sent)


def _thinking(payload: Mapping[str, Any], deployment: Deployment) -> Mapping[str, Any]:
    """The body fields of the way of thinking: the deployment's own, else the dialect's."""
    if "thinking" not in payload:
        return {}
    way = payload["thinking"]
    if (own := deployment.switch(way)) is not None:
        return own
    return {"generationConfig": {"thinkingConfig": {"thinkingBudget": way} if isinstance(way, int) else THINKING[way]}}


def _embed_body(requests: Sequence[Request]) -> dict[str, Any]:
    payload = requests[0].payload
    invariant(payload.keys() <= _EMBED, f"the google dialect cannot send {sorted(payload.keys() - _EMBED)}")
    shared: dict[str, Any] = {**body.stripped(payload.get("extra", {}), OWNED), "model": _name(requests[0])}
    if "input_type" in payload:
        shared["taskType"] = TASKS.get(payload["input_type"], payload["input_type"])
    if "dimensions" in payload:
        shared["outputDimensionality"] = payload["dimensions"]
    return {"requests": [{**shared, "content": {"parts": [{"text": request.payload["text"]}]}} for request in requests]}


def decode(requests: Sequence[Request], wire: WireReply, deployment: Deployment) -> tuple[Reply, ...] | Failure:
    """The replies in the order of the requests, or why there are none. The status is a success (2xx)."""
    held = _joined(wire) if stream.streamed(wire) else body.read(wire)
    if isinstance(held, Failure):
        return held
    return _embedded(requests, held, wire) if requests[0].kind == "embed" else _chat(held, wire)


def _joined(wire: WireReply) -> dict[str, Any] | Failure:
    """The chunks of a stream as one body: parts one after the other, of all else the last word. An error in it fails the whole."""
    whole: dict[str, Any] = {}
    parts: list[Mapping[str, Any]] = []
    for event in stream.events(wire.body):
        chunk = body.read(replace(wire, body=event.data))
        if isinstance(chunk, Failure):
            return chunk
        candidate = _candidate(chunk)
        if candidate is not None:
            said = _parts(candidate)
            if said is None:
                return fault.malformed(wire, "the parts of a chunk are no list of objects")
            parts += said
            if "finishReason" not in candidate:
                chunk.pop("usageMetadata", None)  # of what has been said so far
            chunk["candidates"] = [{**(_candidate(whole) or {}), **candidate}]
        whole |= chunk
    candidate = _candidate(whole)
    if candidate is None:
        return whole
    if "finishReason" not in candidate:
        return fault.malformed(wire, "the stream ended before its reply did")
    whole["candidates"] = [{**candidate, "content": {"parts": parts}}]
    return whole


def _candidate(held: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one candidate of a reply; None where there is none."""
    return next(iter(body.objects(held.get("candidates")) or ()), None)


def _parts(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """What a candidate says: no parts where thoughts took all tokens or a filter took the text; None where they cannot be read."""
    return body.objects(body.mapping(candidate.get("content")).get("parts") or [])


def _chat(held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    candidate = _candidate(held)
    if candidate is None:
        return _blocked(held, wire)
    parts = _parts(candidate)
    if parts is None:
        return fault.malformed(wire, "the parts of the content are no list of objects")
    said = [part.get("text", "") for part in parts if not part.get("thought")]
    text = body.text(said)
    thoughts = body.text(part.get("text", "") for part in parts if part.get("thought"))
    if text is None or thoughts is None:
        return fault.malformed(wire, "a part's text is no text")
    raw = body.word(candidate.get("finishReason"))
    finish = FINISH.get(raw or "", Finish.UNKNOWN)
    if finish is Finish.STOP and any("functionCall" in part for part in parts):
        finish = Finish.TOOL  # a call for a tool ends with STOP
    told = _labelled(raw, candidate.get("safetyRatings"))
    return _reply(held, wire, finish=finish, finish_raw=told, text=text, thoughts=thoughts)


def _blocked(held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    """A prompt that the filter did not let through is answered, by a refusal; a body without that reason is no answer."""
    feedback = body.mapping(held.get("promptFeedback"))
    reason = body.word(feedback.get("blockReason"))
    if reason is None:
        return fault.malformed(wire, "the body has no candidates, and no reason why")
    told = _labelled(f"prompt {reason}", feedback.get("safetyRatings"))
    return _reply(held, wire, finish=Finish.FILTER, finish_raw=told, text="", thoughts="")


def _reply(
    held: Mapping[str, Any], wire: WireReply, *, finish: Finish, finish_raw: str | None, text: str, thoughts: str
) -> tuple[Reply, ...]:
    told = body.mapping(held.get("usageMetadata"))
    return body.reply(
        wire,
        finish=finish,
        finish_raw=finish_raw,
        text=text,
        thoughts=thoughts,
        usage=usage(told, said_something=bool(text)),
        reported_tokens=count(told.get("totalTokenCount")),
        served_model=body.word(held.get("modelVersion")),
    )


def _labelled(reason: str | None, ratings: Any) -> str | None:
    """The provider's word for an end, with the categories that its filter found."""
    blocked = [body.word(rating.get("category")) for rating in body.objects(ratings) or () if rating.get("blocked")]
    return reason and " ".join([reason, *filter(None, blocked)])


def usage(told: Mapping[str, Any], *, said_something: bool) -> Usage:
    """The buckets of a `usageMetadata`, which sum to its total.

    The prompt's count includes cached tokens but not those of a tool's result; the candidates' count does not include thoughts. A
    count of 0 is left out, and so are thoughts on some models while the total holds them: what is missing is worked out of the
    total. `said_something`: the reply has visible text, so that 0 visible tokens cannot be true.
    """
    prompt, cached = count(told.get("promptTokenCount")), count(told.get("cachedContentTokenCount"))
    tools = count(told.get("toolUsePromptTokenCount")) or 0
    visible, thoughts = count(told.get("candidatesTokenCount")), count(told.get("thoughtsTokenCount"))
    total = count(told.get("totalTokenCount"))
    rest = None if not prompt or total is None else total - prompt - tools - (visible or 0) - (thoughts or 0)
    visible, thoughts = _output(visible, thoughts, rest, said_something=said_something)
    fresh = (prompt or 0) + tools - (cached or 0)
    if not prompt or fresh < 0:
        return Usage(output_visible=visible, reasoning=thoughts)
    return Usage(input_fresh=fresh, cache_read=cached, output_visible=visible, reasoning=thoughts)


def _output(
    visible: int | None, thoughts: int | None, rest: int | None, *, said_something: bool
) -> tuple[int | None, int | None]:
    """Visible tokens and thoughts; `rest` is what the total leaves for the one that is missing."""
    known = rest is not None and rest >= 0
    if visible is None and (thoughts is not None or said_something):
        visible = rest if known else None
    elif visible is None:
        visible = 0 if known else None  # nothing was said: all of the output, if there is any, was thought
        thoughts = rest if known else None
    elif thoughts is None:
        thoughts = rest if known else None
    if visible is None or (visible == 0 and said_something):
        return None, None
    return visible, thoughts


def _embedded(requests: Sequence[Request], held: Mapping[str, Any], wire: WireReply) -> tuple[Reply, ...] | Failure:
    """Vectors in the order of the texts. Where the body tells no usage the tokens are unknown: the hold is forfeited, and counts
    as spent in full. Nothing tells whether a text was cut.
    """
    listed = body.objects(held.get("embeddings"))
    if listed is None:
        return fault.malformed(wire, "the body has no list of vectors")
    return vectors.replies(
        requests,
        [item.get("values") for item in listed],
        wire,
        envelope={name: value for name, value in held.items() if name != "embeddings"},
        tokens=count(body.mapping(held.get("usageMetadata")).get("promptTokenCount")),
    )
