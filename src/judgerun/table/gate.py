"""Gate: whether the replies of a condition are so bad that it must stop; pure arithmetic over its counts."""

from __future__ import annotations

from typing import Protocol

from judgerun.analysis.intervals import wilson
from judgerun.model.experiment import Gate

LEVEL = 0.95


class Counted(Protocol):
    """What of a condition's counts a gate reads."""

    @property
    def done(self) -> int:
        """Cells with a reply."""
        ...

    @property
    def failed(self) -> int:
        """Cells that failed."""
        ...

    @property
    def starved(self) -> int:
        """Failed cells that were never asked."""
        ...

    @property
    def truncated(self) -> int:
        """Replies cut by their token cap."""
        ...

    @property
    def empty(self) -> int:
        """Replies without a visible answer."""
        ...

    @property
    def unparsed(self) -> int:
        """Replies that the parse rule could not read."""
        ...

    @property
    def refused(self) -> int:
        """Replies that refuse or were filtered."""
        ...


def fired(gate: Gate, counts: Counted) -> str | None:
    """Why a condition must stop; None when it need not.

    A limit fires when the lower end of the 95 % Wilson interval of its share passes it, and at least `after` replies (for
    `failed`: cells tried) are there. Shares are of the condition's replies; `failed` of the cells that were tried, without
    those that never were since their upstream failed.
    """
    for name, limit in gate.limits.items():
        starved = counts.starved if name == "failed" else 0
        bad = int(getattr(counts, name)) - starved
        tried = counts.done + (bad if name == "failed" else 0)
        if tried < gate.after or tried == 0:
            continue
        low, _ = wilson(bad, tried, level=LEVEL)
        if low > limit:
            return f"{name} {bad} of {tried} ({bad / tried:.1%}, at least {low:.1%}), the gate is {limit:.1%}"
    return None
