"""Metrics by name: hand cases, and agreement with trec_eval (through ir-measures) on random rankings."""

from __future__ import annotations

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.retrieval.metrics import metric

GRADES = {"a": 3, "b": 0, "c": 1, "d": 2}
RANKING = ["b", "c", "x", "a"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hit@1", 0.0),
        ("hit@2", 1.0),
        ("recall@2", 1 / 3),
        ("recall@100", 2 / 3),
        ("mrr", 0.5),
        ("mrr@1", 0.0),
        ("map", (1 / 2 + 2 / 4) / 3),
        ("map@2", (1 / 2) / 3),
        ("map_found", (1 / 2 + 2 / 4) / 2),
        ("map_found@2", 1 / 2),
        ("map_found@1", 0.0),
        ("ndcg@1", 0.0),
        ("ndcg@2", 0.6309297535714575 / (3 + 2 * 0.6309297535714575)),
        ("ndcg_exp@2", 0.6309297535714575 / (7 + 3 * 0.6309297535714575)),
    ],
)
def test_hand_cases(name: str, value: float) -> None:
    """Each metric has its defining value on one small ranking."""
    assert metric(name)(RANKING, GRADES) == pytest.approx(value, abs=1e-15)


def test_a_query_without_relevant_documents_has_no_value() -> None:
    """None, never 0, where nothing is judged relevant."""
    for name in ("hit@1", "recall@1", "mrr", "ndcg@10", "map"):
        assert metric(name)(["a"], {}) is None
        assert metric(name)(["a"], {"a": 0, "b": -1}) is None


@pytest.mark.parametrize(
    "name", ["", "hit", "recall", "hit@0", "hit@-1", "hit@1.5", "Hit@1", "hits@1", "ndcg@", "map@x", "hit@01"]
)
def test_what_is_no_metric_is_refused(name: str) -> None:
    """A wrong name is a ValueError that shows the right ones."""
    with pytest.raises(ValueError, match=r"no metric|needs a depth"):
        metric(name)


def test_a_ranking_that_holds_an_id_twice_is_refused() -> None:
    """An id twice would count one document twice."""
    with pytest.raises(ValueError, match="stands twice"):
        metric("hit@1")(["a", "a"], {"a": 1})


documents = [f"d{place}" for place in range(12)]
grades = st.dictionaries(st.sampled_from(documents), st.integers(0, 3), min_size=1)
PEERS = {
    "hit@3": "Success@3",
    "recall@5": "R@5",
    "mrr": "RR",
    "ndcg@10": "nDCG@10",
    "ndcg@4": "nDCG@4",
    "ndcg": "nDCG",
    "map": "AP",
    "map@5": "AP@5",
}


@given(st.permutations(documents), st.integers(1, 12), grades)
def test_agrees_with_trec_eval(order: list[str], size: int, judged: dict[str, int]) -> None:
    """hit, recall, mrr, ndcg (linear gain) and map equal trec_eval's on random rankings and grades."""
    if not any(judged.values()):
        return
    ranking = order[:size]
    run = {"q": {document: float(len(ranking) - place) for place, document in enumerate(ranking)}}
    measures = {name: ir_measures.parse_measure(peer) for name, peer in PEERS.items()}
    theirs = ir_measures.pytrec_eval.calc_aggregate(list(measures.values()), {"q": judged}, run)
    for name, measure in measures.items():
        assert metric(name)(ranking, judged) == pytest.approx(theirs[measure], abs=1e-12), name


@given(st.permutations(documents), grades)
def test_values_lie_between_0_and_1_and_the_best_order_gives_1(order: list[str], judged: dict[str, int]) -> None:
    """No metric leaves 0..1, and the ideal ranking reaches 1."""
    if not any(judged.values()):
        return
    best = sorted(order, key=lambda document: -judged.get(document, 0))
    for name in (*PEERS, "ndcg_exp@5", "ndcg_exp", "map_found@5", "map_found"):
        value = metric(name)(order, judged)
        assert value is not None
        assert 0 <= value <= 1 + 1e-12
        if not name.startswith(("recall", "map@")):
            assert metric(name)(best, judged) == pytest.approx(1), name
