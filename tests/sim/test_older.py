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
    ("run", "x", "--pilot", "2"),
    ("pause", "x"),
    ("unpause", "x"),
    ("set", "sim", "concurrency=3"),
    ("set", "budget", "total=50"),
    ("unfreeze", "x", "--because", "asked"),
    ("seal", "x"),
    ("status", "x", "--watch"),
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


@pytest.fixture(scope="module", params=[1, 2], ids="schema {}".format)
def version(request: pytest.FixtureRequest) -> int:
    """Of the older schema."""
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, provider: Simulator, version: int) -> Path:
    """A workspace with a sealed run, its cache as that version wrote it."""
    at_home(provider.url)
    place = Place(tmp_path_factory.mktemp("sealed"))
    place.write(STAGES, ROWS)
    place.do("run")
    place.do("seal")
    cache = place.root / "cache.db"
    older(cache, place.root / "older.db", version=version)
    for path in place.root.glob("cache.db*"):
        path.unlink()
    (place.root / "older.db").rename(cache)
    return place.root


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_takes_an_older_cache(
    sealed: Path, provider: Simulator, tmp_path: Path, version: int, words: tuple[str, ...]
) -> None:
    """Each may be the first that is given after an upgrade: it migrates, and keeps a copy; nothing is sent, the seal holds."""
    at_home(provider.url)
    place = Place(Path(shutil.copytree(sealed, tmp_path / "w")))
    came = len(provider.rows())
    said = place.say(*words)
    assert said.code == 0, said.err
    assert (place.root / f"cache.db.schema{version}.backup").exists()
    assert len(provider.rows()) == came
    place.do("verify")


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "x", "--condition", "v", "--because", "asked"),
        ("escalate", "x", "--condition", "v", "--max-output-tokens", "600"),
        ("set", "budget", "total=0"),
        ("set", "nowhere", "concurrency=3"),
    ],
    ids=" ".join,
)
def test_what_is_refused_is_refused_on_an_older_cache(
    sealed: Path, provider: Simulator, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """For its own reason, and not since the cache is old; the seal holds."""
    at_home(provider.url)
    place = Place(Path(shutil.copytree(sealed, tmp_path / "w")))
    said = place.say(*words)
    assert said.code == 2, said.err
    assert "schema" not in said.err
    place.do("verify")
