"""Where the time goes, in words: of `status`, and of the report."""

from __future__ import annotations

import pytest

from judgerun.audit.evidence import Evidence
from judgerun.cli.hours import tell_lanes, tell_time
from judgerun.cli.words import Words
from judgerun.dispatch.eta import span
from judgerun.model.experiment import Experiment
from judgerun.report import time
from judgerun.report.page import Table


def test_the_largest_causes_of_a_lane_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Three of them at most, in per cent of all, and none that is nothing."""
    spent = {"sending": 50.0, "rate limit": 30.0, "local": 0.1, "store": 12.0, "backoff": 7.9}
    tell_lanes(Words(json=False), {"lab": spent, "new": {}})
    assert capsys.readouterr().out == "time of lab: sending 50 %, rate limit 30 %, store 12 %\n"


def test_a_process_tells_what_is_left_and_what_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The time left with what limits; the calls that are in flight for long; and its own lateness where it is one."""
    calls = [
        {"condition": "tone@rows", "item": "r7", "seconds": 480.0, "attempt": 2},
        {"condition": "tone@rows", "item": "r8", "seconds": 0.4, "attempt": 1},
    ]
    said = {
        "left_s": 6000,
        "limited_by": "google (token limit)",
        "longest": calls,
        "lag_ms": {"recent": 240, "most": 900},
    }
    tell_time(Words(json=False), said)
    assert capsys.readouterr().out.splitlines() == [
        "about 1 h 40 min left, limited by google (token limit)",
        "in flight for 8 min: tone@rows, item r7, attempt 2",
        "its event loop was late by up to 240 ms in the last ten seconds",
    ]
    tell_time(Words(json=False), {"left_s": None, "longest": [], "lag_ms": {"recent": 5, "most": 900}})
    assert capsys.readouterr().out == ""


def test_spans_are_told_by_their_size() -> None:
    """Seconds below a minute and a half, minutes below an hour."""
    assert [span(seconds) for seconds in (40.4, 700.0, 3600.0, 13_425.0)] == [
        "40 s",
        "12 min",
        "1 h 0 min",
        "3 h 44 min",
    ]


def test_the_report_lists_the_causes_of_each_lane() -> None:
    """The largest first, without those that are next to nothing; and no section where no lane spent any time."""
    experiment = Experiment(name="e", folder="", seed=1)
    lanes = {"lab": {"sending": 600.0, "rate limit": 1800.0, "local": 0.6}}
    found = time.section(Evidence(experiment=experiment, lanes=lanes))
    assert found is not None
    assert found.blocks[1] == Table(
        ("lane", "cause", "slot-minutes", "share"),
        (("lab", "rate limit", "30.0", "75.0 %"), ("lab", "sending", "10.0", "25.0 %")),
    )
    assert time.section(Evidence(experiment=experiment)) is None
