"""Faults, the bill and the gauges of the simulated provider."""

from __future__ import annotations

import io
from fractions import Fraction
from math import ceil
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.simulate import faults
from judgerun.simulate.bill import Bill, Tariff, read_tariffs
from judgerun.simulate.gauge import Gauge, Window


def test_weights_are_parsed() -> None:
    """Names with weights; blanks are allowed, nothing is nothing."""
    assert faults.parse("drop_after=0.02, 429=0.05", 0) == {"drop_after": 0.02, "429": 0.05}
    assert faults.parse("", 0) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dropafter=0.1", "'dropafter' is no fault"),
        ("429", "name=weight"),
        ("429=x", "name=weight"),
        ("429=1.5", "from 0 to 1"),
        ("429=-0.1", "from 0 to 1"),
        ("429=nan", "from 0 to 1"),
        ("429=0.6,500=0.6", "sum to 1.2"),
    ],
)
def test_wrong_weights_are_named(text: str, says: str) -> None:
    """A person gets told."""
    with pytest.raises(ValueError, match=says):
        faults.parse(text, 0)


def test_swarms_differ_in_kind_and_keep_their_rate() -> None:
    """Each seed has other faults, together as often as asked; those that end a run are never among them."""
    swarms = [faults.parse("swarm=0.4", seed) for seed in range(50)]
    assert len({tuple(swarm) for swarm in swarms}) > 40
    assert all(sum(swarm.values()) == pytest.approx(0.4) for swarm in swarms if swarm)
    assert not {"quota", "401", "overrun"} & {name for swarm in swarms for name in swarm}


def test_faults_fall_as_often_as_weighted_and_by_body_and_try_alone() -> None:
    """The same whatever arrives between; another try, another draw."""
    weights = {"429": 0.2, "500": 0.1, "vector_nan": 0.3}
    drawn = [faults.befall(weights, 7, "chat", f"{n}", 0) for n in range(4000)]
    assert drawn == [faults.befall(weights, 7, "chat", f"{n}", 0) for n in range(4000)]
    assert drawn.count("429") / 4000 == pytest.approx(0.2, abs=0.03)
    assert drawn.count("500") / 4000 == pytest.approx(0.1, abs=0.025)
    assert "vector_nan" not in drawn  # it cannot befall a chat
    assert any(faults.befall(weights, 7, "chat", "0", nth) != drawn[0] for nth in range(1, 20))


TOKENS = st.integers(0, 10**6)
RATES = st.integers(0, 10**11)


BUCKETS = ("fresh", "cached", "written", "written_1h", "visible", "reasoning")


@given(st.fixed_dictionaries(dict.fromkeys(BUCKETS, TOKENS)), st.tuples(RATES, RATES), st.data(), st.booleans())
def test_a_charge_is_the_exact_sum_rounded_up_once(
    counts: dict[str, int], base: tuple[int, int], data: st.DataObject, job: bool
) -> None:
    """By fractions, as an accountant would; a call inside a job costs its share of it."""
    put, got = base
    own = {name: data.draw(st.none() | RATES) for name in ("cached", "cache_write", "cache_write_1h", "reasoning")}
    batch = data.draw(st.fractions(0, 1, max_denominator=100))
    rates = {"fresh": put, "visible": got, "reasoning": got if own["reasoning"] is None else own["reasoning"]}
    for name, rate in (("cached", "cached"), ("written", "cache_write"), ("written_1h", "cache_write_1h")):
        held = own[rate]
        rates[name] = put if held is None else held
    exact = sum(Fraction(counts[name] * rates[name], 10**6) for name in BUCKETS)
    tariff = Tariff(put, got, own["cached"], own["reasoning"], own["cache_write"], own["cache_write_1h"], batch)
    assert tariff.charge(**counts, job=job) == ceil(exact * batch if job else exact)


def row(attempt: str | None, nanos: int, billed: bool = True) -> dict[str, object]:
    return {
        "attempt": attempt, "model": "m", "input": 2, "cached": 0, "written": 0, "written_1h": 0, "output": 1, "reasoning": 0,
        "nanos": nanos, "billed": billed,
    }  # fmt: skip


def test_rows_are_written_at_once_and_totals_count_the_charged_ones() -> None:
    """A line of JSON each; what was not charged sums to nothing."""
    file = io.BytesIO()
    bill = Bill(file=file)
    for one in (row("1", 5), row("2", 0, billed=False), row("1", 7), row(None, 1)):
        bill.write(one)
        assert orjson.loads(file.getvalue().splitlines()[-1])["n"] == len(bill.rows)
    assert bill.charged() == {"1": 12, "": 1}
    totals = bill.totals()
    assert (totals["came"], totals["calls"], totals["nanos"], totals["usd"]) == (4, 3, 13, "0.000000013")
    nothing = {"cached": 0, "written": 0, "written_1h": 0, "reasoning": 0}
    assert totals["models"] == {"m": {"calls": 3, "nanos": 13, "input": 6, "output": 3, **nothing}}


def test_tariffs_are_read_from_a_file(tmp_path: Path) -> None:
    """USD per million as decimal strings, exact to the nano."""
    path = tmp_path / "prices.toml"
    path.write_text('["judge-a"]\ninput = "0.15"\noutput = "0.6"\ncached = "0.075"\n')
    assert read_tariffs(str(path)) == {"judge-a": Tariff(150_000_000, 600_000_000, 75_000_000)}
    path.write_text('["judge-a"]\ncache_write = "1.25"\ncache_write_1h = "2"\nbatch = "0.4"\n')
    written = Tariff(cache_write=1_250_000_000, cache_write_1h=2_000_000_000, batch=Fraction(2, 5))
    assert read_tariffs(str(path)) == {"judge-a": written}
    path.write_text('["judge-a"]\ninput = "cheap"\n')
    with pytest.raises(ValueError, match="judge-a"):
        read_tariffs(str(path))
    path.write_text('["judge-a"]\ntip = "1"\n')
    with pytest.raises(ValueError, match="takes input, output"):
        read_tariffs(str(path))


@given(st.lists(st.floats(0, 40), min_size=1, max_size=60), st.integers(1, 10))
def test_no_sixty_seconds_hold_more_admitted_calls_than_the_limit(gaps: list[float], limit: int) -> None:
    """The server's own window is exact, and the wait that it names is enough."""
    gauge, now, admitted = Gauge(requests_per_minute=limit), 0.0, []
    for gap in gaps:
        now += gap
        wait = gauge.admit(now, "m")
        if wait is None:
            admitted.append(now)
        else:
            assert 0 < wait <= 60
            assert sum(time > now + wait - 60 + 1e-6 for time in admitted) < limit
    assert all(sum(start <= time < start + 60 for time in admitted) <= limit for start in admitted)


def test_the_worst_minute_is_the_most_that_any_sixty_seconds_held() -> None:
    """Counted over all, not by the clock's minutes."""
    window = Window()
    for time in (0, 1, 2, 61.5, 61.6, 61.7, 61.8):
        window.count(time)
    assert window.worst == 5
