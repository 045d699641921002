"""Where the files that an experiment names lie: beside its own file, then under $JUDGERUN_DATA; each with its digest."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judgerun.errors import Refused
from judgerun.files.faults import Faults
from judgerun.files.lines import Path as KeyPath
from judgerun.files.readers import digest_of
from judgerun.files.toml import read_text

BEIR = ("corpus", "queries")


@dataclass(frozen=True, slots=True)
class Found:
    """A file: where it is, how messages name it, and whether it was found inside a BEIR folder."""

    path: Path
    shown: str
    beir: bool = False


@dataclass(slots=True)
class Places:
    """Looks files up for one experiment and remembers the digest of each. Not frozen: it gathers."""

    folder: Path
    data_root: Path | None
    digests: dict[str, str] = field(default_factory=dict)  # as written (a glob: each file that it found) -> hex sha256

    def text(self, faults: Faults, path: KeyPath, written: str) -> str | None:
        """The text of one file; None, with the problem noted, when there is none."""
        found = self._one(faults, path, written)
        if found is None:
            return None
        try:
            text, self.digests[written] = read_text(found.path)
        except Refused as error:
            faults.add(path, f"{written} {error.problems[0].wrong}", error.problems[0].right)
            return None
        return text

    def one(self, faults: Faults, path: KeyPath, written: str) -> Path | None:
        """One file, its digest remembered; None, with the problem noted, when there is none."""
        found = self._one(faults, path, written)
        if found is None:
            return None
        self.digests[written] = digest_of(found.path)
        return found.path

    def rows(self, faults: Faults, path: KeyPath, written: str, *, table: str) -> Sequence[Found]:
        """The files of a data table: one, all that a glob finds (sorted), or the one of a BEIR folder that the table's
        name picks. Empty, with the problem noted, when there is none.
        """
        found = self._glob(faults, path, written) if glob.has_magic(written) else []
        if not glob.has_magic(written) and (one := self._one(faults, path, written, folders=True)) is not None:
            found = [one] if one.path.is_file() else self._beir(faults, path, one, table)
        for file in found:
            self.digests[file.shown] = digest_of(file.path)
        return found

    def _roots(self) -> list[Path]:
        return [self.folder, *([self.data_root] if self.data_root is not None else [])]

    def _one(self, faults: Faults, path: KeyPath, written: str, *, folders: bool = False) -> Found | None:
        if not written:
            faults.add(path, "the path is empty", "a file")
            return None
        for root in self._roots():
            file = root / written
            if file.is_file() or (folders and file.is_dir()):
                return Found(file, written)
        faults.add(path, f"there is no file {written!r}", self._searched())
        return None

    def _glob(self, faults: Faults, path: KeyPath, written: str) -> list[Found]:
        for root in self._roots():
            files = [root / name for name in sorted(glob.glob(written, root_dir=root, recursive=True))]
            found = [Found(file, file.relative_to(root).as_posix()) for file in files if file.is_file()]
            if found:
                return found
        faults.add(path, f"no file matches {written!r}", self._searched())
        return []

    def _beir(self, faults: Faults, path: KeyPath, folder: Found, table: str) -> list[Found]:
        for name in (f"{table}.jsonl", f"{table}.jsonl.gz"):
            if (folder.path / name).is_file():
                return [Found(folder.path / name, f"{folder.shown}/{name}", beir=True)]
        held = [name for name in BEIR if (folder.path / f"{name}.jsonl").is_file()]
        right = f"the table's name picks the file; here: {', '.join(held)}" if held else "a file, or a BEIR folder"
        faults.add(path, f"the folder {folder.shown!r} has no {table}.jsonl", right)
        return []

    def _searched(self) -> str:
        under = "under $JUDGERUN_DATA" if self.data_root is not None else "JUDGERUN_DATA is not set"
        return f"looked beside the experiment file, then: {under}"
