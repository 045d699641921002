"""The guide cannot go stale: its files load, its commands exist, its exit codes are those of the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import judgerun
from judgerun.errors import Exit
from judgerun.files.budgets import find_budget, load_lanes
from judgerun.files.deployments import BUILTIN
from judgerun.model.profile import RULES
from judgerun.providers.facts import SERVERS

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/guide.md", "docs/overnight.md", "docs/audits.md", "docs/providers.md")
}
JUDGERUN = Path(sys.executable).parent / "judgerun"


def blocks(language: str, text: str = GUIDE) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_guides_experiment_loads(tmp_path: Path) -> None:
    """The experiment in the guide, with data and prompts beside it, is accepted as it stands; so are its budget and lanes."""
    written = next(block for block in blocks("toml") if "[[stage]]" in block)
    home = tmp_path / "prompts" / "utility"
    home.mkdir(parents=True)
    (home / "experiment.toml").write_text(written, encoding="utf-8")
    (home / "problems.jsonl").write_text(json.dumps({"id": "p", "text": "1 + 1?", "gold_id": "g"}) + "\n", "utf-8")
    (home / "corpus.jsonl").write_text(json.dumps({"id": "g", "text": "2 + 2?"}) + "\n", "utf-8")
    (home / "solve.md").write_text("{% if context %}{{ context.text }}{% endif %}\n{{ text }}\n", "utf-8")
    (home / "grade.md").write_text("{{ text }}\n{{ solve.reply }}\nAnswer with one number from 0 to 7.\n", "utf-8")
    (tmp_path / "budgets").mkdir()
    for block in blocks("toml"):
        named = re.match(r"# (budgets/\w+\.toml)\n", block)
        if named:
            (tmp_path / named[1]).write_text(block, encoding="utf-8")
    experiment = judgerun.load(home).experiment
    assert [stage.name for stage in experiment.stages] == ["solve", "grade"]
    assert find_budget(tmp_path, "night").total == 10 * 10**9
    assert load_lanes(tmp_path)["openai/solver"].concurrency == 4


@pytest.mark.parametrize("page", sorted(PAGES))
def test_toml_in_pages_parses(page: str) -> None:
    """Every block of TOML in a page is TOML."""
    for block in blocks("toml", PAGES[page]):
        tomllib.loads(block)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_commands_in_pages_exist(page: str) -> None:
    """Every command that a page names in code is one of the program's."""
    told = subprocess.run([str(JUDGERUN), "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    known = set(re.findall(r"^  (\w+) ", told.split("Commands:")[1], flags=re.MULTILINE))
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", PAGES[page], flags=re.MULTILINE | re.DOTALL))
    code = re.findall(r"`(judgerun [^`\n]+)`", PAGES[page]) + re.findall(r"^\$? ?(judgerun .+)$", fenced, re.MULTILINE)
    named = {found[1] for line in code if (found := re.match(r"judgerun (\w+)", line))}
    assert named
    assert named <= known, named - known


def test_exit_codes_in_the_guide_are_the_programs() -> None:
    """The table of exit codes in the guide lists every code, and no other."""
    table = GUIDE.split("Exit codes\n")[1].split("##")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)} == {int(code) for code in Exit}


def test_the_page_of_providers_names_them_all() -> None:
    """Every built-in provider with its key, every server that another may be like, and every rule that finds an answer."""
    page = PAGES["docs/providers.md"]
    table = page.split("## Built-in providers")[1].split("Two more dialects")[0]
    assert set(
        re.findall(r"`([a-z-]+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line))
    ) - {"provider"} == set(BUILTIN)
    for deployment in BUILTIN.values():
        if deployment.api_key_env in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "VOYAGE_API_KEY"):
            assert f"`{deployment.api_key_env}`" in table
    said = re.search(r"`like` is one of ([^.]+)\.", page)
    assert said is not None
    assert [name.strip() for name in said[1].replace("\n", " ").split(",")] == list(SERVERS)
    rules = page.split("## Where the answer stands")[1].split("## Usage")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", rules, re.MULTILINE)) == RULES
