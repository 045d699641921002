"""Metrics of one ranking against judged documents, by name: `hit@1`, `recall@10`, `mrr`, `ndcg@10`, `map` ...

A document is relevant when its grade is above 0; an unjudged one counts as grade 0. A query without a relevant document has
no value (None), never 0. `@k` reads the first k places; without it the whole ranking is read (`hit` and `recall` need a k).

| name | value |
|---|---|
| `hit@k` | 1 when a relevant document is among the first k, else 0 |
| `recall@k` | relevant documents among the first k / all relevant |
| `mrr`, `mrr@k` | 1 / rank of the first relevant document, 0 when there is none |
| `ndcg`, `ndcg@k` | DCG / DCG of the best order, gain = grade (Jarvelin and Kekalainen 2002), discount 1 / log2(1 + rank) |
| `ndcg_exp`, `ndcg_exp@k` | the same with gain 2^grade - 1 (Burges et al. 2005) |
| `map`, `map@k` | mean over ALL relevant documents of the precision at each one's rank (0 where it is not found) |
| `map_found`, `map_found@k` | the same sum divided by the relevant documents FOUND; 0 when none is |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import fsum, log2

Metric = Callable[[Sequence[str], Mapping[str, int]], float | None]

_NAME = re.compile(r"(?P<measure>[a-z_]+)(?:@(?P<k>[1-9][0-9]*))?")


def metric(name: str) -> Metric:
    """The metric of that name: `(ranking, grades) -> value`, None where no document is relevant.

    ValueError, here for a name that is none, and in the metric for a ranking that holds an id twice.
    """
    found = _NAME.fullmatch(name)
    measure = _MEASURES.get(found["measure"]) if found else None
    if found is None or measure is None:
        known = ", ".join(f"{known}@k" for known in _MEASURES)
        raise ValueError(f"{name!r} is no metric; known are {known}")
    if found["k"] is None and found["measure"] in _NEED_K:
        raise ValueError(f"{name!r} needs a depth, as in {name}@10")
    return partial(_measured, measure, int(found["k"]) if found["k"] else None)


_Measure = Callable[[Sequence[int], Sequence[int]], float]  # grades in rank order, relevant grades in falling order


def _measured(measure: _Measure, k: int | None, ranking: Sequence[str], grades: Mapping[str, int]) -> float | None:
    relevant = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    if not relevant:
        return None
    if len(set(ranking)) < len(ranking):
        raise ValueError("an id stands twice in the ranking")
    seen = [max(0, grades.get(document, 0)) for document in islice(ranking, k)]
    return measure(seen, relevant if k is None or measure not in _CUT_IDEAL else relevant[:k])


def _hit(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return float(any(seen))


def _recall(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return sum(grade > 0 for grade in seen) / len(relevant)


def _mrr(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return next((1 / rank for rank, grade in enumerate(seen, start=1) if grade > 0), 0.0)


def _ndcg(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return _dcg(seen) / _dcg(relevant)


def _ndcg_exp(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return _ndcg([2**grade - 1 for grade in seen], [2**grade - 1 for grade in relevant])


def _dcg(gains: Sequence[int]) -> float:
    return fsum(gain / log2(1 + rank) for rank, gain in enumerate(gains, start=1))


def _map(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return _precisions(seen) / len(relevant)


def _map_found(seen: Sequence[int], relevant: Sequence[int]) -> float:
    return _precisions(seen) / max(1, sum(grade > 0 for grade in seen))


def _precisions(seen: Sequence[int]) -> float:
    """The sum of the precisions at the ranks of the relevant documents."""
    ranks = (rank for rank, grade in enumerate(seen, start=1) if grade > 0)
    return fsum(found / rank for found, rank in enumerate(ranks, start=1))


_MEASURES: Mapping[str, _Measure] = {
    "hit": _hit,
    "recall": _recall,
    "mrr": _mrr,
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg_exp,
    "map": _map,
    "map_found": _map_found,
}
_NEED_K = frozenset({"hit", "recall"})
_CUT_IDEAL: frozenset[_Measure] = frozenset({_ndcg, _ndcg_exp})  # their best order is cut at k too
