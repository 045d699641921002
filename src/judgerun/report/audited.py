"""The files of audits/EXP/: audit.json and audit.md as the audit room writes them, and audit.html with tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from judgerun.audit import render
from judgerun.audit.causes import Cause, causes
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import SEVERITIES, Audit, Cell, Finding
from judgerun.audit.render import HEADER, completion_cells
from judgerun.audit.words import plural
from judgerun.model.condition import short
from judgerun.report import curves, plots
from judgerun.report.html import to_html
from judgerun.report.page import Figure, Page, Section, Table, Text


def files(audit: Audit, evidence: Evidence | None = None) -> Mapping[str, bytes]:
    """The three files, by name. The plots need the evidence; a run of another program has none."""
    return {**render.files(audit), "audit.html": to_html(_page(audit, evidence))}


def _page(audit: Audit, evidence: Evidence | None) -> Page:
    names = short(completion.condition for completion in audit.conditions)
    draft = () if audit.seal else ("DRAFT: the cache was not sealed when it was audited.",)
    return Page(f"Audit of {audit.experiment}: {audit.verdict}", draft, tuple(_sections(audit, evidence, names)))


def _sections(audit: Audit, evidence: Evidence | None, names: Mapping[str, str]) -> Iterator[Section]:
    cells = tuple(tuple(completion_cells(completion, names)) for completion in audit.conditions)
    said = "Count (share [95% Wilson interval]) over replies, failed over cells tried."
    if cells:
        yield Section(
            "How the calls ended", (Text(said), Table(HEADER, cells), *plots.endings(audit.conditions, names))
        )
    yield from _findings(audit, names)
    if evidence is not None and (drawn := tuple(_drawn(evidence, names))):
        yield Section("At a glance", drawn)
    for table in audit.tables:
        rows = tuple(tuple(render.cell(cell, names) for cell in row) for row in table.rows)
        note = (Text(table.note),) if table.note else ()
        yield Section(table.title, (*note, Table(table.columns, rows)), folded=len(rows) > ROWS_OPEN)
    if audit.slices:
        sliced = tuple(tuple(completion_cells(part, names)) for part in audit.slices)
        yield Section("How the calls ended, by slice", (Table(HEADER, sliced),), folded=True)


ROWS_OPEN = 24
"""A longer table is shut until its headline is clicked."""


def _drawn(evidence: Evidence, names: Mapping[str, str]) -> Iterator[Figure]:
    yield from curves.lengths(evidence, names)
    yield from curves.spend(evidence)
    yield from curves.statements(evidence)


def _findings(audit: Audit, names: Mapping[str, str]) -> Iterator[Section]:
    """The worst of each cause; where that is not all, everything in a section that is shut."""
    counts = (plural(sum(one.severity == severity for one in audit.findings), severity) for severity in SEVERITIES)
    waived = sum(one.waived is not None for one in audit.findings)
    told = Text(f"{', '.join(counts)}; {waived} waived.")
    if not audit.findings:
        yield Section("Findings", (told,))
        return
    held = causes(audit.findings)
    rows = [row for cause in held for row in _cause(cause, names)]
    yield Section("Findings", (told, Table(FINDINGS, tuple(rows))))
    if any(cause.rest for cause in held):
        whole = Table(FINDINGS, tuple(_finding(one, names) for one in audit.findings))
        yield Section("Every finding", (whole,), folded=True)


FINDINGS = ("severity", "check", "condition", "finding", "evidence", "waived because")


def _cause(cause: Cause, names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    yield from (_finding(one, names) for one in cause.shown)
    if cause.rest:
        yield (cause.findings[0].severity, cause.findings[0].check, "-", cause.rest, "", "")


def _finding(one: Finding, names: Mapping[str, str]) -> tuple[str, ...]:
    where: Cell = one.condition or None
    return (
        one.severity, one.check, render.cell(where, names), one.message, "; ".join(one.evidence), one.waived or "",
    )  # fmt: skip
