"""Secrets: what removes keys, bearer tokens and URL credentials from any text or bytes before they leave the providers."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote, unquote, urlsplit

from judgerun.model.reply import Failure

FAILED_BYTES_MAX = 65_536
"""So much of the body of a failure is kept: enough to see what it was."""

MASK = "[secret]"
KEY_MIN = 8
"""Shorter keys are words that servers of one's own are given ("EMPTY"): an answer may say them, and must not be altered."""

DIGITS_MIN = 12
"""Base64 digits without which a secret is not looked for in that spelling: fewer stand in innocent text."""

#: Shapes of secrets that we may not know: bearer tokens, credentials in URLs, keys in query strings, well-known key prefixes.
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {MASK}"),
    (re.compile(r"(?i)([a-z][a-z0-9+.-]*://)[^/\s@\"'<>]+@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)([?&;](?:api[-_]?key|key|token|access[-_]?token|sig|signature)=)[^&\s\"'<>]+"), rf"\1{MASK}"),
    (
        re.compile(
            r"(?i)((?:x-)?(?:api[-_]?key|goog-api-key)[\\\"']*(?:\s*[:=]\s*|(?<=[\"'])\s*,\s*b?(?=[\"']))[\\\"']*)[^\s\\\"',;}]{6,}"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(?:sk|pk|gsk|csk|xai|hf|pa|r8|nvapi)[-_][A-Za-z0-9_-]{12,}"), MASK),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{20,}"), MASK),
)


class Scrub:
    """Removes the secrets it was given, in every spelling in which a body may echo them; and, from texts, what looks like one."""

    __slots__ = ("_raw", "_texts")

    def __init__(self, values: Iterable[str] = ()) -> None:
        texts = {form for value in values if value for form in _spellings(value)}
        self._texts = sorted(texts, key=len, reverse=True)  # the longest first: one spelling may hold another
        self._raw = [text.encode() for text in self._texts if len(text) >= KEY_MIN]

    def __repr__(self) -> str:
        return f"Scrub({len(self._texts)} spellings)"

    def text(self, text: str) -> str:
        """The text without known secrets and without anything in the shape of one."""
        for known in self._texts:
            text = text.replace(known, MASK)
        for shape, put in _SHAPES:
            text = shape.sub(put, text)
        return text

    def header(self, value: str) -> str:
        """The value of a header without the known secrets."""
        return self.known(value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")

    def known(self, raw: bytes) -> bytes:
        """The bytes without the known secrets of at least KEY_MIN characters; the same object when they hold none: the rule."""
        for known in self._raw:
            if known in raw:
                raw = raw.replace(known, MASK.encode())
        return raw

    def failed(self, raw: bytes) -> bytes:
        """The body of an error: also without what looks like a secret, for servers echo what they were sent."""
        return self.text(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def failure(self, failure: Failure) -> Failure:
        """The failure as it may leave the providers: its body cut, neither words nor body with a secret."""
        return replace(failure, detail=self.text(failure.detail), raw=self.failed(failure.raw[:FAILED_BYTES_MAX]))


def of_url(url: str) -> tuple[str, ...]:
    """The credentials that a URL holds, raw and decoded; empty when it holds none."""
    parts = urlsplit(url)
    found = [part for part in (parts.username, parts.password) if part]
    return tuple(dict.fromkeys([*found, *map(unquote, found)]))


def _spellings(value: str) -> set[str]:
    """A secret as it is, as JSON would escape it (and JSON within JSON), as a URL, a page or base64 would."""
    once = json.dumps(value)[1:-1]
    twice = json.dumps(once)[1:-1]
    url = quote(value, safe="")
    lower = re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), url)
    return {value, once, once.replace("/", "\\/"), twice, url, lower, html.escape(value), *_digits(value)}


def _digits(value: str) -> Iterator[str]:
    """The base64 digits that a secret alone determines, wherever it stands in what was encoded: `key`, `user:key`, `key:`."""
    raw = value.encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode()
        own = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(own) >= DIGITS_MIN:
            yield own
            yield own.replace("+", "-").replace("/", "_")
