"""A workspace whose cache an older judgerun wrote: every command takes it, nothing is bought again, and its seal holds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.older import older
from fakes.place import Place, at_home, lines
from fakes.simulator import Simulator, simulator

ROWS = {"t.jsonl": lines(*({"id": f"r{n}", "text": f"text number {n}"} for n in range(4)))}
#: Vectors alone: the reply of a chat tells more since version 2, and a seal of today covers it.
STAGES = """
[data.t]
path = "t.jsonl"
[models.vectors]
provider = "sim"
model = "embedder"
dimensions = 8
[[stage]]
name = "v"
kind = "embed"
models = ["vectors"]
queries = "t.text"
"""
COMMANDS = [
    ("check", "x"),
    ("plan", "x"),
    ("run", "x"),
    ("run", "x", "--rehearse"),
    ("probe", "x"),
    ("status", "x"),
    ("status",),
    ("stop", "x"),
    ("show", "x"),
    ("audit", "x"),
    ("verify", "x"),
    ("report", "x"),
    ("export", "x"),
    ("bundle", "x"),
    ("doctor",),
    ("cache", "size"),
    ("cache", "compact"),
]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """A provider without faults."""
    with simulator(tmp_path_factory.mktemp("provider") / "bill.jsonl", seed=2) as running:
        yield running


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, provider: Simulator) -> Path:
    """A workspace with a sealed run, its cache as version 1 wrote it."""
    at_home(provider.url)
    place = Place(tmp_path_factory.mktemp("sealed"))
    place.write(STAGES, ROWS)
    place.do("run")
    place.do("seal")
    cache = place.root / "cache.db"
    older(cache, place.root / "older.db")
    for path in place.root.glob("cache.db*"):
        path.unlink()
    (place.root / "older.db").rename(cache)
    return place.root


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_takes_an_older_cache(
    sealed: Path, provider: Simulator, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Each may be the first that is given after an upgrade: it migrates, and keeps a copy; nothing is sent, the seal holds."""
    at_home(provider.url)
    place = Place(Path(shutil.copytree(sealed, tmp_path / "w")))
    came = len(provider.rows())
    said = place.say(*words)
    assert said.code == 0, said.err
    assert (place.root / "cache.db.schema1.backup").exists()
    assert len(provider.rows()) == came
    place.do("verify")
