"""The google dialect as a server speaks it: bodies -> Ask, Given -> bodies and events, and how faults spoil them; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from judgerun.simulate.ask import (
    DIMENSIONS_MAX,
    EFFORTS,
    Ask,
    Body,
    Call,
    Given,
    Kind,
    Refused,
    Stated,
    Trouble,
    Wrong,
    whole,
    words,
)
from judgerun.simulate.events import Stream, event, pieces

_MODEL = "/models/{model:[^:]+}"
STREAMED, ONE = f"{_MODEL}:streamGenerateContent", f"{_MODEL}:embedContent"
PATHS: Mapping[str, Kind] = {
    f"{_MODEL}:generateContent": "chat",
    STREAMED: "chat",
    f"{_MODEL}:batchEmbedContents": "embed",
    ONE: "embed",
    f"{_MODEL}:countTokens": "count",
}
TEXTS_MAX = 100
"""Texts in one call of batchEmbedContents."""

FINISHES: Mapping[str | None, str] = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def read(call: Call) -> Ask:
    """The call that a body makes; the model stands in the path. Raises Wrong."""
    body, model = call.body(), call.match["model"]
    match PATHS[call.path]:
        case "embed":
            return _embed(body, model, call)
        case "count":
            held = body.get("generateContentRequest") or body
            return Ask(kind="count", model=model, digest=call.digest, messages=_messages(held))
    if call.path == STREAMED and call.query.get("alt") != "sse":
        raise Wrong("this provider streams server-sent events alone: alt=sse")
    return parse(body, model, call.digest, stream=call.path == STREAMED)


def parse(body: Body, model: str, digest: str, *, stream: bool = False) -> Ask:
    """The call that the parameters of a generation make. Raises Wrong."""
    config = _camel(body.get("generationConfig"))
    thinking = _camel(config.get("thinkingConfig"))
    budget, level = whole(thinking, "thinkingBudget", least=-1), thinking.get("thinkingLevel")
    if config.get("candidateCount", 1) != 1:
        raise Wrong("this provider makes one candidate")
    return Ask(
        kind="chat",
        model=model,
        digest=digest,
        messages=_messages(body),
        cap=whole(config, "maxOutputTokens"),
        thinking=budget != 0 if budget is not None else True if level is not None else None,
        budget=budget if budget is not None and budget > 0 else None,
        effort=EFFORTS.get(str(level).lower(), 1.0),
        thoughts=bool(thinking.get("includeThoughts")),
        schema=config.get("responseJsonSchema") or _lowered(config.get("responseSchema")),
        stream=stream,
    )


def _camel(held: Any) -> Body:
    """The fields of an object under their camelCase names; Google takes snake_case too, and its own client writes both."""
    fields = held if isinstance(held, dict) else {}
    return {re.sub("_([a-z])", lambda found: found[1].upper(), name): value for name, value in fields.items()}


def _messages(body: Body) -> tuple[tuple[str, str], ...]:
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise Wrong("* GenerateContentRequest.contents: contents is not specified")
    system = body.get("systemInstruction")
    first = [("system", _text(system))] if system else []
    return (*first, *((str(content.get("role", "user")), _text(content)) for content in contents))


def _text(content: Any) -> str:
    if not isinstance(content, dict) or content.get("role", "user") not in ("user", "model", "system"):
        raise Wrong("please use a valid role: user, model")
    return words(content.get("parts"))


def _lowered(schema: Any) -> Any:
    """A schema in Google's words (STRING, OBJECT) as JSON schema has it."""
    if isinstance(schema, list):
        return [_lowered(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: held.lower() if name == "type" and isinstance(held, str) else _lowered(held)
        for name, held in schema.items()
    }


def _embed(body: Body, model: str, call: Call) -> Ask:
    asked = [body] if call.path == ONE else body.get("requests")
    if not isinstance(asked, list) or not asked or len(asked) > TEXTS_MAX:
        raise Wrong(f"requests must be a list of 1 to {TEXTS_MAX}")
    if call.path != ONE and any(one.get("model") != f"models/{model}" for one in asked):
        raise Wrong("the model of each request must be that of the call")
    ways = {(one.get("taskType") or "", whole(one, "outputDimensionality", most=DIMENSIONS_MAX)) for one in asked}
    if len(ways) != 1:
        raise Wrong("this provider embeds all texts of a call in one way")
    ((role, dimensions),) = ways
    texts = tuple(_text(one.get("content")) for one in asked)
    if not all(texts):
        raise Wrong("a content to embed must not be empty")
    return Ask(
        kind="embed",
        model=model,
        digest=call.digest,
        texts=texts,
        role=role,
        dimensions=dimensions,
        truncate=True,
        alone=call.path == ONE,
    )


def write(ask: Ask, given: Given) -> Body:
    """The body of a success. Embeddings come without usage."""
    if ask.kind == "count":
        return {"totalTokens": given.input, "promptTokensDetails": _modal(given.input)}
    if ask.kind == "embed":
        made = [{"values": vector} for vector in given.vectors or []]
        return {"embedding": made[0]} if ask.alone else {"embeddings": made}
    head = {"modelVersion": ask.model, "responseId": ask.digest, "usageMetadata": _usage(given)}
    if given.finish == "blocked":
        return {**head, "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    finish = FINISHES.get(given.finish, given.finish) if given.refusal is None else "PROHIBITED_CONTENT"
    return {**head, "candidates": [{"content": _content(ask, given), "finishReason": finish, "index": 0}]}


def _content(ask: Ask, given: Given) -> Body:
    """Without text there are no parts; of what was filtered nothing is left at all."""
    if given.text is None:
        return {}
    parts = [{"text": given.thoughts, "thought": True}] if ask.thoughts and given.reasoning else []
    parts += [{"text": given.text}] if given.text else []
    return {"parts": parts, "role": "model"} if parts else {"role": "model"}


def _usage(given: Given) -> Body:
    """What is 0 is not written; thoughts stand beside the candidates' tokens, cached tokens inside the prompt's."""
    told = {
        "promptTokenCount": given.input,
        "cachedContentTokenCount": given.cached,
        "candidatesTokenCount": given.visible,
        "thoughtsTokenCount": given.reasoning,
        "totalTokenCount": given.input + given.output,
    }
    return {name: count for name, count in told.items() if count} | {"promptTokensDetails": _modal(given.input)}


def _modal(count: int) -> list[Body]:
    return [{"modality": "TEXT", "tokenCount": count}]


def _events(ask: Ask, body: Body) -> list[bytes]:
    """A whole answer as events, each a body of its own: the parts in pieces, the finish in the last, the usage in all."""
    candidates = body.get("candidates")
    if not candidates:
        return [event(body)]
    one = candidates[0]
    made = [{"content": {"parts": [part], "role": "model"}, "index": 0} for part in _parts(one)]
    last = made.pop() if made else {"content": one["content"], "index": 0}
    if "finishReason" in one:
        last["finishReason"] = one["finishReason"]
    return [event({**body, "candidates": [piece]}) for piece in (*made, last)]


def _parts(candidate: Body) -> Iterator[Body]:
    for part in candidate["content"].get("parts", ()):
        for piece in pieces(part["text"]):
            yield {**part, "text": piece}


def _broken(refused: Refused) -> bytes:
    """An error in the middle of a stream."""
    return event(refused.body)


STREAM = Stream(events=_events, broken=_broken)


ERRORS: Mapping[str, tuple[int, str]] = {
    "request": (400, "INVALID_ARGUMENT"),
    "missing": (404, "NOT_FOUND"),
    "context": (400, "INVALID_ARGUMENT"),
    "limit": (429, "RESOURCE_EXHAUSTED"),
    "quota": (429, "RESOURCE_EXHAUSTED"),
    "key": (400, "INVALID_ARGUMENT"),
    "server": (500, "INTERNAL"),
    "overload": (503, "UNAVAILABLE"),
    "timeout": (504, "DEADLINE_EXCEEDED"),
}
WORDS: Mapping[str, str] = {
    "context": "The input token count exceeds the maximum number of tokens allowed: ",
    "key": "API key not valid. Please pass a valid API key. ",
}
_TYPE = "type.googleapis.com/google.rpc."


def error(trouble: Trouble) -> Refused:
    """A trouble in the words of this dialect: how long to wait stands in the body."""
    status, word = ERRORS[trouble.kind]
    said: Body = {"code": status, "message": WORDS.get(trouble.kind, "") + trouble.message, "status": word}
    if trouble.kind == "key":
        said["details"] = [{"@type": f"{_TYPE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
    if trouble.wait is not None:
        said["details"] = [{"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{trouble.wait:.9g}s"}]
    return Refused(status=status, body={"error": said})


def limits(stated: Sequence[Stated], wall: float) -> Mapping[str, str]:
    """Google tells no limits in headers."""
    return {}


def _no_choices(body: Body) -> None:
    body["candidates"] = []


def _finish_missing(body: Body) -> None:
    del body["candidates"][0]["finishReason"]


def _usage_missing(body: Body) -> None:
    body.pop("usageMetadata", None)


def _usage_zero(body: Body) -> None:
    if "usageMetadata" in body:
        body["usageMetadata"] = dict.fromkeys(("promptTokenCount", "candidatesTokenCount", "totalTokenCount"), 0)


def _other_model(body: Body) -> None:
    if "modelVersion" in body:
        body["modelVersion"] += "-other"


def _duplicate(body: Body) -> None:
    for name in body.keys() & {"candidates", "embeddings"}:
        body[name] *= 2


def _reasoning_content(body: Body) -> None:
    for part in body["candidates"][0]["content"].get("parts", ()):
        part["thought"] = True


def _vectors(body: Body) -> list[Body]:
    return body["embeddings"] if "embeddings" in body else [body["embedding"]]


def _vector_size(body: Body) -> None:
    last = _vectors(body)[-1]
    last["values"] = last["values"][:8] if len(last["values"]) > 8 else last["values"] * 2


def _vector_nan(body: Body) -> None:
    _vectors(body)[0]["values"][0] = None  # as JSON writes a NaN


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": _usage_missing,
    "usage_zero": _usage_zero,
    "other_model": _other_model,
    "duplicate": _duplicate,
    "reasoning_content": _reasoning_content,
    "vector_size": _vector_size,
    "vector_nan": _vector_nan,
}
"""Vectors have no indices here, so none can come in another order and be told from the right one."""
