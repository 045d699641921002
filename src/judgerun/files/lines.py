"""Where in a TOML text each key stands: key path -> line number, for messages to people."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"\\(.)")


def locate(text: str) -> dict[Path, int]:
    """Line (from 1) of every table head and every key that opens a line; the text must be valid TOML.

    A table of an array has its place as an int: `("stage", 0, "name")`. Keys inside inline tables stand at the line of
    the key that holds them: `find` falls back to it.
    """
    places: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    closed = 0  # the first line that is no continuation of a value
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if number <= closed:
            continue
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped.startswith("["):
            table = _head(stripped, counts)
            places.setdefault(table, number)
            continue
        keys, rest = _keys(stripped)
        for n in range(1, len(keys) + 1):
            places.setdefault((*table, *keys[:n]), number)
        closed = _last_line(lines, number, rest)
    return places


def find(places: dict[Path, int], path: Path) -> int | None:
    """The line of the longest known beginning of `path`; None when not even its first key is known."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return None


def _head(line: str, counts: dict[Path, int]) -> Path:
    """The path of a table head, with the running number of every array of tables on the way."""
    array = line.startswith("[[")
    keys, _ = _keys(line.lstrip("["))
    path: Path = ()
    for n, key in enumerate(keys):
        path = (*path, key)
        if n == len(keys) - 1 and array:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _keys(line: str) -> tuple[tuple[str, ...], str]:
    """The dotted key at the start of a line, and what follows it."""
    keys: list[str] = []
    at = 0
    while at < len(line):
        char = line[at]
        if char in " \t.":
            at += 1
        elif char in "\"'":
            end = _quoted(line, at)
            inside = line[at + 1 : end - 1]
            keys.append(_ESCAPED.sub(r"\1", inside) if char == '"' else inside)
            at = end
        elif found := _BARE.match(line, at):
            keys.append(found.group())
            at = found.end()
        else:
            break
    return tuple(keys), line[at:]


def _quoted(line: str, at: int) -> int:
    """The place after the closing quote of a one-line string that opens at `at`."""
    quote, at = line[at], at + 1
    while at < len(line) and line[at] != quote:
        at += 2 if line[at] == "\\" and quote == '"' else 1
    return at + 1


def _last_line(lines: list[str], number: int, rest: str) -> int:
    """The number of the line on which the value that begins in `rest` ends."""
    depth, at, line = 0, 0, rest
    while True:
        while at < len(line):
            char = line[at]
            if char == "#":
                break
            if line[at : at + 3] in ('"""', "'''"):
                number, at = _multiline(lines, number, line, at)
                line = lines[number - 1]
                continue
            if char in "\"'":
                at = _quoted(line, at)
                continue
            depth += (char in "[{") - (char in "]}")
            at += 1
        if depth <= 0 or number >= len(lines):
            return number
        line, at, number = lines[number], 0, number + 1


def _multiline(lines: list[str], number: int, line: str, at: int) -> tuple[int, int]:
    """Line number and place after the end of a multi-line string that opens at `at`."""
    quote, at = line[at : at + 3], at + 3
    while True:
        end = line.find(quote, at)
        while quote == '"""' and end > 0 and line[end - 1] == "\\":
            end = line.find(quote, end + 1)
        if end >= 0:
            # `line` may be the rest of its line: measure from the end, which both share.
            return number, len(lines[number - 1]) - (len(line) - end - 3)
        if number >= len(lines):
            return number, 0
        line, at, number = lines[number], 0, number + 1
