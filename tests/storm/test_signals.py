"""Stops that come before anything listens for them: a person's Ctrl-C in the first second, a scheduler's SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.storm

STOPPED_AT = """
import importlib.abc, os, sys
class Stop(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[2]:
            os.kill(os.getpid(), int(sys.argv[1]))
sys.meta_path.insert(0, Stop())
from judgerun.cli.main import main
main(["plan"])
"""
"""A command that gets a signal in the moment in which it imports a module."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize("module", ["typer", "judgerun.api.running", "numpy"])
def test_a_stop_while_the_program_is_read_is_130(number: int, module: str) -> None:
    """A signal while modules are imported ends the command with 130 and without a traceback, as at any later moment."""
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_AT, str(int(number)), module],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (130, "")
