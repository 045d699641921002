"""What the audits find in the published files of two studies, against what their notes have counted by hand."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from judgerun.audit.finding import Audit
from judgerun.audit.foreign.answers import handed, standings
from judgerun.audit.foreign.checks import audit
from judgerun.files.foreign.read import read
from judgerun.model.foreign import Run

FILES = ("utility_run_tokens.csv", "spend_other_calls.csv", "spend_summary.json")


def data(name: str) -> Path:
    """A folder of the real data; the test is skipped where it is not here."""
    folder = os.environ.get("JUDGERUN_DATA")
    if not folder:
        pytest.skip("JUDGERUN_DATA names no folder with the studies' files")
    return Path(folder) / name


@pytest.fixture(scope="module")
def spend() -> Run:
    """The structural-retrieval study's spend log, reduced to CSV."""
    return read([data("structural-retrieval") / name for name in FILES], "utility")


def messages(told: Audit, check: str) -> list[str]:
    """What the findings of one name say."""
    return [finding.message for finding in told.findings if finding.check == check]


def test_the_spend_log_gives_what_its_review_found(spend: Run) -> None:
    """The five lost rows, the double payment, the stray probe, the double booking, the estimates, the seed without rows, and what
    truncated answers cost.
    """
    told = audit(spend)
    lost = [item for finding in told.findings if finding.check == "lost rows" for item in finding.evidence]
    assert sorted(lost) == [
        "dumb/bra_2011_1e6397", "dumb/tur_2023_a9aef7", "none/aut_2017_cda974", "none/bra_2008_fd2ad0", "none/cps_2025_408f83",
    ]  # fmt: skip
    (twice,) = [finding for finding in told.findings if finding.check == "paid twice"]
    assert "gold/egm_2012_84a668, 305 + 12477 tokens" in twice.evidence[0]
    assert messages(told, "stray") == [
        "1 rows of 'stray118' repeat a call of another role and belong to no run: 0.0012805 USD"
    ]
    assert len(messages(told, "booked twice")) == 1
    assert messages(told, "estimate") == ["3 rows are estimates, booked as if they were bills: 0.0215553 USD"]
    assert messages(told, "totals")[0].endswith("6.65 USD have no row")
    assert "1.79780552 of 3.29758058 USD (54.5%) went into 195 answers at their cap" in messages(
        told, "spend on truncated"
    )


def test_truncated_and_empty_answers_are_those_of_the_review(spend: Run) -> None:
    """64, 66 and 65 cut answers; of all 195 the graders were handed 169 empty ones for certain, 22 more probably, 2 with text."""
    told = {finding.condition: finding.message for finding in audit(spend).findings if finding.check == "truncated"}
    assert [told[f"solver/{name}"].split(" answers")[0] for name in ("none", "dumb", "gold")] == [
        "64 of 210",
        "66 of 210",
        "65 of 210",
    ]
    counted = Counter(one.judged for one in handed(spend))
    assert counted == {"empty": 169, "probably empty": 22, "had text": 2, "ambiguous": 1, "no row": 1}
    text = {f"{one.item}/{one.condition}" for one in handed(spend) if one.judged == "had text"}
    assert text == {"apm_2015_af5968/none", "sun_1968_7a06dc/gold"}


def test_nobody_can_tell_how_the_empty_answers_were_graded(spend: Run) -> None:
    """The log has no grades: 169 empty answers were graded, and it is not known how."""
    (message,) = messages(audit(spend), "empty handed on")
    assert message.endswith("; 169 of them have no grade in the source: nobody can tell how they were graded")


def test_lengths_alone_find_the_answers_that_ended_by_length() -> None:
    """Of two solvers at 32,768 tokens 6 and 7 of 30 were cut, by their finish reasons and by their lengths without them."""
    held = read([data("structural-retrieval") / "solver_headtohead_32k.json"], "heads")
    for calls in (held.calls, [replace(call, finish=None) for call in held.calls]):
        told = zip(calls, standings(calls), strict=True)
        cut = Counter(call.model for call, at in told if at.cut)
        assert cut == {"glm": 6, "deepseek": 7}


def test_a_log_and_its_reduction_are_not_counted_twice(spend: Run, tmp_path: Path) -> None:
    """The whole log, as its program writes it, beside the tables that were made of it."""
    calls = [
        {
            "model": call.model,
            "provider": call.provider,
            "input_tokens": call.input,
            "output_tokens": call.output,
            "cost": (call.cost or 0) / 1e9,
            "note": f"{call.role} {call.condition}/{call.item}",
        }
        for call in spend.calls
    ]
    (tmp_path / "SPEND.json").write_text(json.dumps({"calls": calls}))
    told = audit(read([tmp_path, *(data("structural-retrieval") / name for name in FILES)], "both"))
    assert sorted(
        finding.evidence[0].rpartition("/")[2] for finding in told.findings if finding.check == "counted twice"
    ) == [
        "spend_other_calls.csv",
        "utility_run_tokens.csv",
    ]
    assert [finding.value for finding in told.findings if finding.check == "paid twice"] == [1]


def test_a_whole_folder_is_read() -> None:
    """Files of no family, one with NaN among them, are left out; records whose costs stand in a table count once."""
    held = read([data("structural-retrieval")], "all")
    assert len(held.files) == 6
    told = audit(held)
    twice = {finding.evidence[0]: finding.value for finding in told.findings if finding.check == "counted twice"}
    assert twice == {"deepseek_solver_calibration.json": 10, "solver_headtohead_32k.json": 30}
    assert [finding.value for finding in told.findings if finding.check == "empty handed on"] == [169]


def test_a_sample_of_a_log_has_its_times() -> None:
    """Sixteen rows with their times and what each cost; none is a stray."""
    held = read([data("spend-ledger")], "sample")
    assert (len(held.calls), sum(call.cost or 0 for call in held.calls)) == (16, 68_321_500)
    assert all(call.at is not None and call.provider for call in held.calls)
    assert messages(audit(held), "stray") == []


def test_two_refused_topics_move_the_headline() -> None:
    """Topics 37 and 40 score the same under the rewrites as under the people's queries: tau .6952, without them .6571."""
    told = audit(read([data("query-form")], "forms"))
    (finding,) = [finding for finding in told.findings if finding.check == "identical scores"]
    assert [words.split(":")[0] for words in finding.evidence] == ["item 37", "item 40"]
    assert "0.6952, without them 0.6571" in finding.message


def test_verdict_counts_are_read_against_their_thresholds() -> None:
    """18 of 120 is exactly 15%; every published rate follows from its counts; generators were judged by different judges."""
    told = audit(read([data("query-form")], "forms"))
    assert messages(told, "rates") == []
    (exact,) = [finding for finding in told.findings if finding.check == "at the threshold"]
    assert exact.evidence[0].startswith("chatdoctor/terse gpt-5.1-2025-11-13: 18 of 120, 15.0%")
    assert len(messages(told, "judges differ")) == 1
