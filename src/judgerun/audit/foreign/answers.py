"""Which answers of a foreign run were cut, and which empty ones went to its graders; from texts, or from token counts alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judgerun.audit import pileup
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.words import few, percent
from judgerun.model.foreign import Call, Run

CUT = ("length", "max_tokens")
TRUNCATED_MAX = 0.10
SOLVER, GRADER = "solver", "grader"
Judged = Literal["empty", "probably empty", "ambiguous", "had text", "no row"]
"""What a grader was handed of a cut answer."""


def capped(calls: Sequence[Call]) -> list[bool]:
    """Which calls stand at their cap: by their finish reason, by a stated cap, or at a cap that their lengths show."""
    known = [call.output for call in calls if call.output is not None]
    stated = {call.cap for call in calls if call.cap is not None}
    pile = pileup.find(known, stated.pop()) if len(stated) == 1 else pileup.discover(known)
    start = None if pile is None else pile.cap - pile.slack
    return [
        (call.finish or "").lower() in CUT or (start is not None and call.output is not None and call.output >= start)
        for call in calls
    ]


def groups(run: Run) -> Mapping[tuple[str, str], list[Call]]:
    """Calls by (role, condition), each item's last row: what the program went on with."""
    last: dict[tuple[str, str, str], Call] = {}
    for call in run.calls:
        last[call.role, call.condition, call.item or call.source] = call
    held: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for (role, condition, _), call in last.items():
        held[role, condition].append(call)
    return dict(sorted(held.items()))


def check_cut(run: Run) -> Iterator[Finding]:
    """How many answers of each role and condition stand at their cap, by their lengths and finish reasons, beside what the rule
    `tokens >= cap` alone finds: an error above 10%.
    """
    for role, condition, n, cut, exact, _ in cuts(run):
        if cut:
            yield Finding(
                check="truncated",
                severity="error" if cut > TRUNCATED_MAX * n else "warning",
                condition=f"{role}/{condition}",
                message=f"{cut} of {n} answers stand at their cap ({percent(cut / n)}); tokens >= cap alone finds {exact}",
                value=cut / n,
            )


def cuts(run: Run) -> Iterator[tuple[str, str, int, int, int, float | None]]:
    """(role, condition, answers, cut, at tokens >= cap, error); the cap is found over all conditions of a role."""
    by_role: dict[str, list[Call]] = defaultdict(list)
    for (role, _), calls in groups(run).items():
        by_role[role] += calls
    for role, calls in by_role.items():
        known = [call.output for call in calls if call.output is not None]
        pile = pileup.discover(known)
        at = dict(zip((call.source for call in calls), capped(calls), strict=True))
        for (own, condition), held in groups(run).items():
            if own == role:
                exact = sum(pile is not None and call.output is not None and call.output >= pile.cap for call in held)
                yield (
                    role,
                    condition,
                    len(held),
                    sum(at[call.source] for call in held),
                    exact,
                    pile.error if pile else None,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A cut answer and what its grader was handed."""

    condition: str
    item: str
    judged: Judged


def handed(run: Run) -> list[Handed]:
    """What graders were handed of every cut answer of a solver, from the lengths of their prompts alone.

    Two cut arms of one item whose grader prompts have the very same length, the least of all arms, hold no answer at all: two
    texts of 30,000 tokens are not equally long by accident. The only cut arm of its item is probably empty where its prompt is
    shorter than those of all finished arms.
    """
    solved = {key: calls for key, calls in groups(run).items() if key[0] == SOLVER}
    flat = [call for calls in solved.values() for call in calls]
    cut = {(call.condition, call.item) for call, at in zip(flat, capped(flat), strict=True) if at}
    prompts: dict[str, dict[str, int]] = defaultdict(dict)
    for (role, condition), calls in groups(run).items():
        if role.startswith(GRADER):
            for call in calls:
                if call.input is not None:
                    prompts[call.item].setdefault(condition, call.input)
    return [Handed(condition=c, item=item, judged=_judged(c, item, prompts[item], cut)) for c, item in sorted(cut)]


def _judged(condition: str, item: str, lengths: Mapping[str, int], cut: set[tuple[str, str]]) -> Judged:
    own = lengths.get(condition)
    if own is None:
        return "no row"
    others = {where: length for where, length in lengths.items() if where != condition}
    if any(length == own and (where, item) in cut for where, length in others.items()) and own == min(lengths.values()):
        return "empty"
    finished = [length for where, length in others.items() if (where, item) not in cut]
    if len(finished) < len(others):
        return "had text"
    return "probably empty" if finished and own < min(finished) else "ambiguous"


def check_handed(run: Run) -> Iterator[Finding]:
    """Empty answers that were sent to graders, by their text where it is there, else found from the lengths of grader prompts."""
    told = (
        Counter(one.judged for one in handed(run))
        if not any(call.text is not None for call in run.calls)
        else Counter()
    )
    blank = [call for call in run.calls if call.role == SOLVER and call.text is not None and not call.text.strip()]
    graded = {(call.condition, call.item) for call in run.calls if call.role.startswith(GRADER)}
    sent = [call for call in blank if (call.condition, call.item) in graded]
    if told["empty"] or sent:
        count = told["empty"] or len(sent)
        by = "; ".join(f"{name}: {n}" for name, n in told.most_common()) if told else "by their texts"
        yield Finding(
            check="empty handed on",
            severity="error",
            message=f"{count} empty answers were sent to graders ({by})",
            value=count,
            evidence=few(
                [f"{one.condition}/{one.item}" for one in handed(run) if one.judged == "empty"]
                if told
                else [f"{call.source}: {call.condition}/{call.item}" for call in sent]
            ),
        )


def check_accepted(run: Run) -> Iterator[Finding]:
    """A grader that marks an empty answer correct: each is named."""
    blank = {
        (call.condition, call.item)
        for call in run.calls
        if call.role == SOLVER and call.text is not None and not call.text.strip()
    }
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
            note="From the lengths of the grader prompts alone.",
        )
