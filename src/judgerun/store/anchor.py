"""Anchor: whether the files that this process has open are still those that stand at their paths.

SQLite does not notice when its file is removed, moved or replaced: it goes on writing into one that no name leads to. A run
would buy replies that nobody will ever read, and the next one would start a fresh account under the same cap. Without the
lock file another process would take this one for dead.
"""

from __future__ import annotations

import os
from pathlib import Path

from judgerun.errors import StoreError


class Anchor:
    """The cache at `path` and its lock file, as they are now."""

    def __init__(self, path: Path) -> None:
        # Absolute: the folder may be moved, or the process change its own.
        names = (path.absolute(), path.absolute().with_name(path.name + ".lock"))
        self._known = {name: _identity(name) for name in names}

    def check(self) -> None:
        """Raise StoreError when one of the files is another one by now, or none."""
        for name, known in self._known.items():
            if _identity(name) != known:
                raise StoreError(f"{name} was removed, moved or replaced while it was open")


def _identity(name: Path) -> tuple[int, int] | None:
    try:
        state = os.stat(name)
    except OSError:
        return None
    return state.st_dev, state.st_ino
