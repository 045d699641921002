"""The command about what stands in the batch lane: jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from judgerun.api import jobs
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json, Name
from judgerun.cli.words import Words, plain
from judgerun.errors import Exit
from judgerun.model.money import format_usd
from judgerun.ports import JobState

HEADS = (
    "job",
    "provider",
    "model",
    "state",
    "open",
    "closed",
    "held USD",
    "since UTC",
    "process",
    "id",
    "how it stands",
)

STANDS: Mapping[JobState, str] = {
    JobState.FILLING: "it is being filled",
    JobState.SUBMITTING: "it is handed over, and not confirmed yet",
    JobState.SUBMITTED: "the provider has it",
    JobState.ENDED: "it has ended",
}


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(name="jobs")(command)


def command(
    name: Name,
    cancel: Annotated[
        str | None, typer.Option("--cancel", metavar="JOB|all", help="Ask the provider to do nothing more of it.")
    ] = None,
    forfeit: Annotated[
        int | None, typer.Option("--forfeit", metavar="JOB", help="Write off a job that its provider no longer knows.")
    ] = None,
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why it is written off.")] = "",
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """The jobs of the batch lane: where they are, what they hold, what the provider last said."""
    if cancel is not None and forfeit is not None:
        raise typer.BadParameter("--cancel or --forfeit, one at a time")
    words = Words(json=json)
    project = Workspace(root=workspace).open(name, offline=cancel is None)
    code, document = Exit.DONE, dict[str, Any]()
    if cancel is not None:
        asked = asyncio.run(jobs.cancel(project, cancel))
        for one in asked:
            words.say(f"job {one.job.id} at {one.job.place.provider}: {plain(one.trouble or 'asked to cancel')}")
        if any(one.trouble for one in asked):
            code = Exit.PROVIDER
        document["cancelled"] = [{"job": one.job.id, "trouble": one.trouble} for one in asked]
    if forfeit is not None:
        held = asyncio.run(jobs.write_off(project, forfeit, because))
        words.say(
            f"job {forfeit} is written off: {held.calls} calls, {format_usd(held.nanos)} USD, are spent as far as is known"
        )
        document["forfeited"] = {"job": forfeit, "calls": held.calls, "usd": format_usd(held.nanos)}
    found = jobs.listed(project)
    _tell(words, project.name, found)
    words.result({"experiment": project.name, "jobs": [one.document() for one in found], **document})
    return code


def stands(state: str, told: str | None) -> str:
    """How a job stands, for people: what its provider last said, else how far it has come here."""
    if state == JobState.SUBMITTED and told:
        return f"the provider says {plain(told)}"
    return plain(told or STANDS[JobState(state)])


def _tell(words: Words, name: str, found: tuple[jobs.Listed, ...]) -> None:
    if not found:
        words.say(f"{name} has no jobs here")
        return
    words.table(HEADS, [_row(one.document()) for one in found])
    left = [one for one in found if one.job.calls and one.pid is None]
    if left:
        words.say(f"no process collects {sum(one.job.calls for one in left)} calls: judgerun run {name}")


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    since = datetime.fromtimestamp(one["since"], UTC).strftime("%Y-%m-%d %H:%M")
    numbers = (one["calls"], one["closed"], one["held_usd"])
    return (
        one["job"],
        one["provider"],
        one["model"],
        one["state"],
        *numbers,
        since,
        one["pid"] or "-",
        one["id"] or "-",
        stands(one["state"], one["told"]),
    )
