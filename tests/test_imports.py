"""The architecture as a test: every contract of .importlinter holds, and a wrong import would be seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def lint(folder: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter in a folder whose package is found first."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", str(config)],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_contracts_hold() -> None:
    """Every import of the package goes down, and each room stays inside its contract."""
    done = lint(ROOT / "src", ROOT / ".importlinter")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("plan/planted.py", "import aiohttp", "The core does not touch the world"),
        ("ledger/planted.py", "from judgerun.store import planted", "Rooms look only downward"),
        (
            "analysis/planted.py",
            "from judgerun.model import money",
            "Statistics and rankings know only arrays and texts",
        ),
        ("dispatch/planted.py", "from judgerun.providers import planted", "Dispatch meets adapters only through ports"),
        ("report/planted.py", "from judgerun.dispatch import planted", "Numbers are made offline"),
        ("simulate/planted.py", "from judgerun.model import money", "The simulated provider is a stranger to the rest"),
        ("cli/planted.py", "import sqlite3", "The store alone knows SQLite"),
    ],
)
def test_wrong_import_is_seen(tmp_path: Path, module: str, line: str, contract: str) -> None:
    """A forbidden import planted in a bare copy of the rooms breaks the contract that forbids it."""
    for source in (ROOT / "src" / "judgerun").rglob("*.py"):
        copy = tmp_path / source.relative_to(ROOT / "src")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("", encoding="utf-8")
    for room in ("store", "providers", "dispatch"):
        (tmp_path / "judgerun" / room / "planted.py").write_text("", encoding="utf-8")
    (tmp_path / "judgerun" / module).write_text(line + "\n", encoding="utf-8")
    done = lint(tmp_path, ROOT / ".importlinter")
    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout
