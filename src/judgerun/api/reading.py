"""Reading: check an experiment, show its cells, draw a sheet for human labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from judgerun.api.evidence import Gathered, gather
from judgerun.api.offline import view
from judgerun.api.project import Project, nothing
from judgerun.errors import Problem
from judgerun.files.experiment import StageView
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
    flow = project.flow(lookup=nothing, matrix=_no_vectors, limit=FIRST_BLOCKS)
    rendered = 0
    while (cell := flow.take()) is not None:
        rendered += 1
        flow.abandon(cell)
    return Checked(
        experiment=project.name, views=project.loaded.views, warnings=project.loaded.warnings, rendered=rendered
    )


def _no_vectors(keys: Any) -> Any:
    raise LookupError(f"{len(keys)} vectors asked for before any was bought")


def show(project: Project, wanted: Wanted) -> list[Shown]:
    """The wanted cells with their prompts, replies, verdicts and attempts."""
    with view(project) as held:
        gathered = gather(project, held)
        return show_cells(gathered.evidence, wanted, bodies(gathered, held))


def make_sheet(project: Project, *, n: int, condition: str | None, show_value: bool) -> bytes:
    """A CSV for human labels; see `report.sheet`."""
    with view(project) as held:
        gathered = gather(project, held)
        return sheet(gathered.evidence, n=n, bodies=bodies(gathered, held), condition=condition, show_value=show_value)


def bodies(gathered: Gathered, held: Snapshot) -> dict[RequestKey, bytes]:
    """The canonical request of every key of the plan that the cache knows."""
    found = ((key, held.canonical(key)) for key in gathered.keys)
    return {key: body for key, body in found if body is not None}
