"""Options that many commands share, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Here = Annotated[Path, typer.Option("--workspace", metavar="DIR", help="The workspace.", show_default="here")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; logs on stderr.")]
Name = Annotated[str, typer.Argument(metavar="EXP", help="An experiment, by name or path.")]
BudgetName = Annotated[
    str | None, typer.Option("--budget", metavar="B", help="May be left out when there is only one.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Consent to spend above the budget's confirm_above.")]
Notify = Annotated[
    str | None,
    typer.Option("--notify", metavar="CMD", help="Run CMD, with a JSON summary on stdin, when something happened."),
]

HERE = Path()


def listed(text: str | None) -> tuple[str, ...]:
    """The parts of `A,B`; none where the option was not given."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
