"""What befalls a machine at night, in real processes: a suspension, a clock that is set, a disk that is full, a cache that may not
be written, a name that is not found.

Each test prints its seed; JUDGERUN_SEED=n plays that one again. JUDGERUN_STORM=long (`make storm`) plays the long form.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from fakes.judge import rows_of
from fakes.processes import LANES, Ended, Odd, Place, contradictions, looked_at, nanos

pytestmark = [pytest.mark.storm, pytest.mark.timeout(600)]

LONG = bool(os.environ.get("JUDGERUN_STORM"))
SLOTS = 6
"""Calls in flight at most: `concurrency` of the lanes of a Place."""


def finished(place: Place) -> None:
    """The same command finishes, the bill lies within the interval, and nothing was bought twice but what was in doubt."""
    ended = place.command("run", "chain", "--yes")
    assert ended.code == 0, ended.err
    spend = ended.json["spend"]
    assert ended.json["state"] == "complete"
    assert nanos(spend["low_usd"]) <= place.nanos() <= nanos(spend["high_usd"])
    assert place.wrong() == []


def forfeited(place: Place) -> int:
    """Calls whose hold was forfeited."""
    found: int = rows_of(place.cache, "select count(*) from entry where kind = 'forfeit'")[0][0]
    return found


def test_a_suspended_process_goes_on(tmp_path: Path, rng: random.Random) -> None:
    """SIGSTOP for longer than a call may take, then SIGCONT: at most what was in flight is in doubt, and the run finishes."""
    place = Place(tmp_path / "w", rows=60, budget='total = "5.00"\n')
    with place.provider(seed=rng.randrange(1000), pace=2.0):
        process = place.start("run", "chain", "--yes")
        while len(place.calls()) < 30:
            time.sleep(0.05)
            assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        time.sleep(60 if LONG else 7)
        looked_at(place, "chain")
        process.send_signal(signal.SIGCONT)
        ended = Ended(process)
        assert ended.code == 0, ended.err
        assert forfeited(place) <= SLOTS
        finished(place)


def test_a_suspended_process_keeps_what_it_holds(tmp_path: Path, rng: random.Random) -> None:
    """A process is suspended beside another of its experiment: the other buys nothing that is in flight there, forfeits nothing of
    it, and waits; when it goes on both finish.
    """
    place = Place(tmp_path / "w", rows=60, budget='total = "5.00"\n')
    with place.provider(seed=rng.randrange(1000), pace=2.0):
        first = place.start("run", "chain", "--yes")
        while len(place.calls()) < 30:
            time.sleep(0.05)
            assert first.poll() is None
        first.send_signal(signal.SIGSTOP)
        second = place.start("run", "chain", "--yes")
        time.sleep(60 if LONG else 8)
        assert forfeited(place) == 0
        looked_at(place, "chain")
        first.send_signal(signal.SIGCONT)
        for process in (first, second):
            ended = Ended(process)
            assert ended.code == 0, ended.err
        assert forfeited(place) <= SLOTS
        finished(place)


def test_a_clock_that_is_set_breaks_no_promise(tmp_path: Path, rng: random.Random) -> None:
    """In each process the clock is set to another time at some moment, by seconds or by a day, and it is killed or stopped:
    nothing is lost or bought twice, nobody waits for a window of tomorrow, and under the right time the same command finishes.
    """
    lanes = LANES + "requests_per_minute = 6000\n"
    place = Odd(tmp_path / "w", rows=300 if LONG else 60, budget='total = "5.00"\n[day]\ntotal = "4.00"\n', lanes=lanes)
    with place.provider(seed=rng.randrange(1000), pace=3.0, faults="drop_after=0.03,500=0.03"):
        for by in (90_000, -90_000, -3600, -30, 30, 3600) * (4 if LONG else 1):
            place.machine["ODD_WALL"] = f"{rng.uniform(0.0, 3.0):.2f}:{by}"
            sent = len(place.calls())
            process = place.start("run", "chain", "--yes")
            end = time.monotonic() + 60
            while len(place.calls()) < sent + 20 and process.poll() is None:
                time.sleep(0.05)
                assert time.monotonic() < end, f"it waits after the clock was set by {by} s"
            time.sleep(rng.uniform(0.0, 1.5))
            process.send_signal(rng.choice((signal.SIGKILL, signal.SIGINT)))
            ended = Ended(process)
            assert ended.code in (0, 8, 130, -signal.SIGKILL), ended.err
            assert "Traceback" not in ended.err
            assert contradictions(looked_at(place, "chain")) == []
            assert place.wrong() == []
    place.machine.clear()
    with place.provider(seed=1):
        finished(place)


def test_a_disk_that_is_full_ends_with_6(tmp_path: Path, rng: random.Random) -> None:
    """The cache may grow by some pages alone, again and again: 6 with the file's name each time, what was kept is not bought again,
    and what was bought and could not be kept is in doubt: no more than was in flight.
    """
    place = Odd(tmp_path / "w", rows=120 if LONG else 60, budget='total = "5.00"\n')
    full = 0
    with place.provider(seed=rng.randrange(1000), pace=1.0):
        for _ in range(12 if LONG else 3):
            place.machine["ODD_PAGES"] = str(rng.randrange(0, 40))
            before = forfeited(place) if place.made() else 0
            ended = place.command("run", "chain", "--yes")
            assert ended.code in (0, 6), ended.err
            assert "Traceback" not in ended.err
            if ended.code == 6:
                full += 1
                assert "cache.db" in ended.err
            place.machine.clear()
            assert place.command("status", "chain").code == 0
            if place.made():
                assert place.wrong() == []
                assert forfeited(place) - before <= SLOTS
        assert full > 0
        finished(place)
    assert forfeited(place) <= full * SLOTS


CAP_DAC_OVERRIDE = 1
PR_CAPBSET_DROP = 24


def obey_rights() -> None:
    """In a child before its program: root too may then write only what its mode allows."""
    if os.geteuid() == 0:
        ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="root is bound by rights on Linux alone")
def test_a_cache_that_may_not_be_written_ends_with_6(tmp_path: Path) -> None:
    """A read-only workspace: 6 with the file's name, before any call; `status` still answers; once it may be written, the run
    goes on with what it had.
    """
    place = Place(tmp_path / "w", rows=20, budget='total = "5.00"\n')
    with place.provider(seed=1):
        assert place.command("run", "chain", "--limit", "5", "--yes").code == 0
        sent = len(place.calls())
        held = {
            path: path.stat().st_mode
            for path in (place.folder, *place.folder.glob("cache.db*"), *place.folder.rglob(".judgerun/**/*"))
        }
        for path, mode in held.items():
            path.chmod(mode & ~0o222)
        ended = Ended(place.start("run", "chain", "--yes", before=obey_rights))
        told = Ended(place.start("status", "chain", before=obey_rights))
        for path, mode in held.items():
            path.chmod(mode)
        assert ended.code == 6, ended.err
        assert "cache.db" in ended.err
        assert "Traceback" not in ended.err
        assert told.code == 0
        assert len(place.calls()) == sent
        finished(place)


def test_a_name_that_is_not_found_costs_nothing(tmp_path: Path) -> None:
    """DNS fails: the run waits and says for what, nothing is spent or in doubt, Ctrl-C is 130; when the name is found again the
    same command finishes.
    """
    place = Place(tmp_path / "w", rows=10, budget='total = "5.00"\n')
    place.url = "http://no-such-host.invalid/v1"
    process = place.start("run", "chain", "--yes")
    end = time.monotonic() + 60
    said: list[str] = []
    while not said:
        assert time.monotonic() < end
        time.sleep(0.2)
        running = place.command("status", "chain").json.get("processes", [])
        said = [why for one in running for why in one.get("trouble", {}).values()]
    assert "not sent" in said[0]
    process.send_signal(signal.SIGINT)
    ended = Ended(process)
    assert ended.code == 130, ended.err
    assert ended.json["spend"]["high_usd"] == "0.00"
    assert ended.json["attempts"] == 0
    with place.provider(seed=1):
        finished(place)
