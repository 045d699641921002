"""No key leaves a provider: servers that echo what they were sent, in every dialect, in every wrapping, with every status."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.serving import request_of, talking
from judgerun.model.experiment import Deployment, Model
from judgerun.model.request import Request, build
from judgerun.ports import Answer
from judgerun.providers.open import DIALECTS, connect, scrubber

KEY = "canary/7f3a9c51d2e8+4b06="
BASIC = base64.b64encode(f"user:{KEY}".encode()).decode()

Wrap = Callable[[str], str]
ECHOES: dict[str, Wrap] = {
    "head": lambda head: head,
    "json": lambda head: json.dumps({"error": {"message": "x" * 450 + head, "code": KEY, "type": head}}),
    "list": lambda head: json.dumps([{"error": {"message": head, "details": [{"reason": head}]}}]),
    "text": lambda head: json.dumps({"error": head, "detail": head, "message": head}),
    "escaped": lambda head: json.dumps({"error": {"message": "m", "metadata": {"raw": json.dumps({"sent": head})}}}),
    "slashes": lambda head: json.dumps({"error": {"message": head}}).replace("/", "\\/"),
    "url": lambda head: json.dumps(
        {"error": {"message": "GET /v1?key=canary%2F7f3a9c51d2e8%2B4b06%3D&alt=sse failed"}}
    ),
    "basic": lambda head: json.dumps({"error": {"message": f"sent authorization: Basic {BASIC}, or {BASIC}"}}),
    "page": lambda head: f"<html><pre>{head}</pre></html>",
    "200": lambda head: json.dumps({"choices": [{"message": {"content": head}, "finish_reason": "stop"}], "id": head}),
}


def deployment(dialect: str, url: str) -> Deployment:
    return Deployment(name="p", dialect=dialect, base_url=url, identity="p", api_key_env="THE_KEY")


def request(dialect: str) -> Request:
    """One that the dialect can send."""
    place = deployment(dialect, "http://127.0.0.1:1/v1")
    profile = DIALECTS[dialect].profile(place)
    payload: dict[str, Any] = {"model": "m", "text": "a", "role": "document"}
    if profile.chat:
        payload = {"model": "m", "messages": [{"role": "user", "content": "a"}], "max_output_tokens": 16}
    return build("chat" if profile.chat else "embed", payload, deployment="p", adapter=profile.adapter, draw=0)


def ask(dialect: str, respond: Callable[[bytes], bytes]) -> tuple[Answer, bytes]:
    """One call to a server that makes its response of the head that it was sent; and that head."""
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await request_of(reader)).split(b"\r\n\r\n")[0])
        writer.write(respond(heads[0]))
        await writer.drain()

    async def main() -> Answer:
        async with talking(talk) as url:
            place = deployment(dialect, url)
            model = Model(name="m", provider=place, model="m", max_output_tokens=16)
            provider = connect([place], [model], {"THE_KEY": KEY})["p"]
            try:
                assert "canary" not in repr(provider)
                return await provider.send([request(dialect)], timeout_s=5, attempt=1)
            finally:
                await provider.aclose()

    return asyncio.run(main()), heads[0]


def response(status: str, body: bytes, *more: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status}".encode(), b"content-length: %d" % len(body), *more]
    return b"\r\n".join([*lines, b"", body])


def leaks(answer: Answer) -> list[str]:
    """Which pieces of the key the answer holds, in any spelling."""
    held = repr(answer) + repr(replace(answer, replies=()))
    pieces = ["canary", "7f3a9c51d2e8", "4b06=", BASIC, BASIC[8:32], BASIC.rstrip("=")[:-3]]
    return [piece for piece in pieces if piece in held]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("status", ["200 OK", "400 Bad", "401 No", "429 Slow", "500 Oh"])
def test_no_echo_of_the_key_is_kept(dialect: str, status: str) -> None:
    """Whatever header carries the key, and whatever the server writes back: nothing of it stands in answer, detail or raw body."""
    for name, wrap in ECHOES.items():

        def respond(head: bytes, wrap: Wrap = wrap) -> bytes:
            return response(
                status, wrap(head.decode()).encode(), b"x-request-id: " + KEY.encode(), b"request-id: " + BASIC.encode()
            )

        answer, head = ask(dialect, respond)
        assert KEY.encode() in head  # the key was sent, so that there was something to leak
        assert leaks(answer) == [], name
        assert "[secret]" in repr(answer), name


@pytest.mark.parametrize(
    "respond",
    [
        lambda head: b"HTTP/1.1 200 OK\r\n" + KEY.encode() + b"\r\n\r\n",
        lambda head: KEY.encode() + b"\r\n\r\n",
        lambda head: b"HTTP/1.1 200 " + KEY.encode() + b"\r\ncontent-length: 900\r\n\r\n" + head,
        lambda head: b"HTTP/1.1 500 " + KEY.encode() + b"\r\ncontent-length: 9000\r\n\r\n" + head,
        lambda head: b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 25\r\n\r\n" + KEY.encode(),
        lambda head: b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + KEY.encode(),
        lambda head: b"HTTP/1.1 200 OK\r\ncontent-type: " + KEY.encode() + b"\r\ncontent-length: 0\r\n\r\n",
        lambda head: (
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/?key="
            + KEY.encode()
            + b"\r\ncontent-length: 0\r\n\r\n"
        ),
        lambda head: b"",
    ],
)
def test_no_exception_of_the_transport_tells_the_key(respond: Callable[[bytes], bytes]) -> None:
    """The exceptions of the HTTP library hold what was sent and received; of them only the class is kept."""
    for dialect in ("anthropic", "google", "openai"):
        answer, _ = ask(dialect, respond)
        assert answer.failure is not None
        assert leaks(answer) == []


def test_credentials_of_an_address_are_secrets_too() -> None:
    """A user and a password in a base URL are taken out of all that a run tells, encoded or not."""
    place = replace(deployment("openai", f"http://user4711:{'canary%2F7f3a9c51d2e8'}@host/v1"), api_key_env=None)
    scrub = scrubber([place], {})
    for told in ("canary/7f3a9c51d2e8", "canary%2F7f3a9c51d2e8", place.base_url, "said user4711"):
        assert "7f3a9c51" not in scrub.text(told)
        assert "user4711" not in scrub.text(told)
