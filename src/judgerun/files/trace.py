"""Trace: by what it is known, without reading them, that the files of an experiment are as they were when they were read."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from judgerun.files.experiment import Loaded
from judgerun.files.readers import digest_of

GRAIN_NS = 2_000_000_000
"""The coarsest clock of a file system: within it a second change of a file may leave its times as they were."""

Print = list[int]
"""Size, times of the last change of content and of the file's record (ns), number of a file."""


def trace(loaded: Loaded, data_root: Path | None, *, opened_ns: int, now_ns: int) -> dict[str, Any] | None:
    """The prints of all files that determine an experiment's cells, as JSON holds them: absolute path -> print, None where a
    file must not be; glob -> what it finds. None where no print can tell: a file that changed after `opened_ns`, or so shortly
    before it or before now that a further change might not show; a table of another experiment; the weights of local models.
    """
    roots = _roots(Path(loaded.experiment.folder), data_root)
    local = any(model.provider.dialect == "local" for model in loaded.experiment.models)
    if local or any(spec.stage is not None for spec in loaded.experiment.data):
        return None
    files: dict[str, Print | None] = {}
    read = {str(loaded.path.resolve()): loaded.experiment.digest}
    for name, digest in loaded.inputs.digests.items():
        found = _found(name, roots, files)
        if found is None:
            return None
        read[str(found)] = digest
    for path, digest in read.items():
        files[path] = printed(Path(path))
        if not _proven(Path(path), files[path], digest, opened_ns=opened_ns, now_ns=now_ns):
            return None
    globs = {spec.path: _names(spec.path, roots) for spec in loaded.experiment.data if glob.has_magic(spec.path)}
    return {"roots": list(map(str, roots)), "files": files, "globs": globs}


def unchanged(traced: Mapping[str, Any], folder: Path, data_root: Path | None) -> bool:
    """Whether all that was traced is as it was, for an experiment in that folder and with that $JUDGERUN_DATA."""
    roots = _roots(folder, data_root)
    return (
        traced["roots"] == list(map(str, roots))
        and all(printed(Path(path)) == was for path, was in traced["files"].items())
        and all(_names(pattern, roots) == was for pattern, was in traced["globs"].items())
    )


def prints(paths: Iterable[Path]) -> dict[str, Print | None]:
    """The prints of files by their absolute paths."""
    return {str(path.resolve()): printed(path) for path in paths}


def printed(path: Path) -> Print | None:
    """The print of a file; None where there is none."""
    try:
        told = path.stat()
    except OSError:
        return None  # it cannot be looked at: so it is not there for a reader either
    return [told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino]


def still(found: Print | None, since_ns: int) -> bool:
    """Whether a file, by its print, had been left alone for long enough at a time that any later change shows."""
    return found is None or max(found[1], found[2]) + GRAIN_NS < since_ns


def _proven(path: Path, found: Print | None, digest: str, *, opened_ns: int, now_ns: int) -> bool:
    if found is None or not still(found, now_ns):
        return False
    return still(found, opened_ns) or digest_of(path) == digest


def _roots(folder: Path, data_root: Path | None) -> list[Path]:
    """Where files are looked for, in order."""
    return [folder.resolve(), *([data_root.absolute()] if data_root is not None else [])]


def _found(name: str, roots: Iterable[Path], files: dict[str, Print | None]) -> Path | None:
    """The file that a name of the experiment means. Where it might stand, and does not, is entered in `files`."""
    for root in roots:
        if (root / name).is_file():
            return root / name
        files[str(root / name)] = None
    source = getattr(sys.modules.get(name), "__file__", None)
    return Path(source) if source else None


def _names(pattern: str, roots: Iterable[Path]) -> list[list[str]]:
    return [sorted(glob.glob(pattern, root_dir=root, recursive=True)) for root in roots]
