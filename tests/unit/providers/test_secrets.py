"""Scrubbing: no key leaves, and no text without one is changed."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.providers.secrets import MASK, Scrub, of_url

KEY = 'canary/9f"2+c=e'


@pytest.mark.parametrize(
    "text",
    [
        f"header Authorization: Bearer {KEY}",
        orjson.dumps({"said": KEY}).decode(),
        'json {"k": "canary\\/9f\\"2+c=e"}',
        "url https://x/?a=canary%2F9f%222%2Bc%3De&b=1",
    ],
)
def test_a_known_key_is_removed_in_every_spelling(text: str) -> None:
    """As it is, as JSON, as a URL."""
    scrub = Scrub([KEY])
    assert "9f" not in scrub.text(text)
    assert b"9f" not in scrub.known(text.encode())
    assert MASK in scrub.text(text)


@given(
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=40),
    before=st.text(max_size=7),
    after=st.text(max_size=7),
)
def test_a_known_key_is_removed_from_base64(key: str, before: str, after: str) -> None:
    """Wherever it stands in what was encoded, as in Basic authorisation: what is left does not give it back."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(f"{before}{key}{after}".encode())
        left = Scrub([key]).known(b"you sent <" + encoded + b">")
        assert MASK.encode() in left
        assert encoded not in left
        assert len(left.replace(MASK.encode(), b"")) <= len(b"you sent <>") + len(encoded) - len(key)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda key: json.dumps({"raw": json.dumps({"message": key})}),
        lambda key: f"<p>{html.escape(key)}</p>",
        lambda key: quote(key, safe="").lower(),
    ],
)
def test_a_known_key_is_removed_from_what_wraps_it(wrap: Callable[[str], str]) -> None:
    """JSON within JSON, a page, a URL in lower case."""
    key = 'canary/9f"2<c=e'
    assert "9f" not in Scrub([key]).text(wrap(key))


@pytest.mark.parametrize(
    "text",
    [
        "authorization: Bearer abcdef0123456789",
        "basic dXNlcjpwYXNz",
        "http://user:hunter2000@host/v1",
        "https://host/v1?api-key=hunter2000&x=1",
        "https://host/v1?key=hunter2000",
        "x-api-key: hunter2000abc",
        "'x-goog-api-key': 'hunter2000abc'",
        "(b'x-api-key', b'hunter2000abc')",
        '{"raw": "{\\"x-api-key\\": \\"hunter2000abc\\"}"}',
        "<a href='https://host/v1?a=1&amp;key=hunter2000'>",
        "Incorrect API key provided: sk-proj-hunter2000hunter2000",
        "AIza" + "Sy" + "hunter2000" * 3,
    ],
)
def test_what_looks_like_a_key_is_removed_from_texts(text: str) -> None:
    """Keys that nobody told us about."""
    made = Scrub().text(text)
    assert "hunter2000" not in made
    assert "abcdef0123456789" not in made
    assert "dXNlcjpwYXNz" not in made


def test_a_sentence_about_keys_stays() -> None:
    """What it says is worth reading."""
    said = "Invalid api_key, please check your API key: see the page on keys"
    assert Scrub().text(said) == said


@given(st.text(alphabet="abc defgh.,\n", max_size=200))
def test_plain_words_stay(text: str) -> None:
    """Prose is left alone."""
    assert Scrub([KEY]).text(text) == text


@given(st.binary(max_size=100))
def test_bytes_without_the_key_are_the_same_object(raw: bytes) -> None:
    """The rule costs nothing."""
    assert Scrub([KEY]).known(raw) is raw


def test_any_bytes_of_an_error_body_survive() -> None:
    """A body that is no UTF-8 is scrubbed and otherwise kept."""
    raw = b"\xff\xfe Bearer abcdef0123456789 \x80"
    assert Scrub().failed(raw) == b"\xff\xfe Bearer " + MASK.encode() + b" \x80"


def test_a_scrub_does_not_tell_its_secrets() -> None:
    """Not even in a traceback."""
    assert "9f" not in repr(Scrub([KEY]))


def test_credentials_of_a_url() -> None:
    """Raw and decoded."""
    assert of_url("https://us%40er:p%2Fw@host/v1") == ("us%40er", "p%2Fw", "us@er", "p/w")
    assert of_url("https://host/v1") == ()


def test_a_dummy_key_does_not_alter_answers() -> None:
    """A server of one's own that takes the key EMPTY may answer with that word; an error text still loses it."""
    scrub = Scrub(["EMPTY"])
    body = b'{"content": "EMPTY"}'
    assert scrub.known(body) is body
    assert "EMPTY" not in scrub.text("the key EMPTY was refused")
