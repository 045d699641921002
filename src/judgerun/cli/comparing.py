"""The command that puts two runs, or a run and a paper, side by side: compare."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from judgerun.api import compare as api
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json
from judgerun.cli.words import Words
from judgerun.errors import Exit, Problem, Refused
from judgerun.model.money import format_usd
from judgerun.report.beside import Beside, Line

Side = Annotated[str, typer.Argument(help="An experiment, an estimates.json file, or the word paper.")]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(compare)


def compare(
    first: Side,
    second: Side,
    question: Annotated[str | None, typer.Option("--question", metavar="NAME", help="This question alone.")] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Numbers of the same question and coordinates side by side; `paper` are those that the study's paper printed."""
    words = Words(json=json)
    one, other, held = api.compare(Workspace(root=workspace), first, second)
    told = [line for line in held.both if question in (None, line.question)]
    if not told:
        known = ", ".join(dict.fromkeys(line.question for line in held.both))
        raise Refused(Problem("--question", question or "", "both sides tell nothing of it", f"they share {known}"))
    for name in dict.fromkeys(line.question for line in told):
        own = [line for line in told if line.question == name]
        rows = [(_where(line), _said(line.first), _said(line.second), _change(line), line.standing) for line in own]
        words.table(("of", one.name, other.name, "change", "standing"), rows, title=name)
    counted = Counter(line.standing for line in told)
    words.say(f"{len(told)} numbers on both sides: {', '.join(f'{n} {word}' for word, n in counted.most_common())}")
    for side, alone in ((one, held.first), (other, held.second)):
        if alone:
            words.say(f"only {side.name} tells {len(alone)} more")
    lines = [_record(line) for line in told]
    only = {"only_first": [dict(line) for line in held.first], "only_second": [dict(line) for line in held.second]}
    words.result({"first": one.name, "second": other.name, "lines": lines, **only})
    return Exit.DONE


def _where(line: Beside) -> str:
    held = [f"{name} {value}" for name, value in line.coords.items() if name not in ("measure", "unit")]
    return ", ".join([line.coords.get("measure", "value"), *held])


def _said(line: Line) -> str:
    if line["value"] is None:
        return "not told"
    interval = "" if line["low"] is None else f" [{_number(line, 'low')}, {_number(line, 'high')}]"
    return f"{_number(line, 'value')}{interval}"


def _number(line: Line, part: str) -> str:
    return format_usd(int(line[part])) if line["coords"].get("unit") == "nanos" else f"{line[part]:.4g}"


def _change(line: Beside) -> str:
    if line.difference is None:
        return "-"
    return _number({**line.first, "value": line.difference}, "value")


def _record(line: Beside) -> dict[str, object]:
    return {
        "question": line.question,
        "coords": dict(line.coords),
        "first": dict(line.first),
        "second": dict(line.second),
        "difference": line.difference,
        "standing": line.standing,
    }
