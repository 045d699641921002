"""The rules of names: which characters, which words are taken, and that no name stands twice."""

from __future__ import annotations

from collections.abc import Iterable

from judgerun.files.faults import Faults
from judgerun.files.lines import Path as KeyPath
from judgerun.files.written import IDENTIFIER, KEYWORDS, SLUG

RESERVED = frozenset({"reply", "value", "candidates", "round", "a", "b", "set"})
"""Words that expressions and prompts see beside a row's fields: no field, table, stage or join may have them."""
_OWN = RESERVED | {"id", "vars"}


def _a(what: str) -> str:
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def identifier(faults: Faults, path: KeyPath, what: str, name: str) -> None:
    """Names of stages, tables, variants, golds and joins stand in expressions."""
    if not IDENTIFIER.fullmatch(name):
        faults.add(
            path, f"{name!r} cannot name {_a(what)}: it stands in expressions", "letters, digits and _, no digit first"
        )
    elif what == "variant":
        return  # the only one that no expression names by itself
    elif name in KEYWORDS:
        faults.add(path, f"{name!r} cannot name {_a(what)}: it is a word of the expression language", "another name")
    elif name in _OWN:
        faults.add(path, f"{name!r} cannot name {_a(what)}: it is reserved", "another name")


def slug(faults: Faults, path: KeyPath, what: str, name: str) -> None:
    """Names of experiments, models, prompts, providers and sets."""
    if not SLUG.fullmatch(name):
        faults.add(path, f"{name!r} cannot name {_a(what)}", "letters, digits, dot, _ and - only")


def unique(faults: Faults, named: Iterable[tuple[str, KeyPath, str]]) -> None:
    """Tables, stages and joins share one space of names; `named` holds (name, where it stands, what it is)."""
    seen: dict[str, tuple[KeyPath, str]] = {}
    for name, path, what in named:
        if name in seen:
            faults.add(path, f"{name!r} names a {what}, but a {seen[name][1]} has that name", "a name of its own")
        else:
            seen[name] = (path, what)


def twice(names: Iterable[str]) -> list[str]:
    """The names that stand more than once."""
    seen: set[str] = set()
    double = []
    for name in names:
        if name in seen and name not in double:
            double.append(name)
        seen.add(name)
    return double
