"""What judges made of canaries: answers of which it is known beforehand whether they are right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgerun.audit.downstream import truth
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Rate, Table
from judgerun.audit.words import few, percent
from judgerun.model.condition import CANARY, canary_of
from judgerun.model.experiment import Question
from judgerun.table.canary import EMPTY, KINDS, REFERENCE
from judgerun.table.expression import Expression
from judgerun.table.row import Row

EMPTY_MAX = 0.02
"""Share of empty answers taken for right above which what a judge says of answers is no judgement."""
NAMES: Mapping[str, str] = dict(
    zip(KINDS, ("empty answers", "references", "answers to another item", "shuffled answers"), strict=True)
)
SCORE, VERDICT = "the reference scores higher", "the reference's verdict is another"
"""What tells right from wrong where no question does."""


Told = tuple[Row, bool | None]
"""A canary, and whether it was taken for what it is not; None where it has no verdict, or nothing tells."""
References = Mapping[tuple[object, ...], Row]
"""The canaries that were given the reference, by what they share with the others of their item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The canaries of one kind that one judge answered, each request once, whatever condition it was asked for."""

    judge: str  # as its condition begins: stage/model/prompt[/variant]/canary-KIND[/order]
    kind: str
    by: str  # what tells right from wrong: a question, SCORE or VERDICT
    told: tuple[Told, ...]

    @property
    def rate(self) -> Rate:
        """How many were mistaken, of those that can be told."""
        known = [fooled for _, fooled in self.told if fooled is not None]
        return Rate(sum(known), len(known))


def planted(evidence: Evidence) -> list[Planted]:
    """The canaries that have a reply, by judge and kind."""
    held: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(evidence.canaries, key=lambda row: (row.condition.name, row.id, row.draws)):
        if row.outcome is not None and row.outcome.kept is not None:
            held[str(row.condition.segments[0])].append(row)
    rows = [row for found in held.values() for row in found]
    references = {_place(row): row for row in rows if canary_of(row.condition.name) == REFERENCE}
    questions = {row.condition.stage: None for row in rows}
    asked = {stage: _question(evidence, stage, rows) for stage in questions}
    found = [_planted(evidence, judge, held[judge], asked, references) for judge in held]
    return sorted(found, key=lambda one: (one.judge.partition(f"/{CANARY}")[0], KINDS.index(one.kind), one.judge))


def _place(row: Row) -> tuple[object, ...]:
    name = row.condition.name
    return name.replace(f"/{CANARY}{canary_of(name)}", "", 1), row.id, row.draws


def _question(evidence: Evidence, stage: str, rows: Sequence[Row]) -> Question | None:
    """The first question about a stage that has a truth value on its canaries."""
    scope = evidence.scopes().near
    own = [row for row in rows if row.condition.stage == stage]
    asked = (question for question in evidence.experiment.questions if question.feed == stage)
    return next((q for q in asked if any(truth(Expression(q.value), scope, row) is not None for row in own)), None)


def _planted(
    evidence: Evidence, judge: str, rows: Sequence[Row], asked: Mapping[str, Question | None], references: References
) -> Planted:
    kind, question = canary_of(judge), asked[rows[0].condition.stage]
    if question is not None:
        expression, scope = Expression(question.value), evidence.scopes().near
        once = {_key(row): row for row in rows}.values()
        accepted = [(row, truth(expression, scope, row)) for row in once]
        told = [(row, None if held is None else held is (kind != REFERENCE)) for row, held in accepted]
        return Planted(judge=judge, kind=kind, by=question.name, told=tuple(told))
    pairs = [(row, references.get(_place(row))) for row in rows]
    apart = {(_key(row), _key(other)): (row, other) for row, other in pairs}.values()
    by = SCORE if all(isinstance(_value(row), int | float) for row in rows if _value(row) is not None) else VERDICT
    return Planted(
        judge=judge, kind=kind, by=by, told=tuple((row, _beside(row, other, kind, by)) for row, other in apart)
    )


def _beside(row: Row, reference: Row | None, kind: str, by: str) -> bool | None:
    """Whether a canary was judged as well as the reference of its item: by score, or, of an empty one, by the same verdict."""
    value, best = _value(row), _value(reference)
    if kind == REFERENCE or value is None or best is None:
        return None
    if by == SCORE:
        return not best > value
    return value == best if kind == EMPTY else None


def _key(row: Row | None) -> object:
    return None if row is None or row.outcome is None else row.outcome.key


def _value(row: Row | None) -> Any:
    return row.outcome.value if row is not None and row.outcome is not None and row.outcome.concluded else None


def check_canaries(evidence: Evidence) -> Iterator[Finding]:
    """What judges made of known answers. Where a question about the stage has a truth value, it must not hold for empty, wrong and
    shuffled answers, and must for references; else a reference must score higher than each of them, or have another verdict than
    the empty answer. More than 2% of empty answers taken for right are an error, any other mistake is a warning.
    """
    for one in planted(evidence):
        rate = one.rate
        if not rate.count or rate.interval is None:
            continue
        low, high = rate.interval
        was = (
            "not accepted"
            if one.kind == REFERENCE
            else "accepted"
            if one.by not in (SCORE, VERDICT)
            else "as good as the reference"
        )
        yield Finding(
            check="canary",
            severity="error" if one.kind == EMPTY and rate.count > EMPTY_MAX * rate.n else "warning",
            condition=one.judge,
            message=f"{rate.count} of {rate.n} {NAMES[one.kind]} are {was}: {percent(rate.share)} [{percent(low)}, {percent(high)}]"
            f" ({one.by})",
            value=rate.share,
            evidence=few(f"item {row.id}: judged {_value(row)!r}" for row, fooled in one.told if fooled),
        )


def check_untold(evidence: Evidence) -> Iterator[Finding]:
    """Canaries of which nothing says how they should have been judged: no truth value of a question, no reference."""
    for one in planted(evidence):
        if one.kind == EMPTY and not one.rate.n:
            yield Finding(
                check="canary untold",
                severity="note",
                condition=one.judge,
                message=f"{len(one.told)} canaries were answered, and nothing tells how they should have been: "
                "no question has a truth value for them, and no reference a verdict beside them",
                value=len(one.told),
            )


def tables(evidence: Evidence) -> Iterator[Table]:
    """What each judge made of each kind of known answer."""
    rows: list[tuple[Cell, ...]] = []
    for one in planted(evidence):
        rate, (low, high) = one.rate, one.rate.interval or (None, None)
        values = Counter(str(value) for row, _ in one.told if (value := _value(row)) is not None)
        said = ", ".join(f"{value}: {n}" for value, n in sorted(values.items()))
        by = one.by if rate.n else None
        rows.append(
            (one.judge, len(one.told), values.total(), rate.n, rate.count, rate.share, low, high, by, said or None)
        )
    if rows:
        yield Table(
            name="canaries",
            title="What judges made of known answers",
            columns=("judge", "asked", "concluded", "told", "mistaken", "share", "low", "high", "by", "values"),
            rows=tuple(rows),
            note="Each request once. `told`: of how many it is known how they should be judged; `mistaken`: a reference that "
            "was not accepted, any other that was; 95% Wilson intervals.",
        )
