"""Graph: the nodes of an experiment, built upstream first and wired to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judgerun.errors import Problem, Refused, invariant
from judgerun.model.experiment import Chat, Embed, Experiment, Fold, Map, Retrieve, Stage
from judgerun.model.profile import Profile
from judgerun.model.request import RequestKey
from judgerun.model.rows import Fields, Inputs
from judgerun.plan.chat import ChatNode, joined
from judgerun.plan.desk import Desk
from judgerun.plan.feed import Source
from judgerun.plan.node import Common, Node
from judgerun.plan.requests import Count
from judgerun.plan.tally import Tally
from judgerun.table.scope import Scopes

Matrix = Callable[[Sequence[RequestKey]], np.ndarray]


@dataclass(slots=True, kw_only=True)
class Graph:
    """All nodes of a flow."""

    common: Common
    sources: tuple[Source, ...] = ()
    tallies: dict[str, Tally] = field(default_factory=dict)  # by condition, in file order
    rankings: list[Any] = field(default_factory=list)  # nodes that rank queries in batches


def build(
    experiment: Experiment,
    inputs: Inputs,
    *,
    desk: Desk,
    profiles: Mapping[str, Profile],
    matrix: Matrix,
    count: Count | None,
    keep: bool,
) -> Graph:
    """The graph of an experiment. Refused with every problem that only the whole plan shows."""
    stages = ordered(experiment)
    kinds = {stage.name: _kind(stage) for stage in stages}

    def document(stage: str, id: str) -> Fields:
        return common.nodes[stage].document(id)

    common = Common(
        experiment=experiment,
        inputs=inputs,
        scopes=Scopes(kinds, document),
        keep=keep,
        stages=frozenset(kinds),
    )
    graph = Graph(common=common, sources=_sources(common, stages))
    problems: list[Problem] = []
    for stage in stages:
        node = _node(common, stage, desk=desk, profiles=profiles, matrix=matrix, count=count)
        if isinstance(node, ChatNode):
            problems += node.problems()
        graph.tallies.update(getattr(node, "tallies", {}))
    if problems:
        raise Refused(problems)
    return graph


def ordered(experiment: Experiment) -> list[Stage]:
    """The stages in file order, each after the stages that it reads or joins. Refused where they go in a circle."""
    left = list(experiment.stages)
    names = {stage.name for stage in left}
    done: list[Stage] = []
    while left:
        placed = {stage.name for stage in done}
        ready = [stage for stage in left if all(name in placed for name in _needs(stage) if name in names)]
        if not ready:
            circle = ", ".join(stage.name for stage in left)
            raise Refused(
                Problem("experiment.toml", "stage", f"stages wait for each other: {circle}", "cut the circle")
            )
        done.append(ready[0])
        left.remove(ready[0])
    return done


def _needs(stage: Stage) -> tuple[str, ...]:
    return (*stage.feeds, *(joined(stage) if isinstance(stage, Chat) else ()))


def _kind(stage: Stage) -> str:
    if isinstance(stage, Chat):
        return "chat"
    return {Fold: "fold", Map: "map"}.get(type(stage), stage.kind)


def _sources(common: Common, stages: Sequence[Stage]) -> tuple[Source, ...]:
    """A source for each data table that a stage reads, in each role in which it is read."""
    roles: dict[tuple[str, bool], None] = {}
    for stage in stages:
        if isinstance(stage, (Embed, Retrieve)) and stage.corpus is not None:
            roles[stage.corpus.table, True] = None
            roles.update(dict.fromkeys((text.table, False) for text in stage.queries))
            continue
        roles.update(dict.fromkeys((feed, False) for feed in stage.feeds))
    return tuple(
        Source(common, common.inputs.tables[table], corpus=corpus)
        for table, corpus in roles
        if table not in common.stages
    )


def _node(
    common: Common,
    stage: Stage,
    *,
    desk: Desk,
    profiles: Mapping[str, Profile],
    matrix: Matrix,
    count: Count | None,
) -> Node:
    if isinstance(stage, Chat):
        return ChatNode(common, stage, desk, profiles, count)
    invariant(False, f"no node for {stage.kind}")
    raise AssertionError
