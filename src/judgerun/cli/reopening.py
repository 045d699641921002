"""The command that lets a condition go on which a gate has stopped: resume."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from judgerun.api.gates import reopen
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json, Name
from judgerun.cli.words import Words
from judgerun.errors import Exit


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(resume)


def resume(
    name: Name,
    condition: Annotated[
        str, typer.Option("--condition", metavar="COND", help="A key of conditions: their leading parts.")
    ],
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why they may go on; it is kept.")],
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Let conditions go on that a gate has stopped, on record; the gate judges what comes from now on."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    reopened = asyncio.run(reopen(project, condition, because))
    for one in reopened:
        words.say(f"{one.condition} goes on; it had stopped for {one.was}")
    running = any(one.running for one in reopened)
    if running:
        words.say(
            "the running process hears of it at its next look; the cells that it has passed over wait for the next run"
        )
    words.say(f"next: judgerun run {project.name}{' once more when that has ended' * running}")
    words.result(
        {
            "experiment": project.name,
            "because": because.strip(),
            "running": running,
            "conditions": [{"condition": one.condition, "gate": one.was} for one in reopened],
        }
    )
    return Exit.DONE
