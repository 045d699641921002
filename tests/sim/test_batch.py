"""What a person sees of jobs and does about them, in real processes: listing, cancelling, writing off, no batch API."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from decimal import Decimal
from pathlib import Path

import pytest

from fakes.judge import rows_of
from fakes.laned import Lane
from fakes.processes import Ended, contradictions, nanos

LANES = "".join(f"[{name}]\nconcurrency = 6\nattempts_max = 4\ntimeout_s = 5\n" for name in ("oa", "an", "go"))


@pytest.fixture
def place(tmp_path: Path) -> Lane:
    """A workspace with six rows: seven jobs in all."""
    return Lane(tmp_path / "w", rows=6, budget='total = "5.00"\n', lanes=LANES)


def standing(place: Lane) -> subprocess.Popen[str]:
    """A run that has jobs at the three providers."""
    process = place.start("run", "chain", "--yes")
    deadline = time.monotonic() + 60
    while place.submitted() < 4:
        assert time.monotonic() < deadline
        assert process.poll() is None, Ended(process).err
        time.sleep(0.05)
    return process


def test_jobs_are_listed_and_what_was_done_of_a_cancelled_one_is_collected(place: Lane) -> None:
    """`jobs` agrees with `status`; `--cancel all` reaches the three APIs, on record; what was done until then is kept and paid,
    what was not is asked again.
    """
    with place.provider(seed=1, pace=0.3):
        assert place.command("jobs", "chain").json == {"experiment": "chain", "jobs": []}
        running = standing(place)
        running.send_signal(signal.SIGINT)
        assert Ended(running).code == 130
        told, status = place.command("jobs", "chain").json["jobs"], place.command("status", "chain").json
        assert [job["job"] for job in status["jobs"]] == [job["job"] for job in told if job["state"] == "submitted"]
        assert sum(Decimal(job["held_usd"]) for job in told) == Decimal(status["spend"]["held_usd"])
        assert {job["pid"] for job in told} == {None}
        assert all(job["id"] for job in told if job["state"] == "submitted")  # one may still have been filled
        signs = {sign["what"]: sign for sign in place.command("doctor").json["signs"]}
        assert signs["jobs of chain"]["state"] == "warn"
        assert signs["jobs of chain"]["says"].endswith("judgerun run chain")
        cancelled = place.command("jobs", "chain", "--cancel", "all")
        assert cancelled.code == 0, cancelled.err
        asked = {one["job"] for one in cancelled.json["cancelled"]}
        assert asked == {job["job"] for job in told if job["state"] == "submitted"}
        events = rows_of(place.cache, "select detail from event where kind = 'cancel'")
        assert len(events) == len(asked)
        ended = place.command("run", "chain", "--yes")
        assert ended.code == 0, ended.err
        assert contradictions(ended.json) == []
        assert ended.json["spend"]["forfeited_usd"] == "0.00"
        assert nanos(ended.json["spend"]["settled_usd"]) == place.nanos()
        assert place.wrong() == []
        told = place.command("jobs", "chain").json["jobs"]
        assert {(job["state"], job["calls"]) for job in told} == {("ended", 0)}
        assert place.command("export", "chain").code == 0
        path = place.folder / "results" / "chain" / "export" / "attempts.jsonl"
        for line in map(json.loads, path.read_text().splitlines()):
            assert (line["job"] is None, line["latency_ms"] is not None) == ((line["model"] == "calls",) * 2)
        again = place.command("jobs", "chain", "--cancel", str(told[0]["job"]))
        assert again.code == 2
        assert "has ended" in again.err


def test_a_job_that_its_provider_forgot_is_written_off(place: Lane) -> None:
    """The provider has lost its jobs: they are forfeited with a reason on record, its cells are asked again, and what the jobs had
    cost lies within the interval.
    """
    with place.provider(seed=1, pace=3.0):
        running = standing(place)
        refused = place.command("jobs", "chain", "--forfeit", "1", "--because", "it is gone")
        assert refused.code == 2
        assert "in the hands of a process that runs" in refused.err
        running.kill()
        Ended(running)
        low = place.nanos()
    with place.provider(seed=1):
        for words, wrong in (
            (("--forfeit", "1"), "for no reason"),
            (("--forfeit", "99", "--because", "x"), "is not a job of chain"),
            (("--cancel", "all", "--forfeit", "1"), "one at a time"),
        ):
            refused = place.command("jobs", "chain", *words)
            assert (refused.code, wrong in refused.err) == (2, True), refused.err
        gone = place.command("jobs", "chain", "--cancel", "all")
        assert gone.code == 9
        assert all(one["trouble"] for one in gone.json["cancelled"])
        open_jobs = [job for job in gone.json["jobs"] if job["calls"]]
        assert open_jobs
        for job in open_jobs:
            done = place.command("jobs", "chain", "--forfeit", str(job["job"]), "--because", "the provider lost it")
            assert done.code == 0, done.err
            assert (done.json["forfeited"]["calls"], done.json["forfeited"]["usd"]) == (job["calls"], job["held_usd"])
        assert rows_of(place.cache, "select count(*) from attempt where open = 1") == [(0,)]
        events = [detail for (detail,) in rows_of(place.cache, "select detail from event where kind = 'forfeit'")]
        assert len(events) == len(open_jobs)
        assert all(detail.endswith("the provider lost it") for detail in events)
        ended = place.command("run", "chain", "--yes")
        assert ended.code == 0, ended.err
        spend = ended.json["spend"]
        assert nanos(spend["forfeited_usd"]) == sum(nanos(job["held_usd"]) for job in open_jobs)
        assert low > 0
        assert nanos(spend["low_usd"]) <= place.nanos() <= nanos(spend["high_usd"])
        assert place.wrong() == []
        findings = place.command("audit", "chain").json["findings"]
        assert not {"closings", "pending", "failed"} & {one["check"] for one in findings}


def test_a_provider_without_a_batch_api_is_told_in_its_words(place: Lane) -> None:
    """A 404 to a submit: exit 9 at once, nothing is held or lost, the other providers and the calls of this one go on."""
    with place.provider(seed=1) as running:
        bare = running.url.removesuffix("/v1")  # there it has calls, and no jobs
        experiment = place.folder / "prompts" / "chain" / "experiment.toml"
        whole = experiment.read_text()
        experiment.write_text(whole.replace("${SIM_URL}", bare))
        ended = place.command("run", "chain", "--yes")
        assert ended.code == 9, ended.err
        assert "oa: jobs of model vec are not taken: rejected (http 404)" in ended.err
        assert ended.json["cells"]["failed"] == 0
        assert ended.json["spend"]["held_usd"] == "0.00"
        done = {line["condition"]: line["done"] for line in ended.json["conditions"]}
        assert (done["say/an/say@rows"], done["say/go/say@rows"], done["say/calls/say@rows"]) == (6, 6, 6)
        assert (done["say/oa/say@rows"], done["vectors/vec@rows"]) == (0, 0)
        assert sum(str(row["path"]).endswith("/files") for row in place.calls()) <= 2
        experiment.write_text(whole)
        assert place.command("run", "chain", "--yes").code == 0
        assert place.wrong() == []
