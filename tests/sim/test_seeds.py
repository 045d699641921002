"""Whole runs under seeded faults in virtual time, judged by the provider's own bill. A failure prints its seed;

JUDGERUN_SEED=83 pytest tests/sim/test_seeds.py      plays that seed alone
JUDGERUN_SEEDS=5000 pytest tests/sim/test_seeds.py   plays so many
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import judge
from fakes.mortal import MUTANTS
from fakes.world import Knobs, World, draw, play
from judgerun.ledger.entry import Decision
from judgerun.simulate import virtual
from judgerun.simulate.faults import swarm

SEEDS = int(os.environ.get("JUDGERUN_SEEDS", "200"))
GROUP = 20
ONLY = os.environ.get("JUDGERUN_SEED")
GROUPS = (
    [range(int(ONLY), int(ONLY) + 1)] if ONLY else [range(n, min(n + GROUP, SEEDS)) for n in range(0, SEEDS, GROUP)]
)


def lived(place: Path, seed: int, *, mutant: str = "") -> World:
    """One seed's world after its whole life, in a folder of its own."""
    folder = place / f"{seed} {mutant}"
    folder.mkdir()
    return virtual.run(play(folder, seed, mutant=mutant))


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_promises_hold_under_faults(tmp_path: Path, seeds: range) -> None:
    """Whatever fails, is killed or stopped: caps hold at every commit, the bill is in the books, each reserve has one end, each
    key one reply, the healthy rerun finishes, and one more sends nothing.
    """
    found = {seed: world.findings for seed in seeds if (world := lived(tmp_path, seed)).findings}
    assert not found, f"JUDGERUN_SEED={min(found)} pytest {Path(__file__).name}: {found}"


@pytest.mark.parametrize("seeds", GROUPS[: len(GROUPS) // 2 or 1], ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_promises_hold_on_the_simulated_provider(tmp_path: Path, seeds: range) -> None:
    """The same against `judgerun simulate` itself, with the real flow and a swarm of all faults that it knows."""
    found = {}
    for seed in seeds:
        knobs = replace(draw(seed), real=True, simulated=True, weights=swarm(seed, 0.3))
        (tmp_path / str(seed)).mkdir()
        world = virtual.run(play(tmp_path / str(seed), seed, knobs=knobs))
        if world.findings:
            found[seed] = world.findings
    assert not found, f"JUDGERUN_SEED={min(found)} pytest {Path(__file__).name}: {found}"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_judge_finds_a_planted_fault(tmp_path: Path, mutant: str) -> None:
    """A program that breaks a promise is caught by one of the first seeds: the tester itself is tested."""
    caught = next((seed for seed in range(60) if lived(tmp_path, seed, mutant=mutant).findings), None)
    assert caught is not None, f"no seed caught {mutant!r}"


@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_one_seed_is_one_run(tmp_path: Path, seed: int) -> None:
    """The same seed gives the same calls at the same moments and the same ledger, entry by entry."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    first, second = lived(tmp_path / "1", seed), lived(tmp_path / "2", seed)
    assert judge.trace(first.path, first.server.bill) == judge.trace(second.path, second.server.bill), f"seed {seed}"


@pytest.mark.parametrize("simulated", [False, True])
def test_replies_do_not_depend_on_width(tmp_path: Path, simulated: bool) -> None:
    """One slot or nine, quick or slow: the cache holds the same replies to the same requests."""
    query = "select q.key, p.finish, p.text, p.output_visible from reply p join request q on q.id = p.request order by q.key"
    found = []
    for width in (1, 3, 9):
        folder = tmp_path / str(width)
        folder.mkdir()
        knobs = Knobs(
            rows=8, concurrency=width, embed=True, real=True, simulated=simulated, latency=(0.1 / width, 9.0 / width)
        )
        world = virtual.run(play(folder, 5 * width, knobs=knobs, provider_seed=1))
        assert world.findings == []
        found.append(judge.rows_of(world.path, query))
    assert len(found[0]) == 8 * 5
    assert found[0] == found[1] == found[2]


def test_seeds_differ_in_kind(tmp_path: Path) -> None:
    """The seeds reach what they are meant to reach: every knob, and every decision that one process can be told."""
    knobs = [draw(seed) for seed in range(200)]
    assert sum(k.die_at is not None for k in knobs) > 40
    assert sum(k.stop_again is not None for k in knobs) > 10
    assert sum(k.real for k in knobs) > 40
    assert sum(k.requests_per_minute is not None for k in knobs) > 20
    told: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for seed in range(30):
        world = lived(tmp_path, seed)
        kinds.update(kind for (kind,) in judge.rows_of(world.path, "select kind from entry"))
        for outcome in world.outcomes:
            told.update({decision.value: n for decision, n in outcome.store.decisions.items()})
    assert {"reserve", "settle", "void", "forfeit"} <= kinds.keys()
    assert {Decision.RESERVED, Decision.WAIT, Decision.EXHAUSTED} <= told.keys()
