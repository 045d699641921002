"""Vectors: many embeddings as one float32 matrix, through a memory map in cache.vectors/; derived, safe to delete.

What may live here: how vectors go from rows to a map and back. The rows in cache.db are the truth. A map holds the vectors
of one list of keys in its order, and is named by the digest of that list: since the reply to a key never changes, neither
does a map. It is written in blocks under another name and renamed when whole, so a half-written one is never read.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from judgerun.errors import StoreError
from judgerun.model.request import RequestKey
from judgerun.store.queries import SQL
from judgerun.store.schema import wrapped

BLOCK_BYTES = 8 << 20  # of vectors in memory while a map is written
MEMORY_BYTES = (
    16 << 20
)  # a matrix up to this size is read into memory: a file for every few queries would only be litter


class Vectors:
    """Matrices of one cache. `folder` is where maps are kept; None (a cache in memory) reads every matrix into memory."""

    def __init__(self, connection: sqlite3.Connection, folder: Path | None) -> None:
        self._connection = connection
        self._folder = folder

    def matrix(self, keys: Sequence[RequestKey]) -> NDArray[np.float32]:
        """float32 (len(keys), dimension), rows in the order of keys; read-only. A large one is a memory map.

        StoreError when a key has no vector, or vectors differ in dimension.
        """
        if not keys:
            return np.empty((0, 0), np.float32)
        with wrapped(self._folder):
            dim = len(self._blob(keys[0], None)) // 4
            if self._folder is None or len(keys) * dim * 4 <= MEMORY_BYTES:
                whole = np.concatenate(list(self._blocks(keys, dim)))
                whole.flags.writeable = False
                return whole
            return self._map(keys, dim, self._folder)

    def _map(self, keys: Sequence[RequestKey], dim: int, folder: Path) -> NDArray[np.float32]:
        sha = hashlib.sha256()
        for key in keys:
            sha.update(key)
        place = folder / f"{sha.hexdigest()[:32]}.{dim}.f32"
        if not place.exists() or place.stat().st_size != len(keys) * dim * 4:
            folder.mkdir(exist_ok=True)
            partial = place.with_suffix(f".{os.getpid()}.part")
            try:
                with partial.open("wb") as file:
                    for block in self._blocks(keys, dim):
                        block.tofile(file)
                partial.replace(place)
            finally:
                partial.unlink(missing_ok=True)
        return np.memmap(place, np.float32, "r", shape=(len(keys), dim))

    def _blocks(self, keys: Sequence[RequestKey], dim: int) -> Iterator[NDArray[np.float32]]:
        """The rows in order, a bounded number at a time."""
        size = max(1, BLOCK_BYTES // (4 * dim))
        for start in range(0, len(keys), size):
            part = keys[start : start + size]
            block = np.empty((len(part), dim), np.float32)
            for place, key in enumerate(part):
                block[place] = np.frombuffer(self._blob(key, dim), "<f4")
            yield block

    def _blob(self, key: RequestKey, dim: int | None) -> bytes:
        row = self._connection.execute(SQL["vector_of"], (key,)).fetchone()
        if row is None:
            raise StoreError(f"there is no vector for request {key.hex()[:12]}")
        if dim is not None and row[0] != dim:
            raise StoreError(f"the vector of request {key.hex()[:12]} has {row[0]} numbers, others {dim}")
        return bytes(row[1])
