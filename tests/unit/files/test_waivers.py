"""audits/waivers.toml: reasons are required, unknown keys refused, nothing is there by default."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from judgerun.errors import Refused
from judgerun.files.waivers import load_waivers
from judgerun.model.waiver import Waiver


def write(folder: Path, text: str) -> Path:
    """A workspace with this file."""
    (folder / "audits").mkdir()
    (folder / "audits" / "waivers.toml").write_text(text, encoding="utf-8")
    return folder


def test_waivers_are_read_in_order(tmp_path: Path) -> None:
    """Each table is a waiver; the condition may be left out."""
    text = """
[[waiver]]
experiment = "utility"
check = "truncated"
condition = "solve/ds"
because = "as in the paper"
[[waiver]]
experiment = "utility"
check = "forfeits"
because = "the provider was down"
until = 2026-12-31
"""
    first, second = load_waivers(write(tmp_path, text))
    assert first == Waiver(experiment="utility", check="truncated", condition="solve/ds", because="as in the paper")
    assert (first.until, second.until) == (None, date(2026, 12, 31))
    assert second.covers(experiment="utility", check="forfeits", condition="any/thing")
    assert first.covers(experiment="utility", check="truncated", condition="solve/ds/solve/gold@problems")
    assert not first.covers(experiment="utility", check="truncated", condition="solve/dsx")


def test_no_file_means_no_waiver(tmp_path: Path) -> None:
    """A workspace without the file waives nothing."""
    assert load_waivers(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[waiver]]\nexperiment = "a"\ncheck = "b"\n', "because"),
        ('[[waiver]]\nexperiment = "a"\ncheck = "b"\nbecause = "  "\n', "needs a reason"),
        ('[[waiver]]\nexperiment = "a"\nchek = "b"\nbecause = "c"\n', "chek"),
        ('[[waiver]]\nexperiment = "a"\ncheck = "b"\nbecause = "c"\nuntil = "soon"\n', "until"),
        ("waiver = 3\n", "waiver"),
    ],
)
def test_a_bad_waiver_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    """A waiver without a reason, or with a misspelt key, is refused and named."""
    with pytest.raises(Refused, match=words):
        load_waivers(write(tmp_path, text))
