"""What holds for every test, whoever starts them, and whatever ran before."""

from __future__ import annotations

import signal
from typing import Any

import pytest

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MET = pytest.StashKey[list[tuple[signal.Signals, Any]]]()
"""What signals did before the first test."""


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start meet signals as in a terminal: who runs the tests under nohup, or in the background of a script,
    hands an ignored SIGHUP or SIGINT on to all of them. A handler is not handed on.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[MET] = [(number, signal.getsignal(number)) for number in SIGNALS]


@pytest.fixture(autouse=True)
def signals(pytestconfig: pytest.Config) -> None:
    """A command says what signals do for the rest of its process's life. A test, or a fixture of many tests, that runs one in this
    process must not say it for the programs that later tests start.
    """
    for number, handler in pytestconfig.stash[MET]:
        signal.signal(number, handler)
