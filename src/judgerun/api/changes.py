"""Changes: what people changed in an experiment's files since its last run, and how many replies that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from judgerun.api.project import WEIGHTS, Project
from judgerun.errors import EXPERIMENT
from judgerun.plan.changes import changed, cost
from judgerun.plan.counts import Counts
from judgerun.store.snapshot import Snapshot

TEXTS = (".md", ".toml", ".py", ".json")
"""Endings of files whose text is kept, so that a change can be told by its line."""


def files(project: Project) -> dict[str, str]:
    """The digest of every file that the experiment reads, its own included."""
    return {EXPERIMENT: project.experiment.digest, **project.loaded.inputs.digests}


def texts(project: Project) -> dict[str, str]:
    """The text of those files that people write by hand."""
    folder = Path(project.experiment.folder)
    found = {}
    for name in files(project):
        path = folder / name
        if name.endswith(TEXTS) and path.is_file():
            found[name] = path.read_text(encoding="utf-8", errors="replace")
    return found


def changes(project: Project, view: Snapshot | None, counts: Sequence[Counts]) -> list[str]:
    """One line for each file that changed, and for each condition that thereby lost replies; none before a first run."""
    if view is None:
        return []
    now = files(project)
    pinned = {file: digest for file, digest in view.pins(project.name).items() if not file.startswith(WEIGHTS)}
    if not pinned:
        return []
    before, after = view.pinned_texts(project.name), texts(project)
    both = {name: (before[name], after[name]) for name in before.keys() & after.keys()}
    told = list(map(str, changed(pinned, now, both)))
    if not told:
        return []
    # Replies to earlier texts were bought too: what can be lost is no more than what is planned.
    planned = {count.condition: count.planned for count in counts}
    bought = {name: min(n, planned.get(name, n)) for name, n in _bought(view, project.name).items()}
    return told + cost(bought, {count.condition: count.done for count in counts})


def _bought(view: Snapshot, experiment: str) -> dict[str, int]:
    """Replies that the experiment bought, by condition."""
    attempts = view.columns("attempts", experiment)
    where = dict(zip(map(int, attempts["id"]), attempts["condition"], strict=True))
    replies = view.columns("replies", experiment)
    return dict(Counter(where[int(attempt)] for attempt in replies["attempt"] if int(attempt) in where))
