"""The command that checks what somebody claims: claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judgerun.api.claims import check
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json
from judgerun.cli.words import Words
from judgerun.errors import Exit


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(claims)


def claims(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file of claims.")],
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Whether printed numbers can be true: percentages, sums, changes, lists, numbers of runs, equal runs. Exit 8 if not."""
    words = Words(json=json)
    told = check(Workspace(root=workspace), path)
    wrong = [one for one in told if one.wrong]
    for one in wrong:
        words.say(f"false {one.kind} {one.name}: {one.wrong}")
    vague = sum(one.vague for one in told)
    words.say(f"{len(told)} claims: {len(wrong)} false{f', {vague} that no count could contradict' * bool(vague)}")
    words.result(
        {
            "claims": [
                {"kind": one.kind, "name": one.name, "wrong": one.wrong or None, "vague": one.vague} for one in told
            ],
            "false": len(wrong),
        }
    )
    return Exit.FINDINGS if wrong else Exit.DONE
