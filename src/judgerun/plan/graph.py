"""Graph: the nodes of an experiment, built upstream first and wired to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from judgerun.errors import EXPERIMENT, InvariantBroken, Problem, Refused
from judgerun.model.experiment import Chat, Embed, Experiment, Explode, Fold, Map, Pair, Retrieve, Stage, TextOf
from judgerun.model.profile import Profile
from judgerun.model.rows import Fields, Inputs
from judgerun.plan.canaries import CanaryNode
from judgerun.plan.chat import ChatNode, joined
from judgerun.plan.corpus import side
from judgerun.plan.desk import Desk
from judgerun.plan.embed import EmbedNode
from judgerun.plan.feed import Source
from judgerun.plan.gather import FoldNode
from judgerun.plan.ladder import Escalation
from judgerun.plan.match import PairNode
from judgerun.plan.node import Common, Matrix, Node
from judgerun.plan.ranking import BatchNode
from judgerun.plan.requests import Count
from judgerun.plan.rerank import FuseNode, LexicalNode
from judgerun.plan.search import DenseNode, WordsNode
from judgerun.plan.split import ExplodeNode, MapNode
from judgerun.plan.tally import Tally
from judgerun.table.scope import Scopes, kinds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What nodes that ask or rank need from outside."""

    desk: Desk
    profiles: Mapping[str, Profile]  # by the experiment's name of the model
    matrix: Matrix
    count: Count | None
    plans: Sequence[Escalation] = ()


@dataclass(slots=True, kw_only=True)
class Graph:
    """All nodes of a flow."""

    common: Common
    sources: tuple[Source, ...] = ()
    tallies: dict[str, Tally] = field(default_factory=dict)  # by condition, in file order
    rankings: list[BatchNode] = field(default_factory=list)


def build(experiment: Experiment, inputs: Inputs, given: Given, *, keep: bool) -> Graph:
    """The graph of an experiment. Refused with every problem that only the whole plan shows."""
    stages = ordered(experiment)
    kinds = kinds_of(stages)

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
        for node in _nodes(graph, stage, given):
            if isinstance(node, BatchNode):
                graph.rankings.append(node)
            if isinstance(node, (ChatNode, EmbedNode)):
                graph.tallies.update(node.tallies)
            problems += node.problems()
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
        ready = [stage for stage in left if all(name in placed for name in needs(stage) if name in names)]
        if not ready:
            circle = ", ".join(stage.name for stage in left)
            raise Refused(Problem(EXPERIMENT, "stage", f"stages wait for each other: {circle}", "cut the circle"))
        done.append(ready[0])
        left.remove(ready[0])
    return done


def needs(stage: Stage) -> tuple[str, ...]:
    """The stages and data tables that a stage reads or joins."""
    return (*stage.feeds, *(joined(stage) if isinstance(stage, Chat) else ()))


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


def _nodes(graph: Graph, stage: Stage, given: Given) -> list[Node]:
    """The nodes of a stage; an embed stage has two, and so has a chat stage with canaries."""
    common = graph.common
    match stage:
        case Chat():
            return _chat(common, stage, given)
        case Embed():
            return _embed(graph, stage, given)
        case Retrieve():
            return [_retrieve(common, stage, given)]
        case Explode():
            return [ExplodeNode(common, stage)]
        case Fold():
            return [FoldNode(common, stage)]
        case Pair():
            return [PairNode(common, stage)]
        case Map():
            return [MapNode(common, stage)]
    raise InvariantBroken(f"there is no node for {stage.kind}")


def _chat(common: Common, stage: Chat, given: Given) -> list[Node]:
    """A node for the real cells, and one for the canaries where the stage has some."""
    asked = (common, stage, given.desk, given.profiles, given.count, given.plans)
    return [ChatNode(*asked)] if stage.canaries is None else [ChatNode(*asked), CanaryNode(*asked)]


def _embed(graph: Graph, stage: Embed, given: Given) -> list[Node]:
    """A node for the corpus, so that rankings can wait for it alone, and one for the queries."""
    corpus = {} if stage.corpus is None else {side(graph.common, stage.corpus.table): stage.corpus}
    queries = {query.table: query for query in stage.queries}
    tallies: dict[str, Tally] = {}

    def node(name: str, texts: dict[str, TextOf], role: Literal["query", "document"]) -> EmbedNode:
        return EmbedNode(
            graph.common,
            stage,
            name=name,
            texts=texts,
            role=role,
            desk=given.desk,
            profiles=given.profiles,
            count=given.count,
            tallies=tallies,
        )

    return [node(f"{stage.name} (corpus)", corpus, "document"), node(stage.name, queries, "query")]


def _retrieve(common: Common, stage: Retrieve, given: Given) -> Node:
    match stage.method:
        case "dense":
            embed = common.experiment.stage(stage.feeds[0])
            if not isinstance(embed, Embed) or embed.corpus is None:
                right = "an embed stage with queries and corpus"
                wrong = f"{stage.feeds[0]} embeds no corpus"
                raise Refused(Problem(EXPERIMENT, f"stage.{stage.name}.from", wrong, right))
            return DenseNode(common, stage, embed, given.matrix)
        case "bm25":
            return WordsNode(common, stage)
        case "rrf":
            return FuseNode(common, stage)
        case "lexical":
            return LexicalNode(common, stage)
