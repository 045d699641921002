"""What judges were handed: empty and cut answers among what they judged, and how they judged these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from judgerun.analysis.paired import fisher
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.words import few, percent
from judgerun.model.experiment import Chat
from judgerun.model.reply import Finish
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Outcome, Row
from judgerun.table.scope import kinds_of

ALPHA = 0.01
KINDS = ("complete", "truncated", "empty", "stand-in")
"""What an answer that is judged can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """The rows of one condition of a stage that judges answers, by what they were handed; only those that were really asked."""

    condition: str
    rows: Mapping[str, tuple[Row, ...]]  # by KINDS

    def count(self, kind: str) -> int:
        """How many were handed such an answer."""
        return len(self.rows.get(kind, ()))


def handed(evidence: Evidence) -> list[Handed]:
    """Every condition of a chat stage that is fed by a chat stage, by name."""
    kinds = kinds_of(evidence.experiment.stages)
    held: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for stage in evidence.experiment.stages:
        for row in evidence.rows.get(stage.name, ()) if isinstance(stage, Chat) else ():
            answer = _answer(row, kinds)
            if answer is not None and row.outcome is not None and row.outcome.kept is not None:
                held[row.condition.name][_kind(answer)].append(row)
    return [
        Handed(condition=name, rows={kind: tuple(rows) for kind, rows in held[name].items()}) for name in sorted(held)
    ]


def _answer(row: Row, kinds: Mapping[str, str]) -> Outcome | None:
    """The reply that a row judges: of the nearest chat stage upstream."""
    above = [
        outcome for stage, outcome in row.stages.items() if stage != row.condition.stage and kinds.get(stage) == "chat"
    ]
    return above[-1] if above else None


def _kind(answer: Outcome) -> str:
    if answer.fallback:
        return "stand-in"
    if not (answer.reply or "").strip():
        return "empty"
    return "truncated" if answer.finish == Finish.LENGTH.value else "complete"


def check_empty(evidence: Evidence) -> Iterator[Finding]:
    """Empty answers that were sent to a judge: an error, for whatever it said of them is no judgement."""
    for one in handed(evidence):
        if empty := one.rows.get("empty", ()):
            yield Finding(
                check="empty handed on",
                severity="error",
                condition=one.condition,
                message=f"{len(empty)} of {_total(one)} answers that were judged are empty",
                value=len(empty),
                evidence=few(f"item {row.id}: judged {_value(row)!r}" for row in empty),
            )


def check_truncated(evidence: Evidence) -> Iterator[Finding]:
    """Cut answers that were judged: a warning with how many; and where a question asks for a truth value, whether they are accepted
    at another rate than complete ones (Fisher's exact test, p under .01).
    """
    for one in handed(evidence):
        if not (cut := one.rows.get("truncated", ())):
            continue
        told = [words for name, rates in accepted(evidence, one).items() if (words := _apart(name, rates)) is not None]
        yield Finding(
            check="truncated handed on",
            severity="warning",
            condition=one.condition,
            message=f"{len(cut)} of {_total(one)} answers that were judged were cut at their cap"
            + (f"; {'; '.join(told)}" if told else ""),
            value=len(cut),
            evidence=few(f"item {row.id}: judged {_value(row)!r}" for row in cut),
        )


def check_accepted(evidence: Evidence) -> Iterator[Finding]:
    """Empty answers for which a question's truth value holds: a judge that accepts nothing at all accepts anything."""
    for one in handed(evidence):
        for name, rates in accepted(evidence, one).items():
            right, n = rates.get("empty", (0, 0))
            if right:
                yield Finding(
                    check="empty marked correct",
                    severity="error",
                    condition=one.condition,
                    message=f"{right} of {n} empty answers count as {name!r}",
                    value=right,
                )


def accepted(evidence: Evidence, one: Handed) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """By question about the stage that asks for a truth value: of each kind of answer how many it holds for, and of how many."""
    scope, stage = evidence.scopes().near, one.condition.split("@", 1)[0].split("/", 1)[0]
    told: dict[str, dict[str, tuple[int, int]]] = {}
    for question in evidence.experiment.questions:
        if question.feed != stage:
            continue
        expression = Expression(question.value)
        for kind, rows in one.rows.items():
            values = [value for row in rows if (value := truth(expression, scope, row)) is not None]
            told.setdefault(question.name, {})[kind] = (sum(values), len(values))
    return told


def truth(expression: Expression, scope: Callable[[Row], Mapping[str, object]], row: Row) -> bool | None:
    """The truth value of a question on a row; None where it has none."""
    if row.outcome is None or not row.outcome.concluded:
        return None
    try:
        value = expression.evaluate(scope(row))
    except ExpressionError:
        return None
    return value if isinstance(value, bool) else None


def _apart(name: str, rates: Mapping[str, tuple[int, int]]) -> str | None:
    (cut, n), (whole, m) = rates.get("truncated", (0, 0)), rates.get("complete", (0, 0))
    if not n or not m:
        return None
    p = fisher(cut, n - cut, whole, m - whole).p
    if p is None or p >= ALPHA:
        return None
    return f"{name!r} holds for {percent(cut / n)} of them and for {percent(whole / m)} of complete ones (p = {p:.2g})"


def _total(one: Handed) -> int:
    return sum(map(len, one.rows.values()))


def _value(row: Row) -> object:
    return row.outcome.value if row.outcome is not None else None


def tables(evidence: Evidence) -> Iterator[Table]:
    """Of each condition that judges answers: how many of each kind it was handed, and what share it accepted."""
    rows: list[tuple[Cell, ...]] = []
    for one in handed(evidence):
        rates = accepted(evidence, one)
        for kind in (kind for kind in KINDS if one.count(kind)):
            shares = ", ".join(f"{name}: {_share(held.get(kind, (0, 0)))}" for name, held in rates.items())
            rows.append((one.condition, kind, one.count(kind), shares or None))
    if rows:
        yield Table(
            name="handed on",
            title="What judges were handed",
            columns=("condition", "answer", "n", "accepted, by question"),
            rows=tuple(rows),
        )


def _share(rate: tuple[int, int]) -> str:
    right, n = rate
    return f"{right} of {n}" + (f" ({percent(right / n)})" if n else "")
