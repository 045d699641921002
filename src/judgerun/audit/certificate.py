"""How good the last launch certificate was: what it foretold of the rest of its run, and what came."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

from judgerun.analysis.forecast import later, middle
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.audit.tally import marks
from judgerun.ledger.entry import EntryKind
from judgerun.model.event import Event
from judgerun.model.money import Nanos, format_usd, parse_usd
from judgerun.plan.certificate import LEVEL

JUDGED = ("truncated", "unparsed")
RAISED = "; since then cells were asked again under higher caps, of which it knew nothing"
SLACK = 0.1
"""What a time may lie beyond its interval, as a share: starts and last calls, of which the lengths of calls say nothing."""


def check_certificate(evidence: Evidence) -> Iterator[Finding]:
    """The newest certificate of a pilot against what came after it: cost, truncated and unparsed replies per condition, cost and
    time in all. A note, or a warning where it lies outside its 90 % interval; of a rest that was run in part, that part alone.
    Replies are those under a condition's own cap. What was bought under higher caps since is in the cost and the time of the rest,
    and no certificate foresaw it: they are no more than told.
    """
    name = evidence.experiment.name
    event = next(
        (one for one in reversed(evidence.books.events) if one.kind == "pilot" and one.experiment == name), None
    )
    if event is None:
        return
    told = json.loads(event.detail)
    pending = {counts.condition: counts.pending for counts in evidence.counts}
    spent, replies = _spent(evidence, told["attempt"]), _replies(evidence, told["attempt"])
    parts = [part for part in told["conditions"] if part["condition"] in pending]
    found: list[Finding] = []
    for part in parts:
        condition = part["condition"]
        found += _cost(part["cost"], [part], pending, spent[condition], condition)
        for share in part["shares"]:
            if share["name"] in JUDGED:
                yield from _share(share, replies.get(condition, Counter()), condition)
    found += _cost(told["cost"], parts, pending, sum(spent[part["condition"]] for part in parts), "")
    found += _time(evidence, event, told["seconds"], left=sum(pending[part["condition"]] for part in parts))
    raised = any(
        one.kind == "escalate" and one.id > event.id and one.experiment == name for one in evidence.books.events
    )
    yield from (replace(one, severity="note", message=one.message + RAISED) if raised else one for one in found)


def _spent(evidence: Evidence, since: int) -> Counter[str]:
    """Nano-dollars by condition of the experiment's attempts after one: settled or forfeited, or as later adjusted."""
    closed: dict[int, tuple[str, Nanos]] = {}
    for entry in evidence.books.sealed_entries(evidence.experiment.name):
        if entry.attempt > since and entry.kind in (EntryKind.SETTLE, EntryKind.FORFEIT, EntryKind.ADJUST):
            closed[entry.attempt] = (entry.leaf.condition, entry.amount.nanos)
    spent: Counter[str] = Counter()
    for condition, nanos in closed.values():
        spent[condition] += nanos
    return spent


def _replies(evidence: Evidence, since: int) -> Mapping[str, Counter[str]]:
    """By condition, how many replies under its own cap came from attempts after one (under ""), and how many bear each mark."""
    found: dict[str, Counter[str]] = {}
    for row in (row for rows in evidence.rows.values() for row in rows):
        outcome = row.outcome
        own = outcome.below[0] if outcome is not None and outcome.below else outcome
        if own is not None and own.kept is not None and own.kept.attempt > since:
            found.setdefault(row.condition.name, Counter()).update(("", *marks(own)))
    return found


def _cost(
    cost: Mapping[str, str], parts: Iterable[Mapping[str, Any]], pending: Mapping[str, int], came: Nanos, condition: str
) -> Iterator[Finding]:
    """Of a part of the rest the interval is that of its share of the cells, wider by the root of that share: as if all of its
    width were chance between cells, which is the most that it can be.
    """
    held = list(parts)
    left = sum(part["left"] for part in held)
    ended = sum(part["left"] * _ended(part, pending) for part in held)
    if ended <= 0:
        return
    share = ended / left
    mean, low, high = (parse_usd(cost[f"{name}_usd"]) for name in ("mean", "q05", "q95"))
    low = max(0, round(mean * share - (mean - low) * sqrt(share)))
    high = round(mean * share + (high - mean) * sqrt(share))
    inside = low <= came <= high
    whole = "the rest" if share == 1 else f"{round(ended)} of the {left} cells of the rest"
    yield Finding(
        check="certificate",
        severity="note" if inside else "warning",
        condition=condition,
        message=f"{whole} cost {format_usd(came)} USD; the certificate said [{format_usd(low)}, {format_usd(high)}] "
        f"({LEVEL:.0%}, n = {round(ended)})",
        value=format_usd(came),
        evidence=(f"per cell {format_usd(round(came / ended))}, foretold {format_usd(round(mean / left))}",),
    )


def _ended(part: Mapping[str, Any], pending: Mapping[str, int]) -> float:
    """Which share of the cells that were left has come to an end."""
    before = part["pending"]
    return max(0.0, 1 - pending[part["condition"]] / before) if before else 1.0


def _share(share: Mapping[str, Any], came: Counter[str], condition: str) -> Iterator[Finding]:
    """Of the replies that came, as many as they are: a part of the rest has its own interval."""
    name, more = share["name"], came[""]
    if not more:
        return
    low, high = middle(later(share["bad"], share["n"], more=more), level=LEVEL)
    yield Finding(
        check="certificate",
        severity="note" if low <= came[name] <= high else "warning",
        condition=condition,
        message=f"{came[name]} of {more} replies after the pilot are {name}; the certificate said {low} to {high} ({LEVEL:.0%}, "
        f"after {share['bad']} of {share['n']})",
        value=came[name],
    )


def _time(evidence: Evidence, event: Event, seconds: Mapping[str, float], *, left: int) -> Iterator[Finding]:
    """Only of a rest that one run brought to its end without a break: else the clock also counts who was away."""
    name = evidence.experiment.name
    later_runs = sum(
        one.id > event.id and one.kind in ("end", "stop") and one.experiment == name for one in evidence.books.events
    )
    closed = [one.closed_at for one in evidence.books.attempts if one.leaf.experiment == name and one.closed_at]
    if left or later_runs != 1 or max(closed, default=0.0) <= event.at:
        return
    took = max(closed) - event.at
    low, high = seconds["q05"], seconds["q95"]
    yield Finding(
        check="certificate",
        severity="note" if low * (1 - SLACK) <= took <= high * (1 + SLACK) else "warning",
        message=f"the rest took {took:.1f} s; the certificate said [{low}, {high}] ({LEVEL:.0%}) from the times of its calls",
        value=round(took, 1),
    )
