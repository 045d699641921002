"""The report of one experiment: all estimates in their order, and the page that shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from judgerun.audit.causes import Cause, causes
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Finding
from judgerun.audit.registered import standing
from judgerun.audit.render import HEADER, completion_cells
from judgerun.audit.words import plural
from judgerun.model.condition import short
from judgerun.report import blocks, plots, study, time
from judgerun.report.answers import found
from judgerun.report.functions import functions, studied
from judgerun.report.html import to_html
from judgerun.report.ladder import climbs
from judgerun.report.layout import lay
from judgerun.report.money import avoided, spend, within
from judgerun.report.page import Page, Section, Table, Text, to_markdown
from judgerun.report.questions import questions
from judgerun.report.told import Told, document
from judgerun.report.verdicts import Teller, agreement, endings, folded, rankings, verdicts

ENDINGS = "How the calls ended"
STUDY = "Study"


@dataclass(frozen=True, slots=True)
class Part:
    """Estimates under one headline."""

    title: str
    tolds: tuple[Told, ...]


def parts(evidence: Evidence, audit: Audit) -> tuple[Part, ...]:
    """Every estimate, by headline. Independent of the order of rows; the same evidence gives the same numbers."""
    teller = Teller(_kept(evidence), audit)
    held = (
        Part(ENDINGS, tuple(endings(teller))),
        Part("Under higher caps", tuple(climbs(teller))),
        Part("Questions", (*questions(teller), *functions(teller))),
        Part(STUDY, tuple(studied(teller))),
        Part("Verdicts", tuple(verdicts(teller))),
        Part("Agreement with what was expected", tuple(agreement(teller))),
        Part("Rankings", tuple(rankings(teller))),
        Part("Folds and maps", tuple(folded(teller))),
        Part("Spend", (*spend(evidence), *avoided(evidence))),
    )
    return tuple(part for part in held if part.tolds)


def _kept(evidence: Evidence) -> Evidence:
    """The evidence without the rows of items that a person has left out: no number rests on them."""
    out = {one.item for one in evidence.exclusions if one.item is not None}
    if not out:
        return evidence
    rows = {
        stage: [row for row in held if row.id not in out and row.root not in out]
        for stage, held in evidence.rows.items()
    }
    return replace(evidence, rows=rows)


def estimates(evidence: Evidence, audit: Audit) -> bytes:
    """estimates.json: what `verify` recomputes and compares."""
    return document(told for part in parts(evidence, audit) for told in part.tolds)


def report(evidence: Evidence, audit: Audit) -> Mapping[str, bytes]:
    """The files of results/EXP/: estimates.json, report.md, report.html."""
    held = parts(evidence, audit)
    page = _page(evidence, audit, held)
    return {
        "estimates.json": document(told for part in held for told in part.tolds),
        "report.md": to_markdown(page),
        "report.html": to_html(page),
    }


def _page(evidence: Evidence, audit: Audit, held: Sequence[Part]) -> Page:
    """The page: how the calls ended, findings, numbers, what they rest on; slices below, shut until they are asked for."""
    apart = {part.title: part.tolds for part in held if part.title in (ENDINGS, STUDY)}
    shown = [*(part for part in held if part.title not in apart), Part("Within the caps", tuple(within(evidence)))]
    names = short(completion.condition for completion in audit.conditions)
    whole = [Section(part.title, laid) for part in shown if (laid := lay(part.tolds, names, sliced=False))]
    slices = [
        Section(f"{part.title}, by slice", laid, folded=True)
        for part in shown
        if (laid := lay(part.tolds, names, sliced=True))
    ]
    far, spent = blocks.section(evidence), time.section(evidence)
    sections = (
        _endings(audit, names),
        *(() if far is None else (far,)),
        *found(evidence, names),
        _findings(audit, names),
        *study.sections(evidence, apart.get(STUDY, ())),
        *whole,
        *(() if spent is None else (spent,)),
        *_fixed(evidence),
        _rests(evidence),
    )
    return Page(
        f"Report of {evidence.experiment.name}",
        tuple(_banners(evidence, audit)),
        (*sections, *_sliced(audit, names), *slices),
    )


def _banners(evidence: Evidence, audit: Audit) -> Iterator[str]:
    if evidence.seal is None:
        yield "DRAFT: the cache is not sealed; every number here may still change."
    if evidence.sealed_because:
        yield f"Sealed unfinished: {evidence.sealed_because}"
    yield from (f"Excluded: {one}" for one in evidence.exclusions)
    if audit.blocked:
        errors = plural(sum(finding.blocks for finding in audit.findings), "error")
        yield f"The audit has {errors} that nobody has waived: numbers that rest on them carry a banner or are not told."


def _endings(audit: Audit, names: Mapping[str, str]) -> Section:
    """How the calls ended: first, since nothing below can be read without it."""
    said = "Shares are over replies, failed ones over cells tried; in brackets 95% Wilson intervals."
    if any(full != cut for full, cut in names.items()):
        said += " Names leave out the tail that all conditions of a stage share."
    cells = tuple(tuple(completion_cells(completion, names)) for completion in audit.conditions)
    return Section(ENDINGS, (Text(said), Table(HEADER, cells), *plots.endings(audit.conditions, names)))


def _sliced(audit: Audit, names: Mapping[str, str]) -> Iterator[Section]:
    if audit.slices:
        cells = tuple(tuple(completion_cells(part, names)) for part in audit.slices)
        yield Section(f"{ENDINGS}, by slice", (Table(HEADER, cells),), folded=True)


def _findings(audit: Audit, names: Mapping[str, str]) -> Section:
    if not audit.findings:
        return Section("Findings", (Text("None."),))
    rows = tuple(row for cause in causes(audit.findings) for row in _cause(cause, names))
    waived = any(finding.waived is not None for finding in audit.findings)
    return Section(
        "Findings", (Table(FINDINGS, rows) if waived else Table(FINDINGS[:-1], tuple(row[:-1] for row in rows)),)
    )


FINDINGS = ("severity", "check", "condition", "finding", "waived because")


def _cause(cause: Cause, names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The worst findings of one cause, and how many more audits/ has."""
    yield from (_finding(finding, names) for finding in cause.shown)
    if cause.rest:
        yield (cause.findings[0].severity, cause.findings[0].check, "-", f"{cause.rest}: see the audit", "")


def _finding(finding: Finding, names: Mapping[str, str]) -> tuple[str, ...]:
    where = names.get(finding.condition, finding.condition) if finding.condition else "-"
    return (finding.severity, finding.check, where, finding.message, finding.waived or "")


def _fixed(evidence: Evidence) -> Iterator[Section]:
    """How each question, gate and rule stands to what was registered; nothing of an experiment that was never registered."""
    told = standing(evidence)
    if told:
        rows = tuple((item.name, item.standing, item.why) for item in told)
        yield Section("What was fixed before the first reply", (Table(("item", "standing", "why"), rows),))


def _rests(evidence: Evidence) -> Section:
    """What every number rests on."""
    held = (
        ("seal", evidence.seal or "none: a draft"),
        ("plan", evidence.plan or "-"),
        ("experiment file", evidence.experiment.digest or "-"),
        ("seed", str(evidence.experiment.seed)),
        ("registered", _registered(evidence)),
    )
    return Section("What the numbers rest on", (Table(("what", "which"), held),))


def _registered(evidence: Evidence) -> str:
    """When questions, gates and rules were fixed, in words."""
    told = standing(evidence)
    if not told:
        return "never"
    kept = sum(item.standing == "registered" for item in told)
    return f"{kept} of {len(told)} questions, gates and rules before the first reply, as they are now"
