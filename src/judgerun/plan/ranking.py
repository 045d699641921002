"""Ranking: what the nodes of retrieve stages share: conditions, scores, batches of queries that wait for a corpus."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from judgerun.model.condition import Condition
from judgerun.model.experiment import Retrieve
from judgerun.plan.corpus import Corpus
from judgerun.plan.node import Common, Stageful
from judgerun.plan.score import Scorer
from judgerun.table.conditions import through
from judgerun.table.row import Candidate, Outcome, Row

BATCH = 512
"""Waiting queries of a large corpus that are ranked at once even while other blocks could be opened. Fewer wait for company,
since every batch reads the whole corpus.
"""
LARGE = 10_000
"""Documents from which on queries wait for company. Below, each is ranked as its block is opened, so that the cells behind a
ranking keep step with those of the same block that need none.
"""

Hits = Sequence[tuple[str, float]]


class RankNode(Stageful):
    """A row comes in and goes on with its ranking."""

    def __init__(self, common: Common, stage: Retrieve, feeds: Sequence[str], sides: Sequence[str] = ()) -> None:
        super().__init__(common, stage.name, feeds, sides)
        self.stage = stage
        self._to: dict[str, Condition] = {
            c.name: through(c, stage.name) for feed in self.feeds for c in feed.conditions
        }
        self.conditions = tuple(self._to.values())
        self._scorer = Scorer([common.inputs.golds[gold] for gold in stage.gold], stage.metrics)

    def ranked(self, row: Row, hits: Hits) -> None:
        """Send the row on with its k best documents."""
        candidates = tuple(
            Candidate(id, float(score), rank) for rank, (id, score) in enumerate(hits[: self.stage.k], start=1)
        )
        scores = self._scorer.scores(row.id, [candidate.id for candidate in candidates])
        outcome = Outcome(candidates=candidates, scores=scores)
        condition = self._to[row.condition.name]
        self.emit(replace(row, condition=condition, stages={**row.stages, self.name: outcome}))

    def unranked(self, row: Row) -> None:
        """Send a mark on."""
        self.emit(replace(row, condition=self._to[row.condition.name]))


class BatchNode(RankNode, ABC):
    """Queries wait until the corpus is whole, and are then ranked together."""

    def __init__(self, common: Common, stage: Retrieve, feeds: Sequence[str], corpus: str) -> None:
        super().__init__(common, stage, feeds, (corpus,))
        self._whole = False
        self._queue: list[tuple[Row, str]] = []
        self.wait_for(corpus, by_root=False, done=self._corpus_done)

    @property
    def waiting(self) -> bool:
        """Whether queries could be ranked now."""
        return self._whole and bool(self._queue)

    @abstractmethod
    def documents(self) -> int:
        """Documents that one query reads."""

    def _corpus_done(self, _: str) -> None:
        self._whole = True

    def enqueue(self, row: Row, text: str = "") -> None:
        """A query waits for its turn; a mark goes on at once."""
        if row.state == "live":
            self.hold(row.root)
            self._queue.append((row, text))
        else:
            self.unranked(row)

    def flush(self, *, full_only: bool) -> bool:
        """Rank the queries that wait, with `full_only` only when they make a full batch; whether any was ranked."""
        if not self.waiting or (full_only and len(self._queue) < BATCH and self.documents() >= LARGE):
            return False
        queue, self._queue = self._queue, []
        self.rank(queue)
        for row, _ in queue:
            self.release(row.root)
        return True

    @abstractmethod
    def rank(self, queue: Sequence[tuple[Row, str]]) -> None:
        """Rank these queries against the corpus, which is whole."""

    def fit(self, corpus: Corpus[bytes] | Corpus[str], what: str, rows: Sequence[Row]) -> bool:
        """Whether the corpus may be ranked against; marks go on where it may not."""
        reason = "" if corpus.pending else corpus.wrong(what)
        if not (reason or corpus.pending):
            return True
        for row in rows:
            self.unranked(replace(row, state="failed" if reason else "pending", reason=reason))
        return False
