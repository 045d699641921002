"""Bundles: the same bytes, every file checked, the seal checked inside, no code run without trust."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.older import older
from fakes.store import HandClock, budget, chat, claim, forfeit, reply, settle
from judgerun.errors import Refused, SealBroken
from judgerun.model.request import RequestKey
from judgerun.report.bundle import Checked, Contents, placed, verify_bundle, write_bundle
from judgerun.store.extract import extract
from judgerun.store.inline import Inline
from judgerun.store.seal import Stated, verify
from judgerun.store.snapshot import Sealed, Snapshot


async def make_cache(path: Path) -> list[RequestKey]:
    """A cache with two experiments: `exp` bought three replies and forfeited once; `other` bought one that `exp` uses too,
    and one more. `exp` is sealed. The keys of its plan.
    """
    async with Inline.open(path, clock=HandClock(), durable=False) as store:
        await store.enter(experiment="other", budget=budget())
        for number in ("shared", "foreign"):
            grant = await store.reserve(claim(chat(number)))
            assert grant.attempt is not None
            await store.close(settle(grant.attempt, (chat(number), reply(number), 40)))
        await store.leave({}, {})
        await store.enter(experiment="exp", budget=budget())
        grant = await store.reserve(claim(chat("one")))
        assert grant.attempt is not None
        await store.close(forfeit(grant.attempt))
        for number in ("one", "two", "three"):
            grant = await store.reserve(claim(chat(number)))
            assert grant.attempt is not None
            await store.close(settle(grant.attempt, (chat(number), reply(number), 60)))
        await store.leave({"slot": 1.5}, {})
        keys = [chat(number).key for number in ("one", "two", "three", "shared", "pending")]
        await store.plan("exp", "d" * 64, {"experiment.toml": "0" * 64})
        await store.seal("exp", keys, stated=Stated(plan="d" * 64, prices="p1", code="0.1"))
    return keys


def trimmed(cache: Path, target: Path, keys: Sequence[RequestKey]) -> Sealed:
    """The trimmed cache at `target`; its seal."""
    with Snapshot.open(cache) as view:
        extract(view, target, experiments=["exp"], keys=keys)
        return view.seals("exp")[-1]


async def contents(folder: Path, name: str = "small.db") -> Contents:
    """All that a bundle needs."""
    cache = folder / "cache.db"
    keys = await make_cache(cache) if not cache.exists() else [chat(n).key for n in ("one", "two", "three", "shared")]
    sealed = trimmed(cache, folder / name, keys)
    lines = [{"question": "q", "seal": sealed.digest}]
    return Contents(
        experiment="exp",
        seal=sealed,
        files={
            "prompts/exp/experiment.toml": b'name = "exp"\n',
            "prompts/exp/rows.jsonl": b'{"id": "1", "text": "licensed"}\n',
            "results/exp/estimates.json": json.dumps(lines).encode(),
        },
        data=frozenset({"prompts/exp/rows.jsonl"}),
        cache=folder / name,
    )


def recomputed(root: Path) -> tuple[list[str], list[str]]:
    """What the API does in earnest: here, nothing differs."""
    assert (root / "prompts/exp/experiment.toml").is_file()
    assert (root / "cache.db").is_file()
    return [], []


async def test_a_trimmed_cache_holds_the_experiment_alone_and_its_seal_holds(tmp_path: Path) -> None:
    """Ids are kept, so the seal is whole; what another experiment bought for itself is not there."""
    keys = await make_cache(tmp_path / "cache.db")
    trimmed(tmp_path / "cache.db", tmp_path / "small.db", keys)
    with Snapshot.open(tmp_path / "small.db", immutable=True) as view:
        checked = verify(view, "exp")
        assert checked is not None
        assert checked.whole
        assert view.lookup(chat("shared").key) is not None
        assert view.lookup(chat("foreign").key) is None
        assert len(view.columns("attempts")["id"]) == 5
        assert view.standing("exp").experiment.settled == 180
        assert [name for name in view.experiments() if name == "exp"] == ["exp"]
    assert not (tmp_path / "small.db.lock").exists()
    with Snapshot.open(tmp_path / "cache.db") as view, pytest.raises(Refused, match="exists already"):
        extract(view, tmp_path / "small.db", experiments=["exp"], keys=keys)


async def test_a_bundle_is_whole_and_the_same_every_time(tmp_path: Path) -> None:
    """Two bundles of one run have the same bytes; checking needs nothing beside the file."""
    first = await contents(tmp_path)
    second = await contents(tmp_path, "again.db")
    one, other = tmp_path / "one.zip", tmp_path / "other.zip"
    assert write_bundle(one, first) == write_bundle(other, second)
    checked = verify_bundle(one, recompute=recomputed)
    assert checked == Checked(experiment="exp", form="whole", seal=first.seal.digest, files=5, results="equal")
    assert checked.whole
    assert not tmp_path.joinpath("one.zip.part").exists()


async def test_what_was_sealed_twice_without_a_change_is_whole(tmp_path: Path) -> None:
    """Both seals have one digest; a bundle holds the latter, and whoever kept a bundle of the former can check it still."""
    former = await contents(tmp_path)
    async with Inline.open(tmp_path / "cache.db", clock=HandClock(time=99.0), durable=False) as store:
        keys = [chat(number).key for number in ("one", "two", "three", "shared", "pending")]
        await store.seal("exp", keys, stated=Stated(plan="d" * 64, prices="p1", code="0.1"))
    latter = await contents(tmp_path, "again.db")
    assert latter.seal.digest == former.seal.digest
    assert latter.seal.at != former.seal.at
    for name, held in (("former.zip", former), ("latter.zip", latter), ("old.zip", replace(latter, seal=former.seal))):
        write_bundle(tmp_path / name, held)
        assert verify_bundle(tmp_path / name, recompute=recomputed).whole


async def test_a_bundle_of_an_older_judgerun_is_verified(tmp_path: Path) -> None:
    """The cache of a bundle that version 1 wrote is migrated where it was unpacked: its seal holds, and a change is found."""
    packed = await contents(tmp_path)
    assert packed.cache is not None
    older(packed.cache, tmp_path / "older.db")
    write_bundle(tmp_path / "older.bundle", replace(packed, cache=tmp_path / "older.db"))
    checked = verify_bundle(tmp_path / "older.bundle", recompute=recomputed)
    assert (checked.wrong, checked.results) == ((), "equal")
    connection = sqlite3.connect(tmp_path / "older.db")
    connection.execute("drop trigger reply_update")
    connection.execute("update reply set text = 'better' where attempt = (select max(attempt) from reply)")
    connection.commit()
    connection.close()
    write_bundle(tmp_path / "changed.bundle", replace(packed, cache=tmp_path / "older.db"))
    (wrong,) = verify_bundle(tmp_path / "changed.bundle").wrong
    assert "differs from what was sealed" in wrong


async def test_estimates_that_come_out_otherwise_are_a_fault(tmp_path: Path) -> None:
    """What is recomputed must be what the bundle says."""
    write_bundle(tmp_path / "b.zip", await contents(tmp_path))
    checked = verify_bundle(tmp_path / "b.zip", recompute=lambda root: (["results/exp/report.md: differs"], ["old"]))
    assert (checked.results, checked.wrong, checked.old) == ("differ", ("results/exp/report.md: differs",), ("old",))


async def test_code_in_a_bundle_is_not_run_without_trust(tmp_path: Path) -> None:
    """A bundle with Python in it is checked, but nothing of it is computed until it is trusted."""
    held = await contents(tmp_path)
    held = replace(held, files={**held.files, "prompts/exp/rows.py": b"raise SystemExit"})
    write_bundle(tmp_path / "b.zip", held)

    def forbidden(root: Path) -> tuple[list[str], list[str]]:
        raise AssertionError("code of a bundle was reached")

    checked = verify_bundle(tmp_path / "b.zip", recompute=forbidden)
    assert checked.whole
    assert "rows.py" in checked.results
    assert verify_bundle(tmp_path / "b.zip", recompute=recomputed, trust=True).results == "equal"


async def test_a_bundle_of_digests_holds_no_data_and_no_reply(tmp_path: Path) -> None:
    """For licensed data: the manifest names size and digest of what is left out, and the seal is stated."""
    held = await contents(tmp_path)
    write_bundle(tmp_path / "b.zip", held, form="digests")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        names = archive.namelist()
        manifest = json.loads(archive.read("manifest.json"))
    assert "cache.db" not in names
    assert "prompts/exp/rows.jsonl" not in names
    assert manifest["files"]["prompts/exp/rows.jsonl"]["bytes"] == len(held.files["prompts/exp/rows.jsonl"])  # type: ignore[arg-type]
    checked = verify_bundle(tmp_path / "b.zip", recompute=recomputed)
    assert checked.whole
    assert checked.skipped == ("prompts/exp/rows.jsonl",)
    assert "no replies" in checked.results


async def test_every_changed_file_is_named(tmp_path: Path) -> None:
    """A byte changed, a file added, a file gone: each is named; nothing is recomputed then."""
    write_bundle(tmp_path / "b.zip", await contents(tmp_path))
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    held["prompts/exp/experiment.toml"] = held["prompts/exp/experiment.toml"].replace(b"exp", b"xxx")
    held["extra.txt"] = b"?"
    del held["prompts/exp/rows.jsonl"]
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        for name, body in held.items():
            archive.writestr(name, body)
    checked = verify_bundle(tmp_path / "bad.zip", recompute=recomputed)
    assert checked.wrong == (
        "extra.txt: is not in the manifest",
        "prompts/exp/experiment.toml: differs from the manifest",
        "prompts/exp/rows.jsonl: is missing",
    )
    assert checked.results.startswith("not recomputed")


async def test_a_reply_changed_behind_the_seal_is_found(tmp_path: Path) -> None:
    """A cache that was changed and packed again with a manifest that agrees still breaks its seal."""
    import sqlite3

    held = await contents(tmp_path)
    assert held.cache is not None
    connection = sqlite3.connect(held.cache)
    connection.execute("drop trigger reply_update")
    connection.execute("update reply set text = 'eight' where text = 'two'")
    connection.commit()
    connection.close()
    write_bundle(tmp_path / "b.zip", held)
    checked = verify_bundle(tmp_path / "b.zip", recompute=recomputed)
    assert len(checked.wrong) == 1
    assert checked.wrong[0].startswith("cache.db: replies")


async def test_estimates_of_another_seal_are_found(tmp_path: Path) -> None:
    """Results that rest on another seal than the bundle's are named."""
    held = await contents(tmp_path)
    files = {**held.files, "results/exp/estimates.json": b'[{"seal": "other"}]'}
    write_bundle(tmp_path / "b.zip", replace(held, files=files))
    assert "results: estimates rest on another seal" in verify_bundle(tmp_path / "b.zip").wrong


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a\\b", "c:x", "a/./b", ""])
async def test_no_path_leads_out_of_a_bundle(tmp_path: Path, name: str) -> None:
    """A path that leads out is neither written nor read."""
    held = await contents(tmp_path)
    with pytest.raises(Refused, match="no path inside a bundle"):
        write_bundle(tmp_path / "b.zip", replace(held, files={name: b"x"}))
    manifest = {
        "format": "judgerun-bundle/1", "experiment": "exp", "form": "whole", "seal": "s",
        "files": {name: {"bytes": 1, "sha256": "0", "held": True}},
    }  # fmt: skip
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    with pytest.raises(SealBroken, match="manifest cannot be read"):
        verify_bundle(tmp_path / "evil.zip")


def test_what_is_no_bundle_is_said_so(tmp_path: Path) -> None:
    """A file that is no zip, a zip without a manifest, another format: exit 5 with a reason."""
    (tmp_path / "x.zip").write_bytes(b"hello")
    with pytest.raises(SealBroken, match="is no bundle"):
        verify_bundle(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("a", b"b")
    with pytest.raises(SealBroken, match="manifest cannot be read"):
        verify_bundle(tmp_path / "y.zip")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("manifest.json", '{"format": "judgerun-bundle/9"}')
    with pytest.raises(SealBroken, match="another format"):
        verify_bundle(tmp_path / "z.zip")


def test_data_lie_beside_the_experiment_in_a_bundle(tmp_path: Path) -> None:
    """Files found under the data root are put beside the experiment file; an absolute path cannot be."""
    folder, root = tmp_path / "prompts" / "exp", tmp_path / "data"
    (root / "beir").mkdir(parents=True)
    folder.mkdir(parents=True)
    (folder / "terse.md").write_text("x")
    (root / "beir" / "queries.jsonl").write_text("y")
    found = placed({"terse.md": "1", "beir/queries.jsonl": "2"}, experiment="exp", folder=folder, data_root=root)
    assert found == {
        "prompts/exp/beir/queries.jsonl": root / "beir" / "queries.jsonl",
        "prompts/exp/terse.md": folder / "terse.md",
    }
    with pytest.raises(Refused, match="cannot be put beside"):
        placed({str(root / "beir" / "queries.jsonl"): "1"}, experiment="exp", folder=folder, data_root=root)
    with pytest.raises(Refused, match="cannot be put beside"):
        placed({"../../data/beir/queries.jsonl": "1"}, experiment="exp", folder=folder, data_root=root)
