"""Score: a ranking against relevance judgments, as the columns that a stage shows."""

from __future__ import annotations

from collections.abc import Sequence

from judgerun.model.rows import Gold
from judgerun.retrieval.metrics import metric


class Scorer:
    """Scores rankings by every metric against every gold named."""

    def __init__(self, golds: Sequence[Gold], metrics: Sequence[str]) -> None:
        self._golds = tuple(golds)
        self._metrics = tuple((metric(name), name.replace("@", "_")) for name in metrics)

    def scores(self, query: str, ranking: Sequence[str] | None) -> dict[str, float | None]:
        """Columns `gold.metric` of one query. No ranking, or a query without a relevant document: None."""
        return {
            f"{gold.name}.{column}": None if ranking is None else measure(ranking, gold.grades.get(query, {}))
            for gold in self._golds
            for measure, column in self._metrics
        }


def promoted(ranking: Sequence[str], chosen: object) -> list[str] | None:
    """The ranking with the chosen place (from 1) put first; None where nothing in it was chosen."""
    if not isinstance(chosen, int) or isinstance(chosen, bool) or not 1 <= chosen <= len(ranking):
        return None
    return [ranking[chosen - 1], *ranking[: chosen - 1], *ranking[chosen:]]
