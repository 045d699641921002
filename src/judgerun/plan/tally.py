"""Tally: the running counts of one condition, and what its replies so far say of lengths."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from judgerun.model.experiment import Model
from judgerun.model.kept import Kept
from judgerun.model.reply import Finish
from judgerun.plan.counts import Counts
from judgerun.plan.gauge import Gauge


@dataclass(slots=True, kw_only=True)
class Tally:
    """Mutable; planned, done and failed are counted as they happen, pending is the rest."""

    condition: str
    stage: str
    model: Model
    output_expected: int | None = None  # tokens, as the experiment says
    caps: tuple[int, ...] = ()  # of the rungs above its own cap
    planned: int = 0
    done: int = 0
    failed: int = 0
    cached: int = 0
    shared: int = 0
    twins: int = 0  # pending on another cell's call
    unknown: int = 0  # pending without a request, since the row that will ask does not exist yet
    finish: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    unparsed: int = 0
    concluded: int = 0
    found: Counter[str] = field(default_factory=Counter)  # by the rule that found the answer
    input_cut: int = 0
    escalated: int = 0
    owed: int = 0
    climbing: int = 0
    lapsed: int = 0
    diverted: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0  # of the replies that told both lengths
    output_tokens: int = 0
    input_bytes: int = 0  # of the same replies' requests
    told: int = 0  # how many these are
    gauge: Gauge | None = None  # where the condition has a gate

    def fail(self, reason: str, weight: int = 1) -> None:
        """So many cells more have failed."""
        self.failed += weight
        self.reasons[reason] += weight

    def reply(self, kept: Kept, *, parsed: bool | None, cached: bool, shared: bool, rule: str = "") -> None:
        """One more cell has a reply. `parsed` is None for an embedding; `rule` found the answer of any other."""
        reply = kept.reply
        self.done += 1
        self.finish[reply.finish.value] += 1
        if shared:
            self.shared += 1
        elif cached:
            self.cached += 1
        if reply.input_cut:
            self.input_cut += 1
        if parsed is None:
            self.concluded += reply.finish is Finish.STOP
            return
        self.found[rule] += 1
        empty = reply.empty
        self.empty += empty
        self.unparsed += not parsed
        self.concluded += reply.finish is Finish.STOP and not empty and parsed

    def stood(self, *, escalated: bool, diverted: bool, left: str | None = None) -> None:
        """One of the replies was not given as its condition asks, or waits for another that is."""
        self.escalated += escalated
        self.diverted += diverted
        self.owed += left == "owed"
        self.lapsed += left == "lapsed"

    def lengths(self, kept: Kept, input_bytes: int) -> None:
        """Remember how long a call was, for quotes."""
        given, made = kept.reply.usage.input, kept.reply.usage.output
        if given is not None and made is not None:
            self.told += 1
            self.input_tokens += given
            self.output_tokens += made
            self.input_bytes += input_bytes

    def counts(self) -> Counts:
        """As it stands now."""
        return Counts(
            condition=self.condition,
            stage=self.stage,
            planned=self.planned,
            done=self.done,
            failed=self.failed,
            pending=self.planned - self.done - self.failed,
            cached=self.cached,
            shared=self.shared,
            finish=dict(self.finish),
            truncated=self.finish[Finish.LENGTH.value],
            empty=self.empty,
            unparsed=self.unparsed,
            refused=self.finish[Finish.REFUSAL.value] + self.finish[Finish.FILTER.value],
            concluded=self.concluded,
            found=dict(self.found),
            input_cut=self.input_cut,
            escalated=self.escalated,
            owed=self.owed,
            climbing=self.climbing,
            lapsed=self.lapsed,
            diverted=self.diverted,
            reasons=dict(self.reasons),
            **({} if self.gauge is None else self.gauge.counts()),
        )
