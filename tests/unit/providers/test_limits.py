"""Limits: the patience that headers ask for, and the rates that they state, in every spelling."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.experiment import Deployment
from judgerun.model.lane import Limit
from judgerun.providers import facts
from judgerun.providers.limits import RETRY_AFTER_MAX_S, Unit, retry_after, seconds, spent, stated

AT = 1_790_000_000.0  # a Unix time


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": "7s"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, RETRY_AFTER_MAX_S),
        ({"retry-after": "-inf"}, None),
        ({"retry-after": "946080000"}, RETRY_AFTER_MAX_S),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"retry-after": formatdate(AT + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(5_000, usegmt=True), "date": formatdate(4_990, usegmt=True)}, 10.0),
        ({"retry-after": formatdate(AT - 999, usegmt=True)}, None),
        ({"retry-after": formatdate(AT + 30, usegmt=True), "date": "yesterday"}, 30.0),
        ({"retry-after": "Wed, 99 Foo 2026 25:61:00 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], waits: float | None) -> None:
    """Seconds, decimals, milliseconds and dates are read; garbage is no hint; the absurd is bounded."""
    assert retry_after(headers, at=AT) == waits


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("34ms", 0.034),
        ("34.07s", 34.07),
        ("2m59.56s", 179.56),
        ("1h2m3s", RETRY_AFTER_MAX_S),
        ("14m59s", 899.0),
        ("500µs", 0.0005),
        ("0s", 0.0),
        ("12", 12.0),
        ("33011.382867", RETRY_AFTER_MAX_S),
        (str(int(AT) + 20), 20.0),
        (str((int(AT) + 20) * 1000), 20.0),
        (str(int(AT) - 20), None),
        (iso(AT + 44), 44.0),
        (iso(AT + 44).replace("Z", "+00:00"), 44.0),
        (iso(AT + 44).replace("Z", ""), 44.0),
        (iso(AT - 1), None),
        (formatdate(AT + 5, usegmt=True), 5.0),
        (formatdate(AT + 5).replace("+0000", "-0000"), 5.0),
        ("6m0", None),
        ("m", None),
        ("never", None),
        (None, None),
    ],
)
def test_every_form_of_a_reset(text: str | None, waits: float | None) -> None:
    """Durations, numbers, Unix times in seconds or milliseconds, and dates; what is past is no wait."""
    assert seconds(text, now=AT) == (None if waits is None else pytest.approx(waits))


@given(st.text(max_size=40) | st.from_regex(r"[0-9.]{1,30}[a-z]{0,2}", fullmatch=True))
def test_no_header_makes_the_parsers_raise(text: str) -> None:
    """Whatever it says, a wait is None or within bounds, and a count is None or none of the absurd."""
    for told in (retry_after({"retry-after": text}, at=AT), retry_after({"retry-after-ms": text, "date": text}, at=AT)):
        assert told is None or 0 <= told <= RETRY_AFTER_MAX_S
    names = ("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens")
    for limit in stated(dict.fromkeys(names, text), at=AT, windows={"tokens": 60.0}):
        assert limit.limit is None or 0 <= limit.limit < 10**15
        assert limit.reset_s is None or 0 <= limit.reset_s <= RETRY_AFTER_MAX_S


def windows(name: str) -> dict[str, float]:
    """The windows of a built-in deployment."""
    return dict(facts.of(Deployment(name=name, dialect="openai", builtin=True)).windows)


def test_openai_counts_both_over_a_minute() -> None:
    """Its names tell the unit; images and headers of other kinds are none of ours."""
    headers = {
        "X-RateLimit-Limit-Requests": "500",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-remaining-tokens": "29993",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-reset-tokens": "14ms",
        "x-ratelimit-limit-input-images": "50000",
        "x-request-id": "req",
        "retry-after": "7",
    }
    assert set(stated(headers, at=AT, windows=windows("openai"))) == {
        Limit(unit="requests", limit=500, remaining=499, reset_s=0.12, window_s=60.0),
        Limit(unit="tokens", limit=30000, remaining=29993, reset_s=0.014, window_s=60.0),
    }


def test_groq_counts_requests_over_a_day() -> None:
    """And tokens over a minute."""
    headers = {
        "x-ratelimit-limit-requests": "14400",
        "x-ratelimit-limit-tokens": "18000",
        "x-ratelimit-remaining-requests": "14370",
        "x-ratelimit-remaining-tokens": "17997",
        "x-ratelimit-reset-requests": "2m59.56s",
        "x-ratelimit-reset-tokens": "7.66s",
    }
    requests, tokens = stated(headers, at=AT, windows=windows("groq"))
    assert (requests.window_s, tokens.window_s) == (86_400.0, 60.0)


def test_a_reset_beyond_the_window_gives_the_lie_to_it() -> None:
    """A new account's day limit stands in the same header: then nobody knows over what it counts."""
    headers = {
        "x-ratelimit-limit-requests": "200",
        "x-ratelimit-remaining-requests": "199",
        "x-ratelimit-reset-requests": "7m12s",
    }
    assert stated(headers, at=AT, windows=windows("openai")) == (
        Limit(unit="requests", limit=200, remaining=199, reset_s=432.0),
    )


def test_a_server_that_is_not_known_has_no_window() -> None:
    """Its limits are still told, and what is used up is seen."""
    headers = {"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}
    assert stated(headers, at=AT, windows={}) == (Limit(unit="requests", limit=2, remaining=0, reset_s=1.0),)


def test_a_window_in_the_name_is_the_window() -> None:
    """Mistral and Cerebras say minute or day; one unit may be counted over both."""
    headers = {
        "x-ratelimit-limit-req-minute": "60",
        "x-ratelimit-remaining-req-minute": "59",
        "x-ratelimit-limit-tokens-minute": "50000",
        "x-ratelimit-limit-tokens-month": "4000000",
        "x-ratelimit-tokens-query-cost": "2804",
        "x-ratelimit-limit-requests-day": "14400",
        "x-ratelimit-reset-requests-day": "33011.38",
        "x-ratelimit-limit-tokens-per-day": "9",
    }
    assert {(told.unit, told.limit, told.remaining, told.window_s) for told in stated(headers, at=AT, windows={})} == {
        ("requests", 60, 59, 60.0),
        ("tokens", 50000, None, 60.0),
        ("tokens", 4_000_000, None, 30 * 86_400.0),
        ("requests", 14400, None, 86_400.0),
        ("tokens", 9, None, 86_400.0),
    }


def test_anthropic_tells_when_by_date() -> None:
    """Requests, tokens, and tokens of either direction, each over a minute; the response's own date is the clock."""
    units: tuple[Unit, ...] = ("requests", "tokens", "input tokens", "output tokens")
    headers = {"date": formatdate(5_000, usegmt=True)}
    for n, unit in enumerate(units):
        kind = unit.replace(" ", "-")
        headers[f"anthropic-ratelimit-{kind}-limit"] = str(1000 * (n + 1))
        headers[f"anthropic-ratelimit-{kind}-remaining"] = str(n)
        headers[f"anthropic-ratelimit-{kind}-reset"] = iso(5_000 + n)
    assert stated(headers, at=AT, windows={}) == tuple(
        Limit(unit=unit, limit=1000 * (n + 1), remaining=n, reset_s=n, window_s=60.0) for n, unit in enumerate(units)
    )


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "", "9" * 16, "٣"])
def test_a_count_that_is_none_is_unknown(text: str) -> None:
    """And a header that tells nothing else makes no limit."""
    assert stated({"x-ratelimit-limit-requests": text}, at=AT, windows={}) == ()


def test_what_is_used_up_is_waited_for_whole() -> None:
    """The longest of what is used up; what is not, or does not say when, asks for nothing."""
    used = [Limit(unit="requests", remaining=0, reset_s=3.0), Limit(unit="tokens", remaining=0, reset_s=9.0)]
    assert spent(used) == 9.0
    assert spent([Limit(unit="requests", remaining=1, reset_s=3.0), Limit(unit="tokens", remaining=0)]) is None
    assert spent([]) is None
