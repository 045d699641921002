"""Values: equality to a person, folds, orders and what is mapped back, samples, explodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from judgerun.model.experiment import ExplodeRows, ParseRule
from judgerun.table.agree import same
from judgerun.table.explode import bound, pieces
from judgerun.table.fold import fold
from judgerun.table.order import given, permutation
from judgerun.table.row import Verdict
from judgerun.table.sample import sampled


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (3, "3", True),
        (3, " 3.0 ", True),
        (3, 3.0, True),
        ("3", "3.00", True),
        (3, "4", False),
        (3, "three", False),
        (3, None, False),
        ("A", "A ", True),
        ("A", "a", False),
        (True, "true", True),
        (True, True, True),
        (True, 1, False),
        (False, "False", True),
        ("1e3", 1000, True),
        ("nan", float("nan"), False),
        ([1], [1], True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_numbers_compare_as_numbers(one: Any, other: Any, equal: bool) -> None:
    """A score of 3 agrees with the text "3" of a CSV cell; truth values are no numbers."""
    assert same(one, other) is equal
    assert same(other, one) is equal


@pytest.mark.parametrize(
    ("rule", "values", "folded"),
    [
        ("agree", ["A", "A"], "A"),
        ("agree", ["A", "B"], "tie"),
        ("majority", ["A", "A", "B"], "A"),
        ("majority", ["A", "A", "B", "B"], "tie"),
        ("majority", ["A", "B", "C", "A"], "tie"),
        ("any", [False, True], True),
        ("all", [False, True], False),
        ("all", [True, True], True),
        ("mean", [1, "2", 6], 3.0),
        ("median", [5, 1, 3], 3.0),
        ("list", ["B", "A"], ["B", "A"]),
        ("mean", [{"x": 1, "y": 2}, {"x": 3}], {"x": 2.0, "y": 2.0}),
        ("list", [{"x": 1}], [{"x": 1}]),
    ],
)
def test_folds(rule: str, values: Sequence[Any], folded: Any) -> None:
    """Each rule on a small case; a majority is more than half; records fold name by name."""
    assert fold(values, rule, "tie") == folded


def test_a_mean_of_words_is_an_error() -> None:
    """What cannot be averaged is told, not skipped."""
    with pytest.raises(ValueError, match="could not convert"):
        fold(["A", "B"], "mean")


CHOICE = ParseRule(kind="choice")
LABEL = ParseRule(kind="label", values=("A", "B", "tie"))


@forall(
    st.integers(1, 30),
    st.sampled_from(["given", "reversed", "shuffled:1", "shuffled:2", "rotated:1", "rotated:7"]),
    st.text(max_size=8),
    st.data(),
)
def test_choices_are_mapped_back(count: int, order: str, id: str, data: st.DataObject) -> None:
    """Whoever chooses a document in any order has chosen the same document in the given one."""
    places = permutation(order, count, seed=7, id=id)
    shown = list(range(count)) if places is None else list(places)
    assert sorted(shown) == list(range(count))
    wanted = data.draw(st.integers(0, count - 1))
    answer = Verdict(parsed=True, value=shown.index(wanted) + 1)
    assert given(answer, CHOICE, order=order, places=places).value == wanted + 1


def test_rotations_bring_each_candidate_to_each_place() -> None:
    """The given order and one rotation less than candidates: every candidate stands at every place once."""
    shown = [permutation(f"rotated:{k}", 5, seed=7, id="q") for k in range(5)]
    assert [sorted(column) for column in zip(*(places or () for places in shown), strict=True)] == [[0, 1, 2, 3, 4]] * 5


def test_shuffles_depend_on_seed_id_and_number_alone() -> None:
    """The same shuffle twice, another one for another row, seed or number."""
    first = permutation("shuffled:1", 20, seed=7, id="q")
    assert first == permutation("shuffled:1", 20, seed=7, id="q")
    assert first is not None
    others = [("shuffled:2", 7, "q"), ("shuffled:1", 8, "q"), ("shuffled:1", 7, "r")]
    assert all(permutation(order, 20, seed=seed, id=id) != first for order, seed, id in others)


def test_labels_of_a_swapped_pair_change_places() -> None:
    """Shown b first, "A" means b; a tie stays a tie; in the given order nothing changes."""
    values = [Verdict(parsed=True, value=value) for value in ("A", "B", "tie")]
    assert [given(v, LABEL, order="ba", places=None).value for v in values] == ["B", "A", "tie"]
    assert [given(v, LABEL, order="ab", places=None).value for v in values] == ["A", "B", "tie"]
    unparsed = Verdict(parsed=False, why="no match")
    assert given(unparsed, LABEL, order="ba", places=None) is unparsed


@forall(st.lists(st.text(max_size=6), max_size=60), st.integers(0, 40), st.integers(0, 40), st.integers())
def test_a_small_sample_is_inside_a_large_one(ids: list[str], small: int, more: int, seed: int) -> None:
    """A sample has the size asked, depends on no order, and only loses ids to new ones that stand before them."""
    inner, outer = sampled(ids, small, seed), sampled(ids, small + more, seed)
    assert inner <= outer
    assert len(inner) == min(small, len(set(ids)))
    assert sampled(reversed(ids), small, seed) == inner
    assert sampled([*ids, "a new one"], small, seed) - {"a new one"} <= inner


KINDS = (
    ExplodeRows(each=("variants", "restatements"), fields={"role": "positive"}),
    ExplodeRows(each=("near",), fields={"role": "negative"}),
    ExplodeRows(each=("deep.far[*]",)),
    ExplodeRows(each=("more",), fields={"role": "positive"}),
)


def test_pieces_of_a_reply() -> None:
    """The first path present gives the rows; they are counted from 1 in each role; a lone thing is a list of one."""
    value = {"restatements": [{"problem": "r"}], "near": "n", "deep": {"far": ["f", "g"]}, "more": [{"problem": "m"}]}
    assert list(pieces(value, KINDS)) == [
        ("positive.1", {"problem": "r"}, {"problem": "r", "role": "positive"}),
        ("negative.1", "n", {"role": "negative"}),
        ("far.1", "f", {}),
        ("far.2", "g", {}),
        ("positive.2", {"problem": "m"}, {"problem": "m", "role": "positive"}),
    ]


def test_the_bound_of_a_reply_is_in_its_schema() -> None:
    """The largest of alternative paths, summed over the kinds; references are followed; no maxItems, no bound."""
    two = {"type": "array", "maxItems": 2}
    schema = {
        "$defs": {"far": {"type": "array", "maxItems": 4}},
        "properties": {
            "variants": {"type": "array", "maxItems": 1},
            "restatements": two,
            "near": {"type": "string"},
            "deep": {"properties": {"far": {"$ref": "#/$defs/far"}}},
        },
    }
    assert bound(schema, KINDS) == 2 + 1 + 4 + 0
    assert bound({"properties": {"near": {"type": "array"}}}, KINDS) is None
    assert bound(None, KINDS) is None
