"""Claims and closings: what an attempt asks of the ledger before it is sent, and what it tells it afterwards; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from judgerun.dispatch.work import Work
from judgerun.ledger.entry import Amount, EntryKind
from judgerun.ledger.outcome import outcome
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Model
from judgerun.model.kept import Cell
from judgerun.model.profile import Profile
from judgerun.model.reply import Billable, Cause, Failure, Reply
from judgerun.model.request import Request
from judgerun.plan.quote import EXPECTED_BYTES_PER_TOKEN, need
from judgerun.ports import Answer, Claim, Closing, Line, Place

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
    inputs = sum(cell.input_bound for cell in work.cells)
    if len(work.cells) > 1:  # all texts of a call count towards its tier
        nanos = max(nanos, price.bound(inputs, tokens - inputs))
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


def enlisted(cell: Cell, model: Model, price: Price, ceiling: int | None, profile: Profile) -> Claim:
    """The reservation of one request in a job. Jobs count in no rate window: the limit on what is enqueued stands for them."""
    return Claim(
        requests=(cell.request,),
        stage=cell.stage,
        condition=cell.condition,
        provider=cell.provider,
        model=cell.model,
        need=need(cell, model, price, ceiling, profile),
        tokens_expected=input_expected(cell),
        bound_by=cell.input_bound_by,
    )


def reserved(line: Line, request: Request, place: Place) -> Claim:
    """The reservation that an open attempt of a job once was."""
    return Claim(
        requests=(request,),
        stage=line.stage,
        condition=line.condition,
        provider=place.provider,
        model=place.model,
        need=line.need,
        tokens_expected=line.tokens_expected,
        bound_by=line.bound_by,
    )


def tokens_expected(cell: Cell) -> int:
    """What a call will probably use: its input, and the output that is expected (else the most)."""
    wanted = cell.output_cap if cell.output_expected is None else cell.output_expected
    return input_expected(cell) + (wanted or 0)


def input_expected(cell: Cell) -> int:
    """What a call's input will probably use: its tokenizer's count, or its bytes at the usual length of a token."""
    by_bytes = cell.input_bound_by == "bytes"
    return cell.input_bound // EXPECTED_BYTES_PER_TOKEN + 1 if by_bytes else cell.input_bound


def closing(claimed: Claim, attempt: int, answer: Answer, price: Price, *, at: float) -> Closing:
    """The end of an attempt that was sent, as the outcome table says. `at`, in Unix seconds, is when its answer came: the time
    at which it is priced.
    """
    failure = answer.failure
    said = outcome(
        answer.replies if failure is None else failure,
        price=price,
        hold=claimed.need,
        at=datetime.fromtimestamp(at, UTC),
        gpu_ms=(answer.latency_ms or 0) if claimed.need.gpu_ms else 0,
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
        at=at,
    )


def unsent(attempt: int) -> Closing:
    """The end of an attempt of which no byte left."""
    return Closing(attempt=attempt, kind=EntryKind.VOID, amount=Amount(), sent=False)


def undone(attempt: int, failure: Failure) -> Closing:
    """The end of an attempt whose job was refused whole: nothing of it was done, so nothing was charged."""
    free = replace(failure, billable=Billable.NO)
    return Closing(
        attempt=attempt, kind=EntryKind.VOID, amount=Amount(), sent=failure.cause is not Cause.NOT_SENT, failure=free
    )


def interrupted(claimed: Claim, attempt: int) -> Closing:
    """The end of an attempt whose answer will never be read."""
    return Closing(attempt=attempt, kind=EntryKind.FORFEIT, amount=claimed.need, failure=INTERRUPTED)


def slim(reply: Reply) -> Reply:
    """A reply without the bytes that only the cache needs."""
    return Reply(
        finish=reply.finish,
        finish_raw=reply.finish_raw,
        text=reply.text,
        thoughts=reply.thoughts,  # the answer may stand in them
        usage=reply.usage,
        served_model=reply.served_model,
        fingerprint=reply.fingerprint,
        reported_cost=reply.reported_cost,
        raw_digest=reply.raw_digest,
        input_cut=reply.input_cut,
    )
