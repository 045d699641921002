"""Commands that quote and run: plan, run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from judgerun.api.notify import parse
from judgerun.api.project import Project, Workspace
from judgerun.api.quoting import Quoted, quote
from judgerun.api.running import run as run_project
from judgerun.api.stand import rerun
from judgerun.api.state import Result
from judgerun.api.steering import budget_named
from judgerun.api.watching import Watch
from judgerun.cli.detach import Child, detach
from judgerun.cli.keeping import Trail
from judgerun.cli.options import HERE, BudgetName, Here, Json, Name, Notify, Yes
from judgerun.cli.panel import Panel, clock
from judgerun.cli.piloting import Pilot, asked
from judgerun.cli.rehearsal import rehearse as rehearse_project
from judgerun.cli.standing import tell_state
from judgerun.cli.words import GONE, Words, nowhere
from judgerun.errors import Exit, Problem, Refused, both
from judgerun.ledger.budget import Budget
from judgerun.model.condition import short
from judgerun.model.money import format_usd

NEXT = {
    Exit.DONE: "judgerun audit {name}",
    Exit.EXHAUSTED: "raise the cap in budgets/{budget}.toml and give the same command again: nothing is bought twice",
    Exit.FROZEN: "look at the bill, then judgerun unfreeze {name} --because TEXT",
    Exit.GATE: "look with judgerun show {name}; mend the prompt, the cap or the gate and run again, or say why it may go on: "
    "judgerun resume {name} --condition COND --because TEXT",
    Exit.PROVIDER: "mend it, then give the same command again: it goes on where it stopped",
    Exit.INTERRUPTED: "the same command goes on where it stopped",
}
"""What a person does after a run that ended so."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (plan, run):
        app.command()(command)


PILOTED = (
    "mend the prompt, the cap or the gate and give the same command again: the pilot's replies are not bought twice; or judgerun "
    "run {name} without --pilot, on your own judgement"
)
"""And after a pilot whose certificate does not allow the rest: no gate has fired that could be reopened."""


def plan(name: Name, budget: BudgetName = None, workspace: Here = HERE, json: Json = False) -> Exit:
    """The quote per condition: cells, cached, to send, price, time; what changed since the last run. Needs no keys."""
    words = Words(json=json)
    place = Workspace(root=workspace)
    project, held = both(lambda: place.open(name), lambda: budget_named(place, budget))
    quoted = quote(project, held)
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
    blocks: Annotated[
        int | None,
        typer.Option(
            "--pilot", metavar="N", min=1, help="First so many blocks, then a certificate; the rest if it allows."
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(
            "--risk", metavar="P", min=0, max=1, help="Of passing a cap, borne by a pilot.", show_default="0.05"
        ),
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="On the simulated provider, in virtual time: predicts, spends nothing.")
    ] = False,
    detached: Annotated[
        bool, typer.Option("--detach", help="In a process of its own; returns when that really runs.")
    ] = False,
    notify: Notify = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Run or resume. Ctrl-C once drains, twice stops now."""
    other = {"--only": only is not None, "--limit": limit is not None, "--rehearse": rehearse}
    pilot = asked(Workspace(root=workspace), name, budget, blocks=blocks, risk=risk, other=other)
    if rehearse:
        narrowed = bool(only or limit or detached or notify)
        return tell_rehearsal(Words(json=json), workspace, name, budget=budget, narrowed=narrowed)
    child = Child.here() if detached else None
    if detached and child is None:
        return detach()
    words = Words(json=json)
    return go(
        words, workspace, name, budget=budget, yes=yes, only=only, limit=limit, pilot=pilot, notify=notify, child=child
    )


def go(
    words: Words,
    workspace: Path,
    name: str,
    *,
    budget: str | None,
    yes: bool,
    only: str | None = None,
    limit: int | None = None,
    pilot: Pilot | None = None,
    quote_only: bool = False,
    notify: str | None = None,
    child: Child | None = None,
) -> Exit:
    """Quote, then run unless only the quote was asked; tell how it ended."""
    command = None if notify is None else parse(notify)
    place = Workspace(root=workspace)
    held = _budget(place, name, budget)
    if not (quote_only or only or limit or notify) and (result := rerun(place, name, held)) is not None:
        words.say("complete: nothing to send")
        return _tell_ending(words, result, held)
    project = place.open(name, offline=quote_only)
    if quote_only:
        quoted = quote(project, held)
        tell_quote(words, project, quoted)
        words.say(f"nothing was sent: judgerun run {project.name} --budget {held.name}, or say --yes here")
        words.result(quoted.document())
        return Exit.DONE
    with Trail(words, project, held, notify=command, child=child) as trail:
        with Panel(words, project.name, plain=child is not None) as panel:

            def watch(seen: Watch) -> None:
                panel.show(seen)
                trail.watch(seen)

            result = asyncio.run(
                run_project(
                    project, budget=held, yes=yes, only=only, limit=limit, signals=True, watch=watch, log=trail.log
                )
                if pilot is None
                else pilot.run(words, project, held, yes=yes, watch=watch, log=trail.log)
            )
        trail.ended(result)
        return _tell_ending(words, result, held)


def _budget(place: Workspace, name: str, budget: str | None) -> Budget:
    """The budget that is meant. Where none can be, what is wrong with the experiment is told in the same breath."""
    try:
        return budget_named(place, budget)
    except Refused:
        return both(lambda: place.open(name), lambda: budget_named(place, budget))[1]


def _tell_ending(words: Words, result: Result, budget: Budget) -> Exit:
    """How a run ended; its code, also where whoever read along has gone."""
    try:
        tell_state(words, result.state)
        if result.reason:
            words.say(f"ended with {int(result.code)}: {result.reason}")
        if result.code in NEXT and (result.code is not Exit.DONE or result.state.state == "complete"):
            unfired = result.code is Exit.GATE and not result.state.gates
            advice = PILOTED if unfired else NEXT[result.code]
            words.say("next: " + advice.format(name=result.state.experiment, budget=budget.name))
        words.result(result.document())
    except OSError as error:
        if error.errno not in GONE:
            raise
        nowhere(1)
    return result.code


def tell_rehearsal(words: Words, workspace: Path, name: str, *, budget: str | None, narrowed: bool) -> Exit:
    """Rehearse the whole experiment, and tell what that predicts."""
    if narrowed:
        raise Refused(
            Problem(
                "command line",
                "--rehearse",
                "a rehearsal is of the whole experiment, here and now",
                "leave out what else was asked",
            )
        )
    place = Workspace(root=workspace)
    project, held = both(lambda: place.open(name), lambda: budget_named(place, budget))
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
