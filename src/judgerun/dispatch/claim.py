"""Claims and closings: what an attempt asks of the ledger before it is sent, and what it tells it afterwards; pure."""

from __future__ import annotations

from judgerun.dispatch.work import Work
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ledger.outcome import outcome
from judgerun.ledger.prices import Price
from judgerun.model.kept import Cell
from judgerun.model.profile import Profile
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.plan.quote import EXPECTED_BYTES_PER_TOKEN, need
from judgerun.ports import Answer, Claim, Closing

INTERRUPTED = Failure(cause=Cause.INTERRUPTED, billable=Billable.UNKNOWN, detail="stopped while in flight")


def claim(work: Work, price: Price, ceiling: int | None, profile: Profile) -> Claim:
    """The reservation of one try: the sum of the cells' worst cases, as one call."""
    nanos = tokens = gpu_ms = expected = 0
    for cell in work.cells:
        amount = need(cell, work.model, price, ceiling, profile)
        nanos += amount.nanos
        tokens += amount.tokens
        gpu_ms += amount.gpu_ms
        expected += tokens_expected(cell)
    first = work.cells[0]
    return Claim(
        requests=tuple(cell.request for cell in work.cells),
        stage=first.stage,
        condition=first.condition,
        provider=first.provider,
        model=first.model,
        need=Amount(nanos, 1, tokens, gpu_ms),
        tokens_expected=expected,
        bound_by=first.input_bound_by,
        windows=work.route.windows,
    )


def tokens_expected(cell: Cell) -> int:
    """What a call will probably use: its tokenizer's count, or its bytes at the usual length of a token, and the output that
    is expected (else the most).
    """
    given = cell.input_bound
    if cell.input_bound_by == "bytes":
        given = given // EXPECTED_BYTES_PER_TOKEN + 1
    wanted = cell.output_cap if cell.output_expected is None else cell.output_expected
    return given + (wanted or 0)


def closing(claimed: Claim, attempt: int, answer: Answer, price: Price) -> Closing:
    """The end of an attempt that was sent, as the outcome table says."""
    failure = answer.failure
    said = outcome(
        answer.replies if failure is None else failure,
        price=price,
        hold=claimed.need,
        gpu_ms=answer.latency_ms if claimed.need.gpu_ms else 0,
    )
    return Closing(
        attempt=attempt,
        kind=said.kind,
        amount=said.amount,
        sent=failure is None or failure.cause is not Cause.NOT_SENT,
        status=answer.status,
        failure=failure,
        replies=() if failure else tuple(zip(claimed.requests, answer.replies, said.shares, strict=True)),
        served_by=answer.served_by,
        latency_ms=answer.latency_ms,
    )


def unsent(attempt: int) -> Closing:
    """The end of an attempt of which no byte left."""
    return Closing(attempt=attempt, kind=EntryKind.VOID, amount=Amount(), sent=False)


def interrupted(claimed: Claim, attempt: int) -> Closing:
    """The end of an attempt whose answer will never be read."""
    return Closing(attempt=attempt, kind=EntryKind.FORFEIT, amount=claimed.need, failure=INTERRUPTED)
