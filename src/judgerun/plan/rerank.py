"""Rerank: the nodes that make a ranking from rankings: lexical reorders one, rrf fuses several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from judgerun.errors import EXPERIMENT, Problem
from judgerun.model.condition import Condition
from judgerun.model.experiment import Retrieve
from judgerun.model.rows import Fields
from judgerun.plan.entry import Entry
from judgerun.plan.joins import Partners, partners
from judgerun.plan.node import Common
from judgerun.plan.ranking import RankNode
from judgerun.retrieval import fusion, lexical
from judgerun.table.admission import upstream
from judgerun.table.conditions import coordinates, matching
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row
from judgerun.table.scope import Ranking


class LexicalNode(RankNode):
    """Reorders the candidates of a ranking by the surface similarity of two fields, or, where the stage says which words count, by
    the overlap of these alone; equal ones keep their order.
    """

    def __init__(self, common: Common, stage: Retrieve) -> None:
        super().__init__(common, stage, stage.feeds)
        self._query = Expression(stage.query or "text")
        self._candidate = Expression(stage.candidate or "text")
        self._score: Callable[[str, str], float] = lexical.score
        if stage.vocabulary is not None or stage.stopwords:
            self._score = partial(lexical.overlap, vocabulary=stage.vocabulary, stopwords=stage.stopwords)
        entry = Entry(self, stage, lambda row, _: self._reorder(row))
        for feed in self.feeds:
            feed.readers.append(entry.read)

    def document(self, id: str) -> Fields:
        """The fields of a document, from the ranking that was reordered."""
        return self.feeds[0].document(id)

    def _reorder(self, row: Row) -> None:
        ranking = row.ranking
        if row.state != "live" or ranking is None:
            self.unranked(row)
            return
        stage, candidates = ranking
        shown = Ranking(stage, candidates, lambda _, id: self.document(id))
        try:
            query = self._query.rendered(self.common.scopes.of(row))
            texts = [self._candidate.rendered(document) for document in shown]
        except ExpressionError as error:
            self.unranked(replace(row, state="failed", reason=f"text: {error}"))
            return
        found = lexical.rerank(query, texts, by=self._score)
        self.ranked(row, [(candidates[place].id, score) for place, score in found])


class FuseNode(RankNode):
    """Fuses rankings of one row by reciprocal ranks. The arm with the most coordinates leads; each of its rows waits for its
    partner in every other arm.
    """

    def __init__(self, common: Common, stage: Retrieve) -> None:
        arms = sorted(stage.feeds, key=lambda name: -_richness(common.nodes[name].conditions))
        super().__init__(common, stage, arms[:1], arms[1:])
        self._others: dict[str, Partners] = {name: partners(self, name, same_id=True) for name in arms[1:]}
        entry = Entry(self, stage, lambda row, _: self._fuse(row, [], list(self._others)))
        self.feeds[0].readers.append(entry.read)

    def problems(self) -> list[Problem]:
        """Arms that do not join one to one."""
        found = []
        for name, partner in self._others.items():
            if several := partner.several():
                wrong = f"{name} has several draws of {several} for one ranking"
                found.append(Problem(EXPERIMENT, f"stage.{self.name}.fuse", wrong, "fold them first"))
            for condition in self.feeds[0].conditions:
                others = self._matching(condition, name)
                if len(others) != 1:
                    wrong = f"{name} has {len(others) or 'no'} rankings for one of {condition}"
                    found.append(Problem(EXPERIMENT, f"stage.{self.name}.fuse", wrong, "arms of the same rows"))
                    break
        return found

    def _matching(self, condition: Condition, name: str) -> list[Condition]:
        return matching(condition, self.feeds[0].conditions, self._others[name].node.conditions)

    def document(self, id: str) -> Fields:
        """The fields of a document, from the first arm that has it."""
        for node in (*self.feeds, *self.sides):
            try:
                return node.document(id)
            except LookupError:
                continue
        raise KeyError(id)

    def _fuse(self, row: Row, met: list[Row], left: list[str]) -> None:
        if row.state != "live":
            self.unranked(row)
        elif left:
            self._wait(row, met, left)
        else:
            rankings = [self._ids(row, self.feeds[0].name), *(self._ids(other, other.condition.stage) for other in met)]
            stages = {name: outcome for other in met for name, outcome in other.stages.items()}
            whole = replace(row, stages={**stages, **row.stages})
            self.ranked(whole, fusion.rrf(rankings, k=self.stage.rrf_k, depth=self.stage.depth))

    def _wait(self, row: Row, met: list[Row], left: list[str]) -> None:
        name, rest = left[0], left[1:]
        held = self._others[name]

        def come(partner: Row | None) -> None:
            if partner is None and held.pending:
                self.unranked(replace(row, state="pending"))
            elif partner is None:
                self.unranked(replace(row, state="failed", reason=f"{name} has no ranking of {row.id!r}"))
            elif partner.state != "live":
                reason = upstream(partner.reason) if partner.state == "failed" else ""
                self.unranked(replace(row, state=partner.state, reason=reason))
            else:
                self._fuse(row, [*met, partner], rest)

        held.find(row, self._matching(row.condition, name)[0], row.id, come)

    def _ids(self, row: Row, stage: str) -> Sequence[str]:
        return [candidate.id for candidate in row.stages[stage].candidates or ()]


def _richness(conditions: Sequence[Condition]) -> int:
    """How many coordinates the conditions of an arm have."""
    return len({key for condition in conditions for key in coordinates(condition)})
