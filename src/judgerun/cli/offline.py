"""Commands that judge and freeze what is there, with the network closed: audit, seal, verify, report, bundle, unfreeze."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from judgerun.api import bundles, foreign, offline
from judgerun.api.project import Workspace
from judgerun.api.recount import recount
from judgerun.api.steering import budget_for
from judgerun.api.steering import unfreeze as unfreeze_budget
from judgerun.audit.causes import causes
from judgerun.audit.checks import CHECKS
from judgerun.audit.finding import RATES, Audit
from judgerun.audit.foreign.checks import CHECKS as FOREIGN
from judgerun.audit.render import HEADER
from judgerun.audit.words import percent
from judgerun.cli.options import HERE, BudgetName, Here, Json, Name
from judgerun.cli.words import Words
from judgerun.errors import Exit, Problem, Refused
from judgerun.model.condition import short

TOLD_MAX = 20
"""So many differences are told on a screen."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (audit, seal, verify, report, bundle, unfreeze):
        app.command()(command)


def audit(
    name: Annotated[str | None, typer.Argument(metavar="EXP", help="An experiment, by name or path.")] = None,
    every: Annotated[bool, typer.Option("--list", help="List the checks and what each proves.")] = False,
    anew: Annotated[
        bool, typer.Option("--recount", help="First count replies of doubtful length by their model's tokenizer.")
    ] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Findings -> audits/EXP/ (JSON and Markdown). Exit 8 when an error is not waived."""
    words = Words(json=json)
    if every:
        checks = [(check.emits, check.proves) for check in CHECKS] + [(check.emits, check.proves) for check in FOREIGN]
        words.table(("findings", "proves"), [(", ".join(emits), proves) for emits, proves in checks])
        words.result({"checks": [{"emits": list(emits), "proves": proves} for emits, proves in checks]})
        return Exit.DONE
    if name is None:
        raise typer.BadParameter("which experiment? give EXP, or --list")
    place = Workspace(root=workspace)
    run = foreign.find(place, name)
    if run is not None:
        return _tell_audited(words, *foreign.audit(place, run))
    project = place.open(name)
    if anew:
        done = asyncio.run(recount(project))
        words.say(f"{done.counted} replies counted anew{f', {done.refused} could not be' * bool(done.refused)}")
    return _tell_audited(words, *offline.audit(project))


def _tell_audited(words: Words, found: Audit, folder: Path) -> Exit:
    """An audit, where it was written, and its code."""
    tell_audit(words, found)
    words.say(f"written, with intervals, to {folder}")
    words.result({"experiment": found.experiment, "verdict": found.verdict, "folder": str(folder), **_findings(found)})
    return Exit.FINDINGS if found.blocked else Exit.DONE


def tell_audit(words: Words, found: Audit) -> None:
    """An audit for people: how the calls ended first, then the findings. Intervals are in the files: a screen is narrow."""
    names = short(completion.condition for completion in found.conditions)
    rows = []
    for line in found.conditions:
        finish = " ".join(f"{word} {n}" for word, n in sorted(line.finish.items())) or "-"
        shares = (line.rate(name) for name in (*RATES, "concluded"))
        counts = (f"{rate.count} ({percent(rate.share)})" if rate.count else "0" for rate in shares)
        rows.append((names[line.condition], line.planned, line.n, line.pending, finish, *counts))
    words.table(HEADER, rows)
    for cause in causes(found.findings):
        for finding in cause.shown:
            waived = f" (waived: {finding.waived})" if finding.waived is not None else ""
            where = names.get(finding.condition, finding.condition) if finding.condition else "-"
            words.say(f"{finding.severity} {finding.check} {where}: {finding.message}{waived}")
        if cause.rest:
            words.say(f"{cause.findings[0].severity} {cause.findings[0].check}: {cause.rest}")
    words.say(f"{found.experiment}: {found.verdict}")


def _findings(found: Audit) -> dict[str, object]:
    return {
        "findings": [finding.record() for finding in found.findings],
        "conditions": [completion.record() for completion in found.conditions],
    }


def seal(
    name: Name,
    because: Annotated[
        str | None, typer.Option("--because", metavar="TEXT", help="Why a stopped experiment ends here.")
    ] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Freeze: a digest over plan, replies and ledger. Unwaived audit errors block it (exit 8)."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    digest, found = offline.seal(project, because=because)
    if not digest:
        tell_audit(words, found)
        words.say("not sealed: errors that nobody waived (audits/waivers.toml) block a seal")
        words.result({"experiment": project.name, "seal": None, **_findings(found)})
        return Exit.FINDINGS
    words.say(f"sealed {project.name}: {digest}")
    words.result({"experiment": project.name, "seal": digest})
    return Exit.DONE


def verify(
    name: Annotated[str, typer.Argument(metavar="EXP|BUNDLE", help="An experiment, or a bundle file.")],
    trust: Annotated[bool, typer.Option("--trust", help="Run the code that a bundle carries.")] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Recompute offline and compare. Exit 5 when something is not as it was sealed."""
    words = Words(json=json)
    if name.endswith(".zip"):
        if not Path(name).is_file():
            raise Refused(Problem(name, "", "no such file", "a bundle that `judgerun bundle` wrote"))
        checked = bundles.verify(Path(name), trust=trust)
        subject, digest, notes, wrong = name, checked.seal, checked.notes, checked.wrong
    else:
        found = offline.verify(Workspace(root=workspace).open(name))
        subject, digest, notes, wrong = name, found.seal.seal.digest, found.notes, found.wrong
    for line in wrong[:TOLD_MAX]:
        words.say(f"differs: {line}")
    if len(wrong) > TOLD_MAX:
        words.say(f"and {len(wrong) - TOLD_MAX} more: --json has all")
    for line in notes:
        words.say(f"note: {line}")
    words.say(f"{subject}: {'NOT as sealed' if wrong else 'as sealed'}, {digest}")
    words.result(
        {"subject": subject, "seal": digest, "whole": not wrong, "differences": list(wrong), "notes": list(notes)}
    )
    return Exit.SEAL_BROKEN if wrong else Exit.DONE


def report(name: Name, workspace: Here = HERE, json: Json = False) -> Exit:
    """results/EXP/: estimates.json, report.md, report.html with plots."""
    words = Words(json=json)
    found, folder, sealed = offline.report(Workspace(root=workspace).open(name))
    if not sealed:
        words.say("DRAFT: the cache is not sealed")
    words.say(f"written to {folder} ({found.verdict})")
    words.result({"experiment": found.experiment, "folder": str(folder), "sealed": sealed, "verdict": found.verdict})
    return Exit.DONE


def bundle(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE")] = None,
    digests_only: Annotated[bool, typer.Option("--digests-only", help="Leave licensed texts out.")] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """One file with the sealed run; `verify BUNDLE` needs no workspace and no keys."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    path = bundles.make(project, out, digests_only=digests_only)
    words.say(f"wrote {path}")
    words.result({"file": str(path)})
    return Exit.DONE


def unfreeze(
    name: Name,
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why it may go on; it is recorded.")],
    budget: BudgetName = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Reopen a frozen account, on the record."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    held = budget_for(project, budget)
    was = asyncio.run(unfreeze_budget(project, held, because))
    label = held.name if held else "-"
    words.say(f"budget {label} {'is open again' if was else 'was not frozen'}")
    words.result({"budget": label, "was_frozen": was})
    return Exit.DONE
