"""Replies that are copies: of each other though they answer different items, or of the prompt that they should answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from rapidfuzz import fuzz, process

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.audit.parity import text
from judgerun.audit.words import few, percent
from judgerun.model.experiment import Chat
from judgerun.table.row import Row

LOOKED = 300
"""So many replies of a condition are compared with each other, and with their prompts: the first by id."""
HEAD = 1_000
"""So many characters of each are compared."""
WORDS_MIN = 12
"""Shorter replies are answers: that two of them are alike means nothing."""
ALIKE = 95.0
"""Similarity (0 to 100, Indel) from which on two replies are near-duplicates, and a reply stands in its prompt."""
COPIES_MAX = 0.05
"""Share of near-duplicates, and of echoes, above which a condition has a warning; below it a note."""


def check_duplicates(evidence: Evidence) -> Iterator[Finding]:
    """Replies of twelve words and more to different items that are nearly the same text (rapidfuzz, 95 of 100, on the first 300
    items and their first 1,000 characters): a stock answer, or a cache that gave one answer for another. A warning from 5% on.
    """
    for condition, rows in _prose(evidence):
        copies = alike([_reply(row)[:HEAD] for row in rows])
        if copies:
            names = (f"items {rows[a].id} and {rows[b].id}: {_reply(rows[a])[:60]!r}" for a, b in copies)
            held = {place for pair in copies for place in pair}
            yield _told(
                "near-duplicates",
                condition,
                len(held),
                len(rows),
                "are nearly the same as that of another item",
                few(names),
            )


def alike(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places whose texts are near-duplicates, each later text with its first like."""
    if len(texts) < 2:
        return []
    near = process.cdist(texts, texts, scorer=fuzz.ratio, score_cutoff=ALIKE, dtype=np.uint8)
    found = []
    for later in range(1, len(texts)):
        before = np.flatnonzero(near[later, :later])
        if len(before):
            found.append((int(before[0]), later))
    return found


def check_echo(evidence: Evidence) -> Iterator[Finding]:
    """Replies of twelve words and more that stand in their own prompt (95 of 100 of their first 1,000 characters): the model
    repeats what it was given instead of answering. A warning from 5% on.
    """
    for condition, rows in _prose(evidence):
        echoed = [row for row in rows if _stands(evidence, row)]
        if echoed:
            names = few(f"item {row.id}: {_reply(row)[:60]!r}" for row in echoed)
            yield _told("echo", condition, len(echoed), len(rows), "repeat their prompt", names)


def _stands(evidence: Evidence, row: Row) -> bool:
    outcome = row.outcome
    request = None if outcome is None or outcome.key is None else evidence.request(outcome.key)
    reply = _reply(row)[:HEAD]
    return request is not None and fuzz.partial_ratio(reply, text(request), score_cutoff=ALIKE) > 0


def _told(check: str, condition: str, count: int, n: int, what: str, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        check=check,
        severity="warning" if count > COPIES_MAX * n else "note",
        condition=condition,
        message=f"{count} of {n} replies {what} ({percent(count / n)})",
        value=count / n,
        evidence=evidence,
    )


def _reply(row: Row) -> str:
    return (row.outcome.reply or "") if row.outcome is not None else ""


def _prose(evidence: Evidence) -> Iterator[tuple[str, list[Row]]]:
    """(condition, its replies that are long enough to be compared: one an item, the first LOOKED) of the chat stages."""
    for stage in evidence.experiment.stages:
        held: dict[str, dict[str, Row]] = defaultdict(dict)
        rows = evidence.rows.get(stage.name, ()) if isinstance(stage, Chat) else ()
        for row in sorted(rows, key=lambda row: (row.condition.name, row.id, row.draws)):
            if len(_reply(row).split()) >= WORDS_MIN and len(held[row.condition.name]) < LOOKED:
                held[row.condition.name].setdefault(row.id, row)
        yield from ((condition, list(found.values())) for condition, found in sorted(held.items()) if found)
