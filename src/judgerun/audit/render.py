"""An Audit as files: audit.json and audit.md, the same bytes for the same Audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import orjson

from judgerun.audit.causes import Cause, causes
from judgerun.audit.finding import RATES, SEVERITIES, Audit, Cell, Completion, Finding
from judgerun.audit.words import escape, markdown, plural, rate
from judgerun.model.condition import short


def files(audit: Audit) -> Mapping[str, bytes]:
    """audit.json and audit.md, by name."""
    return {"audit.json": document(audit), "audit.md": "\n\n".join(_page(audit)).encode() + b"\n"}


def document(audit: Audit) -> bytes:
    """audit.json: DESIGN section 6; every rate as count, n, rate, low, high (Wilson, 95%)."""
    told = {
        "experiment": audit.experiment,
        "verdict": audit.verdict,
        "seal": audit.seal,
        "findings": [finding.record() for finding in audit.findings],
        "conditions": [completion.record() for completion in audit.conditions],
        "slices": [completion.record() for completion in audit.slices],
        "tables": [table.record() for table in audit.tables],
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n"


def _page(audit: Audit) -> Iterator[str]:
    names = short(completion.condition for completion in audit.conditions)
    counts = (plural(sum(f.severity == severity for f in audit.findings), severity) for severity in SEVERITIES)
    waived = sum(finding.waived is not None for finding in audit.findings)
    yield f"# Audit of {escape(audit.experiment)}: {audit.verdict}"
    yield f"Seal: {audit.seal}" if audit.seal else "**DRAFT: the cache was not sealed when it was audited.**"
    yield f"{', '.join(counts)}; {waived} waived."
    yield "## How the calls ended"
    yield (
        "Count (share [95% Wilson interval]) over replies, failed over cells tried. Names leave out the tail that all "
        "conditions of a stage share."
    )
    yield completion_table(audit.conditions, names)
    yield "## Findings"
    yield "\n".join(line for cause in causes(audit.findings) for line in _cause(cause, names)) or "None."
    if audit.slices:
        yield "## By slice"
        yield completion_table(audit.slices, names)
    for table in audit.tables:
        yield f"## {escape(table.title)}"
        if table.note:
            yield escape(table.note)
        yield markdown(table.columns, ([cell(one, names) for one in row] for row in table.rows))


def cell(one: Cell, names: Mapping[str, str]) -> str:
    """One cell as people read it: a condition by its short name, a fraction with four significant digits."""
    if one is None:
        return "-"
    return f"{one:.4g}" if isinstance(one, float) else names.get(str(one), str(one))


def completion_table(completions: Sequence[Completion], names: Mapping[str, str]) -> str:
    """A Markdown table of finishes and rates."""
    return markdown(HEADER, (completion_cells(completion, names) for completion in completions))


HEADER = ("condition", "planned", "done", "pending", "finish", *RATES, "concluded")


def completion_cells(completion: Completion, names: Mapping[str, str]) -> list[str]:
    """The cells of one line under HEADER; `names` gives a condition's name as it is to be read."""
    name = names.get(completion.condition, completion.condition)
    if completion.slice is not None:
        name += " where {} is {}".format(*completion.slice)
    finish = ", ".join(f"{word} {n}" for word, n in sorted(completion.finish.items())) or "-"
    shares = [rate(completion.rate(mark)) for mark in (*RATES, "concluded")]
    return [name, str(completion.planned), str(completion.n), str(completion.pending), finish, *shares]


def _cause(cause: Cause, names: Mapping[str, str]) -> Iterator[str]:
    """The findings of one cause; of very many the worst, and how many more audit.json has."""
    yield from (_finding(finding, names) for finding in cause.shown)
    if cause.rest:
        first = cause.findings[0]
        yield f"- **{first.severity}** {first.check}: {escape(cause.rest)}; all are in audit.json"


def _finding(finding: Finding, names: Mapping[str, str]) -> str:
    where = f" `{names.get(finding.condition, finding.condition)}`" if finding.condition else ""
    waived = f" (waived: {escape(finding.waived)})" if finding.waived is not None else ""
    lines = [f"- **{finding.severity}** {finding.check}{where}: {escape(finding.message)}{waived}"]
    lines.extend(f"    - {escape(said)}" for said in finding.evidence)
    return "\n".join(lines)
