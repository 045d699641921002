"""tokenizer = "server": the model's own server bounds the reservation, right before it."""

from __future__ import annotations

import json
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


SPEAK = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "s"
kind = "solve"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "text" }
"""


def test_lengths_that_no_provider_told_are_counted_anew(tmp_path: Path) -> None:
    """Replies without usage: audit --recount asks the server's tokenizer, and their pile at the cap shows; nothing is bought for
    it, a second time nothing is asked, and without a tokenizer it is refused.
    """
    rows = lines(*({"id": f"r{n}", "text": f"thing {n}"} for n in range(12)))
    capped = COUNTED.replace("max_output_tokens = 300", "max_output_tokens = 16", 1)
    place = Place(tmp_path / "w")
    with simulator(tmp_path / "bill.jsonl", seed=1, faults="usage_missing=1") as running:
        at_home(running.url)
        place.write(SPEAK, {"t.jsonl": rows, "p.md": "Say what you think of {{ text }}.\n"}, head=capped)
        place.do("run")
        before = place.rows("attempts")
        assert lengths(place) == []
        assert "12 replies counted anew" in place.do("audit", "--recount", fine=(8,)).err
        (told,) = lengths(place)
        assert (told["cap"], told["n"], told["counted anew"], told["length unknown"]) == (16, 12, 12, 0)
        assert told["at the cap"] == told["finish length"] > 0
        assert "0 replies counted anew" in place.do("audit", "--recount", fine=(8,)).err
        assert place.rows("attempts") == before
        place.write(SPEAK, head=capped.replace('tokenizer = "server"\n', ""))
        (place.folder / "t.jsonl").write_text(rows + lines({"id": "new", "text": "thing 12"}))
        place.do("run")
        refused = place.do("audit", "--recount", fine=(2,))
        assert "prompts/x/experiment.toml models.one.tokenizer" in refused.problems[0]


def lengths(place: Place) -> list[dict[str, int]]:
    """The table of lengths in the audit."""
    place.do("audit", fine=(8,))
    tables = json.loads((place.root / "audits" / "x" / "audit.json").read_text())["tables"]
    return [row for table in tables if table["name"] == "lengths" for row in table["rows"]]
