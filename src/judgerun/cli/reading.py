"""Commands that read replies: show, export."""

from __future__ import annotations

from typing import Annotated

import typer

from judgerun.api import offline
from judgerun.api.project import Workspace
from judgerun.api.reading import show as show_cells
from judgerun.cli.options import HERE, Here, Json, Name, listed
from judgerun.cli.words import Words
from judgerun.errors import Exit
from judgerun.model.money import format_usd
from judgerun.report.show import Shown, Wanted, safe


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (show, export):
        app.command()(command)


def show(
    name: Name,
    condition: Annotated[str | None, typer.Argument(metavar="[COND]", help="A condition key, as in budgets.")] = None,
    finish: Annotated[str | None, typer.Option("--finish", metavar="F", help="Only this finish.")] = None,
    unparsed: Annotated[bool, typer.Option("--unparsed", help="Only replies that did not parse.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed cells.")] = False,
    disagree: Annotated[
        bool, typer.Option("--disagree", help="Only ids on which conditions or labels differ.")
    ] = False,
    item: Annotated[str | None, typer.Option("--item", metavar="ID", help="Only this id or block.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", metavar="N", min=1, help="So many, drawn by seed.")] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Read replies: prompt, reply, verdict and why, attempts, cost."""
    words = Words(json=json)
    wanted = Wanted(
        condition=condition,
        finish=finish,
        unparsed=unparsed,
        failed=failed,
        disagree=disagree,
        item=item,
        sample=sample,
    )
    cells = show_cells(Workspace(root=workspace).open(name), wanted)
    for cell in cells:
        _tell(words, cell)
    words.say(f"{len(cells)} cell{'s' if len(cells) != 1 else ''}")
    words.result({"cells": [cell.record() for cell in cells]})
    return Exit.DONE


def _tell(words: Words, cell: Shown) -> None:
    if words.json:
        return
    draws = "".join(f" draw {draw} of {stage}" for stage, draw in cell.draws)
    words.say(f"=== {cell.condition}  {safe(cell.id)}{draws}  {cell.state}{f': {cell.reason}' if cell.reason else ''}")
    for role, text in cell.messages:
        words.say(f"[{role}]\n{safe(text)}")
    if cell.reply is not None:
        found = "" if cell.found in (None, "content") else f", found by {cell.found}"
        words.say(f"[reply: {cell.finish} ({cell.finish_raw}){found}{_given(cell)}]\n{safe(cell.reply)}")
    if cell.parsed is not None:
        verdict = f"value {safe(str(cell.value))}" if cell.parsed else f"unparsed: {cell.why}"
        counts = "" if cell.concluded else "; not concluded: it counts as no verdict"
        agrees = "" if cell.agrees is None else f"; {'agrees' if cell.agrees else 'disagrees'} with the label"
        words.say(f"[{verdict} by {cell.rule}{counts}{agrees}]")
    for tried in cell.tries:
        status = f" http {tried.status}" if tried.status else ""
        cause = f" {tried.cause}: {safe(tried.detail)}" if tried.cause else ""
        words.say(f"[attempt {tried.id}: {tried.ending} {format_usd(tried.nanos)} USD{status}{cause}]")
    words.say("")


def _given(cell: Shown) -> str:
    """Under which cap and by which model, where these are not the condition's own; and what is still owed."""
    said = {
        f", under the higher cap of {cell.rung} tokens": cell.rung is not None,
        f", served by {cell.server}": cell.server is not None,
        ", owed a higher cap": cell.left == "owed",
        ", asked under a higher cap in vain": cell.left == "lapsed",
    }
    return "".join(words for words, holds in said.items() if holds)


def export(
    name: Name,
    formats: Annotated[
        str | None, typer.Option("--format", metavar="csv,jsonl,parquet", help="Default: all there are.")
    ] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """CSV, JSONL and Parquet of every stage table, requests, attempts, replies, entries -> results/EXP/export/."""
    words = Words(json=json)
    wanted = listed(formats)
    folder, names = offline.export(Workspace(root=workspace).open(name), wanted)
    words.say(f"wrote {len(names)} files to {folder}")
    words.result({"folder": str(folder), "files": names})
    return Exit.DONE
