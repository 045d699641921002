"""Recorded: real exchanges with providers, found through JUDGERUN_DATA; tests hold the numbers and labels read off them."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from judgerun.providers.wire import WireReply

DATA = Path(os.environ.get("JUDGERUN_DATA", "/nonexistent")) / "provider-responses"
needed = pytest.mark.skipif(
    not DATA.is_dir(), reason="JUDGERUN_DATA does not name the folder with real provider bodies"
)


def recorded(name: str) -> WireReply:
    """An exchange as the transport would hand it over."""
    held = orjson.loads((DATA / f"{name}.json").read_bytes())
    body = held["body"] if "body" in held else held["response"]
    raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
    headers = {key.lower(): value[0] if isinstance(value, list) else value for key, value in held["headers"].items()}
    return WireReply(status=held["status"], headers=headers, body=raw, at=1_796_000_000.0)


def names(*folders: str) -> set[str]:
    """All exchanges of these providers."""
    return {f"{folder}/{path.stem}" for folder in folders for path in (DATA / folder).glob("*.json")}
