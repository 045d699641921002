"""Feed: data tables as sources of rows, opened block by block in seeded order, read from disk when opened."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from judgerun.model.making import maker
from judgerun.model.rows import Table
from judgerun.plan.node import Barrier, Common, Node
from judgerun.table import conditions
from judgerun.table.row import Row

_RANK_BYTES = 8
_ROW = maker(Row)


def rank(seed: int, block: str) -> int:
    """The place of a block in seeded order: the first eight bytes of sha256 of "seed:block"."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{block}".encode()).digest()[:_RANK_BYTES], "big")


class Source(Node):
    """A data table, in one role: `item` rows are what the experiment is about; `corpus` rows only fill corpora."""

    def __init__(self, common: Common, table: Table, *, corpus: bool) -> None:
        super().__init__(common, f"{table.name} (corpus)" if corpus else table.name)
        self.table = table
        self.corpus = corpus
        values = table.conditions()
        self._by_value = {value: conditions.source(table.name, value) for value in values} if values else {}
        self._only = conditions.source(table.name, None)
        self.conditions = tuple(self._by_value.values()) or (self._only,)
        self._blocks = _blocks(table)

    def block(self, row: int) -> str:
        """The block of a row; rows of one id share the first one's, whatever their own says."""
        return self._blocks[self.table.ids[row]] if self._blocks else self.table.block(row)

    def row(self, number: int) -> Row:
        """The table's row of that number."""
        value = self.table.condition(number)
        condition = self._only if value is None else self._by_value[value]
        id = self.table.ids[number]
        return _ROW(id=id, condition=condition, block=self.block(number), fields=self.table.fields(number), root=id)

    def ids(self) -> Sequence[str]:
        """The table's ids."""
        return self.table.ids


def _blocks(table: Table) -> dict[str, str]:
    """First block by id, where an id may stand in several conditions; empty where ids are unique."""
    if not table.conditions():
        return {}
    found: dict[str, str] = {}
    for number, id in enumerate(table.ids):
        found.setdefault(id, table.block(number))
    return found


class Feed:
    """The order in which blocks are opened: all sources together, by the blocks' ranks. Only numbers are held, no rows."""

    def __init__(self, sources: Sequence[Source], *, seed: int, limit: int | None) -> None:
        self._sources = sources
        ranks = [
            np.fromiter((rank(seed, s.block(n)) for n in range(len(s.table))), np.uint64, len(s.table)) for s in sources
        ]
        sizes = [len(s.table) for s in sources]
        every = np.concatenate([*ranks, np.empty(0, np.uint64)])
        which = np.repeat(np.arange(len(sources), dtype=np.int32), sizes)
        number = np.concatenate([*(np.arange(size, dtype=np.int64) for size in sizes), np.empty(0, np.int64)])
        corpus = np.repeat(np.array([s.corpus for s in sources], dtype=bool), sizes)
        order = np.lexsort((number, which, every, ~corpus))  # corpora first: rankings wait for them, items do not
        self._which, self._number = _packed(which[order]), _packed(number[order])
        every, corpus = every[order], corpus[order]
        cut = np.flatnonzero((every[1:] != every[:-1]) | (corpus[1:] != corpus[:-1])) + 1
        starts = np.concatenate([np.zeros(1, np.int64), cut, np.array([len(every)], np.int64)])
        self._starts = _packed(starts if len(every) else starts[:1])
        self._corpus = _packed(corpus[starts[:-1]] if len(every) else corpus)  # by block
        self._left = sizes
        self._next = 0
        self._limit = limit
        self._opened = 0
        self._skipped: list[int] = []
        self._whole: list[Barrier] = []
        self._empty: list[Source] = []  # sources without a row, which no block ends

    def attach(self, barriers: Sequence[Barrier]) -> None:
        """Let barriers on whole tables wait for the sources upstream of them. Barriers come upstream first."""
        self._whole = [barrier for barrier in barriers if not barrier.by_root]
        for barrier in self._whole:
            for source in self._sources:
                if source.name in barrier.sources:
                    barrier.hold("")
        self._empty = [source for source in self._sources if not len(source.table)]

    @property
    def blocks(self) -> int:
        """Blocks in all, corpus rows included."""
        return len(self._starts) - 1

    @property
    def exhausted(self) -> bool:
        """Whether no block is left that the limit lets open."""
        self._skip()
        return self._next >= self.blocks and not self._empty

    @property
    def turns(self) -> bool:
        """Whether the last block of the corpora was opened just now: what is asked of them comes before what items ask."""
        return 0 < self._next < self.blocks and self._corpus[self._next - 1] > self._corpus[self._next]

    @property
    def share(self) -> float:
        """Which share of the blocks of items the limit lets open."""
        if self._limit is None:
            return 1.0
        items = self._corpus.count(0)
        return min(1.0, self._limit / items) if items else 1.0

    def unlimit(self) -> None:
        """Let every block be opened after all."""
        self._limit = None

    def open(self) -> bool:
        """Push the rows of the next block through the plan; False when none is left."""
        while self._empty:
            self._end(self._empty.pop())
        self._skip()
        if self._limit is None and self._skipped:
            self._push(self._skipped.pop(0))
            return True
        if self._next >= self.blocks:
            return False
        block = self._next
        self._next += 1
        if not self._corpus[block]:
            self._opened += 1
        self._push(block)
        return True

    def _skip(self) -> None:
        """Pass over blocks of items beyond the limit; corpora are needed whole, and do not count."""
        while (
            self._limit is not None
            and self._opened >= self._limit
            and self._next < self.blocks
            and not self._corpus[self._next]
        ):
            self._skipped.append(self._next)
            self._next += 1

    def _push(self, block: int) -> None:
        start, end = self._starts[block], self._starts[block + 1]
        which = self._which[start:end]
        rows = [
            (self._sources[source], self._sources[source].row(number))
            for source, number in zip(which, self._number[start:end], strict=True)
        ]
        for source, row in rows:
            source.hold(row.root)
        for source, row in rows:
            source.emit(row)
        for source, row in rows:
            source.release(row.root)
        for number in which:
            self._left[number] -= 1
            if not self._left[number]:
                self._end(self._sources[number])

    def _end(self, source: Source) -> None:
        """A source has given all its rows."""
        for barrier in self._whole:
            if source.name in barrier.sources:
                barrier.release("")


def _packed(numbers: npt.NDArray[np.generic]) -> array[int]:
    """Eight bytes a number, and fast to read one by one."""
    return array("q", numbers.astype(np.int64).tobytes())
