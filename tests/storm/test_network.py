"""What befalls the way to a provider, in real processes: connections that are reset, answers that do not come, or ever later.

Each test prints its seed; JUDGERUN_SEED=n plays that one again. JUDGERUN_STORM=long (`make storm`) plays the long form.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from fakes.judge import rows_of
from fakes.processes import Ended, Odd, Place, contradictions, nanos
from fakes.relay import relay

pytestmark = [pytest.mark.storm, pytest.mark.timeout(1200)]

LONG = bool(os.environ.get("JUDGERUN_STORM"))
BUDGET = 'total = "5.00"\n'
SLOTS = 6
"""Calls in flight at most: `concurrency` of the lanes of a Place."""
FAILURES = 8
"""So many calls in a row without an answer, and the provider is taken to be away."""
PROBES = 30
"""More are not sent to it in ten minutes."""


def finished(place: Place) -> None:
    """On a good way the same command finishes, the bill lies within the interval, and once more sends nothing."""
    ended = place.command("run", "chain", "--yes")
    assert ended.code == 0, ended.err
    spend = ended.json["spend"]
    assert ended.json["state"] == "complete"
    assert nanos(spend["low_usd"]) <= place.nanos() <= nanos(spend["high_usd"])
    sent = len(place.calls())
    assert place.command("run", "chain", "--yes").code == 0
    assert len(place.calls()) == sent
    judged(place)


def judged(place: Place) -> None:
    """The books are right, and of each request no more was billed than one reply and what was forfeited."""
    assert place.wrong() == []
    billed = {int(row["attempt"]) for row in place.calls() if row["billed"]}
    twice = {}
    carried: dict[int, list[int]] = {}
    for request, attempt in rows_of(place.cache, "select request, attempt from carried"):
        carried.setdefault(request, []).append(attempt)
    in_doubt = {row[0] for row in rows_of(place.cache, "select attempt from entry where kind = 'forfeit'")}
    for request, attempts in carried.items():
        if len(billed.intersection(attempts) - in_doubt) > 1:
            twice[request] = attempts
    assert twice == {}


def forfeited(place: Place) -> int:
    """Calls whose hold was forfeited."""
    found: int = rows_of(place.cache, "select count(*) from entry where kind = 'forfeit'")[0][0]
    return found


def told(place: Place, kind: str) -> list[str]:
    """What was told of a kind."""
    query = f"select detail from event where kind = '{kind}' order by id"
    return [detail for (detail,) in rows_of(place.cache, query)] if place.made() else []


def test_a_fifth_of_all_connections_is_reset(tmp_path: Path, rng: random.Random) -> None:
    """Before the request, before the answer or in the middle of it: only what was reset is in doubt, the cap holds by the bill,
    0 or 8 tells whether cells are left without an answer, and on a good way the rest is bought.
    """
    place = Place(tmp_path / "w", rows=400 if LONG else 30, budget=BUDGET)
    with place.provider(seed=rng.randrange(1000), pace=1.0) as provider, relay(provider.url, rng) as net:
        place.url, net.resets = net.url, 0.2
        ended = place.command("run", "chain", "--yes")
        document = ended.json
        assert contradictions(document) == []
        assert document["state"] == "complete", ended.err
        assert (ended.code, document["cells"]["failed"] > 0) in ((0, False), (0, True), (8, True)), ended.err
        assert 0 < forfeited(place) <= net.cut
        judged(place)
    with place.provider(seed=1):
        finished(place)


def test_a_provider_that_accepts_and_never_answers(tmp_path: Path, rng: random.Random) -> None:
    """From some moment on requests arrive, are charged, and nothing comes back: 9 with the reason, cells stay pending but for those
    whose tries fell into the moment before it was known, and the money in doubt is that of the calls in flight and of a few probes;
    when answers come the same command finishes.
    """
    place = Odd(tmp_path / "w", rows=30, budget=BUDGET, ODD_SPEED="5" if LONG else "40")
    with place.provider(seed=rng.randrange(1000), pace=1.0) as provider, relay(provider.url, rng) as net:
        place.url = net.url
        process = place.start("run", "chain", "--yes")
        while len(place.calls()) < 40:
            time.sleep(0.05)
            assert process.poll() is None
        net.silent = True
        ended = Ended(process, 600)
        assert ended.code == 9, ended.err
        assert "Traceback" not in ended.err
        assert "sim" in ended.json["reason"]
        assert contradictions(ended.json) == []
        assert rows_of(place.cache, "select count(*) from lost")[0][0] <= FAILURES // 3  # of three tries each
        assert ended.json["spend"]["held_usd"] == "0.00"
        assert 0 < forfeited(place) <= FAILURES + SLOTS + PROBES
        judged(place)
        net.silent = False
        finished(place)


def test_a_provider_whose_latency_doubles(tmp_path: Path, rng: random.Random) -> None:
    """Every minute it takes twice as long: that is told, fewer calls are in flight, none is taken to be lost, and when it is quick
    again the run finishes by itself.
    """
    period, first = (60.0, 0.3) if LONG else (4.0, 0.1)
    lanes = "[sim]\nconcurrency = 6\nattempts_max = 3\ntimeout_s = 120\nbatch_size = 8\n"
    place = Place(tmp_path / "w", rows=900 if LONG else 250, budget=BUDGET, lanes=lanes)
    with place.provider(seed=rng.randrange(1000)) as provider, relay(provider.url, rng) as net:
        place.url, net.late = net.url, lambda at: first * 2 ** (at // period)
        process = place.start("run", "chain", "--yes")
        while not any("slower" in words for words in told(place, "slow")):
            time.sleep(0.2)
            assert process.poll() is None
        if LONG:
            time.sleep(2 * period)
        net.late = lambda at: 0.0
        ended = Ended(process)
        assert (ended.code, ended.json["state"]) == (0, "complete"), ended.err
        assert "calls at once" in told(place, "slow")[0]
        assert forfeited(place) == 0
        finished(place)
