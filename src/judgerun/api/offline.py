"""Offline work on a cache: audit, seal, verify, report, export, bundle; nothing here can reach the network."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from judgerun.api.changes import files
from judgerun.api.evidence import Gathered, gather, later
from judgerun.api.project import Project
from judgerun.api.remaking import made_again, results
from judgerun.api.resting import changes, code, resting
from judgerun.audit.checks import audit as run_checks
from judgerun.audit.finding import Audit
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Problem, Refused
from judgerun.model.exclusion import KIND as EXCLUDE
from judgerun.report.audited import files as audit_files
from judgerun.report.export import export as export_tables
from judgerun.store import seal as seals
from judgerun.store.inline import Inline
from judgerun.store.seal import Stated, Verification
from judgerun.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What `verify` found: the cache against its seal, and the results on disk against those recomputed."""

    seal: Verification
    notes: tuple[str, ...]  # what changed since and breaks nothing
    wrong: tuple[str, ...]  # what is not as it was sealed

    @property
    def whole(self) -> bool:
        """Whether everything is as it was sealed."""
        return not self.wrong


def view(project: Project) -> Snapshot:
    """A read-only view of the workspace's cache. Refused when there is none."""
    path = project.workspace.cache
    if not path.exists():
        raise Refused(Problem(str(path), "", "there is no cache yet", f"judgerun run {project.name}"))
    return Snapshot.open(path)


def audit(project: Project, *, present: bool = True) -> tuple[Audit, Path]:
    """Audit the experiment and write audits/EXP/; the audit and that folder. It is of what is in force now; without `present`,
    as its newest seal has it.
    """
    with view(project) as held:
        return _audited(project, gather(project, held, present=present))


def _audited(project: Project, gathered: Gathered) -> tuple[Audit, Path]:
    found = run_checks(gathered.evidence)
    folder = project.workspace.root / "audits" / project.name
    write(folder, audit_files(found, gathered.evidence))
    return found, folder


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, made if need be."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def stated(project: Project, gathered: Gathered) -> Stated:
    """What a seal is told: the plan's digest, the versions of prices and code, the digests of files."""
    return Stated(
        plan=gathered.evidence.plan,
        prices=project.sheet.version,
        files=files(project),
        code=code(),
        lanes=gathered.evidence.lanes,
        escalation=gathered.plans[-1].event if gathered.plans else 0,
        rests=resting(gathered.evidence),
    )


def seal(project: Project, *, because: str | None = None) -> tuple[str, Audit]:
    """Audit, then freeze; the seal's digest and the audit.

    Raises Refused when cells are pending and no reason is given. An audit with unwaived errors beyond the pending cells is
    returned with an empty digest: nothing is sealed.
    """
    with view(project) as held:
        gathered = gather(project, held, present=True)
        found, folder = _audited(project, gathered)  # of the very state that is sealed
    pending = sum(count.pending for count in gathered.evidence.counts)
    if pending and not (because or "").strip():
        wrong = f"{pending} cells are pending"
        raise Refused(Problem(project.name, "seal", wrong, "finish the run, or say why it ends here: --because TEXT"))
    blocking = [finding for finding in found.findings if finding.blocks and not (pending and finding.check in EXCUSED)]
    if blocking:
        return "", found
    digest = asyncio.run(_seal(project, gathered, because))
    found = replace(found, seal=digest)
    write(folder, audit_files(found, gathered.evidence))  # the same audit, which now says of which seal it is
    return digest, found


EXCUSED = frozenset({"pending"})
"""Findings that the reason of a stopped experiment's seal answers."""


async def _seal(project: Project, gathered: Gathered, because: str | None) -> str:
    async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
        return await cache.seal(project.name, gathered.keys, stated=stated(project, gathered), reason=because)


def verify(project: Project) -> Verified:
    """Recompute the newest seal and, where results are there, every estimate; compare. Refused without a seal."""
    with view(project) as held:
        if not held.seals(project.name):
            raise Refused(Problem(project.name, "verify", "there is no seal", f"judgerun seal {project.name}"))
        gathered = gather(project, held)
        today = stated(project, gathered)
        # A later price or version of the program is told; it does not break what was sealed.
        kept = Stated(plan=today.plan, prices="", files=today.files, code="")
        checked = seals.verify(held, project.name, today=kept)
        escalated = project.plans(held)[len(gathered.plans) :]
        decided = later(held, project.name, checked.seal) if checked else ()
        told = {} if gathered.sealed is None else gathered.sealed.stated
        moved = list(changes(told.get("rests", {}), today.rests))
        wrong, old = made_again(project, gathered.evidence, moved=bool(moved) or told.get("code") != today.code)
    if checked is None:
        raise Refused(Problem(project.name, "verify", "there is no seal", f"judgerun seal {project.name}"))
    notes = [
        f"{name} is now {now}, was {told.get(key)} when sealed"
        for name, key, now in (("the price sheet", "prices", today.prices), ("the program", "code", today.code))
        if told.get(key) != now
    ]
    notes += moved
    notes += [f"{checked.later_entries} entries came after the seal"] if checked.later_entries else []
    notes += [f"{checked.later_replies} replies came after the seal"] if checked.later_replies else []
    notes += [
        f"an escalation came after the seal: {plan}{f' ({plan.because})' * bool(plan.because)}" for plan in escalated
    ]
    notes += [
        f"{event.subject}: a word on record came after the seal ({event.kind}); a new seal takes it in"
        for event in decided
    ]
    return Verified(seal=checked, notes=(*notes, *old), wrong=(*map(str, checked.differences), *wrong))


def report(project: Project) -> tuple[Audit, Path, bool]:
    """Write results/EXP/; the audit on which it rests, that folder, and whether the cache is sealed. What was excluded after the
    seal is in every report: of it none is sealed.
    """
    with view(project) as held:
        gathered = gather(project, held, present=excluded_since(project, held))
        found = run_checks(gathered.evidence)
    folder = project.workspace.root / "results" / project.name
    write(folder, results(gathered.evidence, found))
    return found, folder, gathered.sealed is not None


def excluded_since(project: Project, held: Snapshot) -> bool:
    """Whether something was left out, or taken in again, since the newest seal."""
    seals = held.seals(project.name)
    return bool(seals) and any(event.kind == EXCLUDE for event in later(held, project.name, seals[-1]))


def export(project: Project, formats: tuple[str, ...] = ()) -> tuple[Path, list[str]]:
    """Write results/EXP/export/ anew; that folder and the files in it."""
    with view(project) as held:
        gathered = gather(project, held)
    folder = project.workspace.root / "results" / project.name / "export"
    if folder.exists():
        shutil.rmtree(folder)
    names = []
    for name, content in export_tables(gathered.evidence, formats):
        write(folder, {name: content})
        names.append(name)
    return folder, names
