"""What holds for every test, whoever starts them."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start meet signals as in a terminal: who runs the tests under nohup, or in the background of a script,
    hands an ignored SIGHUP or SIGINT on to all of them. A handler is not handed on.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
