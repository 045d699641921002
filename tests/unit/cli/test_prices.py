"""`judgerun prices`: a table for people, one object for programs, exit code 2 for a name that no price has."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from judgerun.cli.program import execute
from judgerun.errors import Exit


def run(capsys: pytest.CaptureFixture[str], root: Path, *words: str) -> tuple[Exit, str, str]:
    code = execute(["prices", *words, "--workspace", str(root)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_table_tells_tiers_hours_and_the_batch_lane(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each set of rates has its line, with the words that say when it holds, and its source."""
    code, out, _ = run(capsys, tmp_path, "openai/gpt-5.4")
    assert code is Exit.DONE
    assert "above 272,000 tokens" in out
    assert "batch lane" in out
    assert "[1] genai-prices" in out
    assert "cache write" not in out  # a column that would be empty
    _, out, _ = run(capsys, tmp_path, "deepseek/deepseek-v4-pro")
    assert "06:00 to 10:00 UTC" in out


def test_json_is_one_object_with_decimal_strings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Amounts of money are never numbers."""
    code, out, _ = run(capsys, tmp_path, "deepseek/deepseek-v4-pro", "--json")
    assert code is Exit.DONE
    rates = json.loads(out)["prices"][-1]["usd_per_million"]
    assert (Decimal(rates["input"]), Decimal(rates["hours"][0]["input"])) == (Decimal("0.66"), Decimal("1.32"))
    assert (rates["hours"][0]["from"], rates["hours"][0]["to"]) == ("06:00", "10:00")


def test_an_unknown_name_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest names are told."""
    code, _, err = run(capsys, tmp_path, "gtp-5")
    assert code is Exit.REFUSED
    assert "openai/gpt-5" in err
