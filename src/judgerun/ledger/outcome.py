"""The table (Reply | Failure) -> settle, void or forfeit, with its reasons; and how one bill is shared by a batch.

What may live here: what an answer does to a hold. Nothing here asks who called, or what happens next.

    what came back                           entry     books      because
    ---------------------------------------  --------  ---------  ----------------------------------------------------
    replies, all with usage and price        settle    the bill   the bill is known; it may pass the hold (an overrun)
    replies, some without usage or price     forfeit   the hold   unknown is spent; the replies are kept all the same
    failure, not billable                    void      nothing    the provider cannot have charged; the call comes back
    failure, billable                        forfeit   the hold   charged, and nobody says how much
    failure, billable unknown                forfeit   the hold   it may have been charged: unknown is spent
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from judgerun.errors import invariant
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.money import Nanos
from judgerun.model.reply import BUCKETS, Billable, Failure, Reply, Usage


class Case(StrEnum):
    """The left column of the table."""

    BILLED = "reply with usage"
    UNBILLED = "reply without usage"
    NOT_CHARGED = "failure, not billable"
    CHARGED = "failure, billable"
    DOUBTFUL = "failure, billable unknown"


class Rule(NamedTuple):
    """The right columns of the table."""

    kind: EntryKind
    books: Literal["bill", "hold", "nothing"]
    because: str


TABLE: dict[Case, Rule] = {
    Case.BILLED: Rule(EntryKind.SETTLE, "bill", "usage and price are known"),
    Case.UNBILLED: Rule(EntryKind.FORFEIT, "hold", "a reply without usage: unknown is spent"),
    Case.NOT_CHARGED: Rule(EntryKind.VOID, "nothing", "the provider cannot have charged"),
    Case.CHARGED: Rule(EntryKind.FORFEIT, "hold", "charged, and nobody says how much"),
    Case.DOUBTFUL: Rule(EntryKind.FORFEIT, "hold", "it may have been charged: unknown is spent"),
}

_FAILED = {Billable.NO: Case.NOT_CHARGED, Billable.YES: Case.CHARGED, Billable.UNKNOWN: Case.DOUBTFUL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of a hold. `shares` has one part of the bill for each reply (None where the hold was forfeited)."""

    case: Case
    kind: EntryKind
    amount: Amount
    because: str
    shares: tuple[Nanos | None, ...] = ()


def outcome(
    answer: Sequence[Reply] | Failure, *, price: Price | None, hold: Amount, at: datetime | None = None, gpu_ms: int = 0
) -> Outcome:
    """The outcome of an attempt by the table above, answered at `at`. `gpu_ms` is the measured GPU time that a settle books."""
    if isinstance(answer, Failure):
        return _outcome(_FAILED[answer.billable], bill=Amount(), hold=hold, shares=())
    invariant(len(answer) > 0, "an answer without failure has a reply")
    usage = total_usage(answer)
    cost = None if price is None or usage is None else price.cost(usage, at=at)
    if usage is None or cost is None:
        return _outcome(Case.UNBILLED, bill=Amount(), hold=hold, shares=(None,) * len(answer))
    tokens = _tokens(usage)
    shares = [cost] if len(answer) == 1 else apportion(cost, [_tokens(_billed(reply)) for reply in answer])
    bill = Amount(nanos=cost, calls=hold.calls, tokens=tokens, gpu_ms=gpu_ms)
    return _outcome(Case.BILLED, bill=bill, hold=hold, shares=tuple(shares))


def _outcome(case: Case, *, bill: Amount, hold: Amount, shares: tuple[Nanos | None, ...]) -> Outcome:
    rule = TABLE[case]
    amount = bill if rule.books == "bill" else hold if rule.books == "hold" else Amount()
    return Outcome(case=case, kind=rule.kind, amount=amount, because=rule.because, shares=shares)


def total_usage(replies: Iterable[Reply]) -> Usage | None:
    """The usage of one call that gave these replies; None when any reply's input or output is not known.

    The cost of a batch is rounded up once, over this sum, and then shared.
    """
    usages = [_billed(reply) for reply in replies]
    for usage in usages:
        if usage.input is None or usage.output is None:
            return None
    if len(usages) == 1:
        return usages[0]
    return Usage(**{name: _sum([getattr(usage, name) for usage in usages]) for name in BUCKETS})


def _billed(reply: Reply) -> Usage:
    """A reply's usage; an embedding has no output tokens, whether or not its provider says so."""
    if reply.vector is not None and reply.usage.output is None:
        return replace(reply.usage, output_visible=0)
    return reply.usage


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _tokens(usage: Usage) -> int:
    return (usage.input or 0) + (usage.output or 0)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts proportional to `weights`, by largest remainder; ties go to the earlier part.

    The parts add up to `total` exactly. Where all weights are 0 the parts are as even as they can be.
    Raises ValueError for a negative total or weight, or for no weights.
    """
    if total < 0 or not weights or min(weights) < 0:
        raise ValueError("apportion needs a total and weights that are not negative")
    if len(weights) == 1:
        return [total]
    whole = sum(weights)
    if whole == 0:
        weights, whole = [1] * len(weights), len(weights)
    parts = [total * weight // whole for weight in weights]
    remainders = [total * weight % whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda place: (-remainders[place], place))
    for place in by_remainder[: total - sum(parts)]:
        parts[place] += 1
    return parts
