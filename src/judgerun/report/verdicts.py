"""The numbers that every report tells without being asked: verdicts, agreement, ranking metrics, folded values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgerun.analysis.estimate import Estimate
from judgerun.analysis.intervals import bootstrap, clustered, proportion
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import RATES, Audit
from judgerun.audit.registered import standing
from judgerun.audit.tally import label
from judgerun.model.experiment import Chat, Fold, Map, ParseRule, Retrieve, Stage
from judgerun.report.columns import conditions_of
from judgerun.report.gates import BOUNDS, Span, banner, bounds, left_out, span_of, worst
from judgerun.report.sample import Sample, Value, concluded, names, picked
from judgerun.report.told import Told, seed_of
from judgerun.table.row import Row

LABELS_MAX = 30
"""Values with more different labels than this are free text, not verdicts."""
CONCLUDED = "concluded rows only; draws averaged per id"
ZERO = "rows that did not conclude count as false; draws averaged per id"
Pick = Callable[[Row], Value | None]


class Teller:
    """Turns samples into Told lines, with the seed, the seal and the banner that each must carry."""

    def __init__(self, evidence: Evidence, audit: Audit) -> None:
        self.evidence = evidence
        self.audit = audit
        self._standing = {item.name: f"{item.standing}: {item.why}" for item in standing(evidence) if item.why}

    def mean(
        self,
        question: str,
        sample: Sample,
        coords: Mapping[str, str],
        *,
        convention: str,
        span: Span | None = None,
        whole: Sample | None = None,
    ) -> Iterator[Told]:
        """The mean of a sample; where its gate fails with the banner, and besides it the bounds of `whole` (default: of the
        sample itself).
        """
        gate = banner(self.audit, [sample.condition.name])
        out = left_out(self.evidence, [sample.condition.name])
        note = "; ".join(filter(None, (out, gate, *sample.count(), sample.said())))
        found = replace(mean(sample, seed=self.seed(question)), convention=convention)
        yield self.told(question, {**coords, "measure": "mean"}, found, note)
        whole = whole or sample
        span = span or span_of(whole)
        if gate and whole.lost and span is not None and found.value is not None:
            held = bounds(found.value, worst(whole, span), whole.tried)
            yield self.told(question, {**coords, "measure": "bounds"}, held, "; ".join((gate, whole.said())))

    def seed(self, question: str) -> int:
        """The seed of a question in this experiment."""
        return seed_of(self.evidence.experiment.seed, question)

    def told(self, question: str, coords: Mapping[str, str], estimate: Estimate, note: str) -> Told:
        """One line, with the seal. Bounds are no interval: they have no level."""
        note = "; ".join(filter(None, (note, self._standing.get(f"question {question}", ""))))
        line = Told.of(question, coords, estimate, seal=self.evidence.seal, note=note)
        return replace(line, level=None) if estimate.method == BOUNDS else line

    def each(
        self, stage: Stage, rows: Sequence[Row], question: str, pick: Pick, *, convention: str, false: bool = False,
        span: Span | None = None, extra: Mapping[str, str] | None = None,
    ) -> Iterator[Told]:  # fmt: skip
        """The mean of what `pick` gives, for each condition of the stage and each of its slices."""
        named = names(conditions_of(rows))
        for part, held in _parts(stage, rows):
            for sample in picked(held, pick, false=false):
                coords = {"stage": stage.name, "condition": sample.condition.name, **named(sample.condition)}
                coords |= part | dict(extra or {})
                yield from self.mean(question, sample, coords, convention=convention, span=span)


def mean(sample: Sample, *, seed: int) -> Estimate:
    """The mean over ids of their means over draws. Truth values of one draw have Wilson's interval; other values a bootstrap
    over ids; ids of one block are drawn together.
    """
    ids = sorted(sample.values)
    means = [sample.mean(id_) for id_ in ids]
    blocks = [sample.blocks[id_] for id_ in ids]
    if len(set(blocks)) < len(ids):
        return clustered(means, blocks, seed=seed)
    if sample.binary and sample.draws == 1:
        return proportion(sum(value == 1 for value in means), len(means))
    return bootstrap(means, seed=seed)


def _parts(stage: Stage, rows: Sequence[Row]) -> Iterator[tuple[dict[str, str], Sequence[Row]]]:
    """All rows, then for each slice the rows of each of its values."""
    yield {}, rows
    for name in stage.slices:
        labels = [label(row, name) for row in rows]
        for value in sorted(set(labels)):
            yield {f"slice.{name}": value}, [row for row, own in zip(rows, labels, strict=True) if own == value]


def endings(teller: Teller) -> Iterator[Told]:
    """How the calls ended, by condition and slice: the rates of the audit as estimates."""
    for completion in (*teller.audit.conditions, *teller.audit.slices):
        part = {f"slice.{completion.slice[0]}": completion.slice[1]} if completion.slice is not None else {}
        coords = {"stage": completion.stage, "condition": completion.condition, **part}
        for name in (*RATES, "concluded"):
            rate = completion.rate(name)
            over = "cells tried" if name == "failed" else "replies"
            estimate = replace(proportion(rate.count, rate.n), convention=f"over {over}")
            note = "; ".join((f"{rate.count} of {rate.n}", *completion.other))
            yield teller.told(name, {**coords, "measure": "rate"}, estimate, note)


def verdicts(teller: Teller) -> Iterator[Told]:
    """For each chat stage whose replies are verdicts: the mean of numbers, the share of each label or score."""
    for stage in teller.evidence.experiment.stages:
        rows = teller.evidence.rows.get(stage.name, ())
        if not isinstance(stage, Chat) or not rows:
            continue
        rules = {(arm.model.name, arm.prompt.name): arm.settings.parse for arm in stage.arms}
        names_ = sorted({name for rule in rules.values() for name in rule.value}) if _records(rules) else [""]
        for name in names_:
            yield from _values(teller, stage, rows, name, rules)


def _records(rules: Mapping[tuple[str, str], ParseRule]) -> bool:
    """Whether verdicts are records, told name by name."""
    return any(rule.kind == "json" and len(rule.value) > 1 for rule in rules.values())


def _values(
    teller: Teller, stage: Stage, rows: Sequence[Row], name: str, rules: Mapping[tuple[str, str], ParseRule]
) -> Iterator[Told]:
    def pick(row: Row) -> Value | None:
        return scalar(row.outcome.value if row.outcome is not None else None, name)

    def rule(row: Row) -> ParseRule | None:
        held = dict(row.condition.segments[0].coordinates)
        return rules.get((held.get("model", ""), held.get("prompt", "")))

    told = [row for row in rows if (found := rule(row)) is None or found.kind != "text"]
    question = f"verdict {name}" if name else "verdict"
    choices = all((found := rule(row)) is not None and found.kind == "choice" for row in told)
    values = {value for row in told if concluded(row) and (value := pick(row)) is not None}
    if told and values and not choices and all(not isinstance(value, str) for value in values):
        span = _span([found for row in told if (found := rule(row)) is not None])
        yield from teller.each(stage, told, question, pick, convention=CONCLUDED, span=span)
    if told and 0 < len(values) <= LABELS_MAX and not all(isinstance(value, bool) for value in values):
        for value in sorted(values, key=_rank):
            shown = {"value": str(value)}
            yield from teller.each(
                stage, told, f"{question} share", _is(pick, value), convention=CONCLUDED, extra=shown
            )


def _is(pick: Pick, value: Value) -> Pick:
    """Whether a row's value is `value`; a truth value is no number."""

    def picks(row: Row) -> bool | None:
        found = pick(row)
        return None if found is None else (found == value and isinstance(found, bool) == isinstance(value, bool))

    return picks


def _rank(value: Value) -> tuple[int, float, str]:
    return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")


def _span(rules: Sequence[ParseRule]) -> Span | None:
    """The range of scores where every rule states the same one."""
    spans = {(rule.low, rule.high) for rule in rules if rule.kind == "score"}
    if len(spans) != 1 or any(rule.kind != "score" for rule in rules):
        return None
    ((low, high),) = spans
    return (float(low), float(high)) if low is not None and high is not None else None


def scalar(value: Any, name: str) -> Value | None:
    """A verdict's value, or the value of one of its names; None for what is no number, truth value or short text."""
    found = value.get(name) if name and isinstance(value, Mapping) else value
    return found if isinstance(found, bool | int | float | str) else None


def agreement(teller: Teller) -> Iterator[Told]:
    """For chat stages with `expect`: how often the value equals the expected field, by both conventions."""
    for stage in teller.evidence.experiment.stages:
        rows = [row for row in teller.evidence.rows.get(stage.name, ()) if row.condition.stage == stage.name]
        if isinstance(stage, Chat) and any(row.outcome is not None and row.outcome.agrees is not None for row in rows):
            for convention, false in ((CONCLUDED, False), (ZERO, True)):
                yield from teller.each(stage, rows, "agrees", _agrees, convention=convention, false=false)


def _agrees(row: Row) -> bool | None:
    return row.outcome.agrees if row.outcome is not None else None


def rankings(teller: Teller) -> Iterator[Told]:
    """For stages with gold: the mean of each metric; where a judge chose, by both conventions."""
    for stage in teller.evidence.experiment.stages:
        rows = teller.evidence.rows.get(stage.name, ())
        if not isinstance(stage, Retrieve | Chat):
            continue
        metrics = dict.fromkeys(name for row in rows if row.outcome is not None for name in row.outcome.scores)
        for metric in sorted(metrics):
            ways = ((CONCLUDED, False), (ZERO, True)) if isinstance(stage, Chat) else (("", False),)
            for convention, false in ways:
                yield from teller.each(
                    stage, rows, f"metric {metric}", _score(metric), convention=convention, false=false, span=(0.0, 1.0)
                )


def _score(metric: str) -> Pick:
    def pick(row: Row) -> float | None:
        return row.outcome.scores.get(metric) if row.outcome is not None else None

    return pick


def folded(teller: Teller) -> Iterator[Told]:
    """For fold stages, and map stages that give a value: the mean of numbers, the share of each label; incomplete folds out."""
    for stage in teller.evidence.experiment.stages:
        rows = teller.evidence.rows.get(stage.name, ())
        if not isinstance(stage, Fold | Map) or not rows:
            continue
        held = [row.outcome.value for row in rows if row.outcome is not None]
        keys = sorted({str(name) for value in held if isinstance(value, Mapping) for name in value}) or [""]
        for name in keys:
            yield from _values(teller, stage, rows, name, {})
