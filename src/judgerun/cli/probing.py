"""The command that tries an experiment out with one call for each model and prompt: probe."""

from __future__ import annotations

import asyncio

import typer

from judgerun.api.probe import Probe, Probed, probe
from judgerun.api.project import Workspace
from judgerun.api.steering import budget_named
from judgerun.cli.options import HERE, BudgetName, Here, Json, Name, Yes
from judgerun.cli.words import Words, plain
from judgerun.errors import Exit, both
from judgerun.model.money import format_usd

HEADS = ("stage", "model", "prompt", "outcome", "finish", "parsed", "input", "output", "reasoning", "cost USD")


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(name="probe")(command)


def command(
    name: Name, budget: BudgetName = None, yes: Yes = False, workspace: Here = HERE, json: Json = False
) -> Exit:
    """One priced call for each model and prompt: what is accepted, hidden thinking, empty answers, cost at this rate."""
    words = Words(json=json)
    place = Workspace(root=workspace)
    project, held = both(lambda: place.open(name, offline=False), lambda: budget_named(place, budget))
    found = asyncio.run(probe(project, held, yes=yes, log=words.event))
    tell(words, found)
    words.result({"experiment": project.name, **found.document()})
    return found.code


def tell(words: Words, found: Probe) -> None:
    """The table of the arms, what is wrong and what is worth knowing, and what the whole run would cost at this rate."""
    words.table(HEADS, [_row(arm) for arm in found.arms])
    for arm in found.arms:
        title = "/".join(part for part in (arm.stage, arm.model, arm.prompt) if part)
        for problem in arm.problems:
            words.say(f"{title}: PROBLEM: {plain(problem)}")
        for note in arm.notes:
            words.say(f"{title}: {plain(note)}")
    document = found.document()
    known = [arm.at_this_rate for arm in found.arms if arm.at_this_rate is not None]
    rate = document["at_this_rate_usd"] or (
        f"{format_usd(sum(known))} for {len(known)} of {len(found.arms)} arms; the others told no cost, or were not asked"
    )
    words.say(f"the whole run: expected {document['expected_usd']} USD by the quote; at the rate of these calls {rate}")
    if found.reason:
        words.say(f"ended with {int(found.code)}: {found.reason}")


def _row(arm: Probed) -> tuple[object, ...]:
    told = arm.document()
    cost = arm.reply.cost if arm.reply else None
    return (
        arm.stage,
        arm.model,
        arm.prompt,
        arm.outcome,
        told["finish"],
        {True: "yes", False: f"no: {told['why']}", None: None}[told["parsed"]],
        told["input_tokens"],
        told["output_tokens"],
        told["reasoning_tokens"],
        None if cost is None else format_usd(cost),
    )
