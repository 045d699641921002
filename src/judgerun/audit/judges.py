"""Whether judges can be trusted: lengths, families, repeats, and judges that always say the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from judgerun.analysis.intervals import bootstrap
from judgerun.analysis.paired import mcnemar
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Rate, Table
from judgerun.audit.words import few, percent
from judgerun.model.experiment import Chat
from judgerun.table.row import Row
from judgerun.table.scope import kinds_of

ALPHA = 0.01
STRONG = 0.3
"""Rank correlation of score and length from which on a judge is told: a tenth of the ranks' variance."""
ITEMS_MIN = 20
"""On fewer items nothing is said of a judge."""
SAME_MAX = 0.95
"""Share of one answer above which a judge does not judge."""
REPEAT_MIN = 0.8
"""Agreement of a judge with itself under which it is told."""


def judged(evidence: Evidence, row: Row) -> tuple[str, str] | None:
    """(text, lineage) of the reply that a row of a chat stage judges, of the nearest chat stage upstream; None where none is."""
    kinds = kinds_of(evidence.experiment.stages)
    for stage, outcome in reversed(list(row.stages.items())):
        if stage != row.condition.stage and kinds.get(stage) == "chat" and outcome.reply is not None:
            return outcome.reply, outcome.lineage or ""
    return None


def scored(evidence: Evidence) -> Iterator[tuple[str, list[tuple[Row, float]]]]:
    """(condition, its concluded rows with their number) for each condition of a chat stage whose values are numbers."""
    for stage in evidence.experiment.stages:
        if not isinstance(stage, Chat):
            continue
        held: dict[str, list[tuple[Row, float]]] = defaultdict(list)
        for row in sorted(evidence.rows.get(stage.name, ()), key=lambda row: (row.condition.name, row.id, row.draws)):
            if (value := _number(row)) is not None:
                held[row.condition.name].append((row, value))
        kinds = {arm.settings.parse.kind for arm in stage.arms}
        yield from sorted(held.items()) if kinds <= {"score", "json"} else ()


def _number(row: Row) -> float | None:
    outcome = row.outcome
    if outcome is None or not outcome.concluded or not isinstance(outcome.value, int | float):
        return None
    return float(outcome.value)


def check_length(evidence: Evidence) -> Iterator[Finding]:
    """Whether a judge's scores follow the length of what it judges (Spearman's rho over items, from .3 on, p under .01): a note,
    since better answers may be longer; the two together are to be looked at.
    """
    from scipy import stats  # takes a second to import: see paired

    for condition, held in scored(evidence):
        pairs = [(float(len(found[0])), value) for row, value in held if (found := judged(evidence, row)) is not None]
        if len(pairs) < ITEMS_MIN or len({a for a, _ in pairs}) < 2 or len({b for _, b in pairs}) < 2:
            continue
        result = stats.spearmanr([a for a, _ in pairs], [b for _, b in pairs])
        rho, p = float(result.statistic), float(result.pvalue)
        if abs(rho) >= STRONG and p < ALPHA:
            yield Finding(
                check="length bias",
                severity="note",
                condition=condition,
                message=f"scores go with the length of what is judged: rho = {rho:+.2f} over {len(pairs)} replies (p = {p:.2g})",
                value=rho,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The scores of one judge for the answers of one lineage."""

    judge: str
    own: str  # the judge's lineage
    generator: str  # the lineage of who wrote what is judged
    scores: Mapping[str, float]  # mean over an item's rows, by item


def families(evidence: Evidence) -> list[Family]:
    """Scores by judge (model) and by the lineage of what is judged, where both lineages are written."""
    held: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _, rows in scored(evidence):
        for row, value in rows:
            found, outcome = judged(evidence, row), row.outcome
            if found is not None and found[1] and outcome is not None and outcome.lineage and outcome.model:
                held[outcome.model, outcome.lineage, found[1]][row.id].append(value)
    return [
        Family(judge=judge, own=own, generator=generator, scores={id_: sum(of) / len(of) for id_, of in scores.items()})
        for (judge, own, generator), scores in sorted(held.items())
    ]


def check_family(evidence: Evidence) -> Iterator[Finding]:
    """Judges that score answers of their own lineage: disclosed as a note. Where judges of other lineages score the same answers,
    by how much more the judge prefers its own than they do (difference of differences over items, bootstrap over items): a warning
    where its interval lies above zero.
    """
    held = families(evidence)
    for own in (family for family in held if family.own == family.generator):
        rest = [family for family in held if family.own != own.own]
        more = preference(own, [family for family in held if family.judge == own.judge], rest)
        told = f"{own.judge} ({own.own}) scores {len(own.scores)} answers of its own lineage"
        bias = len(more) >= ITEMS_MIN
        estimate = bootstrap(more, seed=evidence.experiment.seed) if bias else None
        low, high = (estimate.low, estimate.high) if estimate is not None else (None, None)
        if estimate is not None and estimate.value is not None:
            told += f"; it prefers them by {estimate.value:+.2f} [{low:+.2f}, {high:+.2f}] more than judges of other lineages do"
        yield Finding(
            check="self-preference",
            severity="warning" if low is not None and low > 0 else "note",
            message=told,
            value=estimate.value if estimate is not None else None,
        )


def preference(own: Family, same: Sequence[Family], rest: Sequence[Family]) -> list[float]:
    """By item, how much more a judge's score of its own lineage exceeds its score of the others than it does for other judges."""
    by_judge: dict[str, dict[str, list[Mapping[str, float]]]] = defaultdict(lambda: {"own": [], "other": []})
    for family in (*same, *rest):
        by_judge[family.judge]["own" if family.generator == own.generator else "other"].append(family.scores)
    others = [judge for judge in by_judge if judge != own.judge]
    told = []
    for id_ in sorted(own.scores):
        mine = _gap(by_judge[own.judge], id_)
        theirs = [gap for judge in others if (gap := _gap(by_judge[judge], id_)) is not None]
        if mine is not None and theirs:
            told.append(mine - sum(theirs) / len(theirs))
    return told


def _gap(held: Mapping[str, Sequence[Mapping[str, float]]], id_: str) -> float | None:
    own, other = ([scores[id_] for scores in held[side] if id_ in scores] for side in ("own", "other"))
    return sum(own) / len(own) - sum(other) / len(other) if own and other else None


def check_repeats(evidence: Evidence) -> Iterator[Finding]:
    """How often a judge that is asked several times says the same: under 80% of the pairs of draws a warning."""
    for condition, rate, _ in repeats(evidence):
        if rate.share is not None and rate.share < REPEAT_MIN:
            yield Finding(
                check="repeats",
                severity="warning",
                condition=condition,
                message=f"asked again it says the same in {percent(rate.share)} of {rate.n} pairs of draws",
                value=rate.share,
            )


def repeats(evidence: Evidence) -> Iterator[tuple[str, Rate, Rate]]:
    """(condition, pairs of draws with the same value, items all of whose draws have it), where there are several draws."""
    for condition, rows in _verdicts(evidence):
        by_item: dict[tuple[str, Any], list[str]] = defaultdict(list)
        for row in rows:
            upstream = tuple(draw for draw in row.draws if draw[0] != row.condition.stage)
            by_item[row.id, upstream].append(repr(row.outcome.value if row.outcome else None))
        several = [values for values in by_item.values() if len(values) > 1]
        pairs = [pair for values in several for pair in combinations(values, 2)]
        if pairs:
            same = Rate(sum(a == b for a, b in pairs), len(pairs))
            yield condition, same, Rate(sum(len(set(values)) == 1 for values in several), len(several))


def _verdicts(evidence: Evidence) -> Iterator[tuple[str, list[Row]]]:
    """(condition, its concluded rows) of each stage whose replies are verdicts, no free text."""
    for stage in evidence.experiment.stages:
        if not isinstance(stage, Chat) or any(arm.settings.parse.kind == "text" for arm in stage.arms):
            continue
        held: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(evidence.rows.get(stage.name, ()), key=lambda row: (row.condition.name, row.id, row.draws)):
            if row.outcome is not None and row.outcome.concluded:
                held[row.condition.name].append(row)
        yield from sorted(held.items())


def check_constant(evidence: Evidence) -> Iterator[Finding]:
    """A judge that gives one answer to more than 95% of at least 20 items does not judge them: a warning."""
    for condition, rows in _verdicts(evidence):
        counted = Counter(repr(row.outcome.value) for row in rows if row.outcome is not None)
        if len(rows) < ITEMS_MIN or not counted:
            continue
        value, count = counted.most_common(1)[0]
        if count > SAME_MAX * len(rows):
            yield Finding(
                check="constant",
                severity="warning",
                condition=condition,
                message=f"{count} of {len(rows)} verdicts are {value}",
                value=count / len(rows),
                evidence=few(f"{one}: {n}" for one, n in counted.most_common()),
            )


def check_longer(evidence: Evidence) -> Iterator[Finding]:
    """Whether a judge of pairs prefers the longer one: decided pairs by which is longer, exact against half; a note under .01."""
    for condition, longer, shorter in longer_wins(evidence):
        told = mcnemar(longer, shorter)
        if longer + shorter >= ITEMS_MIN and told.p is not None and told.p < ALPHA:
            yield Finding(
                check="longer wins",
                severity="note",
                condition=condition,
                message=f"the {'longer' if longer > shorter else 'shorter'} one wins: the longer {longer} times, the shorter "
                f"{shorter} times (exact, p = {told.p:.2g})",
                value=longer / (longer + shorter),
            )


def longer_wins(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """(condition, pairs that the longer won, that the shorter won) of each judge of pairs."""
    for stage in evidence.experiment.stages:
        rules = [arm.settings.parse for arm in stage.arms] if isinstance(stage, Chat) else []
        if not rules or any(rule != rules[0] for rule in rules):
            continue
        rule = rules[0]
        counted: dict[str, Counter[bool]] = defaultdict(Counter)
        for row in evidence.rows.get(stage.name, ()):
            one, other = (_side(row.joined.get(side)) for side in ("a", "b"))
            value = row.outcome.value if row.outcome is not None and row.outcome.concluded else None
            decided = rule.kind == "label" and value in rule.values[:2]
            if decided and one is not None and other is not None and len(one) != len(other):
                counted[row.condition.name][(len(one) > len(other)) == (value == rule.values[0])] += 1
        yield from ((condition, held[True], held[False]) for condition, held in sorted(counted.items()))


def _side(side: Any) -> str | None:
    """What a judge of pairs reads of one side: its reply, else its longest text."""
    if not isinstance(side, Mapping):
        return None
    texts = (
        [side["reply"]]
        if isinstance(side.get("reply"), str)
        else [text for text in side.values() if isinstance(text, str)]
    )
    return max(texts, key=len, default=None)


def tables(evidence: Evidence) -> Iterator[Table]:
    """Judges against lineages, and judges against themselves."""
    rows: list[tuple[Cell, ...]] = [
        (one.judge, one.own, one.generator, len(one.scores), sum(one.scores.values()) / len(one.scores))
        for one in families(evidence)
    ]
    if rows:
        yield Table(
            name="families",
            title="Who judged whom",
            columns=("judge", "its lineage", "lineage judged", "items", "mean score"),
            rows=tuple(rows),
        )
    again: list[tuple[Cell, ...]] = [
        (condition, pairs.n, pairs.share, *(pairs.interval or (None, None)), items.n, items.share)
        for condition, pairs, items in repeats(evidence)
    ]
    if again:
        yield Table(
            name="repeats",
            title="Judges asked again",
            columns=("condition", "pairs of draws", "same value", "low", "high", "items", "all draws the same"),
            rows=tuple(again),
        )
