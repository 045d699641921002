"""Reading: check an experiment, show its cells, draw a sheet for human labels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from judgerun.api.evidence import Gathered, gather
from judgerun.api.offline import view
from judgerun.api.pricing import aged
from judgerun.api.project import Project, nothing
from judgerun.api.quoting import refuse_strange
from judgerun.errors import Problem, Refused
from judgerun.files.experiment import StageView
from judgerun.model.reply import Finish
from judgerun.model.request import RequestKey
from judgerun.report.sheet import sheet
from judgerun.report.show import Shown, Wanted
from judgerun.report.show import show as show_cells
from judgerun.store.snapshot import Snapshot

FIRST_BLOCKS = 3
"""Blocks whose prompts `check` renders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What `check` found in order; everything wrong is a Refused."""

    experiment: str
    views: tuple[StageView, ...]
    warnings: tuple[Problem, ...]
    rendered: int  # prompts and texts of the first items

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": self.experiment,
            "rendered": self.rendered,
            "warnings": [str(problem) for problem in self.warnings],
            "tables": [
                {
                    "name": table.name,
                    "kind": table.kind,
                    "rows_max": table.rows_max,
                    "conditions": list(table.conditions),
                    "waits": table.waits,
                    "columns": list(table.columns),
                }
                for table in self.views
            ],
        }


def check(project: Project) -> Checked:
    """Render every prompt of the first items; raises Refused with every problem."""
    flow = project.flow(lookup=nothing, matrix=_no_vectors, count=project.count(), limit=FIRST_BLOCKS)
    rendered = 0
    while (cell := flow.take()) is not None:
        rendered += 1
        flow.abandon(cell)
    return Checked(
        experiment=project.name,
        views=project.loaded.views,
        warnings=(*project.loaded.warnings, *aged(project, today=datetime.now(UTC).date())),
        rendered=rendered,
    )


def _no_vectors(keys: Any) -> Any:
    raise LookupError(f"{len(keys)} vectors asked for before any was bought")


def show(project: Project, wanted: Wanted) -> list[Shown]:
    """The wanted cells with their prompts, replies, verdicts and attempts."""
    with view(project) as held:
        gathered = gather(project, held)
        _refuse_unknown(gathered, wanted)
        return show_cells(gathered.evidence, wanted, bodies(gathered, held))


def _conditions(gathered: Gathered) -> set[str]:
    return {row.condition.name for rows in gathered.evidence.rows.values() for row in rows}


def _refuse_unknown(gathered: Gathered, wanted: Wanted) -> None:
    """Raise Refused for a condition, finish or id that does not exist: no cells would look like a good answer."""
    planted = {row.condition.name for row in gathered.evidence.canaries}
    refuse_strange(wanted.condition, _conditions(gathered) | planted, place="COND")
    finishes = [str(finish) for finish in Finish]
    if wanted.finish is not None and wanted.finish not in finishes:
        wrong = f"{wanted.finish!r} is no finish reason"
        raise Refused(Problem("command line", "--finish", wrong, f"one of {', '.join(finishes)}"))
    ids = {name for rows in gathered.evidence.rows.values() for row in rows for name in (row.id, row.block)}
    if wanted.item is not None and wanted.item not in ids:
        near = get_close_matches(wanted.item, sorted(ids), n=1) or sorted(ids)[:1]
        right = f"for example {near[0]}" if near else "the id of a row"
        raise Refused(Problem("command line", "--item", f"{wanted.item!r} is the id of no row", right))


def make_sheet(project: Project, *, n: int, condition: str | None, show_value: bool) -> bytes:
    """A CSV for human labels; see `report.sheet`."""
    with view(project) as held:
        gathered = gather(project, held)
        refuse_strange(condition, _conditions(gathered), place="--condition")
        return sheet(gathered.evidence, n=n, bodies=bodies(gathered, held), condition=condition, show_value=show_value)


def bodies(gathered: Gathered, held: Snapshot) -> dict[RequestKey, bytes]:
    """The canonical request of every key of the plan that the cache knows."""
    found = ((key, held.canonical(key)) for key in gathered.keys)
    return {key: body for key, body in found if body is not None}
