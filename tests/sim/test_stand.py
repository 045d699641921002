"""The kept stand of an experiment: status and a rerun rest on it, say what a survey would say, and any change voids it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.place import Place, lines, stated
from fakes.simulator import Simulator
from judgerun.api import stand
from judgerun.api.project import Workspace, snapshot
from judgerun.files import trace

TEXT = """
[data.t]
path = "t*.jsonl"
only = "only.txt"
[gold.g]
path = "g.tsv"
[[stage]]
name = "m"
kind = "map"
from = "t"
call = "rows:f"
[[stage]]
name = "solve"
kind = "solve"
from = "m"
models = ["one"]
prompts = ["p"]
admit = ["stop"]
parse = { kind = "json", schema = "s.json", value = "v" }
[[stage]]
name = "grade"
kind = "grade"
from = "solve"
models = ["one", "two"]
prompts = ["q"]
parse = { kind = "json", value = "ok" }
"""
FILES = {
    "t1.jsonl": lines(*({"id": f"r{n}"} for n in range(6))),
    "only.txt": "".join(f"r{n}\n" for n in range(5)),
    "g.tsv": "qid\tdocid\tgrade\nr0\td\t1\n",
    "rows.py": "def f(row):\n    return {'value': row['id']}\n",
    "s.json": '{"type": "object"}',
    "p.md": "{{ value }}\n" + stated(v=1),
    "q.md": "{{ solve.value }} {{ id }}\n" + stated(ok=True),
}
COUNTED = {"solve/one/p@m@t": (5, 5, 0, 0), "grade/one/q@solve/one/p@m@t": (5, 5, 0, 0)}


@pytest.fixture
def settled(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A complete experiment whose files count as old enough to be proved unchanged."""
    monkeypatch.setattr(trace, "GRAIN_NS", -(10**18))
    place.write(TEXT, FILES)
    place.do("run")
    return place


def recalled(place: Place) -> stand.Stand | None:
    """The stand that holds now."""
    with snapshot(place.root / "cache.db") as view:
        assert view is not None
        return stand.recall(Workspace(root=place.root), place.name, view)


def execute(place: Place, text: str, *values: object) -> None:
    """A statement on the cache."""
    with sqlite3.connect(place.root / "cache.db") as connection:
        connection.execute(text, values)


def forgotten(place: Place) -> None:
    """The stand is gone: what is asked next is surveyed."""
    execute(place, "delete from stand")


def asked(simulator: Simulator) -> int:
    """Calls that the provider has seen."""
    return len(simulator.bill.read_text().splitlines())


def test_a_rerun_of_what_is_complete_opens_nothing_and_ends_the_same(
    settled: Place, provider: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the stand come the same document and code as from a full rerun, and the experiment is not opened."""
    before = asked(provider)
    forgotten(settled)
    full, surveyed = settled.do("run"), settled.do("status")
    idle = {"idle": None}

    def unopened(*_: object, **__: object) -> None:
        raise AssertionError("the experiment was opened")

    monkeypatch.setattr(Workspace, "open", unopened)
    quick, status = settled.do("run"), settled.do("status")
    assert "complete: nothing to send" in quick.err + settled.do("run", json=False).out
    assert (quick.code, quick.json | idle) == (full.code, full.json | idle)
    assert status.json == surveyed.json
    assert asked(provider) == before


CHANGES: dict[str, Callable[[Place], object]] = {
    "a prompt": lambda place: (place.folder / "q.md").write_text(FILES["q.md"] + "\n"),
    "the experiment file": lambda place: (place.folder / "experiment.toml").open("a").write("# more\n"),
    "rows": lambda place: (place.folder / "t1.jsonl").write_text(FILES["t1.jsonl"].replace("r5", "r7")),
    "a further file of rows": lambda place: (place.folder / "t2.jsonl").write_text(lines({"id": "s0"})),
    "the list of ids": lambda place: (place.folder / "only.txt").write_text("r0\n"),
    "gold": lambda place: (place.folder / "g.tsv").write_text("qid\tdocid\tgrade\nr0\td\t0\n"),
    "a function": lambda place: (place.folder / "rows.py").write_text(FILES["rows.py"] + "\n"),
    "a schema": lambda place: (place.folder / "s.json").write_text("{}"),
    "a file that is gone": lambda place: (place.folder / "g.tsv").unlink(),
    "a plan to buy again": lambda place: execute(
        place, "insert into event (at, kind, subject, detail, experiment) values (1, 'escalate', 'x', '{}', 'x')"
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_any_change_voids_the_stand(settled: Place, change: Callable[[Place], object]) -> None:
    """Whatever a survey reads and a person changes: the stand does not hold any more."""
    assert recalled(settled) is not None
    change(settled)
    assert recalled(settled) is None


def test_a_change_that_keeps_size_and_time_is_seen(settled: Place) -> None:
    """A file with other content, of the same size, whose time was put back, is another file."""
    path = settled.folder / "t1.jsonl"
    was = path.stat()
    path.write_text(FILES["t1.jsonl"].replace("r5", "r7"))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    assert recalled(settled) is None


def test_another_data_root_or_version_voids_the_stand(
    settled: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files may be found elsewhere under another $JUDGERUN_DATA, and another version may count otherwise."""
    with monkeypatch.context() as patch:
        patch.setenv("JUDGERUN_DATA", str(tmp_path))
        assert recalled(settled) is None
    with monkeypatch.context() as patch:
        patch.setattr(stand, "version", lambda _: "0.0.1")
        assert recalled(settled) is None
    assert recalled(settled) is not None


def test_a_file_that_was_touched_is_surveyed_and_kept_anew(settled: Place) -> None:
    """A file whose times alone changed voids the stand; the next status surveys, says the same and keeps a stand that holds."""
    said = settled.do("status").json
    os.utime(settled.folder / "q.md")
    assert recalled(settled) is None
    assert settled.do("status").json == said
    assert recalled(settled) is not None


def test_a_file_that_changed_just_now_proves_nothing(place: Place) -> None:
    """Within the grain of a file system's clock a second change may leave no trace: no stand is kept then."""
    place.write(TEXT, FILES)
    place.do("run")
    for path in place.folder.iterdir():
        os.utime(path)
    place.do("status")
    assert recalled(place) is None


def test_a_rerun_runs_where_the_world_is_not_as_it_was(settled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another budget, lanes that were written and a variable that is gone make a rerun run; status still rests."""
    place, quick = settled, "complete: nothing to send"
    place.do("run")
    assert quick in place.do("run", json=False).out
    place.budget('total = "90"\nconfirm_above = "90"\n', "other.toml")
    assert quick not in place.do("run", "--budget", "other", json=False).out
    place.do("run", "--budget", "main")
    assert quick in place.do("run", "--budget", "main", json=False).out
    place.budget("[sim]\nconcurrency = 3\n", "lanes.toml")
    assert quick not in place.do("run", "--budget", "main", json=False).out
    with monkeypatch.context() as patch:
        patch.delenv("SIM_URL")
        assert place.do("run", "--budget", "main", fine=(2,)).problems
        assert recalled(place) is not None


def test_what_is_not_settled_rests_on_the_ledger_and_is_never_rerun_from_the_stand(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cells left the stand serves status until anything is booked or given up; a rerun always runs."""
    monkeypatch.setattr(trace, "GRAIN_NS", -(10**18))
    place.write(TEXT, FILES)
    place.do("run", "--limit", "2", fine=(0, 8))
    said = place.do("status").json
    assert said["cells"]["pending"]
    assert recalled(place) is not None
    forgotten(place)
    assert place.do("status").json == said
    execute(place, "insert into lost (request, reason, at) values ((select max(id) from request), 'why', 5)")
    assert recalled(place) is None
    place.do("status")
    assert recalled(place) is not None
    other = place.beside("y")
    other.write(TEXT.replace('models = ["one", "two"]', 'models = ["two"]'), FILES)
    other.do("run")
    assert recalled(place) is None
    assert place.do("run").json["cells"]["pending"] == 0


def test_failed_cells_are_tried_anew_but_those_without_an_upstream_are_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An experiment whose only failures come from upstream is settled, with the code of its run; the rerun ends with it too."""
    monkeypatch.setattr(trace, "GRAIN_NS", -(10**18))
    place.write(TEXT.replace('value = "v" }', 'value = "absent" }'), FILES)
    first = place.do("run", fine=(8,))
    assert first.json["cells"]["failed"] == 10
    quick = place.do("run", json=False, fine=(8,))
    assert "complete: nothing to send" in quick.out
    forgotten(place)
    told: Any = place.do("run", fine=(8,)).json
    assert told["reason"] in quick.out
