"""Runs of other programs: read from their files into the cache, listed, and audited as runs of our own are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from judgerun.api.offline import write
from judgerun.api.project import Workspace, snapshot
from judgerun.audit.finding import Audit
from judgerun.audit.foreign.checks import audit as run_checks
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Problem, Refused
from judgerun.files.foreign.read import read
from judgerun.files.waivers import load_waivers
from judgerun.files.written import SLUG
from judgerun.model.foreign import Run
from judgerun.report.audited import files
from judgerun.store.inline import Inline


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A run that was read, and whether it was there already, just so."""

    run: Run
    known: bool


def bring(workspace: Workspace, paths: Sequence[Path], name: str, *, replace: bool = False) -> Imported:
    """Read a run from its files and keep it under a name. The same files again change nothing, if the same reader reads them: a
    later one reads them anew. Other files under a known name are refused unless they `replace` it. Refused for the name of an
    experiment, and for files that are not understood, with every problem.
    """
    if SLUG.fullmatch(name) is None:
        raise Refused(Problem("command line", "--name", f"{name!r} is no name", "letters, digits, dots, - and _"))
    if (workspace.root / "prompts" / name).exists():
        raise Refused(Problem("command line", "--name", f"{name!r} is an experiment here", "another name"))
    run = read(paths, name)
    old = find(workspace, name)
    if old is not None and (old.files, old.format) == (run.files, run.format):
        return Imported(run=old, known=True)
    if old is not None and old.files != run.files and not replace:
        changed = sorted({*old.files.items()} ^ {*run.files.items()})
        wrong = f"a run of that name was read from other files ({', '.join(sorted({file for file, _ in changed}))})"
        raise Refused(Problem("command line", "--name", wrong, "another name, or --replace"))
    asyncio.run(_keep(workspace, run))
    return Imported(run=run, known=False)


async def _keep(workspace: Workspace, run: Run) -> None:
    async with Inline.open(workspace.cache, clock=WallClock()) as cache:
        await cache.keep_run(run)


def find(workspace: Workspace, name: str) -> Run | None:
    """The imported run of a name; None where there is none, or where an experiment has that name."""
    if (workspace.root / "prompts" / name).exists():
        return None
    with snapshot(workspace.cache) as view:
        return None if view is None else view.run(name)


def runs(workspace: Workspace) -> list[tuple[str, str, float]]:
    """(name, format, Unix time) of the imported runs."""
    with snapshot(workspace.cache) as view:
        return [] if view is None else view.runs()


def audit(workspace: Workspace, run: Run) -> tuple[Audit, Path]:
    """Audit an imported run and write audits/NAME/; the audit and that folder."""
    found = run_checks(run, load_waivers(workspace.root), today=datetime.fromtimestamp(WallClock().wall(), UTC).date())
    folder = workspace.root / "audits" / run.name
    write(folder, files(found))
    return found, folder
