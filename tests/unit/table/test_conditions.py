"""Conditions: names as FORMAT writes them, orders, which coordinate is meant, which conditions join."""

from __future__ import annotations

from judgerun.model.condition import Condition
from judgerun.table.conditions import asked, embedded, locate, matching, orders, paired, source, through

PROBLEMS = source("problems", None)


def solve(model: str, variant: str = "gold", feed: Condition = PROBLEMS) -> Condition:
    """A solver's condition."""
    return asked(feed, "solve", model=model, prompt="solve", variant=variant, order=None)


def grade(model: str, feed: Condition) -> Condition:
    """A grader's condition."""
    return asked(feed, "grade", model=model, prompt="grade", variant="", order=None)


def test_names_are_written_as_the_format_says() -> None:
    """Stage, model, prompt, variant, order, then the condition that fed it, down to the data table."""
    assert grade("gemini-g", solve("ds")).name == "grade/gemini-g/grade@solve/ds/solve/gold@problems"
    assert embedded(PROBLEMS, "vectors", "minilm").name == "vectors/minilm@problems"
    assert through(embedded(PROBLEMS, "vectors", "minilm"), "top10").name == "top10@vectors/minilm@problems"
    assert source("answers", "sysA").name == "answers:sysA"
    folded = source("answers", "sysA").fold("answers", "condition")
    assert paired(folded, "match", "sysA~baseline").name == "match/sysA~baseline@answers:-"
    shown = asked(PROBLEMS, "pick", model="m", prompt="p", variant="", order="reversed")
    assert shown.name == "pick/m/p/reversed@problems"
    assert shown.fold("pick", "order").name == "pick/m/p/-@problems"


def test_shuffled_k_is_k_shuffles() -> None:
    """Each shuffle is an order of its own; without orders there is no coordinate."""
    assert orders(()) == (None,)
    assert orders(("given", "shuffled:2", "reversed")) == ("given", "shuffled:1", "shuffled:2", "reversed")
    assert orders(("given", "rotated:2")) == ("given", "rotated:1", "rotated:2")


def test_a_coordinate_named_alone_is_the_nearest_with_several_values() -> None:
    """`model` is the grader's where several graders are, else the solver's; `solve.model` says which."""
    both = [grade(g, solve(s)) for g in ("g1", "g2") for s in ("s1", "s2")]
    assert locate("model", both) == "grade"
    assert locate("model", [grade("g1", solve(s)) for s in ("s1", "s2")]) == "solve"
    assert locate("model", [grade("g1", solve("s1"))]) == "grade"
    assert locate("solve.model", both) == "solve"
    assert locate("variant", both) == "solve"
    assert locate("order", both) is None
    assert locate("grade.order", both) is None


def test_a_folded_coordinate_is_not_meant() -> None:
    """What was folded away has no value any more."""
    both = [grade("g1", solve(s)).fold("grade", "model") for s in ("s1", "s2")]
    assert locate("model", both) == "solve"


def test_joins_need_equal_shared_coordinates() -> None:
    """A grader's row meets the solver's row of its own model and variant."""
    solvers = [solve(s, v) for s in ("s1", "s2") for v in ("none", "gold")]
    graders = [grade("g", s) for s in solvers]
    assert matching(graders[3], graders, solvers) == [solvers[3]]


def test_what_only_one_side_has_is_broadcast() -> None:
    """Rankings by words have no embedder; each dense ranking meets the one of the same rewrite."""
    rewrites = [asked(PROBLEMS, "form", model=m, prompt="p", variant="", order=None) for m in ("a", "b")]
    feeds = [PROBLEMS, *rewrites]
    dense = [through(embedded(feed, "vectors", e), "dense") for e in ("e1", "e2") for feed in feeds]
    words = [through(feed, "words") for feed in feeds]
    for condition in dense:
        found = matching(condition, dense, words)
        assert [other.name for other in found] == [f"words@{condition.name.split('@', 2)[2]}"]


def test_ambiguity_shows_as_several() -> None:
    """Without a shared coordinate every condition of the other side matches."""
    solvers = [solve(s) for s in ("s1", "s2")]
    other = [grade("g", PROBLEMS)]
    assert matching(other[0], other, solvers) == solvers
