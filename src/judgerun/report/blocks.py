"""Blocks: how far each stage came, in blocks whose cells have all come to an end; on these alone paired numbers rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from judgerun.audit.evidence import Evidence
from judgerun.report.page import Section, Table, Text
from judgerun.table.row import Row

TITLE = "Complete blocks"
HEADER = ("stage", "conditions", "blocks", "complete in all", "complete in some")


def complete(rows: Sequence[Row]) -> Mapping[str, frozenset[str]]:
    """The blocks that are complete, by condition: all of its cells in them are done or failed, and there is one."""
    seen: dict[str, set[str]] = defaultdict(set)
    left: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        name = row.condition.name
        (left if row.state == "pending" else seen)[name].add(row.block)
    return {name: frozenset(seen[name] - left[name]) for name in sorted(seen.keys() | left.keys())}


def section(evidence: Evidence) -> Section | None:
    """How many blocks are complete in each stage that something is pending in; None where nothing is."""
    lines = [
        line
        for stage in evidence.experiment.stages
        if (rows := evidence.rows.get(stage.name, ())) and any(row.state == "pending" for row in rows)
        for line in [_line(stage.name, rows)]
    ]
    if not lines:
        return None
    said = (
        "Not everything has come to an end. A block is complete when nothing of it is pending. Paired numbers are of blocks that "
        "are complete in both conditions: of the others a run that was stopped holds the answers that came first."
    )
    return Section(TITLE, (Text(said), Table(HEADER, tuple(lines))))


def _line(stage: str, rows: Sequence[Row]) -> tuple[str, ...]:
    found = complete(rows)
    planned = {row.block for row in rows}
    every = frozenset.intersection(*found.values())
    some = frozenset.union(*found.values())
    return (stage, *(f"{n:,}" for n in (len(found), len(planned), len(every), len(some))))
