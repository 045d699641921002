"""What the lengths and the texts of replies say of their truncation, beside what their finish reasons say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judgerun.audit import pileup
from judgerun.audit.completion import LIMITS
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.pileup import Pile
from judgerun.audit.tally import grouped
from judgerun.audit.words import few, percent
from judgerun.model.experiment import Arm, Chat
from judgerun.model.reply import Finish, Usage
from judgerun.table.row import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The replies of one condition that were given under one cap: their rows, their tokens and what these say."""

    condition: str
    rows: tuple[Row, ...]
    tokens: tuple[int, ...]
    counted: int  # of these lengths, how many were counted anew
    silent: int  # replies of which no length is known
    stated: bool  # whether a cap was asked for; else it was found
    pile: Pile

    @property
    def unsaid(self) -> tuple[Row, ...]:
        """Replies at the cap whose finish reason does not say so."""
        pairs = zip(self.rows, self.pile.capped, strict=True)
        return tuple(row for row, capped in pairs if capped and _finish(row) is not Finish.LENGTH)


def _finish(row: Row) -> Finish | None:
    outcome = row.outcome
    return outcome.kept.reply.finish if outcome is not None and outcome.kept is not None else None


def lengths(evidence: Evidence) -> Iterator[Lengths]:
    """Each chat condition and cap with lengths that are known and a cap that is stated or can be found."""
    for stage in evidence.experiment.stages:
        if not isinstance(stage, Chat):
            continue
        groups: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
        for row in evidence.rows.get(stage.name, ()):
            if row.outcome is not None and row.outcome.kept is not None and row.outcome.server is None:
                groups[row.condition.name, _cap(evidence, row)].append(row)
        for (condition, cap), rows in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
            if (found := _measured(evidence, condition, cap, rows)) is not None:
                yield found


def _arm(evidence: Evidence, row: Row) -> Arm | None:
    held = dict(row.condition.segments[0].coordinates)
    return evidence.arm(row.condition.stage, held.get("model"), held.get("prompt"))


def _cap(evidence: Evidence, row: Row) -> int | None:
    """The cap under which a row was answered; None where none is stated."""
    arm = _arm(evidence, row)
    if row.outcome is not None and row.outcome.rung is not None:
        return row.outcome.rung
    return arm.model.max_output_tokens if arm is not None else None


def _measured(evidence: Evidence, condition: str, cap: int | None, rows: Sequence[Row]) -> Lengths | None:
    arm = _arm(evidence, rows[0])
    profile = evidence.profiles.get(arm.model.name) if arm is not None else None
    outside = profile is not None and profile.reasoning == "outside"
    held = [(row, *_length(evidence, row, outside=outside)) for row in rows]
    known = [(row, tokens, anew) for row, tokens, anew in held if tokens is not None]
    tokens = tuple(tokens for _, tokens, _ in known)
    pile = pileup.discover(tokens) if cap is None else pileup.find(tokens, cap)
    if not known or pile is None:
        return None
    return Lengths(
        condition=condition,
        rows=tuple(row for row, _, _ in known),
        tokens=tokens,
        counted=sum(anew for _, _, anew in known),
        silent=len(rows) - len(known),
        stated=cap is not None,
        pile=pile,
    )


def _length(evidence: Evidence, row: Row, *, outside: bool) -> tuple[int | None, bool]:
    """The tokens of a reply that its cap covers, and whether they were counted anew: the provider told none."""
    outcome = row.outcome
    if outcome is None or outcome.kept is None:
        return None, False
    usage: Usage = outcome.kept.reply.usage
    told = usage.output_visible if outside else usage.output
    if told is not None or outcome.key is None:
        return told, False
    return evidence.recounts.get(outcome.key), True


def doubtful(evidence: Evidence) -> Iterator[Row]:
    """Replies whose length no provider told, and those at their cap whose finish reason does not say so."""
    for stage in evidence.experiment.stages:
        for row in evidence.rows.get(stage.name, ()) if isinstance(stage, Chat) else ():
            if row.outcome is not None and row.outcome.kept is not None and row.outcome.kept.reply.usage.output is None:
                yield row
    for held in lengths(evidence):
        yield from held.unsaid


def check_recounts(evidence: Evidence) -> Iterator[Finding]:
    """Replies whose text, counted anew, has far fewer tokens than their provider says were visible: what was paid for was not
    handed over, or is hidden reasoning that the provider does not name.
    """
    for stage in evidence.experiment.stages:
        rows = evidence.rows.get(stage.name, ()) if isinstance(stage, Chat) else ()
        short: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            outcome = row.outcome
            if outcome is None or outcome.kept is None or outcome.key is None:
                continue
            told, counted = outcome.kept.reply.usage.output_visible, evidence.recounts.get(outcome.key)
            if told is not None and counted is not None and counted + SHORT_MIN < told and counted < SHORT * told:
                short[row.condition.name].append(f"item {row.id}: {told} tokens told, {counted} in its text")
        for condition, names in sorted(short.items()):
            yield Finding(
                check="recount",
                severity="warning",
                condition=condition,
                message=f"{len(names)} replies have far fewer tokens in their text than their provider calls visible",
                value=len(names),
                evidence=few(names),
            )


SHORT, SHORT_MIN = 0.8, 8
"""A text is short of what was told when it has under this share of the tokens, and at least so many fewer."""


def check_pileup(evidence: Evidence) -> Iterator[Finding]:
    """Replies that stand at their output cap by their length although no finish reason says so, with the chance that so many end
    there by nature and the share that may be called cut in error: an error where they are over 10% of a condition, else a warning.
    """
    for held in lengths(evidence):
        unsaid, pile = held.unsaid, held.pile
        p = pile.beyond(len(unsaid))
        if p >= pileup.CERTAIN:
            continue
        share, wrong = len(unsaid) / len(held.rows), min(1.0, pile.natural / len(unsaid))
        where = f"their cap of {pile.cap} tokens" if held.stated else f"{pile.cap} tokens, a cap that nobody stated"
        yield Finding(
            check="pile-up",
            severity="error" if share > LIMITS["truncated"] else "warning",
            condition=held.condition,
            message=f"{len(unsaid)} of {len(held.rows)} replies stand at {where}, and their finish reason does not say so; by "
            f"nature at most {pile.natural:.2g} would (p = {p:.1g}), so at most {percent(wrong)} of them are called cut in error",
            value=len(unsaid),
            evidence=few(f"item {row.id}: finish {_finish(row) or 'none'}" for row in unsaid),
        )


def check_texts(evidence: Evidence) -> Iterator[Finding]:
    """Replies whose finish reason is natural, or unknown, and whose text looks cut (it stops inside a sentence, leaves a formula,
    fence or object open, or has no marker), with how often the same rule speaks of replies that are known to be cut and of those
    that are known to be whole. A warning where finishes are unknown, else a note.
    """
    for stage in evidence.experiment.stages:
        for condition, rows in grouped(evidence.rows.get(stage.name, ())).items() if isinstance(stage, Chat) else ():
            yield from _texts(evidence, condition, rows)


def _texts(evidence: Evidence, condition: str, rows: Sequence[Row]) -> Iterator[Finding]:
    looked = {finish: [row for row in rows if _finish(row) is finish] for finish in Finish}
    known = [row for row in looked[Finish.LENGTH] if _looks(evidence, row) is not None]
    for finish in (Finish.STOP, Finish.UNKNOWN):
        odd = [(row, why) for row in looked[finish] if (why := _looks(evidence, row)) is not None]
        share = len(odd) / max(1, len(looked[finish]))
        if not odd or (finish is Finish.STOP and not TEXTS_MIN < share < TEXTS_MAX):
            continue
        total = len(looked[Finish.LENGTH])
        rate = f"it speaks of {len(known)} of the {total} replies that are known to be cut" if total else NO_CUT
        yield Finding(
            check="cut text",
            severity="warning" if finish is Finish.UNKNOWN else "note",
            condition=condition,
            message=f"{len(odd)} of {len(looked[finish])} replies with finish {finish.value} look cut by their text; {rate}",
            value=len(odd),
            evidence=few(f"item {row.id}: {why}" for row, why in odd),
        )


TEXTS_MIN, TEXTS_MAX = 0.05, 0.5
"""Where finish reasons are natural, fewer odd endings are accidents, and more are a manner of writing."""
NO_CUT = "how often it sees a real cut is not known here: no reply of the condition says that it was"


def _looks(evidence: Evidence, row: Row) -> str | None:
    arm, reply = _arm(evidence, row), row.outcome.reply if row.outcome is not None else None
    if arm is None or not reply:
        return None
    marker = arm.settings.parse.marker
    if marker is not None and marker not in reply:
        return "it has no marker"
    return pileup.cut(reply) if arm.settings.parse.kind in ("text", "json") or marker is not None else None


def tables(evidence: Evidence) -> Iterator[Table]:
    """Of each condition and cap: replies at the cap by length, by finish reason, by the rule tokens >= cap alone, and the error."""
    rows: list[tuple[Cell, ...]] = [
        (
            held.condition, held.pile.cap, "stated" if held.stated else "found", len(held.rows), held.silent, held.counted,
            held.pile.count, sum(tokens >= held.pile.cap for tokens in held.tokens),
            sum(_finish(row) is Finish.LENGTH for row in held.rows), len(held.unsaid), held.pile.p, held.pile.error,
        )
        for held in lengths(evidence)
    ]  # fmt: skip
    if rows:
        yield Table(
            name="lengths",
            title="Lengths against the cap",
            columns=(
                "condition", "cap", "cap is", "n", "length unknown", "counted anew", "at the cap", "tokens >= cap", "finish length",
                "at the cap, not said", "p", "error",
            ),
            rows=tuple(rows),
            note=f"At the cap: within {pileup.SLACK_MAX} tokens under it (a 64th of small caps) or beyond. p: the chance of so "
            "many there if lengths went on as densely as below; error: the share of them that may have ended by nature.",
        )  # fmt: skip
