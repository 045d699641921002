"""Instances of a JSON schema, by chance; the keywords that schemas for replies use, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from judgerun.simulate import chance

_SENTENCES = (
    "Both ask for the same count.",
    "The bound is met at the middle.",
    "One condition is missing.",
    "It follows by symmetry.",
)
DEPTH_MAX = 12


def instance(schema: Mapping[str, Any], words: tuple[object, ...]) -> str:
    """The JSON text of a value that the schema allows; `words` seed every chance in it."""
    return orjson.dumps(_value(schema, schema, words, 0)).decode()


def _value(schema: Any, root: Mapping[str, Any], words: tuple[object, ...], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > DEPTH_MAX:
        return None
    if "$ref" in schema:
        return _value(_resolved(str(schema["$ref"]), root), root, (*words, "ref"), depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return chance.pick(schema["enum"], *words, "enum")
    for several in ("anyOf", "oneOf"):
        if schema.get(several):
            return _value(chance.pick(schema[several], *words, several), root, (*words, several), depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    match kind:
        case "object":
            held = schema.get("properties", {})
            return {name: _value(part, root, (*words, name), depth + 1) for name, part in held.items()}
        case "array":
            fewest = int(schema.get("minItems", 1))
            size = fewest + chance.number(*words, "size") % (int(schema.get("maxItems", max(fewest, 3))) - fewest + 1)
            return [_value(schema.get("items", {}), root, (*words, n), depth + 1) for n in range(size)]
        case "integer":
            low = int(schema.get("minimum", 0))
            return low + chance.number(*words, "integer") % (int(schema.get("maximum", low + 9)) - low + 1)
        case "number":
            least, most = float(schema.get("minimum", 0)), float(schema.get("maximum", 1))
            return round(least + chance.uniform(*words, "number") * (most - least), 3)
        case "boolean":
            return bool(chance.number(*words, "boolean") & 1)
        case "null":
            return None
        case _:
            return chance.pick(_SENTENCES, *words, "sentence")


def _resolved(ref: str, root: Mapping[str, Any]) -> Any:
    held: Any = root
    for part in ref.removeprefix("#/").split("/"):
        held = held.get(part) if isinstance(held, Mapping) else None
    return held
