"""Row: one row of a stage's table with its history; Outcome: what one stage made of it; Candidate: one ranked document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from judgerun.model.condition import Condition
from judgerun.model.kept import Kept
from judgerun.model.request import RequestKey
from judgerun.model.rows import Fields

TOLD = (
    "value",
    "reply",
    "finish",
    "concluded",
    "model",
    "prompt",
    "variant",
    "lineage",
    "draw",
    "order",
    "agrees",
    "fallback",
)
"""What a chat stage shows of itself, as `solve.reply`, in the order in which records have it."""
SHOWN = (*TOLD, "candidates", "incomplete")
"""What a stage of any kind may show of itself."""
JOINED = ("value", "reply", "finish", "model", "lineage", "agrees")
"""What a row of a stage brings, beside its fields, to the row that joins it."""
TOGETHER = ("model", "prompt", "variant", "lineage", "order")
"""What rows that were folded may still have in common of a chat stage: whom it asked, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a parse rule made of a reply. A value exists only where `parsed`; it counts only where the reply concluded."""

    parsed: bool
    value: Any = None
    why: str = ""  # "" when parsed, else: empty, no marker, no match, out of range, echo, not json, not schema, ...
    rule: str = ""  # kind/version


@dataclass(frozen=True, slots=True)
class Candidate:
    """One document of a ranking; `fields` are the corpus row's, with `id`, `score` and `rank` (from 1) beside them."""

    id: str
    score: float
    rank: int
    fields: Fields = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one stage made of a row. Expressions see it as `stage.value`, `stage.reply`, `stage.finish`, `stage.model` ...

    Chat stages fill everything down to `agrees`; retrieve stages `candidates` and `scores`; fold and map stages `value`
    (fold also `incomplete`); explode and map stages put their own fields into `extra`.
    """

    value: Any = None
    reply: str | None = None
    finish: str | None = None
    concluded: bool | None = None  # finished stop, non-empty, parsed
    verdict: Verdict | None = None
    kept: Kept | None = None  # its text is the answer that was found
    found: str | None = None  # the rule that found it: see answers.py
    key: RequestKey | None = None
    model: str | None = None
    prompt: str | None = None
    variant: str | None = None
    lineage: str | None = None
    draw: int | None = None
    order: str | None = None
    agrees: bool | None = None  # value equals the expected field; False when unparsed; None without `expect`
    rung: int | None = None  # the cap under which it answered, where that is above its condition's own
    server: str | None = None  # the experiment's model that stood in for the condition's own
    below: tuple[Outcome, ...] = ()  # what it had answered under lower caps, the lowest first
    left: Literal["owed", "lapsed"] | None = None  # it should have been asked again: not yet, or it was in vain
    fallback: bool = False  # the field named by `missing` stands in for the reply
    candidates: tuple[Candidate, ...] | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)  # "easy.hit_1" -> value
    incomplete: bool = False  # a fold with fewer concluded members than `at_least`
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table. `state`: `live` flows on; `failed` carries a reason down; `pending` waits for a call."""

    id: str
    condition: Condition
    block: str
    draws: tuple[tuple[str, int], ...] = ()  # nearest stage first
    fields: Fields = field(default_factory=dict)  # the data row's fields
    stages: Mapping[str, Outcome] = field(default_factory=dict)  # by stage name, nearest last
    joined: Mapping[str, Any] = field(default_factory=dict)  # names bound by `with`
    state: Literal["live", "failed", "pending"] = "live"
    reason: str = ""
    root: str = ""  # id of the source row from which it stems
    origins: tuple[str, ...] = ()  # the ids that it had before each explode, nearest first
    weight: int = 1  # rows for which a failed or pending row stands, at most; its id then ends in "/*"

    @property
    def anonymous(self) -> bool:
        """Whether it only stands for rows whose ids are not known."""
        return self.state != "live" and self.id.endswith("/*")

    @property
    def ranking(self) -> tuple[str, tuple[Candidate, ...]] | None:
        """The nearest ranking stage and its candidates."""
        for stage, outcome in reversed(list(self.stages.items())):
            if (candidates := outcome.candidates) is not None:
                return stage, candidates
        return None

    @property
    def outcome(self) -> Outcome | None:
        """What the nearest stage made of the row."""
        return self.stages.get(self.condition.stage)
