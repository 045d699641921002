"""Counts: how the cells of one condition stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    reasons: Mapping[str, int] = field(default_factory=dict)  # why failed

    @property
    def starved(self) -> int:
        """Failed cells that were never asked, since their upstream failed or was not admitted."""
        return sum(count for reason, count in self.reasons.items() if reason.startswith("upstream"))

    @property
    def tried(self) -> int:
        """Cells that have a reply or were tried in vain: the denominator of the failed share."""
        return self.done + self.failed - self.starved
