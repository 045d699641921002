"""What befalls a machine at night, in real processes: a suspension, a cache that may not be written, a name that is not found.

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
from fakes.processes import Ended, Place, looked_at, nanos

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
