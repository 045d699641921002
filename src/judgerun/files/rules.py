"""Parse tables as written -> ParseRule, with the JSON schema loaded and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from judgerun.errors import Refused
from judgerun.files.faults import Faults, hint
from judgerun.files.kinds import PARSES, ChoiceShape, JsonShape, LabelShape, ScoreShape, TextShape
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import twice
from judgerun.files.toml import read_text
from judgerun.model.experiment import ParseRule
from judgerun.table.explode import resolved


def read_rule(
    faults: Faults, path: KeyPath, raw: Mapping[str, Any] | None, *, folder: Path, digests: dict[str, str]
) -> ParseRule | None:
    """The rule of a `parse` table (absent: the whole text); None, with the problems noted, when it is wrong."""
    if raw is None:
        return ParseRule(kind="text")
    kind = raw.get("kind")
    if kind not in PARSES:
        wrong = "the key 'kind' is missing" if kind is None else f"there is no parse kind {kind!r}"
        faults.add((*path, "kind") if kind else path, wrong, hint(str(kind or ""), PARSES))
        return None
    shape = faults.read(PARSES[kind], raw, path)
    match shape:
        case ChoiceShape():
            return _numbers(faults, path, "choice", shape)
        case ScoreShape():
            return _numbers(faults, path, "score", shape)
        case LabelShape():
            return _label(faults, path, shape)
        case JsonShape():
            return _json(faults, path, shape, folder, digests)
        case TextShape():
            return ParseRule(kind="text", strip=shape.strip, unquote=shape.unquote, marker=shape.marker)
        case _:
            return None


def _numbers(faults: Faults, path: KeyPath, kind: Any, shape: ChoiceShape | ScoreShape) -> ParseRule:
    low, high = shape.low, shape.high
    if (low is None) != (high is None):
        faults.add(path, "low and high go together", "both, or neither where there are candidates")
    if low is not None and high is not None and low >= high:
        faults.add((*path, "high"), f"the range {low}..{high} leaves nothing to choose", "low under high")
    return ParseRule(kind=kind, low=low, high=high, take=shape.take, marker=shape.marker)


def _label(faults: Faults, path: KeyPath, shape: LabelShape) -> ParseRule:
    if len(shape.values) < 2:
        faults.add((*path, "values"), "a label rule needs at least two values", 'values = ["A", "B"]')
    for value in twice(shape.values):
        faults.add((*path, "values"), f"the value {value!r} stands twice", "each once")
    if any(not value.strip() for value in shape.values):
        faults.add((*path, "values"), "a value is empty", "a word that the reply will hold")
    if shape.between is not None and (len(shape.between) != 2 or not all(shape.between)):
        faults.add((*path, "between"), "between holds two marks", 'between = ["[[", "]]"]')
        return ParseRule(kind="label", values=tuple(shape.values), take=shape.take, marker=shape.marker)
    between = (shape.between[0], shape.between[1]) if shape.between else None
    return ParseRule(kind="label", values=tuple(shape.values), between=between, take=shape.take, marker=shape.marker)


def _json(faults: Faults, path: KeyPath, shape: JsonShape, folder: Path, digests: dict[str, str]) -> ParseRule:
    schema = None
    if shape.schema_ is not None:
        schema = _schema(faults, (*path, "schema"), shape.schema_, folder, digests)
    for name in twice(shape.value):
        faults.add((*path, "value"), f"the name {name!r} stands twice", "each once")
    if schema is not None:
        for name in shape.value:
            _check_name(faults, (*path, "value"), name, schema)
    return ParseRule(kind="json", schema=schema, value=tuple(shape.value), marker=shape.marker)


def _check_name(faults: Faults, path: KeyPath, name: str, schema: Mapping[str, Any]) -> None:
    """A name that the schema does not know can never be found; schemas that leave it open are not judged."""
    known = schema.get("properties")
    first = name.split(".")[0]
    if isinstance(known, Mapping) and first not in known:
        faults.add(path, f"the schema has no property {first!r}", hint(first, known))


def _schema(
    faults: Faults, path: KeyPath, name: str, folder: Path, digests: dict[str, str]
) -> Mapping[str, Any] | None:
    import jsonschema  # only where a rule has one: it takes long to import

    try:
        text, digests[name] = read_text(folder / name)
        schema = orjson.loads(text)
        jsonschema.Draft202012Validator.check_schema(schema)
    except Refused as error:
        faults.add(path, f"the schema {name!r} {error.problems[0].wrong}", "a file beside the experiment file")
    except orjson.JSONDecodeError as error:
        faults.add(path, f"the schema {name!r} is not JSON: {error}", "")
    except jsonschema.SchemaError as error:
        faults.add(path, f"{name!r} is no JSON schema: {error.message}", "JSON Schema, draft 2020-12")
    else:
        if isinstance(schema, dict):
            return schema
        faults.add(path, f"the schema {name!r} is no object", '{"type": "object", ...}')
    return None


def rows_at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The part of a schema that a dotted path of property names leads to; None when the schema does not have it."""
    here: Any = schema
    for name in path.removesuffix("[*]").split("."):
        properties = properties_of(schema, here)
        if properties is None or name not in properties:
            return None
        here = properties[name]
    return resolved(schema, here)


def properties_of(schema: Mapping[str, Any], part: Any) -> Mapping[str, Any] | None:
    """The properties of an object, or of the items of an array; None where the schema leaves them open."""
    here = resolved(schema, part) or {}
    here = resolved(schema, here.get("items", here)) or {}
    properties = here.get("properties")
    return properties if isinstance(properties, Mapping) else None


def paths_of(schema: Mapping[str, Any]) -> list[str]:
    """The names that stand at the top of a schema, and those right below them, dotted."""
    found = []
    for name, part in (properties_of(schema, schema) or {}).items():
        found.append(name)
        if (resolved(schema, part) or {}).get("type") == "object":
            found += [f"{name}.{below}" for below in properties_of(schema, part) or {}]
    return found
