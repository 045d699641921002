"""Search: the nodes that rank queries against a corpus: dense, by vectors, and bm25, by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from judgerun.errors import InvariantBroken
from judgerun.model.experiment import Embed, Retrieve
from judgerun.model.request import RequestKey
from judgerun.model.rows import Fields
from judgerun.plan.corpus import Corpus, Documents, side
from judgerun.plan.entry import Entry
from judgerun.plan.node import Common, Matrix, Vectors
from judgerun.plan.ranking import BatchNode
from judgerun.retrieval import bm25, dense
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row


class DenseNode(BatchNode):
    """Ranks by the vectors of one embed stage, each model against its own corpus."""

    def __init__(self, common: Common, stage: Retrieve, embed: Embed, matrix: Matrix) -> None:
        corpus = f"{embed.name} (corpus)"
        super().__init__(common, stage, (embed.name,), corpus)
        self._embed = embed.name
        self._matrix = matrix
        self._corpora: dict[str, Corpus[bytes]] = {model.name: Corpus() for model in embed.models}
        self._vectors: dict[str, Vectors] = {}
        if embed.corpus is None:
            raise InvariantBroken(f"{embed.name} embeds no corpus")
        self._documents = Documents(common, embed.corpus.table)
        common.nodes[corpus].readers.append(self._document)
        self.feeds[0].readers.append(Entry(self, stage, lambda row, _: self.enqueue(row)).read)

    def document(self, id: str) -> Fields:
        """The fields of a document of the corpus."""
        return self._documents.read(id)

    def documents(self) -> int:
        """The documents of the largest corpus."""
        return max(len(corpus.ids) for corpus in self._corpora.values())

    def _model(self, row: Row) -> str:
        return row.condition.get("model", self._embed) or ""

    def _document(self, row: Row) -> None:
        """A document comes in with the key of its vector."""
        outcome = row.stages.get(self._embed)
        self._corpora[self._model(row)].add(row, None if outcome is None else outcome.key)
        self._documents.keep(row)

    def rank(self, queue: Sequence[tuple[Row, str]]) -> None:
        """Rank the queries of each model against the corpus of that model."""
        groups: dict[str, list[Row]] = {}
        for row, _ in queue:
            groups.setdefault(self._model(row), []).append(row)
        for model, rows in groups.items():
            corpus = self._corpora[model]
            if model not in self._vectors:
                corpus.sort()
            if not self.fit(corpus, "vector", rows):
                continue
            if model not in self._vectors:
                self._vectors[model] = self._matrix(corpus.contents)
            queries = self._matrix([self._key(row) for row in rows])
            places, scores = dense.top_k(queries, self._vectors[model], ids=corpus.ids, k=self.stage.k)
            for row, found, told in zip(rows, places.tolist(), scores.tolist(), strict=True):
                self.ranked(row, [(corpus.ids[place], score) for place, score in zip(found, told, strict=True)])

    def _key(self, row: Row) -> RequestKey:
        key = row.stages[self._embed].key
        if key is None:
            raise InvariantBroken(f"the query {row.id} has no vector")
        return key


class WordsNode(BatchNode):
    """Ranks its own query texts against its own corpus by BM25."""

    def __init__(self, common: Common, stage: Retrieve) -> None:
        text = stage.corpus
        if text is None:
            raise InvariantBroken(f"{stage.name} has no corpus")
        corpus = side(common, text.table)
        super().__init__(common, stage, [query.table for query in stage.queries], corpus)
        self._corpus: Corpus[str] = Corpus()
        self._documents = Documents(common, text.table)
        self._index: bm25.Index | None = None
        common.nodes[corpus].readers.append(partial(self._document, Expression(text.expression)))
        entry = Entry(self, stage, self._query)
        for query in stage.queries:
            common.nodes[query.table].readers.append(partial(entry.read, by=Expression(query.expression)))

    def document(self, id: str) -> Fields:
        """The fields of a document of the corpus."""
        return self._documents.read(id)

    def documents(self) -> int:
        """0: an index reads only the documents that share a word, so queries need not wait for company."""
        return 0

    def _document(self, text: Expression, row: Row) -> None:
        content: str | None = None
        if row.state == "live":
            try:
                content = text.rendered(self.common.scopes.of(row))
            except ExpressionError:
                content = None  # counted by the corpus: a document without a text
        self._corpus.add(row, content)
        self._documents.keep(row)

    def _query(self, row: Row, text: Expression) -> None:
        if row.state != "live":
            self.unranked(row)
            return
        try:
            self.enqueue(row, text.rendered(self.common.scopes.of(row)))
        except ExpressionError as error:
            self.unranked(replace(row, state="failed", reason=f"text: {error}"))

    def rank(self, queue: Sequence[tuple[Row, str]]) -> None:
        """Rank the queries; a document without a word of the query has no place."""
        if self._index is None:
            self._corpus.sort()
        if not self.fit(self._corpus, "text", [row for row, _ in queue]):
            return
        if self._index is None:
            options = bm25.options(self.stage.options)
            self._index = bm25.Index(self._corpus.contents, ids=self._corpus.ids, options=options)
            self._corpus.contents = []
        for row, text in queue:
            found = self._index.rank(text, k=self.stage.k)
            self.ranked(row, [(self._corpus.ids[place], score) for place, score in found])
