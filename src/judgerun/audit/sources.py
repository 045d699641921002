"""What answers rest on: replies shared by conditions, other models than asked, stand-ins, folds without enough members."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from judgerun.audit.drift import said
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.model.request import RequestKey

VERSION = re.compile(r"([-@_]v?\d[\d.\-]*)?(:[\w.\-]+)?")
"""What may follow a model's name without making it another model: a date or version, and a provider's own suffix."""


def check_shared(evidence: Evidence) -> Iterator[Finding]:
    """Sets of conditions whose cells rest on the same replies, with how many. A condition all of whose replies are another's
    too is a warning: comparing the two compares a thing with itself.
    """
    users: dict[RequestKey, set[str]] = defaultdict(set)
    for rows in evidence.rows.values():
        for row in rows:
            outcome = row.outcome
            if outcome is not None and outcome.key is not None and outcome.kept is not None:
                users[outcome.key].add(row.condition.name)
    totals = Counter(name for names in users.values() for name in names)
    groups = Counter(tuple(sorted(names)) for names in users.values() if len(names) > 1)
    for names, count in sorted(groups.items()):
        whole = [name for name in names if totals[name] == count]
        yield Finding(
            check="shared",
            severity="warning" if whole else "note",
            message=f"{count} replies serve {len(names)} conditions"
            + (f"; {' and '.join(whole)} rests on nothing else" if whole else ""),
            value=count,
            evidence=names,
        )


def check_served(evidence: Evidence) -> Iterator[Finding]:
    """Which model answered. Several served models inside one condition are an error; one that is another than asked, or several
    fingerprints, a warning; with the reply from which on it changed. A dated or prefixed form of the name that was asked is the
    same model.
    """
    served: dict[str, list[Told]] = defaultdict(list)
    prints: dict[str, list[Told]] = defaultdict(list)
    asked: dict[str, str] = {}
    for counts in evidence.counts:
        for row in evidence.rows.get(counts.stage, ()):
            outcome = row.outcome
            if row.condition.name != counts.condition or outcome is None or outcome.kept is None:
                continue
            if outcome.server is not None:  # told by itself: another model was asked
                continue
            reply = outcome.kept.reply
            if reply.served_model is not None:
                served[counts.condition].append((outcome.kept.attempt, row.id, reply.served_model))
            if reply.fingerprint is not None:
                prints[counts.condition].append((outcome.kept.attempt, row.id, reply.fingerprint))
            model = evidence.model(outcome.model) if outcome.model is not None else None
            if model is not None:
                asked[counts.condition] = model.model
    for condition in (counts.condition for counts in evidence.counts):
        yield from _served(condition, asked.get(condition), served[condition])
        counted = Counter(value for _, _, value in prints[condition])
        if len(counted) > 1:
            yield Finding(
                check="fingerprint",
                severity="warning",
                condition=condition,
                message=f"{len(counted)} fingerprints answered: the backend changed while the condition ran",
                value=len(counted),
                evidence=(*_listed(counted), said(prints[condition])),
            )


Told = tuple[int, str, str]
"""(attempt, item, what its reply says of who answered)"""


def _served(condition: str, asked: str | None, told: Sequence[Told]) -> Iterator[Finding]:
    served = Counter(value for _, _, value in told)
    others = {name: n for name, n in served.items() if asked is not None and not same(asked, name)}
    if len(served) > 1:
        yield Finding(
            check="served",
            severity="error",
            condition=condition,
            message=f"{len(served)} models answered where {asked!r} was asked",
            value=sum(others.values()) or len(served),
            evidence=(*_listed(served), said(told)),
        )
    elif others:
        yield Finding(
            check="served",
            severity="warning",
            condition=condition,
            message=f"every reply says that it is by {next(iter(others))!r}, where {asked!r} was asked",
            value=sum(others.values()),
            evidence=_listed(served),
        )


def same(asked: str, served: str) -> bool:
    """Whether `served` names the model that was asked: equal, a dated version of it (`x` -> `x-2026-01-31`, `x:free`), or the
    same without or with a maker's prefix (`maker/x`).
    """
    one, other = asked.rpartition("/")[2].lower(), served.rpartition("/")[2].lower()
    return other.startswith(one) and VERSION.fullmatch(other, len(one)) is not None


def _listed(counted: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{name}: {n}" for name, n in sorted(counted.items()))


def check_fallbacks(evidence: Evidence) -> Iterator[Finding]:
    """Rows in which a field stands in for a reply that was not admitted: counted per condition."""
    counted: Counter[str] = Counter()
    for rows in evidence.rows.values():
        counted.update(row.condition.name for row in rows if any(outcome.fallback for outcome in row.stages.values()))
    for condition, count in sorted(counted.items()):
        yield Finding(
            check="fallback",
            severity="note",
            condition=condition,
            message=f"in {count} rows the original stands in for a reply that was not admitted",
            value=count,
        )


def check_folds(evidence: Evidence) -> Iterator[Finding]:
    """Folds with fewer concluded members than they ask for: counted per condition, never averaged."""
    counted: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for rows in evidence.rows.values():
        for row in rows:
            if row.outcome is not None and row.state == "live":
                totals[row.condition.name] += 1
                counted[row.condition.name] += row.outcome.incomplete
    for condition, count in sorted(counted.items()):
        if count:
            yield Finding(
                check="incomplete",
                severity="warning",
                condition=condition,
                message=f"{count} of {totals[condition]} folds have fewer concluded members than asked for",
                value=count / totals[condition],
            )


def check_made(evidence: Evidence) -> Iterator[Finding]:
    """Rows that a stage which sends nothing could not make (a map's function that raised, a reply with more rows than its
    bound): an error, since no rate of replies holds them. What failed further up is judged there.
    """
    sends = {counts.stage for counts in evidence.counts}
    rows = [row for stage, held in evidence.rows.items() if stage not in sends for row in held]
    totals = Counter(row.condition.name for row in rows)
    failed: dict[str, Counter[str]] = {}
    for row in rows:
        if row.state == "failed" and not row.reason.startswith("upstream "):
            failed.setdefault(row.condition.name, Counter())[row.reason] += 1
    for condition, reasons in sorted(failed.items()):
        count = reasons.total()
        yield Finding(
            check="unmade",
            severity="error",
            condition=condition,
            message=f"{count} of {totals[condition]} rows could not be made: {reasons.most_common(1)[0][0]}",
            value=count / totals[condition],
            evidence=tuple(f"{reason}: {n}" for reason, n in sorted(reasons.items())),
        )
