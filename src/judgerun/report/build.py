"""The report of one experiment: all estimates in their order, and the page that shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Finding
from judgerun.audit.render import HEADER, completion_cells
from judgerun.audit.words import plural
from judgerun.model.money import format_usd
from judgerun.report import plots
from judgerun.report.functions import functions
from judgerun.report.html import to_html
from judgerun.report.money import avoided, spend, within
from judgerun.report.page import Block, Page, Section, Table, Text, to_markdown
from judgerun.report.questions import questions
from judgerun.report.told import Told, document
from judgerun.report.verdicts import Teller, agreement, endings, folded, rankings, verdicts

ENDINGS = "How the calls ended"


@dataclass(frozen=True, slots=True)
class Part:
    """Estimates under one headline."""

    title: str
    tolds: tuple[Told, ...]


def parts(evidence: Evidence, audit: Audit) -> tuple[Part, ...]:
    """Every estimate, by headline. Independent of the order of rows; the same evidence gives the same numbers."""
    teller = Teller(evidence, audit)
    held = (
        Part(ENDINGS, tuple(endings(teller))),
        Part("Questions", (*questions(teller), *functions(teller))),
        Part("Verdicts", tuple(verdicts(teller))),
        Part("Agreement with what was expected", tuple(agreement(teller))),
        Part("Rankings", tuple(rankings(teller))),
        Part("Folds and maps", tuple(folded(teller))),
        Part("Spend", (*spend(evidence), *avoided(evidence))),
    )
    return tuple(part for part in held if part.tolds)


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
    shown = [*(part for part in held if part.title != ENDINGS), Part("Within the caps", tuple(within(evidence)))]
    numbers = (_section(part) for part in shown if part.tolds)
    sections = (_endings(audit), _findings(audit), *numbers, _rests(evidence))
    return Page(f"Report of {evidence.experiment.name}", tuple(_banners(evidence, audit)), sections)


def _banners(evidence: Evidence, audit: Audit) -> Iterator[str]:
    if evidence.seal is None:
        yield "DRAFT: the cache is not sealed; every number here may still change."
    if evidence.sealed_because:
        yield f"Sealed unfinished: {evidence.sealed_because}"
    if audit.blocked:
        errors = plural(sum(finding.blocks for finding in audit.findings), "error")
        yield f"The audit has {errors} that nobody has waived: numbers that rest on them carry a banner or are not told."


def _endings(audit: Audit) -> Section:
    """How the calls ended: first, since nothing below can be read without it."""
    blocks: list[Block] = [
        Text("Shares are over replies, failed ones over cells tried; in brackets 95% Wilson intervals."),
        Table(HEADER, tuple(tuple(completion_cells(completion)) for completion in audit.conditions)),
        *plots.endings(audit.conditions),
    ]
    if audit.slices:
        blocks += [Text("By slice:"), Table(HEADER, tuple(tuple(completion_cells(part)) for part in audit.slices))]
    return Section(ENDINGS, tuple(blocks))


def _findings(audit: Audit) -> Section:
    if not audit.findings:
        return Section("Findings", (Text("None."),))
    return Section("Findings", (Table(FINDINGS, tuple(map(_finding, audit.findings))),))


FINDINGS = ("severity", "check", "condition", "finding", "waived because")


def _finding(finding: Finding) -> tuple[str, ...]:
    return (finding.severity, finding.check, finding.condition or "-", finding.message, finding.waived or "")


LINES = ("question", "of", "value", "interval", "n", "how", "note")


def _section(part: Part) -> Section:
    blocks: list[Block] = [Table(LINES, tuple(map(_line, part.tolds)))]
    groups: dict[tuple[str, str], list[Told]] = {}
    for told in part.tolds:
        if told.level is not None:
            groups.setdefault((told.question, told.coords.get("measure", "")), []).append(told)
    for (question, measure), held in groups.items():
        caption = f"{question}, {measure}: value and {100 * (held[0].level or 0):.0f}% interval."
        blocks.extend(plots.intervals(held, caption, list(map(_where, held))))
    return Section(part.title, tuple(blocks))


def _line(told: Told) -> tuple[str, ...]:
    level = "" if told.level is None else f" ({100 * told.level:.0f}%)"
    interval = "-" if told.low is None else f"[{_number(told, told.low)}, {_number(told, told.high)}]{level}"
    drawn = "" if told.seed is None else f"seed {told.seed}"
    how = "; ".join(filter(None, (told.method, told.convention, drawn)))
    return (told.question, _where(told), _number(told, told.value), interval, str(told.n), how, told.note)


def _where(told: Told) -> str:
    """The coordinates in words: what is measured, then where. A full condition name makes its coordinates superfluous."""
    shown = {name: value for name, value in told.coords.items() if name not in ("unit", "scope", "limit_nanos")}
    measure = shown.pop("measure", "")
    if "condition" in shown:
        kept = {name: value for name, value in shown.items() if name.startswith("slice.") or name in ("value", "only")}
        shown = {"condition": shown["condition"], **kept}
    limit = told.coords.get("limit_nanos")
    words = [f"{name} {value}" for name, value in sorted(shown.items()) if (name, value) != ("only", "all")]
    if limit is not None:
        words.append(f"of {format_usd(int(limit))} USD")
    return f"{measure}: {', '.join(words)}" if words else measure


def _number(told: Told, value: float | int | None) -> str:
    if value is None:
        return "not told"
    if told.coords.get("unit") == "nanos":
        return f"{format_usd(int(value))} USD"
    return f"{value:.2g}" if told.coords.get("measure", "").startswith("p") else f"{value:.4g}"


def _rests(evidence: Evidence) -> Section:
    """What every number rests on."""
    held = (
        ("seal", evidence.seal or "none: a draft"),
        ("plan", evidence.plan or "-"),
        ("experiment file", evidence.experiment.digest or "-"),
        ("seed", str(evidence.experiment.seed)),
    )
    return Section("What the numbers rest on", (Table(("what", "which"), held),))
