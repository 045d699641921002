"""Published counts of verdicts, and texts for which the original stood in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from judgerun.analysis.intervals import wilson
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.words import few, percent
from judgerun.model.foreign import Run, Tally

POOLED = "pooled"
ROUNDING = 1e-9


def rate(tally: Tally) -> tuple[int, int]:
    """(drifted, verdicts that count): uncertain ones are in neither."""
    return tally.counts["drifted"], tally.n - tally.counts["uncertain"]


def check_rates(run: Run) -> Iterator[Finding]:
    """A published rate follows from its counts, its counts add up to its n, and the pooled counts are the sums of the others."""
    wrong: list[str] = []
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for tally in run.tallies:
        drifted, n = rate(tally)
        found = drifted / n if n else 0.0
        if tally.rate is not None and abs(found - tally.rate) > ROUNDING:
            wrong.append(f"{tally.source}: {drifted} of {n} is {found:.4f}, not {tally.rate:.4f}")
        if sum(tally.counts[name] for name in ("drifted", "preserved", "uncertain")) != tally.n:
            wrong.append(f"{tally.source}: the verdicts do not add up to {tally.n}")
        if tally.subject != POOLED:
            sums[tally.condition].update({"n": tally.n, **tally.counts})
    for tally in run.tallies:
        if tally.subject == POOLED and {"n": tally.n, **tally.counts} != dict(sums[tally.condition]):
            wrong.append(f"{tally.source}: the pooled counts are not the sums of the others")
    if wrong:
        yield Finding(
            check="rates",
            severity="error",
            message=f"{len(wrong)} published counts and rates contradict each other",
            value=len(wrong),
            evidence=few(wrong),
        )


def check_threshold(run: Run) -> Iterator[Finding]:
    """A rate exactly at its threshold hangs on whether that is strict, which is told; and how many rates cannot be told from their
    threshold at all: it lies inside their 95% Wilson interval.
    """
    held = [tally for tally in run.tallies if tally.threshold is not None and rate(tally)[1]]
    exact = [tally for tally in held if rate(tally)[0] == round((tally.threshold or 0) * rate(tally)[1], 9)]
    if exact:
        yield Finding(
            check="at the threshold",
            severity="warning",
            message=f"{len(exact)} rates are exactly their threshold: whether they pass hangs on < or <= alone",
            value=len(exact),
            evidence=few(map(_said, exact)),
        )
    open_ = [tally for tally in held if _inside(tally)]
    if open_:
        yield Finding(
            check="undecided",
            severity="warning",
            message=f"{len(open_)} of {len(held)} rates cannot be told from their threshold: it lies in their 95% Wilson interval",
            value=len(open_),
            evidence=few(map(_said, open_)),
        )


def _inside(tally: Tally) -> bool:
    low, high = wilson(*rate(tally))
    return low <= (tally.threshold or 0.0) <= high


def _said(tally: Tally) -> str:
    drifted, n = rate(tally)
    low, high = wilson(drifted, n)
    verdict = "" if tally.below is None else f", reported as {'below' if tally.below else 'not below'}"
    limit = "" if tally.threshold is None else f", threshold {percent(tally.threshold)}{verdict}"
    return f"{tally.condition} {tally.subject}: {drifted} of {n}, {percent(drifted / n)} [{percent(low)}, {percent(high)}]{limit}"


def check_errors(run: Run) -> Iterator[Finding]:
    """Failures of a judge that were filed as verdicts."""
    held = [tally for tally in run.tallies if tally.counts.get("errors") and tally.subject != POOLED]
    if held:
        yield Finding(
            check="errors as verdicts",
            severity="warning",
            message=f"{sum(tally.counts['errors'] for tally in held)} failures of judges count as verdicts",
            value=sum(tally.counts["errors"] for tally in held),
            evidence=few(f"{tally.condition} {tally.subject}: {tally.counts['errors']}" for tally in held),
        )


def check_crossed(run: Run) -> Iterator[Finding]:
    """Rates are compared between subjects that other judges judged: a difference may be the judges'."""
    judges: dict[str, set[str]] = defaultdict(set)
    for tally in run.tallies:
        if tally.judge is not None:
            judges[tally.subject].add(tally.judge)
    if len({frozenset(held) for held in judges.values()}) > 1:
        yield Finding(
            check="judges differ",
            severity="warning",
            message="subjects whose rates stand side by side were judged by different judges",
            value=len(judges),
            evidence=few(f"{subject}: {', '.join(sorted(held))}" for subject, held in sorted(judges.items())),
        )


def check_fallbacks(run: Run) -> Iterator[Finding]:
    """Texts for which the original stands in: those that the source names, and files that show a fallback and name none, since a
    second pass read it as a text like any other: the count is lost, an error.
    """
    named: dict[str, list[str]] = defaultdict(list)
    lost: dict[str, int] = Counter()
    for text in run.texts:
        place = f"{text.condition}/{text.generator}"
        if text.fallback:
            named[place].append(f"{text.source}: {text.reason or 'no reason'}")
        elif text.fallback is None:
            lost[place] += 1
    for place, texts in sorted(named.items()):
        yield Finding(
            check="fallback",
            severity="warning",
            condition=place,
            message=f"for {len(texts)} items the original stands in for a text",
            value=len(texts),
            evidence=few(texts),
        )
    for place, n in sorted(lost.items()):
        yield Finding(
            check="fallbacks lost",
            severity="error",
            condition=place,
            message=f"the source shows that originals stand in among its {n} texts and does not say for which: the count is lost",
            value=n,
        )


def tables(run: Run) -> Iterator[Table]:
    """Each published rate with its interval and threshold."""
    rows: list[tuple[Cell, ...]] = []
    for tally in run.tallies:
        drifted, n = rate(tally)
        low, high = wilson(drifted, n) if n else (None, None)
        rows.append(
            (
                tally.condition,
                tally.subject,
                tally.judge,
                drifted,
                n,
                drifted / n if n else None,
                low,
                high,
                tally.threshold,
            )
        )
    if rows:
        yield Table(
            name="rates",
            title="Published rates",
            columns=("condition", "subject", "judge", "drifted", "n", "rate", "low", "high", "threshold"),
            rows=tuple(rows),
            note="n leaves out what was uncertain; 95% Wilson intervals.",
        )
