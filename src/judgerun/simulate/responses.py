"""The openai-responses dialect as a server speaks it: bodies -> Ask, Given -> bodies, events, and how faults spoil them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from judgerun.simulate import openai, spoil
from judgerun.simulate.ask import EFFORTS, Ask, Body, Call, Given, Kind, Refused, Wrong, whole, words
from judgerun.simulate.events import Stream, event, pieces

PATHS: Mapping[str, Kind] = {"/responses": "chat", "/responses/input_tokens": "count"}
CAP_MIN = 16
"""A smaller `max_output_tokens` is refused."""

error, limits = openai.error, openai.limits


def read(call: Call) -> Ask:
    """The call that a body makes. Raises Wrong."""
    body = call.body()
    if not isinstance(body.get("model"), str):
        raise Wrong("you must provide a model parameter")
    if body.get("background"):
        raise Wrong("this provider does not answer in the background")
    reasoning, form = body.get("reasoning") or {}, (body.get("text") or {}).get("format") or {}
    effort = reasoning.get("effort")
    return Ask(
        kind=PATHS[call.path],
        model=body["model"],
        digest=call.digest,
        messages=_messages(body),
        cap=whole(body, "max_output_tokens", least=CAP_MIN),
        thinking=None if effort is None else effort != "none",
        effort=EFFORTS.get(str(effort), 1.0),
        thoughts=reasoning.get("summary") is not None,
        schema=form.get("schema") if form.get("type") == "json_schema" else None,
        stream=bool(body.get("stream")),
    )


def _messages(body: Body) -> tuple[tuple[str, str], ...]:
    given = body.get("input")
    held = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(held, list) or not held or not all(isinstance(item, dict) for item in held):
        raise Wrong("'input' must be a text or a list of items, and not empty")
    first = [("system", words(body["instructions"]))] if body.get("instructions") else []
    return (*first, *((str(item.get("role", "user")), words(item.get("content"))) for item in held))


def write(ask: Ask, given: Given) -> Body:
    """The body of a success."""
    if ask.kind == "count":
        return {"object": "response.input_tokens", "input_tokens": given.input}
    status, details = _status(given.finish)
    return {
        "id": f"resp_{ask.digest}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": details,
        "max_output_tokens": ask.cap,
        "model": ask.model,
        "output": list(_output(ask, given, status)),
        "usage": {
            "input_tokens": given.input,
            "input_tokens_details": {"cached_tokens": given.cached},
            "output_tokens": given.output,
            "output_tokens_details": {"reasoning_tokens": given.reasoning},
            "total_tokens": given.input + given.output,
        },
    }


def _status(finish: str | None) -> tuple[str | None, Body | None]:
    match finish:
        case "stop":
            return "completed", None
        case "length":
            return "incomplete", {"reason": "max_output_tokens"}
        case "content_filter" | "blocked":
            return "incomplete", {"reason": "content_filter"}
    return finish, None


def _output(ask: Ask, given: Given, status: str | None) -> Iterator[Body]:
    """A reasoning item where there was some, then the message where anything is said."""
    if given.reasoning:
        shown = [{"type": "summary_text", "text": given.thoughts}] if ask.thoughts else []
        yield {"id": f"rs_{ask.digest}", "type": "reasoning", "summary": shown}
    part: Body = {"type": "output_text", "text": given.text or "", "annotations": []}
    if given.refusal is not None:
        part = {"type": "refusal", "refusal": given.refusal}
    if given.text or given.refusal or given.finish == "stop":
        message = {"id": f"msg_{ask.digest}", "type": "message", "role": "assistant", "content": [part]}
        yield {**message, "status": "completed" if status == "completed" else "incomplete"}


def _events(ask: Ask, body: Body) -> list[bytes]:
    """A whole answer as numbered events, the last of which carries it whole; no such event where it has no status."""
    held = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[Body] = [{"type": f"response.{name}", "response": held} for name in ("created", "in_progress")]
    for index, item in enumerate(body.get("output", ())):
        events += _item(index, item)
    if body.get("status") is not None:
        events.append({"type": f"response.{body['status']}", "response": body})
    return [event({**data, "sequence_number": n}, data["type"]) for n, data in enumerate(events)]


def _item(index: int, item: Body) -> Iterator[Body]:
    bare = {**item, "content": [], "status": "in_progress"} if item["type"] == "message" else item
    yield {"type": "response.output_item.added", "output_index": index, "item": bare}
    for part in item.get("content", ()):
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        kind, field = part["type"], "refusal" if part["type"] == "refusal" else "text"
        yield {"type": "response.content_part.added", **place, "part": {**part, field: ""}}
        for piece in pieces(part[field]):
            yield {"type": f"response.{kind}.delta", **place, "delta": piece}
        yield {"type": f"response.{kind}.done", **place, field: part[field]}
        yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _broken(refused: Refused) -> bytes:
    """An error in the middle of a stream: flat, without an envelope."""
    said: Any = refused.body["error"]
    return event({"type": "error", "code": said["code"], "message": said["message"], "param": None}, "error")


STREAM = Stream(events=_events, broken=_broken)


def _no_choices(body: Body) -> None:
    del body["output"]


def _finish_missing(body: Body) -> None:
    del body["status"]


def _usage_missing(body: Body) -> None:
    body["usage"] = None


def _reasoning_content(body: Body) -> None:
    text = "".join(part.get("text", "") for item in body["output"] for part in item.get("content", ()))
    shown = {"type": "reasoning_text", "text": text}
    body["output"] = [{"id": f"rs_{body['id'][5:]}", "type": "reasoning", "summary": [], "content": [shown]}]


SPOILS: Mapping[str, Callable[[Body], None]] = {
    "no_choices": _no_choices,
    "finish_missing": _finish_missing,
    "usage_missing": _usage_missing,
    "usage_zero": spoil.usage_zero,
    "other_model": spoil.other_model,
    "reasoning_content": _reasoning_content,
}
