"""OS locks on bytes of cache.db.lock: byte 0 while the cache is opened, byte i for the life of owner i.

The locks never touch cache.db itself: closing any descriptor of that file would drop SQLite's own POSIX locks on it. POSIX
locks belong to a process, not to a descriptor: a second descriptor of the same process does not conflict with the first,
and closing it would drop the first one's locks. So this module keeps one descriptor per lock file and process, counts its
users, and remembers which bytes this process holds. A forked child holds none of them.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from judgerun.errors import StoreError

_Identity = tuple[int, int, int]  # process, device, inode


@dataclass(slots=True)
class _File:
    """One lock file as this process has it open; `descriptor` is None for a cache in memory."""

    descriptor: int | None
    identity: _Identity | None = None
    users: int = 0
    held: set[int] = field(default_factory=set)
    opening: threading.Lock = field(default_factory=threading.Lock)  # byte 0, between threads of this process


_files: dict[_Identity, _File] = {}
_guard = threading.Lock()


class Locks:
    """This process's locks on one cache. `path` is that of cache.db; None stands for a cache in memory."""

    def __init__(self, path: Path | None) -> None:
        self._file = _File(None) if path is None else _open(path.with_name(path.name + ".lock"))
        self._mine: set[int] = set()

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Exclusive for the block, over threads and processes. Two processes that open a fresh cache at once would race
        on `pragma journal_mode`, which ignores the busy timeout.
        """
        with self._file.opening:
            if self._file.descriptor is not None:
                fcntl.lockf(self._file.descriptor, fcntl.LOCK_EX, 1, 0)
            try:
                yield
            finally:
                if self._file.descriptor is not None:
                    fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, 0)

    def take(self, owner: int) -> None:
        """Hold the byte of an owner of this process. StoreError when another process has it."""
        with _guard:
            if owner not in self._file.held and not self._try(owner):
                raise StoreError(f"the lock of owner {owner} is held by another process")
            self._file.held.add(owner)
            self._mine.add(owner)

    def drop(self, owner: int) -> None:
        """Give the byte of an owner back."""
        with _guard:
            if owner in self._mine:
                self._mine.discard(owner)
                self._file.held.discard(owner)
                self._unlock(owner)

    def alive(self, owner: int) -> bool:
        """Whether some process holds the byte of this owner. The test holds it for a moment itself."""
        with _guard:
            if owner in self._file.held:
                return True
            if not self._try(owner):
                return True
            self._unlock(owner)
            return False

    def close(self) -> None:
        """Give back what is held here; the file is closed with its last user in this process."""
        for owner in tuple(self._mine):
            self.drop(owner)
        with _guard:
            self._file.users -= 1
            if self._file.users == 0 and self._file.descriptor is not None and self._file.identity is not None:
                del _files[self._file.identity]
                os.close(self._file.descriptor)

    def _try(self, owner: int) -> bool:
        if self._file.descriptor is None:
            return True
        try:
            fcntl.lockf(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, owner)
        except OSError:
            return False
        return True

    def _unlock(self, owner: int) -> None:
        if self._file.descriptor is not None:
            fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, owner)


def _open(name: Path) -> _File:
    """The lock file, made if absent; the same object for every user in this process."""
    with _guard:
        try:
            known = _files.get(_identity(os.stat(name))) if name.exists() else None
            if known is None:
                descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                identity = _identity(os.fstat(descriptor))
                known = _files[identity] = _File(descriptor, identity)
        except OSError as error:
            raise StoreError(f"{name} cannot be opened: {error.strerror}") from error
        known.users += 1
        return known


def _identity(state: os.stat_result) -> _Identity:
    return os.getpid(), state.st_dev, state.st_ino
