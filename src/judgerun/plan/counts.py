"""Counts: how the cells of one condition stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgerun.model.money import Nanos
from judgerun.table.gate import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """planned = done + failed + pending, in cells. truncated, empty, unparsed, refused overlap and count over done."""

    condition: str
    stage: str
    planned: int = 0
    done: int = 0
    failed: int = 0
    pending: int = 0
    cached: int = 0  # done without an attempt of this experiment
    shared: int = 0  # done on another cell's call
    finish: Mapping[str, int] = field(default_factory=dict)
    truncated: int = 0
    empty: int = 0
    unparsed: int = 0
    refused: int = 0  # finish refusal or filter
    concluded: int = 0
    found: Mapping[str, int] = field(default_factory=dict)  # by which rule the answers of chat replies were found
    input_cut: int = 0  # embeddings whose text was cut
    escalated: int = 0  # done under a higher cap than the condition's own
    owed: int = 0  # done, and to be asked again under a higher cap by the next run
    climbing: int = 0  # pending, though a reply under a lower cap is there: a higher one is being bought
    lapsed: int = 0  # done, and asked again in vain: the reply under the lower cap stands
    diverted: int = 0  # done by the model that stands in for the condition's own
    reasons: Mapping[str, int] = field(default_factory=dict)  # why failed
    # where a gate asks for it:
    length: int = 0  # replies whose output lies far from the expected length
    told: int = 0  # replies that told their output, where a length is expected
    billed: int = 0  # calls whose cost is known
    cost: Nanos = 0  # of these
    squares: float = 0.0  # sum of their squares
    pairs: Mapping[str, Pairs] = field(default_factory=dict)  # by the other condition of the stage
    bad: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict, compare=False
    )  # by limit: ids of some that passed it

    @property
    def starved(self) -> int:
        """Failed cells that were never asked, since their upstream failed or was not admitted."""
        return sum(count for reason, count in self.reasons.items() if reason.startswith("upstream"))

    @property
    def tried(self) -> int:
        """Cells that have a reply or were tried in vain: the denominator of the failed share."""
        return self.done + self.failed - self.starved
