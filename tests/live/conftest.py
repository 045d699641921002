"""Fixtures of the live tests: a llama.cpp server of our own, one for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live import local


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """Its base URL; it ends with the tests."""
    with local.llama() as url:
        yield url
