"""import and audit of a run of another program, by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes.place import Place
from judgerun.files.foreign import read as reading
from judgerun.store.snapshot import Snapshot


def log(folder: Path, *, extra: int = 0) -> Path:
    """A spend log in which one row was paid twice; `extra` calls more."""
    calls = [
        {
            "model": "m",
            "provider": "p",
            "input_tokens": 5,
            "output_tokens": 7,
            "cost": 0.001,
            "note": f"solver none/q{n}",
        }
        for n in (*range(3 + extra), 0)
    ]
    path = folder / "SPEND.json"
    path.write_text(json.dumps({"p": 0.001 * len(calls), "calls": calls}))
    return path


def test_a_foreign_run_is_imported_listed_and_audited(tmp_path: Path) -> None:
    """It is read once, listed, audited under its name with exit 8, waived with a reason, and no account knows of its money."""
    place = Place(tmp_path / "w")
    place.root.mkdir()
    path = str(log(tmp_path))
    first = place.say("import", path, "--name", "old", "--json")
    assert (first.code, first.json["calls"], first.json["known"]) == (0, 4, False)
    assert place.say("import", path, "--name", "old", "--json").json["known"] is True
    assert [run["name"] for run in place.say("import", "--list", "--json").json["runs"]] == ["old"]
    told = place.say("audit", "old", "--json")
    assert (told.code, told.json["verdict"]) == (8, "findings")
    assert [finding["check"] for finding in told.json["findings"]] == ["paid twice"]
    document = json.loads((place.root / "audits" / "old" / "audit.json").read_text())
    assert [table["name"] for table in document["tables"]] == ["spend"]
    waiver = '[[waiver]]\nexperiment = "old"\ncheck = "paid twice"\nbecause = "the answer was lost"\n'
    (place.root / "audits" / "waivers.toml").write_text(waiver)
    assert place.say("audit", "old").code == 0
    with Snapshot.open(place.root / "cache.db") as view:
        assert view.columns("entries")["id"].tolist() == []  # type: ignore[union-attr]


def test_other_files_under_a_known_name_need_a_word(tmp_path: Path) -> None:
    """A changed file is refused with a remedy, and replaces the run with --replace."""
    place = Place(tmp_path / "w")
    place.root.mkdir()
    place.say("import", str(log(tmp_path)), "--name", "old")
    refused = place.say("import", str(log(tmp_path, extra=2)), "--name", "old", "--json")
    assert refused.code == 2
    assert "SPEND.json" in refused.problems[0]
    assert place.say("import", str(log(tmp_path, extra=2)), "--name", "old", "--replace", "--json").json["calls"] == 6
    with Snapshot.open(place.root / "cache.db") as view:
        run = view.run("old")
    assert run is not None
    assert len(run.calls) == 6


def imports(root: Path) -> list[str]:
    """What the events of the cache say of imports."""
    with Snapshot.open(root / "cache.db") as view:
        return [event.detail for event in view.events(0) if event.kind == "import"]


def test_a_replacement_is_on_the_record(tmp_path: Path) -> None:
    """The event of an import names the files that were read, and of a replacement also those whose run it took the place of."""
    place = Place(tmp_path / "w")
    place.root.mkdir()
    place.say("import", str(log(tmp_path)), "--name", "old")
    with Snapshot.open(place.root / "cache.db") as view:
        before = view.run("old")
    assert before is not None
    place.say("import", str(log(tmp_path, extra=2)), "--name", "old", "--replace")
    first, second = imports(place.root)
    assert first == f"5 records (spend-json/{reading.VERSION}) of SPEND.json {before.files['SPEND.json']}"
    assert second.endswith(f"; in the place of {first}")


def test_a_mended_reader_reads_the_same_files_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read by another version of the reader is no known run: the same files are read again, without --replace."""
    place = Place(tmp_path / "w")
    place.root.mkdir()
    path = str(log(tmp_path))
    monkeypatch.setattr(reading, "VERSION", reading.VERSION - 1)
    place.say("import", path, "--name", "old")
    monkeypatch.undo()
    again = place.say("import", path, "--name", "old", "--json")
    assert (again.code, again.json["known"]) == (0, False)
    assert place.say("import", path, "--name", "old", "--json").json["known"] is True
    assert len(imports(place.root)) == 2


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """A name that an experiment has, a name that is none, a file of no family, no file at all: 2 each, and nothing is kept."""
    place = Place(tmp_path / "w")
    (place.root / "prompts" / "mine").mkdir(parents=True)
    path = str(log(tmp_path))
    strange = tmp_path / "x.json"
    strange.write_text("{}")
    for words in (
        [path, "--name", "mine"],
        [path, "--name", "a b"],
        [str(strange), "--name", "old"],
        ["--name", "old"],
        [path],
    ):
        assert place.say("import", *words).code == 2
    assert not (place.root / "cache.db").exists()
