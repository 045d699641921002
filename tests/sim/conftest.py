"""Fixtures of simulations by command: a simulated provider for each module, and an empty workspace; a module may have its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.place import Place, at_home
from fakes.simulator import Simulator, simulator


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One simulated provider for all tests of the module."""
    with simulator(tmp_path_factory.mktemp("provider") / "bill.jsonl", seed=1) as running:
        at_home(running.url)
        yield running


@pytest.fixture
def place(tmp_path: Path, provider: Simulator) -> Place:
    """An empty workspace."""
    at_home(provider.url)
    return Place(tmp_path)
