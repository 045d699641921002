"""Classing: an HTTP status with its body -> Failure; pure tables and rules, no dialect's success shape may stand here."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from judgerun.model.profile import GATEWAY
from judgerun.model.reply import Billable, Cause, Failure
from judgerun.providers.wire import WireReply

RETRY_AFTER_MAX_S = 900.0
"""A provider may ask for at most this much patience, in seconds; more is taken as this much (and asked again)."""

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
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "payment_required",
        "account_deactivated",
        "out_of_credits",
        "exceeded_balance",
        "balance_not_enough",
    }
)
_QUOTA_TEXT = re.compile(
    r"exceeded your current quota|check your plan and billing|credit balance is too low|insufficient (?:balance|credits?|funds?)"
    r"|not enough (?:balance|credits?)|out of credits?|requires more credits|billing (?:hard limit|is not active)"
    r"|top up|payment required|spend(?:ing)? limit",
    re.I,
)
#: A quota with a clock in it comes back by itself: it is a rate limit under another name.
_PER_TIME = re.compile(
    r"(?:per|/|a|each)[ _-]?(?:second|minute|hour|day|min\b)|\b(?:rpm|tpm|rpd|tpd|rps)\b|requests? in|try again in",
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
    }
)
_LONG_TEXT = re.compile(
    r"(?:maximum|available|max(?:imum)? model|model's) context|context (?:length|size|window)|prompt is too long"
    r"|input (?:is )?too long|(?:input|prompt|message)s? (?:tokens? )?exceeds?|too many (?:input |prompt )?tokens"
    r"|reduce (?:the length|your (?:message|prompt|input))|request too large|input length .{0,40}exceed",
    re.I,
)
_KEY = frozenset(
    {
        "invalid_api_key",
        "api_key_invalid",
        "authentication_error",
        "invalid_authentication",
        "permission_denied",
        "unauthorized",
        "unauthenticated",
        "invalid_token",
    }
)
_KEY_TEXT = re.compile(r"api key not (?:valid|found)|(?:invalid|incorrect|missing) api[- ]key", re.I)
_FLAGGED = re.compile(r"flagged|moderation|content[ _]policy|content[ _]filter|safety", re.I)
_BUSY = frozenset(
    {"overloaded_error", "server_error", "internal_error", "internal_server_error", "engine_overloaded", "api_error"}
)
_RATE = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted", "requests", "tokens"}
)


def classify(reply: WireReply, *, doubtful: Collection[int] = GATEWAY) -> Failure:
    """The failure that an error status means. Nothing is charged for one, unless it stands in `doubtful`: the
    statuses after which the provider's profile cannot say.

    The detail is not scrubbed: the caller knows the secrets.
    """
    said = _Said.read(reply.body)
    cause = _cause(reply.status, said)
    return Failure(
        cause=cause,
        billable=Billable.UNKNOWN if reply.status in doubtful else Billable.NO,
        status=reply.status,
        detail=f"HTTP {reply.status}: {said}"[:DETAIL_CHARS_MAX],
        retry_after=retry_after(reply.headers, at=reply.at),
        raw=reply.body,
    )


def in_band(error: Any, reply: WireReply) -> Failure:
    """An error inside a 200: classed by its own code, may have been charged, and its headers ask for no patience."""
    said = _Said.of(error)
    status = said.status
    cause = _cause(status, said) if status is not None or said.words else Cause.MALFORMED
    return Failure(
        cause=cause,
        billable=Billable.UNKNOWN,
        status=reply.status,
        detail=f"error inside HTTP {reply.status}: {said}"[:DETAIL_CHARS_MAX],
        raw=reply.body,
    )


def malformed(reply: WireReply, why: str) -> Failure:
    """A 200 that cannot be read as an answer: it may have been charged."""
    return Failure(
        cause=Cause.MALFORMED,
        billable=Billable.UNKNOWN,
        status=reply.status,
        detail=why[:DETAIL_CHARS_MAX],
        raw=reply.body,
    )


class _Said:
    """What an error body says: its code words in lower case, its message, and a status named in it."""

    __slots__ = ("message", "status", "words")

    def __init__(self, words: frozenset[str], message: str, status: int | None) -> None:
        self.words, self.message, self.status = words, message, status

    def __str__(self) -> str:
        return " ".join([*sorted(self.words), self.message]).strip()

    @classmethod
    def read(cls, body: bytes) -> _Said:
        try:
            held = orjson.loads(body)
        except orjson.JSONDecodeError:
            return cls(frozenset(), " ".join(body[:SAID_CHARS_MAX].decode("utf-8", "replace").split()), None)
        if isinstance(held, list) and held:  # Google wraps its error in a list
            held = held[0]
        if isinstance(held, dict):
            return cls.of(held.get("error") or held)
        return cls.of(held)

    @classmethod
    def of(cls, error: Any) -> _Said:
        if not isinstance(error, dict):
            return cls(frozenset(), str(error)[:SAID_CHARS_MAX], None)
        named = [error.get(name) for name in ("code", "type", "status")]
        words = frozenset(str(name).lower() for name in named if isinstance(name, str) and not name.isdigit())
        numbers = [int(name) for name in named if isinstance(name, (int, str)) and str(name).isdigit()]
        status = next((number for number in numbers if 400 <= number <= 599), None)
        return cls(words, _message(error), status)


def _message(error: Mapping[str, Any]) -> str:
    """The sentences of an error object; OpenRouter keeps the upstream's own words in `metadata.raw`."""
    found = [error.get(name) for name in ("message", "detail", "msg", "error_description")]
    meta = error.get("metadata")
    if isinstance(meta, dict):
        found.append(meta.get("raw"))
    return " ".join(" ".join(str(text)[:SAID_CHARS_MAX].split()) for text in found if text)


def _cause(status: int | None, said: _Said) -> Cause:
    """The first rule that holds, from what no patience cures to what it does."""
    if _out_of_money(status, said):
        return Cause.QUOTA
    if status in (401, 403) or (said.words & _KEY) or (status == 400 and _KEY_TEXT.search(said.message)):
        # One flagged input must not close a provider for all others.
        return Cause.REJECTED if status == 403 and _FLAGGED.search(str(said)) else Cause.UNAUTHORISED
    if said.words & _LONG or (status in (400, 413, 422) and _LONG_TEXT.search(said.message)):
        return Cause.TOO_LONG
    if status == 429 or (status is None and said.words & _RATE):
        return Cause.RATE_LIMITED
    if status in (408, 409, 425) or (status is None and said.words & _BUSY):
        return Cause.OVERLOADED
    if status is not None and status >= 500 and status not in (501, 505):
        return Cause.OVERLOADED
    return Cause.MALFORMED if status is None else Cause.REJECTED


def _out_of_money(status: int | None, said: _Said) -> bool:
    """Whether nothing more will work until somebody pays."""
    if status == 402:
        return True
    if status not in (None, 400, 403, 429):
        return False
    if _PER_TIME.search(said.message):
        return False
    return bool(said.words & _QUOTA) or bool(_QUOTA_TEXT.search(said.message))


def retry_after(headers: Mapping[str, str], *, at: float) -> float | None:
    """Seconds to wait, in [0, RETRY_AFTER_MAX_S]; None when the provider names none that can be read.

    `retry-after-ms` (milliseconds) goes before `retry-after` (seconds, with or without decimals, or an HTTP date). A date is
    compared with the response's own `date`, so that a wrong clock on either side does not matter; `at` serves where there is none.
    """
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return _bounded(exact / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return _bounded(seconds)
    then = _date(text)
    if then is None:
        return None
    now = _date(headers.get("date"))
    return _bounded(then - (at if now is None else now))


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _date(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _bounded(seconds: float) -> float | None:
    """A wait in range; a negative one says nothing."""
    return None if seconds < 0 else min(seconds, RETRY_AFTER_MAX_S)
