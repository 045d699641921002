"""Limits: what the headers of a response say of patience and of rates -> seconds and Limits; pure; bodies are read in fault."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

from judgerun.model.lane import Limit, Unit

RETRY_AFTER_MAX_S = 900.0
"""A provider may ask for at most this much patience, in seconds; more is taken as this much (and asked again)."""

COUNT_DIGITS_MAX = 15
UNIX_MIN = 1e9  # from here on a number is no wait but a Unix time
UNIX_MS_MIN = 1e11  # and from here on one in milliseconds

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|µs|ns|[smhd]))+", re.I)
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|[smhd])", re.I)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

_SPANS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "month": 30 * 86_400.0}
_WORDS: Mapping[str | None, Unit] = {
    None: "requests",
    "req": "requests",
    "requests": "requests",
    "tokens": "tokens",
    "input-tokens": "input tokens",
    "output-tokens": "output tokens",
}
#: `x-ratelimit-limit-requests` and its like: openai, groq, azure; with `-minute` or `-day` mistral and cerebras; bare together
#: and openrouter.
_COMMON = re.compile(
    r"x-ratelimit-(limit|remaining|reset)(?:-(requests|req|tokens))?(?:(?:-per)?-(second|minute|hour|day|month))?"
)
_ANTHROPIC = re.compile(r"anthropic-ratelimit-(requests|tokens|input-tokens|output-tokens)-(limit|remaining|reset)")


def stated(headers: Mapping[str, str], *, at: float, windows: Mapping[str, float]) -> tuple[Limit, ...]:
    """The limits that the headers of any response state; empty where they state none.

    `windows` are the seconds over which a server counts `requests` and `tokens` where its headers do not say; `at` is the Unix
    time of the arrival.
    """
    told: dict[tuple[Unit, float | None], dict[str, str]] = {}
    for name, value in headers.items():
        if (place := _place(name)) is not None:
            unit, window, field = place
            told.setdefault((unit, window or windows.get(unit)), {})[field] = value
    if not told:
        return ()
    now = _now(headers, at)
    made = (_limit(unit, window, fields, now) for (unit, window), fields in told.items())
    return tuple(limit for limit in made if limit.limit is not None or limit.remaining is not None)


@lru_cache(maxsize=512)
def _place(name: str) -> tuple[Unit, float | None, str] | None:
    """What a header tells: of which unit, over which window, and which of limit, remaining and reset; None for all others."""
    name = name.lower()
    if (common := _COMMON.fullmatch(name)) is not None:
        field, word, span = common.groups()
        return _WORDS[word], _SPANS.get(span or ""), field
    if (own := _ANTHROPIC.fullmatch(name)) is not None:
        word, field = own.groups()
        return _WORDS[word], 60.0, field
    return None


def _limit(unit: Unit, window: float | None, fields: Mapping[str, str], now: float) -> Limit:
    reset = seconds(fields.get("reset"), now=now)
    if reset is not None and window is not None and reset > window + 1:
        window = (
            None  # what needs longer than that to come back is counted over something else: a day, for a new account
        )
    return Limit(
        unit=unit,
        limit=_count(fields.get("limit")),
        remaining=_count(fields.get("remaining")),
        reset_s=reset,
        window_s=window,
    )


def spent(limits: Iterable[Limit]) -> float | None:
    """Seconds until all of the limits that are used up have come back; None where none is, or none says when."""
    return max((limit.reset_s for limit in limits if limit.remaining == 0 and limit.reset_s is not None), default=None)


def retry_after(headers: Mapping[str, str], *, at: float) -> float | None:
    """Seconds to wait, in [0, RETRY_AFTER_MAX_S]; None when the provider names none that can be read.

    `retry-after-ms` (milliseconds) goes before `retry-after` (seconds, with or without decimals, or a date).
    """
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return _bounded(exact / 1000)
    return seconds(headers.get("retry-after"), now=_now(headers, at))


def seconds(text: str | None, *, now: float) -> float | None:
    """The wait that a text names, in [0, RETRY_AFTER_MAX_S]: seconds, a duration (`6m0s`, `34.07s`, `120ms`), a Unix time in
    seconds or milliseconds, an HTTP date or an ISO one. None for anything else, and for what is past.
    """
    if text is None:
        return None
    text = text.strip()
    number = _number(text)
    if number is not None:
        if UNIX_MS_MIN <= number < math.inf:
            number /= 1000
        return _bounded(number - now if UNIX_MIN <= number < math.inf else number)
    if _DURATION.fullmatch(text):
        return _bounded(sum(float(amount) * _UNITS[unit.lower()] for amount, unit in _PIECE.findall(text)))
    then = _date(text)
    return None if then is None else _bounded(then - now)


def _now(headers: Mapping[str, str], at: float) -> float:
    """The response's own date, so that a wrong clock on either side does not matter; `at` serves where there is none."""
    date = _date(headers.get("date"))
    return at if date is None else date


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX else None


@lru_cache(maxsize=64)  # all that arrives within a second bears the same date
def _date(text: str | None) -> float | None:
    """A date as Unix time; one without a zone is UTC."""
    if text is None:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _bounded(wait: float) -> float | None:
    """A wait in range; a negative one says nothing."""
    return None if wait < 0 else min(wait, RETRY_AFTER_MAX_S)
