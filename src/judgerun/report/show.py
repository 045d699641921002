"""Shown: one cell as people read it (prompt, reply, verdict and why, attempts, cost), and which cells to show."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from judgerun.audit.books import Attempt
from judgerun.audit.evidence import Evidence
from judgerun.ledger.entry import Entry, EntryKind
from judgerun.model.condition import CANARY, matches
from judgerun.model.money import Nanos
from judgerun.model.request import RequestKey
from judgerun.report.columns import order
from judgerun.table.row import Row

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def safe(text: str) -> str:
    """Model text for a terminal: control characters and signs that change the direction of writing are shown as \\xNN or
    \\uNNNN; line ends and tabs stay.
    """
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt of a cell's request."""

    id: int
    ending: str  # settle, void, forfeit, or open
    nanos: Nanos  # what the ending booked; for a batch the whole batch's
    status: int | None
    cause: str | None
    detail: str
    latency_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cell. `messages` are (role, text) as sent; empty where the request is not known. Texts are as they are: pass
    them through `safe` before they meet a terminal.
    """

    stage: str
    condition: str
    id: str
    draws: tuple[tuple[str, int], ...]
    state: str  # done, failed or pending
    reason: str
    key: str | None
    messages: tuple[tuple[str, str], ...]
    reply: str | None
    found: str | None  # the rule that found it
    finish: str | None
    finish_raw: str | None
    rung: int | None  # the cap under which it was given, where that is above the condition's own
    server: str | None  # the experiment's model that stood in for the condition's own
    left: str | None  # owed or lapsed: it should have been asked under a higher cap; not yet, or in vain
    concluded: bool | None
    parsed: bool | None
    value: Any
    why: str
    rule: str
    agrees: bool | None
    cost: Nanos | None
    bought_by: str | None
    tries: tuple[Try, ...]

    def record(self) -> dict[str, Any]:
        """The cell as JSON values."""
        told = {name: getattr(self, name) for name in self.__slots__ if name not in ("tries", "draws", "messages")}
        told["draws"] = dict(self.draws)
        told["messages"] = [{"role": role, "content": text} for role, text in self.messages]
        told["tries"] = [{name: getattr(one, name) for name in one.__slots__} for one in self.tries]
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which cells to show; every condition given must hold."""

    condition: str | None = None  # a key, as in budgets
    finish: str | None = None
    unparsed: bool = False
    failed: bool = False
    disagree: bool = False  # cells of ids whose values differ between conditions of a stage, or from what is expected
    item: str | None = None
    sample: int | None = None  # so many, drawn by the experiment's seed

    def holds(self, row: Row, differing: frozenset[tuple[str, str]]) -> bool:
        """Whether a row is wanted; `differing` are the (stage, id) on which conditions differ."""
        outcome = row.outcome
        verdict = outcome.verdict if outcome is not None else None
        return (
            (self.condition is None or matches(self.condition, row.condition.name))
            and (self.finish is None or (outcome is not None and outcome.finish == self.finish))
            and (not self.unparsed or (verdict is not None and not verdict.parsed))
            and (not self.failed or row.state == "failed")
            and (not self.disagree or (row.condition.stage, row.id) in differing or _misses(row))
            and (self.item is None or self.item in (row.id, row.block))
        )


def _misses(row: Row) -> bool:
    return row.outcome is not None and row.outcome.agrees is False


def show(evidence: Evidence, wanted: Wanted, bodies: Mapping[RequestKey, bytes]) -> list[Shown]:
    """The wanted cells of the stages that send, in order; canaries where their condition is named. `bodies`
    gives canonical requests by key (those that are known).
    """
    stages = dict.fromkeys(counts.stage for counts in evidence.counts)
    planted = evidence.canaries if CANARY in (wanted.condition or "") else ()
    rows = [row for held in (*map(evidence.rows.get, stages), planted) for row in sorted(held or (), key=order)]
    differing = _differing(rows) if wanted.disagree else frozenset()
    found = [row for row in rows if wanted.holds(row, differing)]
    if wanted.sample is not None and wanted.sample < len(found):
        drawn = sorted(found, key=lambda row: _lot(evidence.experiment.seed, row))[: wanted.sample]
        found = sorted(drawn, key=lambda row: (list(stages).index(row.condition.stage), order(row)))
    attempts = _tries(evidence)
    return [_shown(row, attempts, bodies) for row in found]


def _lot(seed: int, row: Row) -> bytes:
    return hashlib.sha256(f"{seed}:{row.condition.name}:{row.id}:{row.draws}".encode()).digest()


def _differing(rows: Sequence[Row]) -> frozenset[tuple[str, str]]:
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.outcome is not None and row.outcome.concluded:
            values[row.condition.stage, row.id].add(repr(row.outcome.value))
    return frozenset(place for place, held in values.items() if len(held) > 1)


def _tries(evidence: Evidence) -> Mapping[RequestKey, list[Try]]:
    endings = {e.attempt: e for e in evidence.books.entries if e.kind not in (EntryKind.RESERVE, EntryKind.ADJUST)}
    told: dict[RequestKey, list[Try]] = defaultdict(list)
    for attempt in evidence.books.attempts:
        for key in attempt.keys:
            told[key].append(_try(attempt, endings.get(attempt.id)))
    return told


def _try(attempt: Attempt, ending: Entry | None) -> Try:
    return Try(
        id=attempt.id,
        ending="open" if ending is None else ending.kind.value,
        nanos=0 if ending is None else ending.amount.nanos,
        status=attempt.status,
        cause=attempt.cause,
        detail=attempt.detail,
        latency_ms=attempt.latency_ms,
    )


def _shown(row: Row, tries: Mapping[RequestKey, list[Try]], bodies: Mapping[RequestKey, bytes]) -> Shown:
    outcome = row.outcome
    kept = outcome.kept if outcome is not None else None
    verdict = outcome.verdict if outcome is not None else None
    key = outcome.key if outcome is not None else None
    return Shown(
        stage=row.condition.stage,
        condition=row.condition.name,
        id=row.id,
        draws=row.draws,
        state="done" if kept is not None else row.state,
        reason=row.reason,
        key=key.hex() if key is not None else None,
        messages=messages(bodies[key]) if key is not None and key in bodies else (),
        reply=kept.reply.text if kept is not None and kept.reply.vector is None else None,
        found=outcome.found if outcome is not None else None,
        finish=kept.reply.finish.value if kept is not None else None,
        finish_raw=kept.reply.finish_raw if kept is not None else None,
        rung=outcome.rung if outcome is not None else None,
        server=outcome.server if outcome is not None else None,
        left=outcome.left if outcome is not None else None,
        concluded=outcome.concluded if outcome is not None else None,
        parsed=verdict.parsed if verdict is not None else None,
        value=outcome.value if outcome is not None else None,
        why=verdict.why if verdict is not None else "",
        rule=verdict.rule if verdict is not None else "",
        agrees=outcome.agrees if outcome is not None else None,
        cost=kept.cost if kept is not None else None,
        bought_by=kept.experiment if kept is not None else None,
        tries=tuple(tries.get(key, ())) if key is not None else (),
    )


def messages(body: bytes) -> tuple[tuple[str, str], ...]:
    """(role, text) of a canonical request: its messages, or the one text of an embedding."""
    payload = orjson.loads(body)["payload"]
    if "text" in payload:
        return ((str(payload.get("role", "text")), str(payload["text"])),)
    return tuple((str(message["role"]), str(message["content"])) for message in payload["messages"])
