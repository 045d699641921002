"""Bundles: a sealed run as one zip file that anyone can check; written the same bytes for the same run.

What may live here: the packing, the manifest, and the check. A bundle holds

    manifest.json          format, experiment, form, seal, and for every other file its size and sha256
    cache.db               the trimmed cache (store/extract.py): this run's requests, attempts, entries, replies, plan, seal
    prompts/EXP/...        the experiment file, prompts, schemas, code, and the data that it reads
    budgets/, audits/, results/EXP/...

In the form `digests` (for data under a licence) the cache is left out, and of every data file only size and digest stand in
the manifest: who has the data can compare. `seal.json` states the seal and its parts in both forms.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Literal

import orjson

from judgerun.errors import EXPERIMENT, Problem, Refused, SealBroken, StoreError
from judgerun.store.seal import verify
from judgerun.store.snapshot import Sealed, Snapshot
from judgerun.store.upkeep import migrate

FORMAT = "judgerun-bundle/1"
MANIFEST, SEAL, CACHE = "manifest.json", "seal.json", "cache.db"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can state: a bundle has none
CHUNK = 1 << 20
MANIFEST_BYTES_MAX = 64 << 20

Form = Literal["whole", "digests"]
Recompute = Callable[[Path], tuple[Sequence[str], Sequence[str]]]
"""What of the results and audits in a workspace comes out otherwise, and what is only old; made by the API, since reading an
experiment is not this room's work.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What to pack. `files` by their path in the bundle (as in a workspace); `data` names those of them that a bundle of
    digests leaves out. `cache` is the trimmed cache.
    """

    experiment: str
    seal: Sealed
    files: Mapping[str, Path | bytes]
    data: frozenset[str] = frozenset()
    cache: Path | None = None


def write_bundle(target: Path, contents: Contents, *, form: Form = "whole") -> str:
    """Write a bundle; hex sha256 of the file. It is written beside its place and renamed, so no half of one is ever seen.

    Refused for a path that leads out of the bundle, and for a whole bundle without its cache.
    """
    sources = dict(_sources(contents, form))
    stated: dict[str, dict[str, Any]] = {}
    for name in sorted({*sources, *contents.files}):
        _safe(name)
        size, sha = _measured(sources.get(name, contents.files.get(name, b"")))
        stated[name] = {"bytes": size, "sha256": sha, "held": name in sources}
    manifest = {
        "format": FORMAT,
        "experiment": contents.experiment,
        "form": form,
        "seal": contents.seal.digest,
        "files": stated,
    }
    half = target.with_name(target.name + ".part")
    try:
        with zipfile.ZipFile(half, "w") as archive:
            _put(archive, MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n")
            for name in sorted(sources):
                _put(archive, name, sources[name])
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    return _measured(target)[1]


def _sources(contents: Contents, form: Form) -> Iterator[tuple[str, Path | bytes]]:
    yield SEAL, seal_document(contents.seal)
    if form == "whole":
        if contents.cache is None:
            raise Refused(Problem(contents.experiment, "bundle", "has no cache", "a bundle of digests needs none"))
        yield CACHE, contents.cache
    for name, source in contents.files.items():
        if form == "whole" or name not in contents.data:
            yield name, source


def seal_document(seal: Sealed) -> bytes:
    """seal.json: what the seal covers and the digest of each part."""
    told = {
        "experiment": seal.experiment,
        "digest": seal.digest,
        "at": seal.at,
        "entry": seal.entry,
        "attempt": seal.attempt,
        "parts": {name: dict(part) for name, part in seal.parts.items()},
        "stated": dict(seal.stated),
        "reason": seal.reason,
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _safe(name: str) -> None:
    path = PurePosixPath(name)
    odd = not name or path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or str(path) != name
    if odd or any(ord(sign) < 32 for sign in name):
        raise Refused(Problem("bundle", repr(name), "is no path inside a bundle", "a file beside the experiment"))


def _chunks(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _measured(source: Path | bytes) -> tuple[int, str]:
    """Size and hex sha256."""
    sha, size = hashlib.sha256(), 0
    for chunk in _chunks(source):
        sha.update(chunk)
        size += len(chunk)
    return size, sha.hexdigest()


def _put(archive: zipfile.ZipFile, name: str, source: Path | bytes) -> None:
    member = zipfile.ZipInfo(name, EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.create_system = 3
    member.external_attr = 0o644 << 16
    with archive.open(member, "w", force_zip64=True) as stream:
        for chunk in _chunks(source):
            stream.write(chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What `verify BUNDLE` found. `wrong` is empty for a sound bundle. `results` says whether the files of results and audits came
    out again: "equal", "differ", or why they were not made again (which is no fault); `old` which of them differ for a reason.
    """

    experiment: str
    form: str
    seal: str
    files: int
    wrong: tuple[str, ...] = ()
    results: str = ""
    old: tuple[str, ...] = ()
    skipped: tuple[str, ...] = field(default=())  # files that the bundle names by digest alone

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify_bundle(path: Path, *, recompute: Recompute | None = None, trust: bool = False) -> Checked:
    """Check a bundle without a workspace, a key or the network: every file against the manifest, the seal against the cache,
    the files of results and audits by making them again. Code that lies in the bundle is run only with `trust`.

    SealBroken when the file is no bundle at all.
    """
    try:
        with zipfile.ZipFile(path) as archive, TemporaryDirectory(prefix="judgerun-bundle-") as folder:
            manifest = _manifest(archive, path)
            wrong = list(_unpack(archive, manifest, Path(folder)))
            results = "not recomputed: the files differ from the manifest"
            old: Sequence[str] = ()
            if not wrong:
                wrong += _sealed(manifest, Path(folder))
                results = _spared(manifest, Path(folder), recompute, trust)
                if recompute is not None and not results:
                    differ, old = recompute(Path(folder))
                    wrong += differ
                    results = "differ" if differ else "equal"
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise SealBroken(f"{path} is no bundle: {error}") from error
    return Checked(
        experiment=manifest["experiment"],
        form=manifest["form"],
        seal=manifest["seal"],
        files=sum(held["held"] for held in manifest["files"].values()),
        wrong=tuple(wrong),
        results=results,
        old=tuple(old),
        skipped=tuple(sorted(name for name, held in manifest["files"].items() if not held["held"])),
    )


def _manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    try:
        member = archive.getinfo(MANIFEST)
        if member.file_size > MANIFEST_BYTES_MAX:
            raise SealBroken(f"{path} is no bundle: its manifest is too large")
        manifest = orjson.loads(archive.read(member))
        if manifest["format"] != FORMAT:
            raise SealBroken(f"{path} is a bundle of another format: {manifest['format']!r}, not {FORMAT}")
        for name in ("experiment", "form", "seal"):
            _typed(name, manifest[name], str)
        _typed("files", manifest["files"], dict)
        for name, held in manifest["files"].items():
            _safe(name)
            _typed(f"{name}: bytes", held["bytes"], int)
            _typed(f"{name}: sha256", held["sha256"], str)
            _typed(f"{name}: held", held["held"], bool)
    except (KeyError, TypeError, ValueError, Refused) as error:
        raise SealBroken(f"{path} is no bundle: its manifest cannot be read ({error})") from error
    return dict(manifest)


def _typed(name: str, value: object, kind: type) -> None:
    if type(value) is not kind:
        raise TypeError(f"{name} is a {type(value).__name__}")


def _unpack(archive: zipfile.ZipFile, manifest: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Write the files that the manifest names into the folder; what is wrong with each. Nothing larger than stated is read."""
    names = [member.filename for member in archive.infolist() if member.filename != MANIFEST]
    stated = {name: held for name, held in manifest["files"].items() if held["held"]}
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name}: stands twice"
    yield from (f"{name}: is not in the manifest" for name in sorted(set(names) - set(stated)))
    for name, held in sorted(stated.items()):
        if name not in names:
            yield f"{name}: is missing"
            continue
        try:
            found = _copy(archive, name, folder / name, most=held["bytes"])
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            yield f"{name}: cannot be read: {error}"
            continue
        if found != (held["bytes"], held["sha256"]):
            yield f"{name}: differs from the manifest"


def _copy(archive: zipfile.ZipFile, name: str, place: Path, *, most: int) -> tuple[int, str]:
    """Write one file, no more than a chunk above `most` bytes of it; size and hex sha256 of what was read."""
    place.parent.mkdir(parents=True, exist_ok=True)
    sha, size = hashlib.sha256(), 0
    with archive.open(name) as stream, place.open("wb") as copy:
        while size <= most and (chunk := stream.read(CHUNK)):
            sha.update(chunk)
            size += len(chunk)
            copy.write(chunk)
    return size, sha.hexdigest()


def _sealed(manifest: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """What is wrong with the seal: stated otherwise than in the manifest, or broken in the cache."""
    stated = orjson.loads((folder / SEAL).read_bytes()) if (folder / SEAL).is_file() else {}
    if stated.get("digest") != manifest["seal"] or stated.get("experiment") != manifest["experiment"]:
        yield "seal.json: states another seal than the manifest"
    results = folder / "results" / manifest["experiment"] / "estimates.json"
    if results.is_file():
        others = {line.get("seal") for line in orjson.loads(results.read_bytes())} - {manifest["seal"]}
        if others:
            yield "results: estimates rest on another seal"
    if manifest["form"] != "whole":
        return
    try:
        yield from _broken(manifest, folder)
    except StoreError as error:
        yield f"cache.db: cannot be read: {error}"


def _broken(manifest: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Where the cache of a bundle is not what was sealed. What was unpacked of an older judgerun's is migrated first."""
    migrate(folder / CACHE)
    with Snapshot.open(folder / CACHE, immutable=True) as view:
        seals = [seal for seal in view.seals(manifest["experiment"]) if seal.digest == manifest["seal"]]
        checked = verify(view, manifest["experiment"], seal=seals[-1]) if seals else None
        if checked is None:
            yield "cache.db: does not hold the seal of the manifest"
        else:
            yield from (f"cache.db: {difference}" for difference in checked.differences)
            # What is sealed again without a change has the same digest, and another day.
            if (folder / SEAL).read_bytes() not in [seal_document(seal) for seal in seals]:
                yield "seal.json: differs from the seal in cache.db"


def _spared(manifest: Mapping[str, Any], folder: Path, recompute: Recompute | None, trust: bool) -> str:
    """Why nothing is made again; "" where it is."""
    kept = folder / "results" / manifest["experiment"] / "estimates.json"
    code = sorted(name for name, held in manifest["files"].items() if held["held"] and name.endswith(".py"))
    if manifest["form"] != "whole":
        return "not recomputed: a bundle of digests holds no replies"
    if recompute is None or not kept.is_file():
        return "not recomputed: the bundle holds no estimates" if recompute else "not recomputed: not asked"
    if code and not trust:
        return f"not recomputed: the bundle holds code ({', '.join(code)}); --trust runs it"
    return ""


def placed(files: Mapping[str, str], *, experiment: str, folder: Path, data_root: Path | None) -> dict[str, Path]:
    """Where files that an experiment names lie, by their path in the bundle: beside its own file there, wherever they were
    found here. Refused for one that is written as an absolute path or leads out of its folder.
    """
    told: dict[str, Path] = {}
    roots = [folder, *([data_root] if data_root is not None else [])]
    for written in sorted(files):
        place = next((root / written for root in roots if (root / written).is_file()), None)
        name = f"prompts/{experiment}/{PurePosixPath(os.path.normpath(written))}"
        if place is None or PurePosixPath(written).is_absolute() or ".." in PurePosixPath(name).parts:
            wrong = f"{written!r} cannot be put beside the experiment"
            raise Refused(Problem(EXPERIMENT, written, wrong, "a relative path, or --digests-only"))
        told[name] = place
    return told
