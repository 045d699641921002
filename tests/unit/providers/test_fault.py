"""Classing of errors: each provider's ways of saying so, by status, code, reason and sentence."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.reply import Billable, Cause
from judgerun.providers.fault import classify, in_band
from judgerun.providers.limits import RETRY_AFTER_MAX_S
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


def quota(*ids: str, wait: str | None = None, message: str = "You exceeded your current quota") -> dict[str, Any]:
    """A 429 of google that lists the quotas that were passed."""
    details: list[dict[str, Any]] = [
        {"@type": "x/google.rpc.QuotaFailure", "violations": [{"quotaId": i} for i in ids]}
    ]
    details += [] if wait is None else [{"@type": "x/google.rpc.RetryInfo", "retryDelay": wait}]
    return {"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}}


def google(code: int, status: str, message: str, reason: str | None = None) -> dict[str, Any]:
    details = [] if reason is None else [{"@type": "x/google.rpc.ErrorInfo", "reason": reason}]
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


def anthropic(kind: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"}


DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (529, anthropic("overloaded_error"), Cause.OVERLOADED),
        (429, anthropic("rate_limit_error", "would exceed the limit of 50 requests per minute"), Cause.RATE_LIMITED),
        (429, anthropic("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}), Cause.QUOTA),
        (402, anthropic("billing_error"), Cause.QUOTA),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access the API"), Cause.QUOTA),
        (400, anthropic("invalid_request_error", "You have reached your specified API usage limits."), Cause.QUOTA),
        (400, anthropic("invalid_request_error", "This organization has been disabled."), Cause.UNAUTHORISED),
        (400, anthropic("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"), Cause.TOO_LONG),
        (403, anthropic("permission_error"), Cause.UNAUTHORISED),
        (413, anthropic("request_too_large"), Cause.TOO_LONG),
        (500, anthropic("api_error"), Cause.OVERLOADED),
        (504, anthropic("timeout_error"), Cause.OVERLOADED),
        (429, quota(DAY, wait="18s"), Cause.QUOTA),
        (429, quota(MINUTE, DAY), Cause.QUOTA),
        (429, quota(MINUTE, wait="34.07s"), Cause.RATE_LIMITED),
        (429, [quota(MINUTE)], Cause.RATE_LIMITED),
        (429, google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later."), Cause.RATE_LIMITED),
        (
            429,
            google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 20.04466179s."),
            Cause.RATE_LIMITED,
        ),
        (429, google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), Cause.QUOTA),
        (400, google(400, "INVALID_ARGUMENT", "bad", "API_KEY_INVALID"), Cause.UNAUTHORISED),
        (400, google(400, "FAILED_PRECONDITION", "Please enable billing on your project."), Cause.QUOTA),
        (400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), Cause.UNAUTHORISED),
        (403, google(403, "PERMISSION_DENIED", "requires billing to be enabled", "BILLING_DISABLED"), Cause.QUOTA),
        (403, google(403, "PERMISSION_DENIED", "denied"), Cause.UNAUTHORISED),
        (
            400,
            google(400, "INVALID_ARGUMENT", "The input token count (1300000) exceeds the maximum number of tokens"),
            Cause.TOO_LONG,
        ),
        (503, google(503, "UNAVAILABLE", "The model is overloaded."), Cause.OVERLOADED),
        (404, {"id": "x", "message": "model 'm' not found"}, Cause.REJECTED),
        (429, {"message": "You are using a Trial key, which is limited to 40 API calls / minute."}, Cause.RATE_LIMITED),
        (429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}, Cause.QUOTA),
        (401, {"message": "invalid api token"}, Cause.UNAUTHORISED),
        (400, {"detail": "Model m is not supported."}, Cause.REJECTED),
        (
            429,
            {"detail": "You have not yet added your payment method and will have reduced rate limits of 3 RPM and 10K TPM."},
            Cause.RATE_LIMITED,
        ),
        (429, {"message": "Too many requests, please wait before trying again."}, Cause.RATE_LIMITED),
        (429, {"message": "Too many tokens, please wait before trying again."}, Cause.RATE_LIMITED),
        (429, {"message": "Too many tokens per day, please wait before trying again."}, Cause.QUOTA),
        (400, {"__type": "com.amazon#ServiceQuotaExceededException", "message": "x"}, Cause.QUOTA),
        (403, {"__type": "AccessDeniedException", "message": "x"}, Cause.UNAUTHORISED),
        (424, {"message": "The model failed"}, Cause.OVERLOADED),
        (429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited"}, Cause.RATE_LIMITED),
        (422, {"object": "error", "message": {"detail": [{"msg": "x"}]}, "type": "invalid"}, Cause.REJECTED),
        (402, err("Insufficient Balance", "invalid_request_error"), Cause.QUOTA),
        (402, err("This request requires more credits, or fewer max_tokens", 402), Cause.QUOTA),
        (
            429,
            {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "exceeded your current quota"}}},
            Cause.RATE_LIMITED,
        ),
        (429, err("Rate limit exceeded: free-models-per-day", 429), Cause.QUOTA),
        (429, err("Rate limit exceeded: free-models-per-min", 429), Cause.RATE_LIMITED),
        (502, err("Provider returned error", 502), Cause.OVERLOADED),
        (
            403,
            {"error": {"code": 403, "message": "needs moderation", "metadata": {"reasons": ["x"]}}},
            Cause.REJECTED,
        ),
        (429, err("Request too large for m on tokens per min (TPM): Limit 30000, Requested 39143."), Cause.TOO_LONG),
        (429, err("Rate limit reached for m on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s."),
         Cause.RATE_LIMITED),
        (429, err("Rate limit reached for m on tokens per day (TPD). Please try again in 6h12m."), Cause.QUOTA),
        (
            400,
            {"error": {"code": "content_filter", "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            Cause.REJECTED,
        ),
        (400, err("Your prompt was flagged as potentially violating our usage policy", "invalid_prompt"), Cause.REJECTED),
        (429, err("Requests have exceeded the call rate limit. Please retry after 6 seconds.", "429"), Cause.RATE_LIMITED),
        *[(status, b"<html>cloudflare</html>", Cause.OVERLOADED) for status in range(520, 525)],
    ],
)  # fmt: skip
def test_each_provider_has_its_own_words(status: int, body: Any, cause: Cause) -> None:
    """A hard quota is told by code and type, and what comes back by itself within a run's patience is none."""
    told = classify(wire(status, body))
    assert told.cause is cause
    assert told.billable is (Billable.UNKNOWN if status in (504, 524) else Billable.NO)


@pytest.mark.parametrize("status", [400, 403])
def test_the_type_that_aws_puts_in_a_header_counts(status: int) -> None:
    """Its body may hold a sentence alone."""
    told = classify(wire(status, {"message": "x"}, x_amzn_errortype="ServiceQuotaExceededException:http://internal/"))
    assert (told.cause, told.detail) == (Cause.QUOTA, f"HTTP {status}: servicequotaexceededexception x")


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        (quota(MINUTE, wait="34.07s"), {}, 34.07),
        (quota(MINUTE, wait="34.07s"), {"retry_after": "7"}, 7.0),
        (quota(MINUTE, wait="soon"), {}, None),
        (quota(MINUTE, wait="1e9s"), {}, None),
        (quota(MINUTE, wait="99999999s"), {}, RETRY_AFTER_MAX_S),
        (err("slow down. Please try again in 7m12.5s."), {}, 432.5),
        (err("slow down. Please retry after 6 seconds."), {}, 6.0),
        (err("slow down. Please try again later."), {}, None),
        (err("no"), {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "6m0s"}, 360.0),
        (err("no"), {"x_ratelimit_remaining_requests": "3", "x_ratelimit_reset_requests": "6m0s"}, None),
        (
            err("no"),
            {
                "x_ratelimit_remaining_requests": "0",
                "x_ratelimit_reset_requests": "2s",
                "x_ratelimit_remaining_tokens": "0",
                "x_ratelimit_reset_tokens": "9s",
            },
            9.0,
        ),
    ],
)
def test_patience_is_read_where_the_provider_put_it(body: Any, headers: dict[str, str], seconds: float | None) -> None:
    """The header first, then the body, then the limits that are used up; garbage is no hint."""
    told = classify(wire(429, body, **headers))
    assert told.retry_after == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (anthropic("overloaded_error")["error"], Cause.OVERLOADED),
        (anthropic("invalid_request_error")["error"], Cause.REJECTED),
        (anthropic("rate_limit_error")["error"], Cause.RATE_LIMITED),
        (anthropic("authentication_error")["error"], Cause.UNAUTHORISED),
        (anthropic("permission_error")["error"], Cause.UNAUTHORISED),
        (anthropic("billing_error")["error"], Cause.QUOTA),
        (quota(DAY)["error"], Cause.QUOTA),
        (quota(MINUTE, wait="34s")["error"], Cause.RATE_LIMITED),
        ({"status": "UNAVAILABLE", "message": "busy"}, Cause.OVERLOADED),
        ({"status": "INTERNAL"}, Cause.OVERLOADED),
        ({"code": 502, "message": "Provider returned error"}, Cause.OVERLOADED),
        ({"code": "something_new", "message": "?"}, Cause.MALFORMED),
        ("something", Cause.MALFORMED),
        ({"code": 200, "message": "?"}, Cause.MALFORMED),
    ],
)
def test_an_error_inside_a_200_is_classed_by_its_words_and_never_obeyed(error: Any, cause: Cause) -> None:
    """It may have been charged, whatever it says; neither its headers nor its body are asked for patience."""
    told = in_band(error, wire(200, {"error": error}, retry_after="9", retry_after_ms="900"))
    assert (told.cause, told.billable, told.status, told.retry_after) == (cause, Billable.UNKNOWN, 200, None)


_NAMES = (
    *("error", "code", "type", "status", "message", "detail", "metadata", "raw"),
    *("details", "violations", "quotaId", "retryDelay", "reason", "innererror"),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(st.integers(300, 599), _JSON)
def test_no_json_makes_the_classing_raise(status: int, body: Any) -> None:
    """Whatever a server says about itself, of whatever shape."""
    assert classify(wire(status, body)).status == status
    assert in_band(body, wire(200, body)).billable is Billable.UNKNOWN


@given(st.integers(300, 599), st.binary(max_size=200))
def test_no_body_makes_the_classing_raise(status: int, body: bytes) -> None:
    """Any bytes of any status become a failure with a short detail."""
    told = classify(wire(status, body))
    assert len(told.detail) <= 500
    assert told.raw == body
