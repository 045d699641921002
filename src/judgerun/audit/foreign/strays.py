"""Rows of a foreign log that belong to no run: probes that were billed; by what they repeat, and by when they were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from judgerun.audit.finding import Finding
from judgerun.audit.foreign.money import roles, said, usd
from judgerun.audit.words import few
from judgerun.model.foreign import Call, Run

LONE_MAX = 2
"""No more rows than these are no run of their own."""
RUN_MIN = 5
"""Rows that are a run, from which others may stand apart."""
FAR = 3600.0
"""Seconds from all other rows of a role beyond which a row is not of their run."""


def check_strays(run: Run) -> Iterator[Finding]:
    """A lone row (a role with one or two) that repeats what another role has asked, token by token, or asks the same model about an
    item of the run that its role is named after when that had ended, belongs to no run: a probe that was billed. So do one or two
    rows over an hour before or after all others of their role.
    """
    held = roles(run)
    runs = [calls for calls in held.values() if len(calls) >= RUN_MIN]
    asked: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for call in run.calls:
        asked[_asked(call)].add(call.role)
    for role, calls in held.items():
        lone = calls if len(calls) <= LONE_MAX else []
        again = [call for call in lone if call.input is not None and len(asked[_asked(call)]) > 1]
        late = [call for call in lone if call not in again and _late(call, runs)]
        for strays, why in (
            (again, "repeat a call of another role and belong to no run"),
            (late, "name an item of the run of that name and were made after the end of it"),
            (_apart(calls), "were made over an hour before or after all others"),
        ):
            if strays:
                yield Finding(
                    check="stray",
                    severity="warning",
                    message=f"{len(strays)} rows of {role!r} {why}: {usd(strays)} USD",
                    value=len(strays),
                    evidence=few(map(said, strays)),
                )


def _asked(call: Call) -> tuple[object, ...]:
    return call.condition, call.item, call.input, call.output


def _late(call: Call, runs: Iterable[Sequence[Call]]) -> bool:
    """Whether a call asks the same model about an item of the run that its role is named after, after the last row of that."""
    cell = call.model, call.condition, call.item
    if call.at is None or None in cell or not call.item:
        return False
    named = [rows for rows in runs if call.role.startswith(rows[0].role)]
    claimed = [rows for rows in named if cell in {(row.model, row.condition, row.item) for row in rows}]
    times = [[row.at for row in rows if row.at is not None] for rows in claimed]
    return any(held and max(held) < call.at for held in times)


def _apart(calls: Sequence[Call]) -> list[Call]:
    """The one or two rows before, and after, all others, over an hour away."""
    rows = sorted(((call.at, place) for place, call in enumerate(calls) if call.at is not None))
    found: set[int] = set()
    for k in range(1, LONE_MAX + 1):
        if len(rows) >= RUN_MIN + k:
            found |= {place for _, place in rows[:k]} if rows[k][0] - rows[k - 1][0] > FAR else set()
            found |= {place for _, place in rows[-k:]} if rows[-k][0] - rows[-k - 1][0] > FAR else set()
    return [calls[place] for place in sorted(found)]
