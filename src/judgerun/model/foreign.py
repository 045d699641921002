"""Run: what another program left of calls, texts, scores and verdicts, read into one form; nothing of it was bought by us.

What the source does not say is None. Nothing here is a row of the ledger: foreign money never enters an account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgerun.model.money import Nanos


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as its program wrote it down. `source` is `file:line` (or `file#key`): the evidence of every finding on it."""

    source: str
    file: str = ""  # the file that `source` is in
    role: str  # solver, grader-a, judge, embed ...
    condition: str  # what it compares by: an arm, or a file's group
    item: str
    model: str | None = None
    provider: str | None = None
    at: float | None = None  # Unix seconds
    session: str | None = None  # the process or phase that wrote the row
    input: int | None = None  # tokens
    output: int | None = None  # tokens, reasoning included
    reasoning: int | None = None
    cap: int | None = None  # output tokens allowed
    finish: str | None = None  # the word of the source
    cost: Nanos | None = None
    estimated: bool = False  # the source booked an estimate
    text: str | None = None  # what was answered
    value: str | None = None  # what the program read in it
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One text that a generator wrote in the place of an original. `fallback`: the original stands in for it."""

    source: str
    condition: str
    generator: str
    item: str
    text: str
    fallback: bool | None = None
    reason: str | None = None  # why, where the source says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one system scored on one item under one condition."""

    source: str
    condition: str
    system: str
    item: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Verdicts that the source publishes as counts alone."""

    source: str
    condition: str
    subject: str  # whose answers were judged: a generator, or "pooled"
    judge: str | None
    n: int
    counts: Mapping[str, int]  # by verdict: drifted, preserved, uncertain, errors
    rate: float | None = None  # as the source printed it
    threshold: float | None = None
    below: bool | None = None  # whether the source says that it is under the threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum that the source states, and that its own rows should give."""

    source: str
    name: str  # a provider, or "total"
    files: Sequence[str] = ()  # whose rows it sums up
    cost: Nanos | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that was read of a foreign run. `files` are the digests (hex sha256) of what was read, by path; `format` names
    the families of files, each with the version of the reader.
    """

    name: str
    format: str
    files: Mapping[str, str]
    calls: tuple[Call, ...] = ()
    texts: tuple[Text, ...] = ()
    scores: tuple[Score, ...] = ()
    tallies: tuple[Tally, ...] = ()
    totals: tuple[Total, ...] = ()


TOTAL = "total"
"""The name of a Total of all providers together."""
KINDS: Mapping[str, tuple[str, type[Any]]] = {
    "call": ("calls", Call),
    "text": ("texts", Text),
    "score": ("scores", Score),
    "tally": ("tallies", Tally),
    "total": ("totals", Total),
}
"""The kinds of records: where a run holds them, and their form."""
