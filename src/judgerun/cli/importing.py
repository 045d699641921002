"""The command that brings in runs of other programs: import."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from judgerun.api import foreign
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json
from judgerun.cli.words import Words
from judgerun.errors import Exit
from judgerun.model.foreign import KINDS


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("import")(import_)


def import_(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Files of the run, or folders with them.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the run is called here.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a run of that name.")] = False,
    every: Annotated[bool, typer.Option("--list", help="List the runs that were imported.")] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Bring in what another program left (spend logs, caches, result files), to be audited by `judgerun audit NAME`."""
    words = Words(json=json)
    place = Workspace(root=workspace)
    if every:
        held = [
            (name, form, datetime.fromtimestamp(at, UTC).isoformat("T", "seconds"))
            for name, form, at in foreign.runs(place)
        ]
        words.table(("run", "read from", "at"), held)
        words.result({"runs": [{"name": name, "format": form, "at": at} for name, form, at in held]})
        return Exit.DONE
    if not paths or not name:
        raise typer.BadParameter("which files, under which name? PATH... --name NAME, or --list")
    done = foreign.bring(place, paths, name, replace=replace)
    counts = {part: len(getattr(done.run, part)) for part, _ in KINDS.values()}
    told = ", ".join(f"{count} {part}" for part, count in counts.items() if count)
    words.say(f"{name}: {told} from {len(done.run.files)} files ({done.run.format}){'; it was known' * done.known}")
    words.say(f"next: judgerun audit {name}")
    words.result(
        {"name": name, "format": done.run.format, "known": done.known, "files": dict(done.run.files), **counts}
    )
    return Exit.DONE
