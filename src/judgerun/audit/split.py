"""Scores by how the replies ended on which they rest: complete, truncated, complete in every condition, and the worst cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.tally import conditions
from judgerun.audit.words import few, percent
from judgerun.model.condition import Condition, matches
from judgerun.model.experiment import Chat
from judgerun.model.reply import Finish
from judgerun.table.conditions import coordinates
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row

Score = float | None
"""None where a row has none: it failed, did not conclude, or its value is no number."""
Pick = Callable[[Row], Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The scores of one condition. `complete` and `truncated` hold them by whether any reply on which a row rests was cut; of the
    truncated, those without a score are None. `everywhere` are the complete ones of ids that are complete in every condition.
    """

    condition: str
    complete: tuple[float, ...]
    truncated: tuple[Score, ...]
    everywhere: tuple[float, ...]
    binary: bool

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The mean if every truncated row were wrong, and if it were right; None where scores are no truth values, or none is
        known.
        """
        n = len(self.complete) + len(self.truncated)
        if not self.binary or not n:
            return None
        right = sum(self.complete)
        return right / n, (right + len(self.truncated)) / n

    @property
    def told(self) -> Score:
        """The mean over all rows that have a score."""
        return mean([*self.complete, *(score for score in self.truncated if score is not None)])


def mean(scores: Sequence[float]) -> Score:
    """Their mean; None of none."""
    return sum(scores) / len(scores) if scores else None


def split(rows: Iterable[Row], pick: Pick) -> tuple[Split, ...]:
    """The scores of each condition of the rows, by name. Pending rows, and rows that are no row of their own, are left out."""
    held: dict[str, list[tuple[str, Score, bool]]] = defaultdict(list)
    binary: dict[str, bool] = defaultdict(lambda: True)
    for row in rows:
        if row.state == "pending" or row.anonymous:
            continue
        score = pick(row)
        if score is not None and score not in (0.0, 1.0):
            binary[row.condition.name] = False
        held[row.condition.name].append((row.id, score, truncated(row)))
    lacking = {id_ for told in held.values() for id_, score, cut in told if cut or score is None}
    return tuple(
        Split(
            condition=name,
            complete=tuple(score for _, score, cut in held[name] if score is not None and not cut),
            truncated=tuple(score for _, score, cut in held[name] if cut),
            everywhere=tuple(score for id_, score, _ in held[name] if score is not None and id_ not in lacking),
            binary=binary[name],
        )
        for name in sorted(held)
    )


def truncated(row: Row) -> bool:
    """Whether any reply on which the row rests was cut at its cap."""
    return row.reason == "upstream truncated" or any(one.finish == Finish.LENGTH.value for one in row.stages.values())


def splits(evidence: Evidence) -> Iterator[tuple[str, tuple[Split, ...]]]:
    """(what is scored, its splits): each question whose value is a number, and the agreement of each stage with `expect`, where any
    row rests on a truncated reply.
    """
    scope = evidence.scopes().near
    for question in evidence.experiment.questions:
        rows = evidence.rows.get(question.feed, ())
        yield from _cut(f"question {question.name}", split(rows, _evaluated(Expression(question.value), scope)))
    for stage in evidence.experiment.stages:
        if isinstance(stage, Chat) and any(arm.settings.expect for arm in stage.arms):
            yield from _cut(f"{stage.name} agrees", split(evidence.rows.get(stage.name, ()), _agrees))


def _cut(name: str, found: tuple[Split, ...]) -> Iterator[tuple[str, tuple[Split, ...]]]:
    if any(one.truncated for one in found):
        yield name, found


def _agrees(row: Row) -> Score:
    outcome = row.outcome
    return None if outcome is None or outcome.agrees is None or row.state != "live" else float(outcome.agrees)


def _evaluated(expression: Expression, scope: Callable[[Row], Mapping[str, object]]) -> Pick:
    def pick(row: Row) -> Score:
        outcome = row.outcome
        if row.state != "live" or (outcome is not None and (outcome.concluded is False or outcome.incomplete)):
            return None
        try:
            value = expression.evaluate(scope(row))
        except ExpressionError:
            return None  # the report refuses it, with its place
        return float(value) if isinstance(value, bool | int | float) else None

    return pick


def tables(evidence: Evidence) -> Iterator[Table]:
    """Scores of complete and of truncated replies, of ids complete in every condition, and the mean if all truncated were wrong, or
    right.
    """
    rows = [_line(name, one) for name, found in splits(evidence) for one in found]
    if rows:
        yield Table(
            name="split",
            title="Scores by how the replies ended",
            columns=(
                "score", "condition", "n complete", "complete", "n truncated", "truncated", "n complete everywhere",
                "complete everywhere", "all truncated wrong", "all truncated right",
            ),
            rows=tuple(rows),
            note="Means. A row is truncated when any reply on which it rests was cut at its cap; those among them without a score "
            "are in the bounds alone.",
        )  # fmt: skip


def _line(name: str, one: Split) -> tuple[Cell, ...]:
    scored = [score for score in one.truncated if score is not None]
    low, high = one.bounds or (None, None)
    return (
        name, one.condition, len(one.complete), mean(one.complete), len(one.truncated), mean(scored), len(one.everywhere),
        mean(one.everywhere), low, high,
    )  # fmt: skip


def check_order(evidence: Evidence) -> Iterator[Finding]:
    """Whether it hangs on truncated replies which of two compared conditions is ahead: the order of their means is another one if
    those of the one are all right and those of the other all wrong, a warning for each score.
    """
    known = conditions(evidence)
    questions = {f"question {question.name}": question.compare for question in evidence.experiment.questions}
    for name, found in splits(evidence):
        compare = questions.get(name, ("", ()))  # agreement with `expect` is looked at in every coordinate
        pairs = [
            (one, other)
            for one, other in combinations(found, 2)
            if compare is not None and _compared(known[one.condition], known[other.condition], *compare)
        ]
        turned = [words for one, other in pairs if (words := _turned(one, other)) is not None]
        if turned:
            yield Finding(
                check="split",
                severity="warning",
                message=f"{name}: which condition is ahead hangs on truncated replies in {len(turned)} of {len(pairs)} comparisons",
                value=len(turned),
                evidence=few(turned),
            )


def _compared(one: Condition, other: Condition, coordinate: str, values: Sequence[str]) -> bool:
    """Whether a question compares two conditions: those that it names, or two that differ in its coordinate alone ("": in any)."""
    if coordinate == "conditions":
        return any(matches(key, one.name) for key in values) and any(matches(key, other.name) for key in values)
    first, second = coordinates(one), coordinates(other)
    differ = [key for key in first.keys() | second.keys() if first.get(key) != second.get(key)]
    if len(differ) != 1:
        return False
    (place,) = differ
    named = coordinate in ("", place[1], ".".join(place))
    return named and (not values or {first.get(place), second.get(place)} <= set(values))


def _turned(one: Split, other: Split) -> str | None:
    a, b, first, second = one.told, other.told, one.bounds, other.bounds
    if a is None or b is None or first is None or second is None or a == b:
        return None
    low, high = first[0] - second[1], first[1] - second[0]
    if not low < 0 < high:
        return None
    return (
        f"{one.condition} {percent(a)}, {other.condition} {percent(b)}: their difference lies between {100 * low:+.1f} and "
        f"{100 * high:+.1f} points"
    )
