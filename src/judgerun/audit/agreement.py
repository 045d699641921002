"""Whether judges of the same items agree: each two of a stage, with intervals, and how each uses its scale."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from judgerun.analysis.agreement import Metric, coefficients, exact, krippendorff
from judgerun.analysis.estimate import Estimate
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.model.experiment import Chat, ParseRule
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row

ITEMS_MIN = 20
"""On fewer items nothing is said of two judges."""
RESAMPLES = 2_000
"""Enough for two digits; an audit looks at every two judges of every condition."""
Rated = Mapping[tuple[str, tuple[tuple[str, int], ...]], Row]
"""By id and draws: what one judge made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two judges of one condition (its model folded) and the items that both concluded."""

    condition: str
    first: str
    second: str
    rows: tuple[tuple[Row, Row], ...]
    rule: ParseRule

    @property
    def values(self) -> tuple[list[float], list[float]]:
        """What either said, as numbers: scores as they are, labels by their place."""
        one, other = ([_number(row, self.rule) for row in held] for held in zip(*self.rows, strict=True))
        return one, other

    @property
    def metric(self) -> Metric:
        """Scores lie on an ordered scale; labels and choices are names."""
        return "ordinal" if self.rule.kind == "score" else "nominal"


def judges(evidence: Evidence) -> Iterator[tuple[Chat, str, ParseRule, Mapping[str, Rated]]]:
    """(stage, condition with its model folded, rule, rows by judge) where several judges that read alike gave verdicts."""
    for stage in evidence.experiment.stages:
        rules = [arm.settings.parse for arm in stage.arms] if isinstance(stage, Chat) else []
        if not isinstance(stage, Chat) or not rules or any(rule.kind in ("text", "json") for rule in rules):
            continue
        held: dict[str, dict[str, dict[Any, Row]]] = defaultdict(lambda: defaultdict(dict))
        for row in evidence.rows.get(stage.name, ()):
            model = dict(row.condition.segments[0].coordinates).get("model")
            if model is not None and row.outcome is not None and row.outcome.concluded and row.state == "live":
                held[row.condition.fold(stage.name, "model").name][model][row.id, row.draws] = row
        for condition in sorted(held):
            if len(held[condition]) > 1:
                yield stage, condition, rules[0], held[condition]


def pairs(evidence: Evidence) -> Iterator[Pair]:
    """Each two judges with items that both judged."""
    for _, condition, rule, raters in judges(evidence):
        for first, second in combinations(sorted(raters), 2):
            common = sorted(raters[first].keys() & raters[second].keys())
            if common:
                rows = tuple((raters[first][key], raters[second][key]) for key in common)
                yield Pair(condition=condition, first=first, second=second, rows=rows, rule=rule)


def _number(row: Row, rule: ParseRule) -> float:
    value: Any = row.outcome.value if row.outcome is not None else None
    return float(rule.values.index(value) if rule.kind == "label" else value)


def told(evidence: Evidence, pair: Pair) -> dict[str, Estimate]:
    """All coefficients of a pair."""
    one, other = pair.values
    return coefficients(one, other, metric=pair.metric, seed=evidence.experiment.seed, resamples=RESAMPLES)


def binary(evidence: Evidence, pair: Pair) -> Iterator[tuple[str, float | None]]:
    """(question, exact agreement of its truth value) for each question about the stage that asks for a truth value."""
    scope = evidence.scopes().near
    stage = pair.rows[0][0].condition.stage
    for question in evidence.experiment.questions:
        if question.feed != stage:
            continue
        expression = Expression(question.value)
        try:
            held = [tuple(expression.evaluate(scope(row)) for row in both) for both in pair.rows]
        except ExpressionError:
            continue  # the report refuses it, with its place
        if all(isinstance(value, bool) for both in held for value in both):
            yield question.name, exact([a for a, _ in held], [b for _, b in held])


def check_agreement(evidence: Evidence) -> Iterator[Finding]:
    """Two judges of the same items (20 or more) whose kappa is not above zero with certainty agree as chance would: a warning."""
    for pair in pairs(evidence):
        kappa = told(evidence, pair)["kappa"]
        if len(pair.rows) >= ITEMS_MIN and kappa.value is not None and kappa.low is not None and kappa.low <= 0:
            yield Finding(
                check="agreement",
                severity="warning",
                message=f"{pair.first} and {pair.second} agree on {pair.condition} as chance would: kappa {kappa.value:.2f} "
                f"[{kappa.low:.2f}, {kappa.high:.2f}] over {len(pair.rows)} items",
                value=kappa.value,
            )


def tables(evidence: Evidence) -> Iterator[Table]:
    """Each two judges with all coefficients; alpha over all judges of a condition; and how often each judge used each value."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs(evidence):
        place = (pair.condition, f"{pair.first} and {pair.second}", len(pair.rows))
        rows += [(*place, name, one.value, one.low, one.high) for name, one in told(evidence, pair).items()]
        rows += [(*place, f"exact: {question}", value, None, None) for question, value in binary(evidence, pair)]
    rows += list(_all(evidence))
    if rows:
        yield Table(
            name="agreement",
            title="Do judges of the same items agree?",
            columns=("condition", "judges", "items", "coefficient", "value", "low", "high"),
            rows=tuple(rows),
            note="Weighted kappa by squared distance; alpha is Krippendorff's, ordinal for scores; 95% intervals over resampled "
            "items. `exact: QUESTION` is agreement on that question's truth value.",
        )
    used = list(_used(evidence))
    if used:
        yield Table(
            name="values used",
            title="How judges use their scale",
            columns=("condition", "judge", "verdicts", "values", "never used"),
            rows=tuple(used),
        )


def _all(evidence: Evidence) -> Iterator[tuple[Cell, ...]]:
    """Alpha over three and more judges of a condition, items that some did not conclude included."""
    for _, condition, rule, raters in judges(evidence):
        if len(raters) < 3:
            continue
        keys = sorted(set().union(*raters.values()))
        units = [[_number(held[key], rule) if key in held else None for held in raters.values()] for key in keys]
        metric: Metric = "ordinal" if rule.kind == "score" else "nominal"
        yield condition, f"all {len(raters)}", len(keys), "alpha", krippendorff(units, metric), None, None


def _used(evidence: Evidence) -> Iterator[tuple[Cell, ...]]:
    for _, condition, rule, raters in judges(evidence):
        for judge in sorted(raters):
            counted = Counter(_value(row) for row in raters[judge].values())
            known: Sequence[Any] = rule.values
            if rule.kind == "score" and rule.low is not None and rule.high is not None:
                known = range(rule.low, rule.high + 1)
            never = ", ".join(str(value) for value in known if value not in counted)
            values = ", ".join(f"{value}: {n}" for value, n in sorted(counted.items(), key=lambda item: str(item[0])))
            yield condition, judge, counted.total(), values, never or None


def _value(row: Row) -> Any:
    return row.outcome.value if row.outcome is not None else None
