"""Remaking: the files of results/EXP/ and audits/EXP/ made again from a sealed cache, and compared with those that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson

from judgerun.api.project import Project
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit
from judgerun.report import build
from judgerun.report.audited import files
from judgerun.report.export import written

ESTIMATES, AUDIT = "estimates.json", "audit.json"


def results(evidence: Evidence, found: Audit) -> dict[str, bytes]:
    """The files of results/EXP/ by name: the report, its numbers, and what stages write."""
    return {**build.report(evidence, found), **dict(written(evidence))}


def made_again(project: Project, evidence: Evidence, *, moved: bool) -> tuple[list[str], list[str]]:
    """(what differs from what the sealed cache gives, what is only old). Files that were made from a draft or from another seal
    never claimed to be of this one. Where what they rest on has `moved` (a waiver, a version, a price: told by itself) pages may
    differ; numbers may not.
    """
    found, root = audit(evidence), project.workspace.root
    folders: tuple[tuple[str, str, Mapping[str, bytes]], ...] = (
        (f"results/{project.name}", ESTIMATES, results(evidence, found)),
        (f"audits/{project.name}", AUDIT, files(found, evidence)),
    )
    wrong: list[str] = []
    old: list[str] = []
    for folder, main, made in folders:
        path = root / folder / main
        if not path.exists():
            continue
        if evidence.seal not in _seals(path):
            command = "report" if main == ESTIMATES else "audit"
            old.append(f"{folder}/{main} was not made from this seal: judgerun {command} {project.name}")
            continue
        for name, said in _differing(root / folder, made):
            (old if moved and name != ESTIMATES else wrong).append(f"{folder}/{name}: {said}")
    return wrong, old


def _differing(folder: Path, made: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """(name, what differs) of the files that are not what is made now; one that is not there was taken away, or never wanted."""
    for name, content in made.items():
        path = folder / name
        if path.exists() and (there := path.read_bytes()) != content:
            yield name, f"differs from what the cache gives, first in line {_line(there, content)}"


def _line(one: bytes, other: bytes) -> int:
    """The number of the first line in which two texts differ."""
    pairs = zip_longest(one.split(b"\n"), other.split(b"\n"))
    return next(number for number, (a, b) in enumerate(pairs, 1) if a != b)


def _seals(path: Path) -> set[Any]:
    """The seals from which a file says that it was made; of one that cannot be read any, so that it is compared."""
    try:
        told = orjson.loads(path.read_bytes())
        return {line["seal"] for line in told} if isinstance(told, list) else {told["seal"]}
    except (ValueError, TypeError, KeyError):
        return _Any()


class _Any(set[Any]):
    """Holds everything."""

    def __contains__(self, _: object) -> bool:
        return True
