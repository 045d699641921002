"""Classing: an error, as a status with its body or inside a 200 -> Failure; tables and rules for all providers, pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from judgerun.model.profile import GATEWAY
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.providers import limits
from judgerun.providers.wire import WireReply

DETAIL_CHARS_MAX = 500
SAID_CHARS_MAX = 4000
"""So much of an error's words is looked at."""

#: Codes and types with which providers say that the account is out of money, whatever the status.
_QUOTA = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_disabled",  # google
        "billing_error",  # anthropic
        "enforced_spend_limit_reached",  # anthropic: the month's spend of its tier, as a 429 of type rate_limit_error
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "payment_required",
        "account_deactivated",
        "out_of_credits",
        "exceeded_balance",
        "balance_not_enough",
        "servicequotaexceededexception",  # bedrock
    }
)
_QUOTA_TEXT = re.compile(
    r"exceeded your current quota|check your plan and billing|credit balance is too low|insufficient (?:balance|credits?|funds?)"
    r"|not enough (?:balance|credits?)|out of credits?|requires more credits|credits are depleted"
    r"|billing (?:hard limit|is not active|to be enabled)|enable billing|top up|payment required|spend(?:ing)? limit"
    r"|reached your (?:specified )?(?:workspace )?api usage limits",
    re.I,
)
#: A quota with a short clock in it comes back by itself: it is a rate limit under another name.
_SHORT = re.compile(r"(?:per|/|a|each)[ _-]*(?:second|minute|hour|min\b)|\b(?:rpm|tpm|rps)\b", re.I)
_SOON = re.compile(r"requests? in|(?:try again|retry) in", re.I)
#: One of a day or a month does not, as far as a run's patience goes.
_LASTING = re.compile(r"(?:per|/|a|each)[ _-]*(?:day|month)\b|\b(?:daily|monthly|rpd|tpd)\b", re.I)
_WAIT = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(?P<duration>(?:\d+(?:\.\d+)?(?:ms|[smhd]))+)|(?P<seconds>\d+) seconds?\b)",
    re.I,
)

_LONG = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "context_window_exceeded",
        "string_above_max_length",
        "prompt_too_long",
        "max_tokens_per_request",
        "input_too_long",
        "request_too_large",  # anthropic
    }
)
#: A single request above what a minute allows never fits, although it comes as a 429 (openai) or a 413 (groq).
_LARGE_TEXT = re.compile(r"request too large", re.I)
_LONG_TEXT = re.compile(
    r"(?:maximum|available|max(?:imum)? model|model's) context|context (?:length|size|window)|prompt is too long"
    r"|input (?:is )?too long|(?:input|prompt|message)s? (?:tokens? )?(?:count (?:of )?[^a-z]*)?exceeds?|maximum prompt length"
    r"|too many (?:input |prompt )?tokens|reduce (?:the length|your (?:message|prompt|input))|input length .{0,40}exceed",
    re.I,
)
_KEY = frozenset(
    {
        "invalid_api_key",
        "api_key_invalid",
        "authentication_error",
        "invalid_authentication",
        "permission_denied",
        "permission_error",
        "unauthorized",
        "unauthenticated",
        "invalid_token",
    }
)
_KEY_TEXT = re.compile(
    r"api key not (?:valid|found)|(?:invalid|incorrect|missing) api[- ]key|user location is not supported"
    r"|organization has been disabled",
    re.I,
)
_FLAGGED = re.compile(r"flagged|moderation|content[ _]policy|content[ _]filter|safety", re.I)

#: The status that an error inside a 200 would have had, where it does not name one.
_IMPLIED: Mapping[str, int] = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "validationexception": 400,
    "not_found_error": 404,
    "not_found": 404,
    "model_not_found": 404,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "requests": 429,
    "tokens": 429,
    "throttlingexception": 429,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "internal": 500,
    "api_error": 500,
    "internalserverexception": 500,
    "engine_overloaded": 503,
    "unavailable": 503,
    "serviceunavailableexception": 503,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "overloaded_error": 529,
}
_AGAIN = frozenset({408, 409, 424, 425})
"""Statuses below 500 that are the server's trouble of the moment; 424 is how bedrock and others tell that the model failed."""
_NEVER = frozenset({501, 505})
"""Statuses from 500 on that are not."""


def classify(reply: WireReply, *, doubtful: Collection[int] = GATEWAY) -> Failure:
    """The failure that an error status means. Nothing is charged for one, unless it stands in `doubtful`: the
    statuses after which the provider's profile cannot say.

    The detail is not scrubbed: the caller knows the secrets.
    """
    said = _Said.read(reply)
    after = limits.retry_after(reply.headers, at=reply.at)
    if after is None:
        after = said.wait
    cause = _cause(reply.status, said, after)
    if after is None and cause is Cause.RATE_LIMITED:
        after = limits.spent(limits.stated(reply.headers, at=reply.at, windows={}))
    return Failure(
        cause=cause,
        billable=Billable.UNKNOWN if reply.status in doubtful else Billable.NO,
        status=reply.status,
        detail=f"HTTP {reply.status}: {said}"[:DETAIL_CHARS_MAX],
        retry_after=after,
        raw=reply.body,
    )


def in_band(error: Any, reply: WireReply) -> Failure:
    """An error inside a 200: classed by its own code, may have been charged, and neither headers nor body ask for patience."""
    said = _Said.of(error)
    return Failure(
        cause=_cause(said.status, said, None),
        billable=Billable.UNKNOWN,
        status=reply.status,
        detail=f"error inside HTTP {reply.status}: {said}"[:DETAIL_CHARS_MAX],
        raw=reply.body,
    )


def told(error: Any, *, raw: bytes) -> Failure:
    """The failure that an error object means which came without an HTTP status: a job tells it, and nothing is charged for it."""
    said = _Said.of(error)
    detail = str(said)[:DETAIL_CHARS_MAX]
    return Failure(cause=_cause(said.status, said, None), billable=Billable.NO, detail=detail, raw=raw)


def malformed(reply: WireReply, why: str) -> Failure:
    """A 200 that cannot be read as an answer: it may have been charged."""
    return Failure(
        cause=Cause.MALFORMED,
        billable=Billable.UNKNOWN,
        status=reply.status,
        detail=why[:DETAIL_CHARS_MAX],
        raw=reply.body,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What an error says."""

    words: frozenset[str] = frozenset()  # codes, types and reasons, in lower case
    message: str = ""
    upstream: str = ""  # the words of a provider behind this one, whose account is not ours
    status: int | None = None  # named in the body
    quotas: tuple[str, ...] = ()  # google: which were passed
    wait: float | None = None  # seconds that the body asks for

    def __str__(self) -> str:
        return " ".join([*sorted(self.words), self.message, self.upstream]).strip()

    @classmethod
    def read(cls, reply: WireReply) -> _Said:
        """What the body of an error status says; bedrock names its type in a header."""
        kind = reply.headers.get("x-amzn-errortype", "")
        try:
            held = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            return cls(message=_plain(reply.body[:SAID_CHARS_MAX].decode("utf-8", "replace")), words=_words([kind]))
        if isinstance(held, list) and held:  # google wraps its error in a list
            held = held[0]
        if isinstance(held, dict):
            held = held.get("error") or held
        return cls.of(held, kind)

    @classmethod
    def of(cls, error: Any, kind: str = "") -> _Said:
        """What an error object says, or one that is only text."""
        if not isinstance(error, dict):
            return cls(message=_plain(error), words=_words([kind]))
        details = list(_details(error))
        named = [error.get(name) for name in ("code", "type", "status")]
        numbers = [int(name) for name in named if isinstance(name, (int, str)) and re.fullmatch(r"[45]\d\d", str(name))]
        reasons = [detail.get(name) for detail in details for name in ("reason", "error_code", "code")]
        message = " ".join(
            _plain(error[name]) for name in ("message", "detail", "msg", "error_description") if error.get(name)
        )
        meta = error.get("metadata")
        return cls(
            words=_words([*named, *reasons, error.get("__type"), kind]),
            message=message,
            upstream=_plain(meta["raw"]) if isinstance(meta, dict) and meta.get("raw") else "",
            status=next(iter(numbers), None),
            quotas=tuple(_quotas(details)),
            wait=_wait(details, message),
        )


def _details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects in which providers say more: google a list, anthropic one, azure an inner error."""
    held = error.get("details")
    for detail in [*(held if isinstance(held, list) else [held]), error.get("innererror")]:
        if isinstance(detail, dict):
            yield detail


def _quotas(details: list[Mapping[str, Any]]) -> Iterator[str]:
    for detail in details:
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            if isinstance(violation, dict):
                yield f"{violation.get('quotaId', '')}"


def _wait(details: list[Mapping[str, Any]], message: str) -> float | None:
    """The patience that a body asks for: google's `retryDelay`, else its sentence."""
    for detail in details:
        if isinstance(delay := detail.get("retryDelay"), str):
            return limits.seconds(delay, now=0.0)
    if (found := _WAIT.search(message)) is None:
        return None
    return limits.seconds(found["duration"] or found["seconds"], now=0.0)


def _plain(text: Any) -> str:
    return " ".join(str(text)[:SAID_CHARS_MAX].split())


def _words(named: list[Any]) -> frozenset[str]:
    """Codes in lower case, without the name space before `#` and the address after `:` that AWS adds; numbers are none."""
    texts = (name.rsplit("#")[-1].split(":")[0].lower() for name in named if isinstance(name, str))
    return frozenset(text for text in texts if text and not text.isdigit())


def _cause(status: int | None, said: _Said, after: float | None) -> Cause:
    """The first rule that holds, from what no patience cures to what it does."""
    if status is None:
        status = max((_IMPLIED[word] for word in said.words if word in _IMPLIED), default=None)
    if _out_of_money(status, said, after):
        return Cause.QUOTA
    if status in (401, 403) or (said.words & _KEY) or (status == 400 and _KEY_TEXT.search(said.message)):
        # One flagged input must not close a provider for all others.
        return Cause.REJECTED if status == 403 and _FLAGGED.search(str(said)) else Cause.UNAUTHORISED
    if _too_long(status, said):
        return Cause.TOO_LONG
    if status == 429:
        return Cause.RATE_LIMITED
    if status is None:
        return Cause.MALFORMED
    return Cause.OVERLOADED if status in _AGAIN or (status >= 500 and status not in _NEVER) else Cause.REJECTED


def _too_long(status: int | None, said: _Said) -> bool:
    if said.words & _LONG or (status in (400, 413, 429) and _LARGE_TEXT.search(said.message)):
        return True
    return status in (400, 413, 422) and bool(_LONG_TEXT.search(f"{said.message} {said.upstream}"))


def _out_of_money(status: int | None, said: _Said, after: float | None) -> bool:
    """Whether nothing more will work until somebody pays, or until another day.

    A quota of a day or a month is one of these unless the provider names a time within our patience: its cells stay
    pending for a later run, where waiting would end in their loss. Google names a few seconds even then, so its own list
    of the quotas that were passed decides.
    """
    if status == 402:
        return True
    if status not in (None, 400, 403, 429):
        return False
    if said.quotas:
        return any("perday" in quota.lower() for quota in said.quotas)
    if _SHORT.search(said.message):
        return False
    if status == 429 and _LASTING.search(said.message):
        return after is None or after >= limits.RETRY_AFTER_MAX_S
    if _SOON.search(said.message):
        return False
    return bool(said.words & _QUOTA) or bool(_QUOTA_TEXT.search(said.message))
