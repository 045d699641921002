"""Which answers of a foreign run were cut, and which empty ones went to its graders; from texts, or from token counts alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judgerun.analysis.intervals import wilson
from judgerun.audit import pileup
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.words import few, percent
from judgerun.model.foreign import Call, Run

CUT = ("length", "max_tokens")
TRUNCATED_MAX = 0.10
SMALL = 20
"""Of fewer answers a share is an error only where its whole 95% Wilson interval lies above TRUNCATED_MAX."""
SOLVER, GRADER = "solver", "grader"
Judged = Literal["empty", "probably empty", "ambiguous", "had text", "no row"]
"""What a grader was handed of a cut answer."""
TOLD = ("model", "provider", "at", "input", "output", "cap", "finish", "cost", "text", "value")
"""What one file may know of a call that another does not."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an answer stands to its cap: `cut` by its finish reason or its length, `exact` by `tokens >= cap` alone; `error` is the
    share of its like that may have ended there by nature.
    """

    cut: bool
    exact: bool
    error: float | None


def standings(calls: Sequence[Call]) -> list[Standing]:
    """Of each call, by its finish reason, by a stated cap, or by a cap that the lengths of its role and model show."""
    alike: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for place, call in enumerate(calls):
        alike[call.role, call.model].append(place)
    held: dict[int, Standing] = {}
    for places in alike.values():
        held |= zip(places, _standings([calls[place] for place in places]), strict=True)
    return [held[place] for place in range(len(calls))]


def _standings(calls: Sequence[Call]) -> Iterator[Standing]:
    known = [call.output for call in calls if call.output is not None]
    stated = {call.cap for call in calls if call.cap is not None}
    pile = pileup.find(known, stated.pop()) if len(stated) == 1 else pileup.discover(known)
    for call in calls:
        piled = pile is not None and call.output is not None and call.output >= pile.cap - pile.slack
        yield Standing(
            cut=piled or (call.finish or "").lower() in CUT,
            exact=pile is not None and call.output is not None and call.output >= pile.cap,
            error=None if pile is None else pile.error,
        )


def groups(run: Run) -> Mapping[tuple[str, str], list[Call]]:
    """Calls by (role, condition), each item's last row: what the program went on with. What two files say of one call is put
    together: a log knows its tokens, a cache its text.
    """
    last: dict[tuple[str, str, str], Call] = {}
    for call in run.calls:
        key = call.role, call.condition, call.item or call.source
        before = last.get(key)
        last[key] = call if before is None or before.file == call.file else _joined(before, call)
    held: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for (role, condition, _), call in last.items():
        held[role, condition].append(call)
    return dict(sorted(held.items()))


def _joined(before: Call, call: Call) -> Call:
    missing = {name: getattr(before, name) for name in TOLD if getattr(call, name) is None}
    return replace(call, **missing, extra={**before.extra, **call.extra})


def check_cut(run: Run) -> Iterator[Finding]:
    """How many answers of each role and condition stand at their cap, by their lengths and finish reasons, beside what the rule
    `tokens >= cap` alone finds: an error above 10%; of fewer than 20 answers only where the 95% Wilson interval lies above it.
    """
    for role, condition, n, cut, exact, _ in cuts(run):
        if cut:
            share = cut / n if n >= SMALL else wilson(cut, n)[0]
            yield Finding(
                check="truncated",
                severity="error" if share > TRUNCATED_MAX else "warning",
                condition=f"{role}/{condition}",
                message=f"{cut} of {n} answers stand at their cap ({percent(cut / n)}); tokens >= cap alone finds {exact}",
                value=cut / n,
            )


def cuts(run: Run) -> Iterator[tuple[str, str, int, int, int, float | None]]:
    """(role, condition, answers, cut, at tokens >= cap, error); caps are found over all conditions of a role."""
    held = groups(run)
    told = iter(standings([call for calls in held.values() for call in calls]))
    for (role, condition), calls in held.items():
        own = [next(told) for _ in calls]
        error = max((one.error for one in own if one.error is not None), default=None)
        yield role, condition, len(own), sum(one.cut for one in own), sum(one.exact for one in own), error


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A cut answer and what its grader was handed."""

    condition: str
    item: str
    judged: Judged


def handed(run: Run) -> list[Handed]:
    """What graders were handed of every cut answer of a solver whose text is not in the source, from the lengths of their prompts
    alone (see `_judged`), under the conditions that were graded.
    """
    held = groups(run)
    solved = [call for (role, _), calls in held.items() if role == SOLVER for call in calls]
    cut = {(call.condition, call.item): call for call, at in zip(solved, standings(solved), strict=True) if at.cut}
    prompts: dict[str, dict[str, int]] = defaultdict(dict)
    for (role, condition), calls in held.items():
        if role.startswith(GRADER):
            for call in calls:
                if call.input is not None:
                    prompts[call.item].setdefault(condition, call.input)
    graded = {condition for (role, condition) in held if role.startswith(GRADER)}
    untold = sorted(key for key, call in cut.items() if call.text is None and key[0] in graded)
    return [Handed(condition=c, item=item, judged=_judged(c, item, prompts[item], cut)) for c, item in untold]


def _judged(condition: str, item: str, lengths: Mapping[str, int], cut: Collection[tuple[str, str]]) -> Judged:
    """By the lengths of the grader prompts of the item's arms, which differ in the answer alone.

    Two cut arms of the very same length, the least of all arms, hold no answer at all: two texts of 30,000 tokens are not equally
    long by accident. A cut arm that is longer than another cut one had text. The shortest of all is probably empty where it is
    shorter than every finished arm; of the rest nothing is known.
    """
    own = lengths.get(condition)
    if own is None:
        return "no row"
    others = [(length, (where, item) in cut) for where, length in lengths.items() if where != condition]
    least = own == min(lengths.values())
    if least and (own, True) in others:
        return "empty"
    if any(length < own for length, at_cap in others if at_cap):
        return "had text"
    return "probably empty" if least and any(not at_cap for _, at_cap in others) else "ambiguous"


def _blank(run: Run) -> dict[tuple[str, str], Call]:
    """The solvers' calls of which the source shows that they answered nothing."""
    return {
        (call.condition, call.item): call
        for (role, _), calls in groups(run).items()
        if role == SOLVER
        for call in calls
        if call.text is not None and not call.text.strip()
    }


def check_handed(run: Run) -> Iterator[Finding]:
    """Empty answers that were sent to graders: by the text of an answer where that is in the source, else found from the lengths
    of grader prompts; and for how many of them nobody can tell how they were graded.
    """
    graders = [call for (role, _), calls in groups(run).items() if role.startswith(GRADER) for call in calls]
    graded = {(call.condition, call.item) for call in graders}
    sent = {key: call for key, call in _blank(run).items() if key in graded}
    told = handed(run)
    counted = Counter(one.judged for one in told)
    certain = [*sent, *((one.condition, one.item) for one in told if one.judged == "empty")]
    if not certain and not counted["probably empty"]:
        return
    by = [f"{len(sent)} by their texts"] * bool(sent) + [f"{name}: {n}" for name, n in counted.most_common()]
    words = f"{len(certain)} empty answers were sent to graders ({'; '.join(by)})"
    yield Finding(
        check="empty handed on",
        severity="error" if certain else "warning",
        message=words + _ungraded(certain, graders),
        value=len(certain) or counted["probably empty"],
        evidence=few(
            [f"{call.source}: {condition}/{item}" for (condition, item), call in sent.items()]
            + [f"{condition}/{item}" for condition, item in certain[len(sent) :]]
        ),
    )


def _ungraded(certain: Sequence[tuple[str, str]], graders: Sequence[Call]) -> str:
    known = {
        (call.condition, call.item)
        for call in graders
        if call.value is not None or call.extra.get("correct") is not None
    }
    n = sum(key not in known for key in certain)
    if not n:
        return ""
    them, were = ("has", "it was") if n == 1 else ("have", "they were")
    return f"; {n} of them {them} no grade in the source: nobody can tell how {were} graded"


def check_accepted(run: Run) -> Iterator[Finding]:
    """A grader that marks an empty answer correct: each is named."""
    blank = _blank(run)
    held = [
        call
        for call in run.calls
        if call.role.startswith(GRADER) and (call.condition, call.item) in blank and call.extra.get("correct") is True
    ]
    if held:
        yield Finding(
            check="empty marked correct",
            severity="error",
            message=f"{len(held)} empty answers were marked correct",
            value=len(held),
            evidence=few(
                f"{call.source}: {call.role} gave {call.value} to {call.condition}/{call.item}" for call in held
            ),
        )


def check_unparsed(run: Run) -> Iterator[Finding]:
    """Answers of judges and graders in which the program read no value: counted, since it scored them as something."""
    for (role, condition), calls in groups(run).items():
        held = [call for call in calls if call.text is not None and call.value is None] if role != SOLVER else []
        if held:
            yield Finding(
                check="unparsed",
                severity="warning",
                condition=f"{role}/{condition}",
                message=f"{len(held)} of {len(calls)} answers have no value ({percent(len(held) / len(calls))})",
                value=len(held) / len(calls),
                evidence=few(f"{call.source}: {(call.text or '')[:60]!r}" for call in held),
            )


def tables(run: Run) -> Iterator[Table]:
    """Answers at their cap by role and condition, and what graders were handed of them."""
    rows: list[tuple[Cell, ...]] = [line for line in cuts(run) if line[3]]
    if rows:
        yield Table(
            name="lengths",
            title="Answers at their cap",
            columns=("role", "condition", "n", "at the cap", "tokens >= cap", "error"),
            rows=tuple(rows),
        )
    counted = Counter((one.condition, one.judged) for one in handed(run))
    if counted:
        yield Table(
            name="handed on",
            title="What graders were handed of cut answers",
            columns=("condition", "answer", "count"),
            rows=tuple((*key, count) for key, count in sorted(counted.items())),
            note="From the lengths of the grader prompts alone, where the text of the answer is not in the source.",
        )
