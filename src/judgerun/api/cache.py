"""CacheView: a cache opened for reading from Python: frames of replies and entries, without the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judgerun.errors import Problem, Refused
from judgerun.store.snapshot import TABLES, Snapshot


class CacheView:
    """A read-only view of a cache, as it was when it was opened. Use as a context or `close` it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def columns(self, table: str, experiment: str | None = None) -> dict[str, Any]:
        """Columns (name -> values) of `attempts entries replies texts carried accounts events requests lost`."""
        if table not in TABLES:
            raise Refused(
                Problem(str(self.snapshot.path), table, "is no table of a cache", "one of " + ", ".join(TABLES))
            )
        return self.snapshot.columns(table, experiment)

    def replies(self, experiment: str | None = None) -> Any:
        """A polars DataFrame of replies with their texts (extra `frames`); of one experiment, or of all."""
        joined = self.columns("replies", experiment)
        texts = self.columns("texts", experiment)
        return _frame({**joined, **texts})

    def entries(self, experiment: str | None = None) -> Any:
        """A polars DataFrame of ledger entries (extra `frames`); of one experiment, or of all."""
        return _frame(self.columns("entries", experiment))

    def close(self) -> None:
        """Close the view."""
        self.snapshot.close()

    def __enter__(self) -> CacheView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _frame(columns: dict[str, Any]) -> Any:
    try:
        import polars
    except ImportError:
        wrong = "frames need polars"
        raise Refused(Problem("environment", "", wrong, "pip install 'judgerun[frames]', or .columns(...)")) from None
    return polars.DataFrame(columns, strict=False)


def open_cache(path: str | Path) -> CacheView:
    """A read-only view of a cache.db. StoreError when it is absent or no cache."""
    return CacheView(Snapshot.open(Path(path)))
