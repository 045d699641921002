"""Classing of error statuses, and Retry-After in every spelling."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.reply import Billable, Cause
from judgerun.providers.fault import RETRY_AFTER_MAX_S, classify, retry_after
from judgerun.providers.wire import WireReply


def wire(status: int, body: Any = None, **headers: str) -> WireReply:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return WireReply(
        status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}, body=raw, at=1_000_000.0
    )


def err(message: str, code: Any = None, kind: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, "type": kind}}


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (401, err("no"), Cause.UNAUTHORISED),
        (403, err("no access"), Cause.UNAUTHORISED),
        (403, err("Your input was flagged by moderation"), Cause.REJECTED),
        (403, err("billing is not active on this account"), Cause.QUOTA),
        (402, err("Payment Required"), Cause.QUOTA),
        (402, b"", Cause.QUOTA),
        (
            429,
            err("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"),
            Cause.QUOTA,
        ),
        (429, err("Your credit balance is too low", "credit_balance_exhausted"), Cause.QUOTA),
        (429, err("Account has insufficient balance", 1113), Cause.QUOTA),
        (429, err("insufficient quota: 60 requests per minute", "INSUFFICIENT_QUOTA"), Cause.RATE_LIMITED),
        (429, err("Rate limit reached for tokens per min (TPM)", "rate_limit_exceeded"), Cause.RATE_LIMITED),
        (429, err("slow down"), Cause.RATE_LIMITED),
        (429, b"<html>slow</html>", Cause.RATE_LIMITED),
        (400, err("bad field", "invalid_value"), Cause.REJECTED),
        (
            400,
            err("This model's maximum context length is 4096 tokens. However, you requested 5000", None),
            Cause.TOO_LONG,
        ),
        (400, err("x", "context_length_exceeded"), Cause.TOO_LONG),
        (
            400,
            err("request (9010 tokens) exceeds the available context size", 400, "exceed_context_size_error"),
            Cause.TOO_LONG,
        ),
        (400, err("Input is too long for requested model"), Cause.TOO_LONG),
        (
            400,
            err("max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
            Cause.REJECTED,
        ),
        (400, err("API key not valid. Please pass a valid API key."), Cause.UNAUTHORISED),
        (413, err("Request too large for model x on tokens per minute: Limit 6000, Requested 8000"), Cause.TOO_LONG),
        (413, b"", Cause.REJECTED),
        (404, err("no such model", "model_not_found"), Cause.REJECTED),
        (422, {"detail": [{"msg": "x"}]}, Cause.REJECTED),
        (405, b"", Cause.REJECTED),
        (408, b"", Cause.OVERLOADED),
        (409, b"", Cause.OVERLOADED),
        (500, err("oops"), Cause.OVERLOADED),
        (501, err("This server does not support embeddings", 501, "not_supported_error"), Cause.REJECTED),
        (502, b"<html>", Cause.OVERLOADED),
        (503, b"", Cause.OVERLOADED),
        (504, b"", Cause.OVERLOADED),
        (529, err("Overloaded", None, "overloaded_error"), Cause.OVERLOADED),
        (302, b"", Cause.REJECTED),
        (
            400,
            [{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}],
            Cause.UNAUTHORISED,
        ),
    ],
)
def test_classes(status: int, body: Any, cause: Cause) -> None:
    """Status and words decide the class; an error status is not charged for, but a gateway's timeout may be."""
    told = classify(wire(status, body))
    assert told.cause is cause
    doubt = Billable.UNKNOWN if status in (504, 524) else Billable.NO  # a gateway that stopped waiting cannot say
    assert (told.billable, told.status) == (doubt, status)


def test_a_provider_that_bills_errors_is_not_said_to_be_free() -> None:
    """Its profile says so; then nobody knows."""
    assert classify(wire(500), doubtful={500}).billable is Billable.UNKNOWN


@given(st.integers(300, 599), st.binary(max_size=200))
def test_no_body_makes_the_classing_raise(status: int, body: bytes) -> None:
    """Any bytes of any status become a failure with a short detail."""
    told = classify(wire(status, body))
    assert len(told.detail) <= 500
    assert told.raw == body


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "2"}, 2.0),
        ({"retry_after": " 2.5 "}, 2.5),
        ({"retry_after": "7s"}, 7.0),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after": "-5"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": ""}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, RETRY_AFTER_MAX_S),
        ({"retry_after": "946080000"}, RETRY_AFTER_MAX_S),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
        ({"retry_after_ms": "x", "retry_after": "2"}, 2.0),
        ({"retry_after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry_after": formatdate(5_000, usegmt=True), "date": formatdate(4_990, usegmt=True)}, 10.0),
        ({"retry_after": formatdate(999_000, usegmt=True)}, None),
        ({"retry_after": formatdate(1_000_030, usegmt=True), "date": "yesterday"}, 30.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, decimals, milliseconds and dates are read; garbage is no hint; the absurd is bounded."""
    assert retry_after(wire(429, None, **headers).headers, at=1_000_000.0) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_makes_the_parser_raise(text: str) -> None:
    """Whatever it says, the wait is None or within bounds."""
    told = retry_after({"retry-after": text}, at=0.0)
    assert told is None or 0 <= told <= RETRY_AFTER_MAX_S
