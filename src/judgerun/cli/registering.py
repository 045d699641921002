"""The commands that put on record what is fixed beforehand and what is left out: register, exclude."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from judgerun.api import registering
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json, Name
from judgerun.cli.words import Words
from judgerun.errors import Exit, Problem, Refused
from judgerun.model.exclusion import ITEM


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("register")(fix)
    app.command()(exclude)


def fix(
    name: Name,
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="What for, in words; it is kept.")] = "",
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Fix questions, gates and parse rules on the record, as the file says them now; what changes later is told as post hoc."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    done = asyncio.run(registering.register(project, because))
    late = [item for item in done.standing if item.standing != "registered"]
    words.say(f"{'it stands on the record already' if done.known else 'registered'}: {done.digest}")
    when = "before the first reply" if not done.replies else f"when {done.replies} replies were there: this is post hoc"
    words.say(f"{len(done.standing)} questions, gates and rules, {when}")
    for item in late:
        words.say(f"{item.standing} {item.name}: {item.why}")
    words.result(
        {
            "experiment": project.name,
            "digest": done.digest,
            "known": done.known,
            "replies": done.replies,
            "items": [{"name": item.name, "standing": item.standing, "why": item.why} for item in done.standing],
        }
    )
    return Exit.DONE


def exclude(
    name: Name,
    condition: Annotated[
        str | None, typer.Argument(metavar="CONDITION", help="A key of conditions: their leading parts.")
    ] = None,
    item: Annotated[
        str | None, typer.Option("--item", metavar="ID", help="A row, in the place of a condition.")
    ] = None,
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why; every report says it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take it in again.")] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Leave a condition or an item out of every comparison, on record; reports and audits say so."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    if (condition is None) == (item is None):
        raise Refused(
            Problem("command line", "CONDITION", "one thing is left out at a time", "CONDITION, or --item ID")
        )
    subject = condition or f"{ITEM}{item}"
    replies = asyncio.run(registering.exclude(project, subject, because, undo=undo))
    words.say(f"{subject} {'counts again' if undo else 'is left out of every comparison'}; {replies} replies are there")
    words.say(f"next: judgerun report {project.name}; what was sealed has to be sealed anew")
    words.result(
        {"experiment": project.name, "subject": subject, "because": because.strip(), "undo": undo, "replies": replies}
    )
    return Exit.DONE
