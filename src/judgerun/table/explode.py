"""Explode: the rows inside one parsed reply, and how many there can be at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judgerun.model.experiment import ExplodeRows

Schema = Mapping[str, Any]
_REFERENCES_MAX = 32  # a chain of references that is longer goes in a circle


def pieces(value: Mapping[str, Any], kinds: Sequence[ExplodeRows]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(name, element, fields) of each row inside `value`: name is `<role>.<n>`, counted from 1 in each role; fields are those
    of the element, where it is an object, and those that the kind adds.
    """
    counted: dict[str, int] = {}
    for kind in kinds:
        path, elements = _first(value, kind.each)
        role = str(kind.fields.get("role", path.rpartition(".")[2]))
        for element in elements:
            counted[role] = counted.get(role, 0) + 1
            own = dict(element) if isinstance(element, Mapping) else {}
            yield f"{role}.{counted[role]}", element, {**own, **kind.fields}


def _first(value: Mapping[str, Any], paths: Sequence[str]) -> tuple[str, Sequence[Any]]:
    """The first path that is present, with its elements; a single thing counts as a list of one."""
    for path in paths:
        path = path.removesuffix("[*]")
        found: Any = value
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return path, found if isinstance(found, list) else [found]
    return paths[0], []


def bound(schema: Schema | None, kinds: Sequence[ExplodeRows]) -> int | None:
    """The most rows that a value of this JSON schema can hold; None where the schema does not say."""
    if schema is None:
        return None
    total = 0
    for kind in kinds:
        sizes = [_most(schema, path.removesuffix("[*]").split(".")) for path in kind.each]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        total += max(known)
    return total


def _most(schema: Schema, path: Sequence[str]) -> int | None:
    """The most elements at a path: 0 where the schema has no such property, None where it sets no limit."""
    at: Any = schema
    for name in path:
        at = (resolved(schema, at) or {}).get("properties", {}).get(name)
        if at is None:
            return 0
    found = resolved(schema, at) or {}
    kind = found.get("type")
    if kind not in (None, "array") and "array" not in kind:
        return 1
    most = found.get("maxItems")
    return most if isinstance(most, int) else None


def resolved(schema: Schema, part: Any) -> Mapping[str, Any] | None:
    """A part of a schema, a reference inside the same file followed; None for what is no table."""
    for _ in range(_REFERENCES_MAX):
        if not isinstance(part, Mapping):
            return None
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return part
        part = schema
        for name in reference[2:].split("/"):
            part = part.get(name) if isinstance(part, Mapping) else None
    return None
