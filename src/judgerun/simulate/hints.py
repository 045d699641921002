"""Hints: how a prompt wants to be answered, and what it shows; rules over text, each returning None where it finds nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from judgerun.simulate import chance

_ORDER = re.compile(
    r"\b(?:answer|respond|reply|rate|score|grade|choose|choice|number|output|end|scale|return|label|verdict|word)", re.I
)
_RANGE = re.compile(r"(?<![\w.])(\d{1,4})\s*(?:to|through|and|-|\u2013|\.\.)\s*(\d{1,4})(?![\w.]*\d)", re.I)
_BRACKETED = re.compile(r"\[\[([^\[\]\n]{1,40})\]\]")
_CAPITALS = re.compile(r"\b[A-Z](?:[A-Z_]*[A-Z])?\b(?:\s*(?:,\s*or|,|/|\||or)\s*\b[A-Z](?:[A-Z_]*[A-Z])?\b)+")
_QUOTED = re.compile(r"[\"'`]([\w -]{1,30})[\"'`](?:\s*(?:,\s*or|,|/|or)\s*[\"'`]([\w -]{1,30})[\"'`])+")
_YES = re.compile(r"\byes(?:/| or )no\b", re.I)
_MARKER = re.compile(r"\b([A-Z][A-Z ]{3,}[A-Z]:)")
_ONLY = re.compile(r"nothing else|\bonly\b|no explanation|with one word|one of these labels", re.I)
_CANDIDATE = re.compile(r"^\s*(?:\[(\d{1,3})\]|(\d{1,3})[.)])\s+(.*)$", re.M)
_WORD = re.compile(r"\w+")
_QUERY = re.compile(r"^\s*query\s*:\s*(.+)$", re.I | re.M)

OPTIONS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """One of `options`, written by `form`, after `marker` when there is one. `only`: with no word around it."""

    kind: Literal["choice", "score", "label"]
    options: tuple[str, ...]
    form: str = "{}"
    marker: str = ""
    only: bool = False


def ending(prompt: str) -> str:
    """The instruction: what stands after the last empty line, or the last five lines."""
    tail = prompt.rstrip().rsplit("\n\n", 1)[-1]
    return "\n".join((tail if len(tail) < len(prompt.rstrip()) else prompt).splitlines()[-5:])


def wanted(prompt: str) -> Wanted | None:
    """The allowed answers that the prompt names: labels or a range of whole numbers. The last line that names some decides."""
    lines = [line for line in prompt.splitlines() if line.strip()]
    for line in reversed(lines):
        if not _ORDER.search(line):
            continue
        found = _labels(line) or _range(line, prompt)
        if found is not None:
            marker = _MARKER.search(line)
            return Wanted(found.kind, found.options, found.form, marker[1] if marker else "", bool(_ONLY.search(line)))
    return None


def _labels(line: str) -> Wanted | None:
    bracketed = tuple(dict.fromkeys(_BRACKETED.findall(line)))
    if len(bracketed) > 1:
        return Wanted("label", bracketed, "[[{}]]")
    capitals = _CAPITALS.search(line)
    if capitals:
        return Wanted("label", tuple(dict.fromkeys(re.findall(r"\b[A-Z](?:[A-Z_]*[A-Z])?\b", capitals[0]))))
    quoted = _QUOTED.search(line)
    if quoted:
        return Wanted("label", tuple(dict.fromkeys(re.findall(r"[\"'`]([\w -]{1,30})[\"'`]", quoted[0]))))
    return Wanted("label", ("yes", "no")) if _YES.search(line) else None


def _range(line: str, prompt: str) -> Wanted | None:
    for low, high in reversed(_RANGE.findall(line)):
        if int(low) < int(high) < int(low) + OPTIONS_MAX:
            numbers = tuple(map(str, range(int(low), int(high) + 1)))
            return Wanted("choice" if len(_candidates(prompt)) > 1 else "score", numbers)
    return None


def schema(prompt: str) -> Mapping[str, Any] | None:
    """A JSON schema that stands in the prompt, or one made from an example object in it."""
    if "json" not in prompt.lower():
        return None
    start = prompt.rfind("\n{")
    text = prompt[start + 1 :] if start >= 0 else prompt[prompt.find("{") :] if "{" in prompt else ""
    end = text.rfind("}")
    if end < 0:
        return _named(prompt)
    try:
        held = orjson.loads(text[: end + 1])
    except orjson.JSONDecodeError:
        return _sketched(text[: end + 1]) or _named(prompt)
    if not isinstance(held, dict):
        return None
    return held if "type" in held or "properties" in held else _like(held)


def _named(prompt: str) -> Mapping[str, Any] | None:
    """From "a JSON object with keys score and reason"."""
    found = re.search(r"json object with (?:the )?(?:keys?|fields?)\s*:?\s*([^.\n]+)", prompt, re.I)
    if not found:
        return None
    names = [name for name in re.findall(r"[A-Za-z_]\w*", found[1]) if name not in ("and", "or", "the")]
    return _object({name: _guessed(name, prompt) for name in names})


def _sketched(text: str) -> Mapping[str, Any] | None:
    """From `{"verdict": "A|B", "score": <1-10>, "reason": "..."}`."""
    fields = re.findall(r"\"(\w+)\"\s*:\s*([^\n]*?)(?=,\s*\"\w+\"\s*:|\s*}\s*$|\n)", text)
    return _object({name: _sketch(name, hint) for name, hint in fields}) if fields else None


def _sketch(name: str, hint: str) -> Mapping[str, Any]:
    numbers = _RANGE.search(hint)
    if numbers:
        return {"type": "integer", "minimum": int(numbers[1]), "maximum": int(numbers[2])}
    if "true" in hint or "bool" in hint:
        return {"type": "boolean"}
    options = [option.strip(" \"'<>") for option in re.split(r"\||/| or ", hint.strip(" ,\"'<>"))]
    return {"enum": options} if len(options) > 1 and all(options) else _guessed(name, "")


def _guessed(name: str, prompt: str) -> Mapping[str, Any]:
    if re.search(r"score|rating|grade|number|choice|rank", name, re.I):
        found = wanted(prompt)
        numbers = [int(option) for option in found.options if option.isdigit()] if found else []
        return {"type": "integer", "minimum": min(numbers, default=1), "maximum": max(numbers, default=10)}
    if re.search(r"verdict|label|answer|decision", name, re.I):
        found = wanted(prompt)
        if found and found.kind == "label":
            return {"enum": list(found.options)}
    return {"type": "string"}


def _like(example: Mapping[str, Any]) -> Mapping[str, Any]:
    names = {bool: "boolean", int: "integer", float: "number", list: "array"}
    return _object({name: {"type": names.get(type(value), "string")} for name, value in example.items()})


def _object(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def query(prompt: str) -> str | None:
    """The text of a line `Query: ...`."""
    found = _QUERY.search(prompt)
    return found[1].strip() if found else None


def _candidates(prompt: str) -> list[tuple[int, str]]:
    """Numbered candidates from 1 on, each with its text."""
    found = [(int(one or two), text) for one, two, text in _CANDIDATE.findall(prompt)]
    return found if [number for number, _ in found] == list(range(1, len(found) + 1)) else []


def likest(prompt: str) -> int | None:
    """The number of the candidate that shares most words with what stands before the candidates."""
    candidates = _candidates(prompt)
    first = _CANDIDATE.search(prompt)
    if len(candidates) < 2 or first is None:
        return None
    anchor = set(_WORD.findall(prompt[: first.start()].lower()))

    def shared(candidate: tuple[int, str]) -> tuple[float, str]:
        words = set(_WORD.findall(candidate[1].lower()))
        return len(words & anchor) / (len(words | anchor) or 1), candidate[1]

    return max(candidates, key=shared)[0]


def better(prompt: str, options: Sequence[str], seed: object) -> str | None:
    """Which of the texts headed by a label is better; that of a text hangs on the text alone, not on where it stands."""
    blocks = {}
    for option in options:
        found = re.search(rf"^[^\n]*\b{re.escape(option)}\b[^\n\w]*:\s*(.*?)(?=\n\s*\n|\Z)", prompt, re.M | re.S)
        if found and found[1].strip():
            blocks[option] = found[1].strip()
    if len(blocks) < 2 or len(set(blocks.values())) < 2:
        return None
    return max(blocks, key=lambda option: chance.number(seed, blocks[option], "quality"))
