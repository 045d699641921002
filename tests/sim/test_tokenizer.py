"""tokenizer = "server": the model's own server bounds the reservation, right before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.place import HEAD, Place, at_home, lines, stated
from fakes.simulator import Simulator, simulator
from fakes.stubborn import stubborn

ROWS = lines(*({"id": f"r{n}", "text": "a longer text " * (n + 5)} for n in range(4)))
JUDGE = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
"""
FILES = {"t.jsonl": ROWS, "p.md": "{{ id }} {{ text }}\n" + stated(v=1)}
COUNTED = HEAD.replace('model = "sim-one"', 'model = "sim-one"\ntokenizer = "server"', 1)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Simulator]:
    """A simulated provider, which counts its tokens for whoever asks."""
    with simulator(tmp_path / "bill.jsonl", seed=1) as running:
        at_home(running.url)
        yield running


def test_the_servers_count_stands_in_the_reservation(tmp_path: Path, provider: Simulator) -> None:
    """Each hold is bounded by the server's own count, below that of bytes and never below what is billed; the keys are the same."""
    bytewise, counted = Place(tmp_path / "bytes"), Place(tmp_path / "counted")
    bytewise.write(JUDGE, FILES)
    counted.write(JUDGE, FILES, head=COUNTED)
    bytewise.do("run")
    counted.do("run")
    by_bytes = {row["key"]: row for row in bytewise.rows("requests")}
    by_count = {row["key"]: row for row in counted.rows("requests")}
    assert by_bytes.keys() == by_count.keys()
    loose, tight = bytewise.rows("attempts"), counted.rows("attempts")
    assert {row["bound_by"] for row in loose} == {"bytes"}
    assert {row["bound_by"] for row in tight} == {"tokens:server"}
    assert sum(row["hold_tokens"] for row in tight) < sum(row["hold_tokens"] for row in loose)
    assert counted.do("run").json["attempts"] == 4
    assert counted.do("audit", fine=(0, 8)).json["verdict"] == "pass"


def test_a_server_that_does_not_count_leaves_the_bytes(tmp_path: Path) -> None:
    """Where the count fails, the byte bound stands and the run goes on."""
    place = Place(tmp_path)
    place.write(JUDGE, FILES, head=COUNTED)
    with stubborn(400, {"error": {"message": "no"}}) as url:
        at_home(url)
        place.do("run", fine=(8,))
    assert {row["bound_by"] for row in place.rows("attempts")} == {"bytes"}
