"""Commands that quote, run, watch and stop: plan, run, status, stop."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from judgerun.api.project import Project, Workspace
from judgerun.api.quoting import Quoted, quote
from judgerun.api.running import Watch
from judgerun.api.running import run as run_project
from judgerun.api.state import State, state
from judgerun.api.steering import ask_stop, budget_for
from judgerun.cli.jobs import stands
from judgerun.cli.options import HERE, BudgetName, Here, Json, Name, Yes
from judgerun.cli.panel import Panel, clock
from judgerun.cli.rehearsal import rehearse as rehearse_project
from judgerun.cli.words import Words, plain, trouble
from judgerun.errors import Exit, JudgerunError, Problem, Refused
from judgerun.files.budgets import find_budget
from judgerun.model.condition import short
from judgerun.model.money import format_usd

NEXT = {
    Exit.DONE: "judgerun audit {name}",
    Exit.EXHAUSTED: "raise the cap in budgets/{budget}.toml and give the same command again: nothing is bought twice",
    Exit.FROZEN: "look at the bill, then judgerun unfreeze {name} --because TEXT",
    Exit.GATE: "judgerun show {name} --unparsed, or --finish length; mend the prompt, the cap or the gate, and run again",
    Exit.PROVIDER: "mend it, then give the same command again: it goes on where it stopped",
    Exit.INTERRUPTED: "the same command goes on where it stopped",
}
"""What a person does after a run that ended so."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (plan, run, status, stop):
        app.command()(command)


def plan(name: Name, budget: BudgetName = None, workspace: Here = HERE, json: Json = False) -> Exit:
    """The quote per condition: cells, cached, to send, price, time; what changed since the last run. Needs no keys."""
    words = Words(json=json)
    place = Workspace(root=workspace)
    project = place.open(name)
    quoted = quote(project, find_budget(place.root, budget))
    tell_quote(words, project, quoted)
    words.result(quoted.document())
    return Exit.DONE


def tell_quote(words: Words, project: Project, quoted: Quoted) -> None:
    """The quote for people."""
    held = quoted.quote
    for change in quoted.changes:
        words.say(change)
    names = short(line.condition for line in held.lines)
    rows = [
        (
            names[line.condition],
            line.cells,
            line.cached,
            line.shared,
            line.to_send,
            format_usd(line.expected),
            format_usd(line.worst),
            format_usd(line.bound),
            up_to(line.days) if line.days else clock(line.seconds),
        )
        for line in held.lines
    ]
    heads = ("condition", "cells", "cached", "shared", "to send", "expected USD", "worst USD", "bound USD", "time")
    words.table(heads, rows)
    words.say(
        f"{project.name}: {held.to_send} calls to send; expected {format_usd(held.expected)}, worst {format_usd(held.worst)}, "
        f"bound {format_usd(held.bound)} USD; about {clock(held.seconds)} at the lanes' rates"
        f"{f' and {up_to(held.days)} in jobs' if held.days else ''}; "
        f"headroom of budget {quoted.budget} {format_usd(quoted.headroom)} USD"
    )
    for warning in quoted.warnings:
        words.log(f"warning: {warning}")


def up_to(days: int) -> str:
    """The most that jobs take."""
    return f"up to {days} day{'s' * (days > 1)}"


def run(
    name: Name,
    budget: BudgetName = None,
    yes: Yes = False,
    only: Annotated[str | None, typer.Option("--only", metavar="COND", help="Only conditions of this key.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="BLOCKS", min=1, help="At most so many blocks.")
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="On the simulated provider, in virtual time: predicts, spends nothing.")
    ] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Run or resume. Ctrl-C once drains, twice stops now."""
    if rehearse:
        return tell_rehearsal(Words(json=json), workspace, name, budget=budget, narrowed=bool(only or limit))
    return go(Words(json=json), workspace, name, budget=budget, yes=yes, only=only, limit=limit)


def go(
    words: Words,
    workspace: Path,
    name: str,
    *,
    budget: str | None,
    yes: bool,
    only: str | None = None,
    limit: int | None = None,
    quote_only: bool = False,
) -> Exit:
    """Quote, then run unless only the quote was asked; tell how it ended."""
    place = Workspace(root=workspace)
    project = place.open(name, offline=quote_only)
    held = find_budget(place.root, budget)
    if quote_only:
        quoted = quote(project, held)
        tell_quote(words, project, quoted)
        words.say(f"nothing was sent: judgerun run {project.name} --budget {held.name}, or say --yes here")
        words.result(quoted.document())
        return Exit.DONE
    with Panel(words, project.name) as panel:

        def watch(seen: Watch) -> None:
            panel.show(seen)

        result = asyncio.run(
            run_project(
                project, budget=held, yes=yes, only=only, limit=limit, signals=True, watch=watch, log=words.event
            )
        )
    tell_state(words, result.state)
    if result.reason:
        words.say(f"ended with {int(result.code)}: {result.reason}")
    if result.code in NEXT and (result.code is not Exit.DONE or result.state.state == "complete"):
        words.say("next: " + NEXT[result.code].format(name=project.name, budget=held.name))
    words.result(result.document())
    return result.code


def tell_rehearsal(words: Words, workspace: Path, name: str, *, budget: str | None, narrowed: bool) -> Exit:
    """Rehearse the whole experiment, and tell what that predicts."""
    if narrowed:
        raise Refused(
            Problem(
                "command line", "--rehearse", "a rehearsal is of the whole experiment", "leave out --only and --limit"
            )
        )
    place = Workspace(root=workspace)
    project = place.open(name)
    held = find_budget(place.root, budget)
    found = rehearse_project(project, held, seed=project.experiment.seed, log=words.event)
    tell_state(words, found.result.state)
    document = found.document()
    cells, spend = document["cells"], document["spend"]
    cut = sum(one["truncated"] for one in document["conditions"])
    jobs = any(model.lane == "batch" for model in project.experiment.models)
    words.say(
        f"rehearsed on simulated answers: {spend['high_usd']} USD at the real prices, {cells['done']} cells, {cut} of them "
        f"truncated, in {clock(found.seconds)} at the lanes' rates{' (the rest of a rehearsal)' * found.resumed}"
        f"{', to which the real jobs of the batch lane add up to a day' * jobs}; "
        "nothing was spent, and nothing of it enters cache.db"
    )
    if found.result.reason:
        words.say(f"it ended with {int(found.result.code)}: {found.result.reason}")
    words.result(document)
    return found.result.code


def tell_state(words: Words, found: State) -> None:
    """How an experiment stands, for people: the finish table first, then the money."""
    document = found.document()
    names = short(line["condition"] for line in document["conditions"])
    rows = [
        (
            names[line["condition"]],
            *(line[name] for name in ("planned", "done", "failed", "pending", "cached", "shared")),
            " ".join(f"{word} {n}" for word, n in line["finish"].items()) or "-",
            *(line[name] for name in ("truncated", "empty", "unparsed")),
            line["spend_usd"],
        )
        for line in document["conditions"]
    ]
    heads = (
        "condition",
        "planned",
        "done",
        "failed",
        "pending",
        "cached",
        "shared",
        "finish",
        "truncated",
        "empty",
        "unparsed",
    )
    words.table((*heads, "spend USD"), rows)
    cells, spend = document["cells"], document["spend"]
    cap = f" of {spend['cap_usd']}" if spend["cap_usd"] else ""
    words.say(
        f"{found.experiment}: {found.state}{f' ({found.reason})' if found.reason else ''}; {cells['done']} of {cells['planned']} "
        f"cells done, {cells['failed']} failed, {cells['pending']} pending; {document['attempts']} attempts"
    )
    words.say(
        f"spent [{spend['low_usd']}, {spend['high_usd']}] USD{cap}: settled {spend['settled_usd']}, forfeited "
        f"{spend['forfeited_usd']}, held {spend['held_usd']}"
    )
    for job in document["jobs"]:
        since = datetime.fromtimestamp(job["since"], UTC).strftime("%Y-%m-%d %H:%M UTC")
        words.say(
            f"job {job['job']} at {job['provider']}: {job['calls']} calls of {job['model']} since {since}; "
            f"{stands(job['state'], job['told'])}"
        )
    for process in document["processes"]:
        waits = ", ".join(f"{cause} {cells}" for cause, cells in process.get("waiting", {}).items()) or "nothing"
        words.say(
            f"process {process['pid']}: {process.get('in_flight', 0)} in flight, {process.get('calls_per_s', 0)} calls/s, "
            f"{process.get('tokens_per_s', 0)} tokens/s; waits for {waits}"
        )
        for provider, why in process.get("trouble", {}).items():
            words.say(f"{provider}: {plain(why)}; next try in {process['next_try_s'][provider]:.0f} s")


def status(
    name: Annotated[
        str | None, typer.Argument(metavar="[EXP]", help="An experiment; all that ran here when left out.")
    ] = None,
    budget: BudgetName = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """How it stands, from any terminal while it runs. Always exits 0."""
    words = Words(json=json)
    place = Workspace(root=workspace)
    names = [name] if name else place.ran()
    documents: list[dict[str, object]] = []
    for one in names:
        try:
            project = place.open(one)
            found = state(project, budget=budget_for(project, budget))
        except (
            JudgerunError
        ) as error:  # told, and no more: whoever watches a run must not be stopped by a file being edited
            words.log(str(error))
            documents.append({"experiment": one, "error": trouble(error)})
            continue
        tell_state(words, found)
        documents.append(found.document())
    if not names:
        words.say("nothing has run here yet")
    words.result(documents[0] if name else {"experiments": documents})
    return Exit.DONE


def stop(name: Name, workspace: Here = HERE, json: Json = False) -> Exit:
    """Ask a running process to drain: calls in flight finish, nothing new is sent."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    asked = asyncio.run(ask_stop(project))
    words.say(
        f"asked {asked} process{'es' if asked != 1 else ''} to drain" if asked else f"no process runs {project.name}"
    )
    words.result({"experiment": project.name, "asked": asked})
    return Exit.DONE
