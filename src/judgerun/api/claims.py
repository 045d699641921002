"""Claims of a file, checked: by arithmetic, against the numbers of runs, and run against run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from judgerun.api.changes import files as digests
from judgerun.api.project import Workspace
from judgerun.audit import claims
from judgerun.audit.words import few
from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.files.claims import Claims, Equal, Number, load_claims
from judgerun.files.toml import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One claim: `wrong` says why it cannot be true, and is empty where it can; `vague` where nothing could have been wrong."""

    kind: str
    name: str
    wrong: str = ""
    vague: bool = False


def check(workspace: Workspace, path: Path) -> list[Checked]:
    """Every claim of a file, in its order. Refused for a file that is not understood, and for runs and numbers that are not
    there, all at once.
    """
    held = load_claims(path)
    told = [*_arithmetic(held), *_sets(held)]
    asked = [("number", one.name, partial(_number, workspace, path, one)) for one in held.shape.number]
    asked += [("equal", one.name, partial(_equal, workspace, path, one)) for one in held.shape.equal]
    problems: list[Problem] = []
    for kind, name, look in asked:
        try:
            told.append(Checked(kind=kind, name=name, wrong=look() or ""))
        except Refused as error:
            problems += error.problems
    if problems:
        raise Refused(problems)
    return told


def _arithmetic(held: Claims) -> Iterator[Checked]:
    for one in held.percentages:
        wrong = claims.wrong_percent(one.printed, one.n) or ""
        yield Checked(kind="percent", name=one.place, wrong=wrong, vague=not claims.tells(one.printed, one.n))
    for total in held.shape.sum:
        yield Checked(kind="sum", name=total.name, wrong=claims.wrong_sum(total.parts, total.total) or "")
    for change in held.shape.change:
        wrong = claims.wrong_change(change.before, change.after, change.change) or ""
        yield Checked(kind="change", name=change.name, wrong=wrong)


def _sets(held: Claims) -> Iterator[Checked]:
    for name, one, other in held.lists:
        yield Checked(kind="same", name=name, wrong=claims.wrong_sets(one, other) or "")


def _number(workspace: Workspace, path: Path, claim: Number) -> str | None:
    """A printed number against the one that it is of."""
    if (claim.run is None) == (claim.file is None):
        raise Refused(
            Problem(str(path), claim.name, "a number is of one place", 'run = "EXP", or file = "estimates.json"')
        )
    if (claim.question is None) != bool(claim.at) or (claim.at and claim.run is not None):
        right = 'question = "NAME", or of a file at = ["key", "key"]'
        raise Refused(Problem(str(path), claim.name, "it is not said which number", right))
    place = path.parent / claim.file if claim.file else workspace.root / "results" / str(claim.run) / "estimates.json"
    text, _ = read_text(place)
    try:
        held = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refused(Problem(str(place), "", f"is no JSON: {error}", "estimates.json, or a JSON file")) from error
    value, note = _reached(path, claim, held) if claim.at else _line(path, claim, held)
    if value is None:
        return f"the run does not tell it: {note}"
    return claims.wrong_value(claim.value, float(value) * claim.times)


def _reached(path: Path, claim: Number, held: Any) -> tuple[float | None, str]:
    """The number to which keys and places lead."""
    found = held
    for key in claim.at:
        known = list(found) if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
        if key not in known:
            right = f"there are {', '.join(few(map(str, known)))}" if known else ""
            raise Refused(Problem(str(path), claim.name, f"{claim.file} has nothing at {key!r}", right))
        found = found[key]
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise Refused(Problem(str(path), claim.name, f"at {claim.at} stands no number", "keys that lead to a number"))
    return found, "it is null"


def _line(path: Path, claim: Number, lines: Any) -> tuple[float | None, str]:
    """The part that a claim is of, of its line of estimates.json, and that line's note."""
    if not isinstance(lines, list) or not all(isinstance(line, dict) and "question" in line for line in lines):
        raise Refused(Problem(str(path), claim.name, f"{claim.file} holds no estimates", 'at = ["key", "key"]'))
    found = [
        line for line in lines if line["question"] == claim.question and claim.coords.items() <= line["coords"].items()
    ]
    if len(found) != 1:
        known = sorted({line["question"] for line in lines})
        wrong = f"{len(found)} lines of the estimates are of {claim.question!r} with these coordinates"
        right = "coords that name one line" if found else f"questions are {', '.join(known)}"
        raise Refused(Problem(str(path), claim.name, wrong, right))
    return found[0][claim.part], found[0]["note"]


def _equal(workspace: Workspace, path: Path, claim: Equal) -> str | None:
    """Two experiments that are said to differ in some keys alone: their files, and the digests of all that they read."""
    one, other = (workspace.open(name) for name in claim.runs)
    tables = [tomllib.loads(read_text(Path(project.experiment.folder) / EXPERIMENT)[0]) for project in (one, other)]
    named = [_named(table) for table in tables]
    texts = [
        {name: digest[:12] for name, digest in digests(project).items() if name != EXPERIMENT}
        for project in (one, other)
    ]
    found = [*claims.differences(named[0], named[1]), *claims.differences(texts[0], texts[1], "file")]
    left = [words for words in found if not any(words.split(":", 1)[0].startswith(key) for key in ("name", *claim.but))]
    return f"they differ in {'; '.join(left)}" if left else None


def _named(table: dict[str, Any]) -> dict[str, Any]:
    """The table with its lists of named tables (stages, questions) by name."""
    return {
        key: {str(one.get("name", place)): one for place, one in enumerate(value)}
        if isinstance(value, list) and all(isinstance(one, dict) for one in value)
        else value
        for key, value in table.items()
    }
