"""Commands that steer a run from any terminal: stop, pause, unpause, set."""

from __future__ import annotations

from typing import Annotated

import typer

from judgerun.api.project import Workspace
from judgerun.api.steering import ask, set_caps, set_lane
from judgerun.cli.options import HERE, BudgetName, Here, Json, Name
from judgerun.cli.words import Words
from judgerun.errors import Exit, Problem, Refused
from judgerun.ports import Order

Within = Annotated[
    float | None,
    typer.Option("--within", metavar="SECONDS", min=0.0, help="What is still in flight then is forfeited."),
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (stop, pause, unpause):
        app.command()(command)
    app.command("set")(amend)


def stop(
    name: Name,
    now: Annotated[bool, typer.Option("--now", help="At once: what is in flight is forfeited.")] = False,
    within: Within = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Ask running processes to drain: calls in flight finish, nothing new is sent."""
    if now and within is not None:
        raise Refused(Problem("command line", "--now", "is the same as --within 0", "one of them"))
    if now:
        return _ask(Words(json=json), workspace, name, Order.NOW, "to stop at once")
    until = "" if within is None else f", within {within:g} s"
    return _ask(Words(json=json), workspace, name, Order.STOP, f"to drain{until}", within=within)


def pause(name: Name, workspace: Here = HERE, json: Json = False) -> Exit:
    """Ask running processes to send nothing new until they are unpaused; calls in flight finish and are kept."""
    return _ask(Words(json=json), workspace, name, Order.PAUSE, "to pause")


def unpause(name: Name, workspace: Here = HERE, json: Json = False) -> Exit:
    """Ask paused processes to go on."""
    return _ask(Words(json=json), workspace, name, Order.UNPAUSE, "to go on")


def _ask(words: Words, workspace: Here, name: str, order: Order, what: str, *, within: float | None = None) -> Exit:
    experiment, asked = ask(Workspace(root=workspace), name, order, within=within)
    words.say(f"asked {_processes(asked)} {what}" if asked else f"no process runs {experiment}")
    words.result({"experiment": experiment, "asked": asked})
    return Exit.DONE


def amend(
    subject: Annotated[str, typer.Argument(metavar="budget|LANE", help="A lane as in lanes.toml, or the word budget.")],
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="As in the file; none for no limit.")],
    budget: BudgetName = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Set caps of a budget or limits of a lane, on the record; running processes go by it, and so do later ones while the file says
    what it says now.
    """
    words, place = Words(json=json), Workspace(root=workspace)
    found = set_caps(place, budget, values) if subject == "budget" else set_lane(place, subject, values)
    for key, was, now in found.changes:
        words.say(f"{found.subject}: {key} = {now}, was {was}")
    words.say(
        f"{_processes(found.heard_by)} will hear it" if found.heard_by else "no process runs: it is for the next one"
    )
    changes = [{"key": key, "was": was, "now": now} for key, was, now in found.changes]
    words.result({"subject": found.subject, "set": changes, "heard_by": found.heard_by})
    return Exit.DONE


def _processes(count: int) -> str:
    return f"{count} process{'es' if count != 1 else ''}"
