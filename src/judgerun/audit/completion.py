"""How the calls of each condition ended: limits, unknown finishes, failed and pending cells, cut inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Completion, Finding
from judgerun.audit.tally import completions, conditions, sliced
from judgerun.audit.words import percent
from judgerun.model.experiment import Chat, Embed
from judgerun.model.reply import Finish
from judgerun.table.answers import CONTENT

LIMITS: Mapping[str, float] = {"truncated": 0.10, "empty": 0.02, "unparsed": 0.02}
"""Point rates above which a condition without limits of its own fails (DESIGN section 5)."""
STARVED_MAX = 0.10
"""Share of cells that were never asked, since nothing came from upstream, above which a condition fails: as for truncation, which
is the commonest cause. A few are the upstream's matter, and judged there.
"""
UNKNOWN_MAX = 0.02
"""Share of unknown finish reasons above which nothing can be said of a condition."""
EVIDENCE_MAX = 5
ODD = (Finish.UNKNOWN.value, Finish.ERROR.value, Finish.TOOL.value)


def limits(evidence: Evidence) -> Mapping[str, Mapping[str, float]]:
    """The limits of each condition that has rows: its arm's gate where that names one, else LIMITS."""
    told: dict[str, Mapping[str, float]] = {}
    for name, condition in conditions(evidence).items():
        held = dict(condition.segments[0].coordinates)
        arm = evidence.arm(condition.stage, held.get("model"), held.get("prompt"))
        gate = arm.settings.gate if arm is not None else None
        told[name] = LIMITS if gate is None else {**LIMITS, **gate.limits}
    return told


def check_limits(evidence: Evidence) -> Iterator[Finding]:
    """A condition whose share of truncated, empty, unparsed or refused replies, or of those far from the expected length, passes
    its limit is an error; a slice that certainly does (by the lower Wilson bound, since slices are small) is a warning.
    """
    held = limits(evidence)
    wholes = {completion.condition: completion.n for completion in completions(evidence)}
    parts = (part for part in sliced(evidence) if part.n < wholes.get(part.condition, 0))  # one that is all was told
    for completion in (*completions(evidence), *parts):
        for name, limit in held.get(completion.condition, LIMITS).items():
            if name != "failed":
                yield from _limit(completion, name, limit)


def _limit(completion: Completion, name: str, limit: float) -> Iterator[Finding]:
    rate = completion.rate(name)
    if rate.share is None or rate.interval is None:
        return
    low, high = rate.interval
    if (rate.share if completion.slice is None else low) <= limit:
        return
    where = "" if completion.slice is None else " where {} is {}".format(*completion.slice)
    yield Finding(
        check=name,
        severity="error" if completion.slice is None else "warning",
        condition=completion.condition,
        message=f"{rate.count} of {rate.n} replies{where} are {_TOLD.get(name, name)}: {percent(rate.share)} "
        f"[{percent(low)}, {percent(high)}], limit {percent(limit)}",
        value=rate.share,
        evidence=tuple(f"{finish}: {count}" for finish, count in sorted(completion.finish.items())),
    )


_TOLD = {"length": "far from the expected length"}


def check_failed(evidence: Evidence) -> Iterator[Finding]:
    """Failed cells: an error above the gate's limit (none is allowed where no gate names one), else a warning. Cells that
    failed because nothing came from upstream are an error above 10%, else a warning: their cause is judged where it arose.
    """
    held = limits(evidence)
    for completion in completions(evidence):
        own = completion.failed - completion.starved
        tried = completion.n + own
        limit = held.get(completion.condition, LIMITS).get("failed", 0.0)
        reasons = tuple(f"{reason}: {count}" for reason, count in sorted(completion.reasons.items()))
        if own:
            yield Finding(
                check="failed",
                severity="error" if own > limit * tried else "warning",
                condition=completion.condition,
                message=f"{own} of {tried} cells tried have no reply: {percent(own / tried)}, limit {percent(limit)}",
                value=own / tried,
                evidence=reasons,
            )
        if completion.starved:
            yield Finding(
                check="starved",
                severity="error" if completion.starved > STARVED_MAX * completion.planned else "warning",
                condition=completion.condition,
                message=f"{completion.starved} of {completion.planned} cells were never asked: nothing came from upstream",
                value=completion.starved / completion.planned,
                evidence=reasons,
            )


def check_pending(evidence: Evidence) -> Iterator[Finding]:
    """A pending cell is an error: what is missing is not missing at random."""
    for completion in completions(evidence):
        if completion.pending:
            yield Finding(
                check="pending",
                severity="error",
                condition=completion.condition,
                message=f"{completion.pending} of {completion.planned} cells are pending",
                value=completion.pending,
            )


def check_planned(evidence: Evidence) -> Iterator[Finding]:
    """A stage that sends and of which not one cell is planned asks nothing: a warning, since nothing else of it can fail."""
    planned: Counter[str] = Counter()
    for completion in completions(evidence):
        planned[completion.stage] += completion.planned
    for stage in evidence.experiment.stages:
        if isinstance(stage, Chat | Embed) and not planned[stage.name]:
            where = f": every row was dropped by where = {stage.where!r}" if stage.where else ""
            yield Finding(
                check="nothing asked",
                severity="warning",
                message=f"no cell of {stage.name} is planned{where}",
                value=0,
            )


def check_finish(evidence: Evidence) -> Iterator[Finding]:
    """A finish reason that is unknown, an error in a reply's body or a tool call: each named with the provider's own words.
    An error when they pass 2% of the replies.
    """
    words: dict[tuple[str, str], Counter[str]] = {}
    stages = dict.fromkeys(counts.stage for counts in evidence.counts)  # each once, however many conditions it has
    for row in (row for stage in stages for row in evidence.rows.get(stage, ())):
        kept = row.outcome.kept if row.outcome is not None else None
        if kept is not None and kept.reply.finish.value in ODD:
            place = (row.condition.name, kept.reply.finish.value)
            words.setdefault(place, Counter())[repr(kept.reply.finish_raw)] += 1
    for completion in completions(evidence):
        for finish in ODD:
            count = completion.finish.get(finish, 0)
            if count:
                raw = words.get((completion.condition, finish), Counter())
                yield Finding(
                    check="finish",
                    severity="error" if count > UNKNOWN_MAX * completion.n else "warning",
                    condition=completion.condition,
                    message=f"{count} of {completion.n} replies have the finish reason {finish!r}: none is a verdict",
                    value=count / completion.n,
                    evidence=tuple(f"{word}: {n}" for word, n in sorted(raw.items())[:EVIDENCE_MAX]),
                )


def check_inputs(evidence: Evidence) -> Iterator[Finding]:
    """Texts that an embedder cut before it read them: a warning with their count."""
    for completion in completions(evidence):
        if completion.input_cut:
            rate = completion.rate("input_cut")
            yield Finding(
                check="input cut",
                severity="warning",
                condition=completion.condition,
                message=f"{rate.count} of {rate.n} texts were cut by the embedder: {percent(rate.share)}",
                value=rate.share,
            )


def check_answers(evidence: Evidence) -> Iterator[Finding]:
    """Answers that stood elsewhere than in the visible text as it is: by which declared rule each was found, a note."""
    for counts in evidence.counts:
        other = {rule: count for rule, count in counts.found.items() if rule != CONTENT}
        if other:
            count = sum(other.values())
            yield Finding(
                check="answer",
                severity="note",
                condition=counts.condition,
                message=f"{count} of {counts.done} answers were found by another rule than {CONTENT!r}",
                value=count / counts.done,
                evidence=tuple(f"{rule}: {n}" for rule, n in sorted(counts.found.items())),
            )
