"""The command that buys again under higher caps: escalate."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from judgerun.api.escalation import CAPS, planned
from judgerun.api.project import Project, Workspace
from judgerun.api.running import run
from judgerun.api.steering import budget_named
from judgerun.audit.words import plural
from judgerun.cli.options import HERE, BudgetName, Here, Json, Name, Yes, listed
from judgerun.cli.runs import NEXT
from judgerun.cli.standing import tell_state
from judgerun.cli.words import Words
from judgerun.errors import Exit, Problem, Refused, both
from judgerun.plan.ladder import Escalation


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(escalate)


def escalate(
    name: Name,
    condition: Annotated[str, typer.Option("--condition", metavar="C", help="The conditions of this key.")],
    caps: Annotated[str, typer.Option(CAPS, metavar="N,N", help="The caps, rising, each above the condition's own.")],
    budget: BudgetName = None,
    of: Annotated[
        str, typer.Option("--of", metavar="KINDS", help="Which replies: truncated, empty, unparsed.")
    ] = "truncated",
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why, for the record.")] = "",
    yes: Yes = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Ask cells whose reply was cut off (or empty, or unparsed) again under higher caps, and nothing else."""
    words = Words(json=json)
    place = Workspace(root=workspace)

    def stated() -> tuple[Project, Escalation]:
        project, rungs = both(lambda: place.open(name, offline=False), lambda: _caps(caps))
        return project, planned(project, condition, rungs=rungs, kinds=listed(of), because=because)

    (project, plan), held = both(stated, lambda: budget_named(place, budget))
    result = asyncio.run(run(project, budget=held, yes=yes, escalation=plan, signals=True, log=words.event))
    tell_state(words, result.state)
    if result.reason:
        words.say(f"ended with {int(result.code)}: {result.reason}")
    pending = sum(count.pending + count.owed for count in result.state.counts)
    if result.code is not Exit.DONE and result.code in NEXT:
        words.say("next: " + NEXT[result.code].format(name=project.name, budget=held.name))
    elif pending:
        words.say(f"next: judgerun run {project.name} goes on with what is left: {plural(pending, 'cell')}")
    else:
        words.say(f"next: judgerun audit {project.name}")
    words.result({**result.document(), "escalation": plan.document()})
    return result.code


def _caps(text: str) -> list[int]:
    """The caps of a list. Refused for what is no whole number."""
    parts = listed(text)
    if wrong := [part for part in parts if not part.isascii() or not part.isdigit()]:
        raise Refused(
            [Problem("command line", CAPS, f"{part!r} is no number of tokens", "as in 16384,32768") for part in wrong]
        )
    return [int(part) for part in parts]
