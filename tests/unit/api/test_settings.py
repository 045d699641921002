"""What a person may set of a lane, and how the rest is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judgerun.api.project import Workspace
from judgerun.api.steering import set_lane
from judgerun.dispatch.clock import WallClock
from judgerun.errors import Refused
from judgerun.store.inline import Inline

WRONG = {
    "timeout_s=soon": "'soon' is no number of seconds above 0",
    "timeout_s=inf": "'inf' is no number of seconds above 0",
    "timeout_s=0": "'0' is no number of seconds above 0",
    "concurrency=none": "'none' is no number above 0",
    "requests_per_minute=-1": "'-1' is no number above 0",
    "colour=red": "cannot be set",
    "concurrency": "sets nothing",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a lane and a cache."""
    (tmp_path / "budgets").mkdir()
    (tmp_path / "budgets" / "lanes.toml").write_text("[lab]\nconcurrency = 4\n")
    asyncio.run(Inline.open(tmp_path / "cache.db", clock=WallClock()).aclose())
    return Workspace(root=tmp_path)


def test_all_that_cannot_be_set_is_refused_at_once(workspace: Workspace) -> None:
    """One problem for each, in words of the lane's file; nothing of it is set, not even what was right."""
    with pytest.raises(Refused) as refused:
        set_lane(workspace, "lab", [*WRONG, "batch_size=8"])
    told = [str(problem) for problem in refused.value.problems]
    assert len(told) == len(WRONG)
    for words in WRONG.values():
        assert any(words in problem for problem in told), words
    assert workspace.settings() == ()


def test_what_is_set_is_told_with_what_it_was(workspace: Workspace) -> None:
    """Seconds, whole numbers and no limit at all."""
    held = set_lane(workspace, "lab", ["timeout_s=2.5", "concurrency=6", "requests_per_minute=none"])
    assert held.changes == (
        ("timeout_s", "600", "2.5"),
        ("concurrency", "4", "6"),
        ("requests_per_minute", "none", "none"),
    )
    assert held.heard_by == 0
