"""Explaining keys: the canonical request behind one, and the first field in which two differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgerun.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One or two requests by key; `difference` is (path, first value, second value), None where there is none."""

    requests: tuple[tuple[str, Any], ...]  # (key in hex, canonical JSON value)
    difference: tuple[str, Any, Any] | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        told: dict[str, Any] = {"requests": [{"key": key, "request": value} for key, value in self.requests]}
        if len(self.requests) == 2:
            told["differs"] = None
            if self.difference is not None:
                path, one, two = self.difference
                told["differs"] = {"path": path, "values": [one, two]}
        return told

    def lines(self) -> Iterator[str]:
        """As text."""
        if len(self.requests) == 1:
            key, value = self.requests[0]
            yield key
            yield json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
        elif self.difference is None:
            yield "the two are the same request"
        else:
            path, one, two = self.difference
            yield f"first difference at {path}"
            for (key, _), value in zip(self.requests, (one, two), strict=True):
                yield f"  {key[:16]}: {json.dumps(value, ensure_ascii=False)}"


ABSENT = "(absent)"


def explain(cache: Path, key: str, other: str | None = None) -> Explained:
    """The request of a key (or its first digits); with another key, the first field that differs, in the order of the
    canonical form. Refused when a prefix names no request, or more than one.
    """
    with Snapshot.open(cache) as view:
        found = []
        for prefix in (key, *([other] if other is not None else [])):
            whole = view.find(prefix)
            found.append((whole.hex(), json.loads(view.canonical(whole) or b"null")))
    difference = first_difference(found[0][1], found[1][1]) if len(found) == 2 else None
    return Explained(requests=tuple(found), difference=difference)


def first_difference(one: Any, two: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """(path, value, value) of the first place in which two JSON values differ; None when they are equal."""
    if isinstance(one, dict) and isinstance(two, dict):
        for name in sorted({*one, *two}):
            if name not in one or name not in two:
                return f"{path}.{name}".lstrip("."), one.get(name, ABSENT), two.get(name, ABSENT)
            if (found := first_difference(one[name], two[name], f"{path}.{name}")) is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(two, list):
        for place in range(max(len(one), len(two))):
            if place >= len(one) or place >= len(two):
                held = [values[place] if place < len(values) else ABSENT for values in (one, two)]
                return f"{path}[{place}]".lstrip("."), held[0], held[1]
            if (found := first_difference(one[place], two[place], f"{path}[{place}]")) is not None:
                return found
        return None
    same = type(one) is type(two) and one == two
    return None if same else (path.lstrip("."), one, two)
