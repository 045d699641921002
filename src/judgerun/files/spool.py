"""Spool: rows on disk in an anonymous file, found by number; only offsets stay in memory."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import orjson

_FLUSH_BYTES = 1 << 20


class Spool:
    """Append rows, then `close`; after that rows are read by number, from any thread. The file has no name and vanishes
    with the object. Memory: 8 bytes a row.
    """

    __slots__ = ("_buffer", "_ends", "_fd", "_file")

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="judgerun-")  # noqa: SIM115 - it lives as long as the object
        self._fd = self._file.fileno()
        self._buffer = bytearray()
        self._ends = array("Q", [0])

    def append(self, fields: Mapping[str, Any]) -> None:
        """Add a row. TypeError when a value is nothing that JSON can hold."""
        line = orjson.dumps(fields, default=_plain)
        self._buffer += line
        self._ends.append(self._ends[-1] + len(line))
        if len(self._buffer) >= _FLUSH_BYTES:
            self._flush()

    def close(self) -> None:
        """No more rows: what is still in memory goes to the file."""
        self._flush()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def read(self, row: int) -> dict[str, Any]:
        """The fields of row number `row`."""
        start, end = self._ends[row], self._ends[row + 1]
        fields: dict[str, Any] = orjson.loads(os.pread(self._fd, end - start, start))
        return fields

    def _flush(self) -> None:
        self._file.write(self._buffer)
        self._file.flush()
        self._buffer = bytearray()


def _plain(value: Any) -> Any:
    """What Parquet may hold beside JSON's own values: decimals and durations as text."""
    if isinstance(value, (Decimal, timedelta)):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
