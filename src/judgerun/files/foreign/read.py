"""Read: from the paths that a person names to one foreign Run; which file is of which family is seen from what is in it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgerun.errors import Problem, Refused
from judgerun.files.foreign import caches, queryform, records, reductions, spend
from judgerun.files.foreign.parts import Parts, value
from judgerun.model.foreign import Run

VERSION = 2
"""Raised when a reader reads something else in the same files than it did: they are then read again."""
KNOWN = (
    "a spend log (JSON with `calls`, or a list of its rows), its reduction to CSV with its summary, a cache of judges or solvers "
    "(JSON lines with `query_id`), records of a solver's calls, or a result file with `per_query`, `queries`, `per_generator`, "
    "`qids` or `empirical`"
)
FAMILIES: Mapping[str, tuple[Callable[[Any], bool], Callable[[Parts, str, Any], None]]] = {
    spend.NAME: (spend.fits, spend.read),
    records.NAME: (records.fits, records.read),
    queryform.NAME: (queryform.fits, queryform.read),
}
"""The families that are one JSON document a file: how one is recognised, and its reader."""
ENDINGS = (".json", ".jsonl", ".csv")


@dataclass(frozen=True, slots=True)
class _Named:
    """A file: `name` is its path under the folder that all have in common; `asked`: a person named it itself."""

    name: str
    path: Path
    asked: bool


def read(paths: Sequence[Path], name: str) -> Run:
    """The run in these files, and in the files of these folders and all folders in them. Files of a folder that belong to no
    family are left out; one that is named itself is refused. Raises Refused with every problem at once.
    """
    parts = Parts()
    digests: dict[str, str] = {}
    formats: set[str] = set()
    tables: dict[str, bytes] = {}
    summaries: dict[str, Any] = {}
    for file in _files(paths):
        body = _body(parts, file)
        family, held = (None, None) if body is None else _family(parts, file, body)
        if body is None or family is None:
            continue
        digests[file.name] = hashlib.sha256(body).hexdigest()
        formats.add(family)
        if family == reductions.NAME and file.path.suffix == ".csv":
            tables[file.name] = body
        elif family == reductions.NAME:
            summaries[file.name] = held
        elif family in FAMILIES:
            FAMILIES[family][1](parts, file.name, held)
        else:
            caches.read(parts, file.name, body)
    reductions.read(parts, tables, summaries)
    return _run(parts, name, digests, formats)


def _run(parts: Parts, name: str, digests: Mapping[str, str], formats: set[str]) -> Run:
    if parts.problems:
        raise Refused(parts.problems)
    if not any((parts.calls, parts.texts, parts.scores, parts.tallies)):
        raise Refused(Problem("command line", "PATH", "holds no record of a run", KNOWN))
    return Run(
        name=name,
        format=", ".join(f"{family}/{VERSION}" for family in sorted(formats)),
        files=digests,
        calls=tuple(parts.calls),
        texts=tuple(parts.texts),
        scores=tuple(parts.scores),
        tallies=tuple(parts.tallies),
        totals=tuple(parts.totals),
    )


def _files(paths: Sequence[Path]) -> Iterator[_Named]:
    """Each file once, folders in order of their names."""
    asked = [Path(os.path.abspath(path)) for path in paths]
    root = os.path.commonpath([path if path.is_dir() else path.parent for path in asked])
    seen: set[Path] = set()
    for path in asked:
        folder = path.is_dir()
        found = sorted(one for one in path.rglob("*") if one.suffix in ENDINGS and one.is_file()) if folder else [path]
        for one in found:
            if one.resolve() not in seen:
                seen.add(one.resolve())
                yield _Named(one.relative_to(root).as_posix(), one, one in asked)


def _body(parts: Parts, file: _Named) -> bytes | None:
    try:
        return file.path.read_bytes()
    except OSError as error:
        parts.problems.append(Problem(str(file.path), "", f"cannot be read: {error.strerror or error}"))
        return None


def _family(parts: Parts, file: _Named, body: bytes) -> tuple[str | None, Any]:
    """The family of a file, and what its reader takes: its JSON value where it is one document, else its bytes. None, with a
    problem where there is one, for a file that cannot be read as any.
    """
    before = len(parts.problems)
    family, held = _recognised(parts, file, body)
    if family is None and file.asked and len(parts.problems) == before:
        parts.problems.append(Problem(str(file.path), "", "is no file of a run that judgerun knows", KNOWN))
    return family, held


def _recognised(parts: Parts, file: _Named, body: bytes) -> tuple[str | None, Any]:
    if file.path.suffix == ".csv":
        return (reductions.NAME if reductions.columns(body) in (reductions.RUN, reductions.OTHER) else None), body
    if file.path.suffix == ".jsonl":
        return _cache(parts, file, body), body
    raw = parts.document(file.name, body)
    if reductions.fits(raw):
        return reductions.NAME, raw
    return next((name for name, (fits, _) in FAMILIES.items() if fits(raw)), None), raw


def _cache(parts: Parts, file: _Named, body: bytes) -> str | None:
    """The family of JSON lines, by the first that is JSON: the others are problems of its reader."""
    lines = [line for line in body.splitlines() if line.strip()]
    for line in lines:
        try:
            return caches.fits(value(line))
        except json.JSONDecodeError:
            continue
    if lines:
        parts.problems.append(Problem(file.name, "line 1", "not JSON, nor is any other line"))
    return None
