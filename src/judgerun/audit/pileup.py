"""Truncation without finish reasons: from the lengths of replies alone, and from how their texts end; columns in, values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import pdtrc

from judgerun.analysis.intervals import garwood

SLACK_MAX = 8
"""Tokens by which a reply that was cut may stand off its cap: providers stop a few before it (a token that would not fit, an end
marker that is not counted) or report a few beyond.
"""
BAND = 64
"""The lengths from which the natural density is taken lie within so many slacks (and at most half the cap) below the window."""
CERTAIN = 1e-3
"""Chance of so many natural endings in the window below which the mass there is a pile."""
PILE_MIN = 3
"""Fewer replies in one place show no cap that nobody stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """What the lengths of one condition say about its cap.

    `capped` says of each reply whether it stands in the window from `cap - slack` upwards. `natural` is how many replies would be
    there if lengths went on as densely as below it (95% upper bound): how many of `count` are taken for cut in error.
    """

    cap: int
    slack: int
    capped: tuple[bool, ...]
    natural: float

    @property
    def p(self) -> float:
        """The chance of so many replies in the window by nature."""
        return self.beyond(self.count)

    @property
    def count(self) -> int:
        """Replies in the window."""
        return sum(self.capped)

    @property
    def found(self) -> bool:
        """Whether the mass at the cap is no accident."""
        return self.p < CERTAIN

    def beyond(self, count: int) -> float:
        """The chance that `count` or more replies end in the window by nature."""
        return float(pdtrc(count - 1, self.natural)) if count else 1.0

    @property
    def error(self) -> float | None:
        """The share of the capped that may be natural endings; None where nothing is capped."""
        return min(1.0, self.natural / self.count) if self.count else None


def slack(cap: int) -> int:
    """How far below its cap a reply still counts as cut: 8 tokens, less for small caps (a 64th), none under 64."""
    return min(SLACK_MAX, cap // 64)


def find(output: Sequence[int], cap: int) -> Pile:
    """The pile at a stated cap. `output` are lengths in tokens, reasoning included.

    Natural endings in the window are expected as dense as in the band below it, at the upper 95% bound of what was seen there.
    """
    if cap < 1:
        raise ValueError(f"a cap of {cap} tokens")
    off = slack(cap)
    start = cap - off
    band = max(1, min(BAND * max(off, 1), cap // 2))
    below = sum(start - band <= tokens < start for tokens in output)
    natural = garwood(below) * (off + 1) / band
    capped = tuple(tokens >= start for tokens in output)
    return Pile(cap=cap, slack=off, capped=capped, natural=natural)


def discover(output: Sequence[int]) -> Pile | None:
    """A pile at a cap that nobody stated; None where there is none.

    The commonest length, if hardly anything is longer, and if it is one that people and providers choose (a multiple of 256 or
    500): answers of a fixed form are all of one length, too, and not cut.
    """
    if not output:
        return None
    counted = Counter(output)
    cap = max(counted, key=lambda tokens: (counted[tokens], tokens))
    chosen = any(cap >= step and cap % step == 0 for step in STEPS)
    if not chosen or counted[cap] < PILE_MIN or sum(tokens > cap + SLACK_MAX for tokens in output):
        return None
    pile = find(output, cap)
    return pile if pile.found else None


STEPS = (256, 500)


CLOSERS = frozenset(".!?:;)]}\"'`*_$|>\u2026\u3002\uff01\uff1f\u201d\u2019\u00bb")
"""Signs with which a text may end that was not cut."""


def cut(text: str) -> str | None:
    """Why a text looks cut: what it opened and did not close, or that it stops inside a sentence; None where it does not.

    An answer of one line (a number, a label) ends without a full stop: only texts of some length are judged by their last sign.
    """
    stripped = text.rstrip()
    if not stripped:
        return None
    if stripped.count("```") % 2:
        return "a code fence is open"
    if stripped.count("$$") % 2 or stripped.count("\\[") > stripped.count("\\]"):
        return "a formula is open"
    if stripped.count("{") > stripped.count("}") and stripped.lstrip().startswith("{"):
        return "an object is open"
    last = stripped[-1]
    if last in ",-(+=<\\\u2013\u2014" or (len(stripped.split()) >= WORDS_MIN and last not in CLOSERS):
        return "it stops inside a sentence"
    return None


WORDS_MIN = 12
"""Texts with fewer words are answers, not prose."""
