"""Files of one run that tell of the same calls, as a log and its own reduction do: their money counts once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from judgerun.audit.finding import Finding
from judgerun.model.foreign import Call, Run
from judgerun.model.money import format_usd

ROWS_MIN = 5
"""Fewer different rows may be alike by accident."""
SAME_MIN = 0.95
"""Rows of a file that stand in another one, from which on it is a copy."""


def copies(run: Run) -> Mapping[str, tuple[str, int]]:
    """Files of whose rows with a cost nearly all (95%) stand in a longer file as well: which one, and how many rows."""
    held: dict[str, list[Call]] = defaultdict(list)
    for call in run.calls:
        if call.cost:
            held[call.file].append(call)
    files = sorted(held, key=lambda file: (-len(held[file]), file))
    found: dict[str, tuple[str, int]] = {}
    for place, file in enumerate(files):
        for other in files[:place]:
            same = _shared(held[file], held[other])
            if other not in found and same >= SAME_MIN * len(held[file]):
                found[file] = other, same
                break
    return found


def _shared(calls: Sequence[Call], others: Sequence[Call]) -> int:
    """How many calls stand among others, too: with the same tokens and cost, or the same cell and cost; and at the same time where
    both say when. 0 where hardly any can be told from the next.
    """
    timed = all(call.at is not None for call in (*calls, *others))
    shared = 0
    for marks in (_tokens, _cells):
        own, theirs = (Counter(marks(held, timed=timed)) for held in (calls, others))
        if len(own) >= ROWS_MIN:
            shared = max(shared, (own & theirs).total())
    return shared


def _tokens(calls: Sequence[Call], *, timed: bool) -> Iterator[Hashable]:
    for call in calls:
        if call.input is not None and call.output is not None:
            yield call.input, call.output, call.cost, call.at if timed else None


def _cells(calls: Sequence[Call], *, timed: bool) -> Iterator[Hashable]:
    for call in calls:
        if call.item:
            yield call.role, call.condition, call.item, call.cost, call.at if timed else None


def counted(run: Run) -> list[Call]:
    """All calls but those of a copy whose money counts in the other file."""
    again = copies(run)
    return [call for call in run.calls if not (call.cost and call.file in again)]


def check_copies(run: Run) -> Iterator[Finding]:
    """No file tells of the calls of another one: a log that is imported with its own reduction, or with a cache that has costs,
    would count money twice. Here it counts once; calls that were really made twice belong under two names.
    """
    for file, (other, same) in sorted(copies(run).items()):
        calls = [call for call in run.calls if call.file == file and call.cost]
        usd = format_usd(sum(call.cost or 0 for call in calls))
        yield Finding(
            check="counted twice",
            severity="error",
            message=f"{same} of {len(calls)} rows of {file} stand in {other} as well: its {usd} USD are counted once, in {other}",
            value=same,
            evidence=(file, other),
        )
