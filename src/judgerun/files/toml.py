"""Reads one TOML file: bytes, table, digest, and the line of every key."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.files.faults import Faults
from judgerun.files.lines import Path as KeyPath
from judgerun.files.lines import locate

_AT_LINE = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)")


def read_toml(path: Path, *, strayed: Callable[[KeyPath], str] = lambda path: "") -> tuple[Faults, str]:
    """The file's table inside an empty `Faults`, and the hex sha256 of its bytes.

    Raises Refused when there is no such file, it is no UTF-8, or it is no TOML (with the line).
    """
    text, digest = read_text(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT_LINE.search(str(error))
        end = len(text.rstrip("\n").split("\n"))
        place = f"line {at[1]}, column {at[2]}" if at and at[1] else f"line {end} (the end)"
        message = _AT_LINE.sub("", str(error)).strip()
        raise Refused(Problem(str(path), place, f"not TOML: {message}")) from None
    return Faults(str(path), raw, locate(text), strayed=strayed), digest


def read_text(path: Path) -> tuple[str, str]:
    """The text of a UTF-8 file and the hex sha256 of its bytes; Refused when it cannot be read."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise Refused(Problem(str(path), "", f"cannot be read: {error.strerror or error}")) from None
    try:
        return body.decode("utf-8-sig").replace("\r\n", "\n"), hashlib.sha256(body).hexdigest()
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise Refused(Problem(str(path), f"line {line}", "not UTF-8", "save the file as UTF-8")) from None


@contextmanager
def pointing(path: Path) -> Iterator[None]:
    """While inside, what is refused in `experiment.toml` by those who cannot open it gets its path, and the line of its key."""
    try:
        yield
    except Refused as error:
        faults, _ = read_toml(path)
        lines = {faults.words(key).replace('"', ""): line for key, line in faults.places.items()}
        raise Refused(tuple(_pointed(problem, str(path), lines) for problem in error.problems)) from None


def _pointed(problem: Problem, path: str, lines: Mapping[str, int]) -> Problem:
    if problem.file != EXPERIMENT:
        return problem
    place = problem.place.replace('"', "")
    known = [words for words in lines if place == words or place.startswith((f"{words}.", f"{words}:"))]
    line = f" (line {lines[max(known, key=len)]})" if known and "(line" not in problem.place else ""
    return replace(problem, file=path, place=problem.place + line)
