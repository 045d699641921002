"""How any command ends when it is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgerun.cli import pricing
from judgerun.cli.program import execute
from judgerun.errors import Exit


def test_an_interrupted_command_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a command that listens to no signal is exit 130, never 0."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pricing, "price_list", interrupted)
    assert execute(["prices", "--workspace", str(tmp_path)]) is Exit.INTERRUPTED
