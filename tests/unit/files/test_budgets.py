"""Budgets, lanes and workspaces: what is written is what holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgerun.errors import Refused
from judgerun.files.budgets import find_budget, load_budget, load_lanes, stray_caps
from judgerun.files.workspace import find_experiment, list_budgets, list_experiments
from judgerun.ledger.budget import Cap, Leaf
from judgerun.model.lane import LaneSpec
from judgerun.model.money import format_usd

IN_TMP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

WHOLE = """
total = "10.00"
confirm_above = "0.50"
[provider]
google = "5.00"
[stage]
pick = "3.00"
[condition]
"pick/glm-j/cot" = "0.50"
[experiment]
utility = "6.00"
[day]
total = "25.00"
[calls]
total = 20000
[calls.provider]
google = 500
[calls.day]
total = 100
[tokens.stage]
pick = 1_000_000
[gpu_seconds]
total = 60
[ceiling]
"deepseek/deepseek-v4-flash" = 40_000
"""


def budget_file(root: Path, text: str, name: str = "main") -> Path:
    path = root / "budgets" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(path: Path) -> str:
    with pytest.raises(Refused) as caught:
        load_budget(path)
    return str(caught.value)


def test_every_key_of_a_budget_becomes_a_cap(tmp_path: Path) -> None:
    """Dollars, calls, tokens and GPU seconds, in total and by provider, stage, condition, experiment and day."""
    budget = load_budget(budget_file(tmp_path, WHOLE))
    assert budget.name == "main"
    assert budget.total == 10_000_000_000
    assert budget.caps[0] == Cap("nanos", "total", "", 10_000_000_000)
    assert set(budget.caps[1:]) == {
        Cap("nanos", "provider", "google", 5_000_000_000),
        Cap("nanos", "stage", "pick", 3_000_000_000),
        Cap("nanos", "condition", "pick/glm-j/cot", 500_000_000),
        Cap("nanos", "experiment", "utility", 6_000_000_000),
        Cap("nanos", "day", "", 25_000_000_000),
        Cap("calls", "total", "", 20_000),
        Cap("calls", "provider", "google", 500),
        Cap("calls", "day", "", 100),
        Cap("tokens", "stage", "pick", 1_000_000),
        Cap("gpu_ms", "total", "", 60_000),
    }
    assert budget.confirm_above == 500_000_000
    assert budget.ceilings == {"deepseek/deepseek-v4-flash": 40_000}


@IN_TMP
@given(st.integers(0, 10**15))
def test_amounts_are_exact(tmp_path: Path, nanos: int) -> None:
    """Any amount of nanos is read as it was printed: no float comes between."""
    assert load_budget(budget_file(tmp_path, f'total = "{format_usd(nanos)}"\n')).total == nanos


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("total = 10.0", "total (line 1)", '"10.00"'),
        ("total = 10", "total (line 1)", '"10.00"'),
        ('total = "1e"', "total", "not an amount"),
        ('total = "-1"', "total", "not an amount"),
        ('total = "0.0000000001"', "total", "nine decimals"),
        ("total = true", "total", "not an amount"),
        ('confirm_above = "1"', "", "'total' is missing"),
        ('total = "1"\n[stag]\npick = "1"', "stag", "did you mean 'stage'"),
        ('total = "1"\n[stage]\npick = 0.5', "stage.pick (line 3)", '"0.50"'),
        ('total = "1"\n[calls]\ntotal = "5"', "calls.total", "integer"),
        ('total = "1"\n[calls]\ntotal = 1.5', "calls.total", "integer"),
        ('total = "1"\n[calls.provider]\ngoogle = -1', "calls.provider.google", "no cap"),
        ('total = "1"\n[tokens]', "tokens", "caps nothing"),
        ('total = "1"\n[ceiling]\nflash = 1', "ceiling.flash", "provider/model"),
        ('total = "1"\n[calls]\nconfirm_above = "1"', "calls.confirm_above", "move it to the top"),
        ('total = "1"\n[day]\ngoogle = "1"', "day.google", "unknown key"),
        ("total = ", "line 1", "not TOML"),
    ],
)
def test_a_wrong_budget_is_told(tmp_path: Path, text: str, key: str, message: str) -> None:
    """Each fault names the file, the key and what is right."""
    path = budget_file(tmp_path, text)
    assert f"{path}: {key}" in told(path) or not key
    assert message in told(path)


def test_a_cap_that_covers_nothing_is_told() -> None:
    """A misspelt stage in a budget protects nothing, and is told with the nearest one."""
    leaf = Leaf("main", "utility", "pick", "pick/glm-j/cot@problems", "google", "2026-01-01")
    caps = (
        Cap("nanos", "total", "", 1),
        Cap("nanos", "stage", "pik", 1),
        Cap("nanos", "condition", "pick/glm-j", 1),
        Cap("nanos", "provider", "google", 1),
    )
    from judgerun.ledger.budget import Budget

    (stray,) = stray_caps(Budget(name="main", caps=caps), [leaf])
    assert "stage pik" in str(stray)
    assert "did you mean 'pick'" in str(stray)


def test_the_only_budget_needs_no_name(tmp_path: Path) -> None:
    """Without a name the only budget serves; with several, or none, a name is asked for. Prices and lanes are no budgets."""
    with pytest.raises(Refused, match="there is no budget"):
        find_budget(tmp_path, None)
    budget_file(tmp_path, 'total = "1"', "one")
    budget_file(tmp_path, "", "prices")
    budget_file(tmp_path, "", "lanes")
    assert find_budget(tmp_path, None).name == "one"
    path = budget_file(tmp_path, 'total = "2"', "two")
    assert [found.stem for found in list_budgets(tmp_path)] == ["one", "two"]
    with pytest.raises(Refused, match="several budgets: one, two"):
        find_budget(tmp_path, None)
    assert find_budget(tmp_path, "two").total == 2_000_000_000
    assert find_budget(tmp_path, str(path)).name == "two"
    with pytest.raises(Refused, match="did you mean 'two'"):
        find_budget(tmp_path, "tow")
    with pytest.raises(Refused, match="there is no budget 'lanes'"):
        find_budget(tmp_path, "lanes")


def test_lanes_have_defaults_and_say_what_is_wrong(tmp_path: Path) -> None:
    """A lane is named by a provider or a model of it; no file means no lanes; a wrong key is told."""
    assert load_lanes(tmp_path) == {}
    budget_file(
        tmp_path,
        '[google]\nrequests_per_minute = 60\n["google/flash"]\nconcurrency = 2\ntimeout_s = 90\nenqueued_tokens = 5\n',
        "lanes",
    )
    assert load_lanes(tmp_path) == {
        "google": LaneSpec(name="google", requests_per_minute=60),
        "google/flash": LaneSpec(name="google/flash", concurrency=2, timeout_s=90.0, enqueued_tokens=5),
    }
    budget_file(tmp_path, '[google]\nrequest_per_minute = 60\n["a/b/c"]\ntimeout_s = 0\nconcurrency = 0\n', "lanes")
    with pytest.raises(Refused) as caught:
        load_lanes(tmp_path)
    text = str(caught.value)
    assert "did you mean 'requests_per_minute'" in text
    assert "names no lane" in text
    assert '"a/b/c".concurrency' in text


def test_experiments_are_found_by_name_folder_and_path(tmp_path: Path) -> None:
    """A name, a folder and a file mean the same experiment; another word is told the nearest."""
    file = tmp_path / "prompts" / "pairwise" / "experiment.toml"
    file.parent.mkdir(parents=True)
    file.write_text("")
    assert list_experiments(tmp_path) == (file,)
    for word in ("pairwise", str(file), str(file.parent), "prompts/pairwise"):
        assert find_experiment(tmp_path, word) == file
    with pytest.raises(Refused, match="did you mean 'pairwise'"):
        find_experiment(tmp_path, "parwise")
