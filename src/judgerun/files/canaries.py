"""What can be told of a stage's canaries before anything is sent: whether there is an answer to replace, and a reference."""

from __future__ import annotations

from judgerun.files.checks import Bench, check_expression, join_columns
from judgerun.model.experiment import Chat, Stage
from judgerun.table.canary import KINDS, NAME, kinds_of, part_of


def check_canaries(bench: Bench, stage: Stage) -> None:
    """Note canaries that could not be given, and those that are left out."""
    if not isinstance(stage, Chat) or stage.canaries is None:
        return
    path = (*bench.places[stage.name], "canaries")
    chats = {known.name for known in bench.experiment.stages if isinstance(known, Chat)}
    for feed in stage.feeds:
        if feed not in chats:
            bench.faults.add(path, f"{feed!r} gives no reply that a canary could replace", "from = a chat stage")
            return
    joins = join_columns(bench, stage.joins)
    branches = [branch for feed in stage.feeds for branch in bench.known.get(feed, ())]
    if stage.canaries.reference is not None:
        for branch in branches:
            check_expression(bench, (*path, NAME), stage.canaries.reference, branch, joins)
    elif NAME in joins:
        columns = joins[NAME]
        if columns is not None and part_of(columns) is None:
            wrong = f"with.{NAME} brings {', '.join(sorted(columns - {'id'}))}: which is the reference?"
            bench.faults.add(path, wrong, f'{{ rate = {stage.canaries.rate}, reference = "{NAME}.FIELD" }}')
    elif not any(NAME in branch.fields or branch.open for branch in branches):
        left = [kind for kind in KINDS if kind not in kinds_of(reference=False)]
        wrong = f"the rows have no reference: the kind {left[0]!r} is left out, the others are made from the answers themselves"
        bench.faults.warn(path, wrong, f'with.{NAME}, a field "{NAME}", or {{ rate = ..., reference = "EXPRESSION" }}')
