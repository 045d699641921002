"""Read: from the paths that a person names to one foreign Run; which file is of which family is seen from what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from judgerun.errors import Problem, Refused
from judgerun.files.foreign import caches, queryform, reductions, spend
from judgerun.files.foreign.parts import Parts, document
from judgerun.model.foreign import Run

KNOWN = (
    "a spend log (JSON with `calls`), its reduction to CSV with its summary, a cache of judges or solvers (JSON lines with "
    "`query_id`), or a result file with `per_query`, `queries`, `per_generator` or `qids`"
)


def read(paths: Sequence[Path], name: str) -> Run:
    """The run in these files, and in the files of these folders. Files of a folder that belong to no family are left out; one that
    is named itself is refused. Raises Refused with every problem at once.
    """
    parts, digests, formats = Parts(), {}, set()
    tables: dict[str, bytes] = {}
    summary: tuple[str, Any] | None = None
    for path, named in _files(paths):
        try:
            body = path.read_bytes()
        except OSError as error:
            parts.problems.append(Problem(str(path), "", f"cannot be read: {error.strerror or error}"))
            continue
        family, raw = _family(path, body)
        if family is None:
            if named:
                parts.problems.append(Problem(str(path), "", "is no file of a run that judgerun knows", KNOWN))
            continue
        digests[path.name] = hashlib.sha256(body).hexdigest()
        formats.add(family)
        if family == reductions.NAME and raw is None:
            tables[path.name] = body
        elif family == reductions.NAME:
            summary = (path.name, raw)
        elif family == spend.NAME:
            spend.read(parts, path.name, raw)
        elif family == queryform.NAME:
            queryform.read(parts, path.name, raw)
        else:
            caches.read(parts, path.name, body)
    reductions.read(parts, tables, summary)
    return _run(parts, name, digests, formats)


def _run(parts: Parts, name: str, digests: dict[str, str], formats: set[str]) -> Run:
    if parts.problems:
        raise Refused(parts.problems)
    if not any((parts.calls, parts.texts, parts.scores, parts.tallies)):
        raise Refused(Problem("command line", "PATH", "holds no record of a run", KNOWN))
    return Run(
        name=name,
        format=", ".join(sorted(formats)),
        files=digests,
        calls=tuple(parts.calls),
        texts=tuple(parts.texts),
        scores=tuple(parts.scores),
        tallies=tuple(parts.tallies),
        totals=tuple(parts.totals),
    )


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """(file, whether it was named itself), folders in order of their names."""
    for path in paths:
        if path.is_dir():
            yield from (
                (found, False) for found in sorted(path.iterdir()) if found.suffix in (".json", ".jsonl", ".csv")
            )
        else:
            yield path, True


def _family(path: Path, body: bytes) -> tuple[str | None, Any]:
    """The family of a file, and its JSON value where it is one document."""
    if path.suffix == ".csv":
        return (reductions.NAME if reductions.columns(body) in (reductions.RUN, reductions.OTHER) else None), None
    if path.suffix == ".jsonl":
        first = next((line for line in body.splitlines() if line.strip()), b"null")
        try:
            return caches.fits(orjson.loads(first)), None
        except orjson.JSONDecodeError:
            raise Refused(Problem(str(path), "line 1", "not JSON")) from None
    raw = document(str(path), body)
    if reductions.fits(raw):
        return reductions.NAME, raw
    families = ((spend.NAME, spend.fits), (queryform.NAME, queryform.fits))
    return next((name for name, fits in families if fits(raw)), None), raw
