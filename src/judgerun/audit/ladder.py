"""What rests on other requests than a condition's own: cells asked again under higher caps, and cells that another model served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Rate
from judgerun.audit.tally import marks
from judgerun.audit.words import plural, rate
from judgerun.model.money import Nanos
from judgerun.model.request import RequestKey
from judgerun.plan.counts import Counts
from judgerun.plan.ladder import KINDS, ladder
from judgerun.table.row import Outcome


@dataclass(slots=True, kw_only=True)
class Step:
    """What came of one condition under one cap: its own, or that of a rung."""

    cap: int
    asked: int = 0  # cells with a reply under it
    marks: Counter[str] = field(default_factory=Counter)  # of audit.tally.MARKS
    concluded: int = 0
    costs: dict[RequestKey, Nanos | None] = field(default_factory=dict)  # of the replies, each once

    def rate(self, mark: str) -> Rate:
        """The share of a mark, or of `concluded`, among those asked."""
        return Rate(self.concluded if mark == "concluded" else self.marks[mark], self.asked)

    def add(self, outcome: Outcome) -> None:
        """One more reply."""
        self.asked += 1
        self.marks.update(marks(outcome))
        self.concluded += bool(outcome.concluded)
        if outcome.key is not None and outcome.kept is not None:
            self.costs[outcome.key] = outcome.kept.cost


def steps(evidence: Evidence) -> dict[str, tuple[Step, ...]]:
    """The steps of each condition that a plan in force names and that has replies, by rising cap."""
    told: dict[str, tuple[Step, ...]] = {}
    for counts in evidence.counts:
        held: dict[int, Step] = {}
        own = _own(evidence, counts)
        if own is None or not ladder(evidence.plans, counts.condition, own):
            continue
        for outcome in answered(evidence, counts):
            for one in (*outcome.below, outcome):
                cap = own if one.rung is None else one.rung
                held.setdefault(cap, Step(cap=cap)).add(one)
        if held:
            told[counts.condition] = tuple(held[cap] for cap in sorted(held))
    return told


def answered(evidence: Evidence, counts: Counts) -> Iterator[Outcome]:
    """What the cells of a condition answered, as far as they have a reply."""
    for row in evidence.rows.get(counts.stage, ()):
        if row.condition.name == counts.condition and row.outcome is not None and row.outcome.kept is not None:
            yield row.outcome


def _own(evidence: Evidence, counts: Counts) -> int | None:
    """The condition's own cap."""
    row = next((row for row in evidence.rows.get(counts.stage, ()) if row.condition.name == counts.condition), None)
    if row is None:
        return None
    held = dict(row.condition.segments[0].coordinates)
    arm = evidence.arm(counts.stage, held.get("model"), held.get("prompt"))
    return None if arm is None else arm.model.max_output_tokens


def check_escalated(evidence: Evidence) -> Iterator[Finding]:
    """Conditions whose cells were asked again under higher caps: a warning with what was truncated, empty or unparsed under their
    own cap beside what is in force, and how each rung ended. A rate in force is conditional on the plan that bought it.
    """
    for condition, held in steps(evidence).items():
        if len(held) > 1:
            yield _escalated(evidence, condition, held)


def _escalated(evidence: Evidence, condition: str, held: Sequence[Step]) -> Finding:
    (counts,) = (counts for counts in evidence.counts if counts.condition == condition)
    own, *rungs = held
    kinds = {kind for rung in ladder(evidence.plans, condition, own.cap) for kind in rung.kinds}
    said = [
        f"{kind} under its own cap of {own.cap} tokens {rate(own.rate(kind))}, in force "
        f"{rate(Rate(getattr(counts, kind), counts.done))}"
        for kind in KINDS
        if kind in kinds
    ]
    return Finding(
        check="escalated",
        severity="warning",
        condition=condition,
        message=f"{counts.escalated} of {counts.done} replies were given under a higher cap: {'; '.join(said)}",
        value=own.rate("truncated").share,
        evidence=tuple(
            f"{step.cap}: {step.asked} asked, truncated {rate(step.rate('truncated'))}, concluded {step.concluded}"
            for step in rungs
        ),
    )


def check_unfinished(evidence: Evidence) -> Iterator[Finding]:
    """Cells for which a plan in force has a further cap: not bought yet, or asked in vain. The reply under the lower cap stands."""
    for counts in evidence.counts:
        for count, what in ((counts.owed, "are not asked again yet"), (counts.lapsed, "were asked again in vain")):
            if count:
                yield Finding(
                    check="unfinished",
                    severity="warning",
                    condition=counts.condition,
                    message=f"{count} of {plural(counts.done, 'cell')} {what} under the next cap: the reply before it stands",
                    value=count,
                )


def check_diverted(evidence: Evidence) -> Iterator[Finding]:
    """Rows that another model served, since the condition's own could not answer: a warning with how many, by which."""
    for counts in evidence.counts:
        if counts.diverted:
            servers = Counter(outcome.server for outcome in answered(evidence, counts) if outcome.server is not None)
            told = ", ".join(f"{n} by {name}" for name, n in sorted(servers.items()))
            yield Finding(
                check="diverted",
                severity="warning",
                condition=counts.condition,
                message=f"{counts.diverted} of {counts.done} rows were served by a model that stands in: {told}",
                value=counts.diverted,
                evidence=tuple(f"{name}: {_identity(evidence, name)}" for name in sorted(servers)),
            )


def _identity(evidence: Evidence, name: str) -> str:
    model = evidence.model(name)
    return "no model of the file now" if model is None else f"{model.model} at {model.provider.name}"
