"""Exact dense search: the k nearest documents of every query, block by block over an array or a memory map.

Block products in float32 find the few documents that may be among the best; those are scored again in float64, each pair by
itself, and rounded to float32. So neither the block size, nor the number of threads, nor a document's place in its block
changes a score, equal vectors score equal, and documents with one and the same score are ordered by id.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.floating]

#: Queries multiplied at once: with the default block, scores take 16 MB.
GROUP = 512
#: Elements of float64 gathered at once for the second scoring (twice 16 MB).
GATHERED = 1 << 21
#: Candidates beyond k, per query and block, above which a block is first narrowed by a partition.
CROWD = 64

_UNIT = float(np.finfo(np.float32).eps) / 2  # largest relative error of one rounding
_LARGEST = float(np.finfo(np.float32).max)
_SAFE_LOW, _SAFE_HIGH = 1e-12, 1e12  # norms whose squares float32 holds without loss


def top_k(
    queries: Vectors,
    documents: Vectors,
    *,
    ids: Sequence[str],
    k: int,
    block: int = 8192,
    normalize: bool = True,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Rows of the k best documents of each query, best first, and their scores: two arrays (q, min(k, n)).

    `queries` is (q, d), `documents` (n, d), an array or a memory map; `ids` names the documents. Scores are cosines
    (`normalize`) or plain dot products, in float64, rounded to float32; ties go by id ascending, at the last place too. The
    cosine with a zero vector is 0. Memory beyond the arrays themselves grows with q x k and with the block, not with n; pages
    of a memory map are given back block by block.

    ValueError for shapes that do not fit, doubled ids, k or block below 1, and for vectors that are not finite.
    """
    _check(queries, documents, ids, k, block)
    k = min(k, len(ids))
    ranks = _ranks(ids)
    sought = _Queries.of(np.asarray(queries), normalize)
    best = _Best.empty(len(queries), k)
    for start in range(0, len(ids), block):
        rows = np.asarray(documents[start : start + block])
        held = _Block.of(rows, start, normalize)
        for first in range(0, len(queries), GROUP):
            _search(sought, held, best, ranks, slice(first, first + GROUP))
        _give_back(documents, start, start + block)
    return best.rows, best.scores


def _check(queries: Vectors, documents: Vectors, ids: Sequence[str], k: int, block: int) -> None:
    if queries.ndim != 2 or documents.ndim != 2 or queries.shape[1] != documents.shape[1]:
        raise ValueError(f"queries {queries.shape} and documents {documents.shape} are not (q, d) and (n, d)")
    if len(ids) != len(documents):
        raise ValueError(f"{len(ids)} ids for {len(documents)} documents")
    if len(set(ids)) != len(ids):
        raise ValueError("an id stands twice among the documents")
    if k < 1 or block < 1:
        raise ValueError(f"k and block must be at least 1, not {k} and {block}")


def _ranks(ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """The place of each document when all are sorted by id."""
    ranks = np.empty(len(ids), np.int64)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    return ranks


def _norms(rows: Vectors, what: str, place: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Euclidean lengths in float64. ValueError names the first row that is not finite by its `place`."""
    norms = np.empty(len(rows), np.float64)
    step = max(1, GATHERED // max(1, rows.shape[1]))
    for first in range(0, len(rows), step):
        part = rows[first : first + step].astype(np.float64)
        # The largest element is taken out first, so that no square overflows or vanishes.
        scale = np.abs(part).max(axis=1, initial=0.0)
        bad = np.flatnonzero(~np.isfinite(scale))
        if bad.size:
            raise ValueError(f"{what} {place[first + bad[0]]} is not finite")
        part /= np.where(scale > 0, scale, 1.0)[:, None]
        norms[first : first + step] = scale * np.sqrt((part * part).sum(axis=1))
    return norms


@dataclass(slots=True)
class _Queries:
    """Queries, as given and in float32 of length 1 (or as they are, without `normalize`)."""

    rows: Vectors
    norms: npt.NDArray[np.float64]
    scaled: npt.NDArray[np.float32]
    normalize: bool

    @classmethod
    def of(cls, rows: Vectors, normalize: bool) -> _Queries:
        norms = _norms(rows, "query", np.arange(len(rows)))
        with np.errstate(over="ignore"):  # too long ones are refused with the margin
            scaled = _scaled(rows, norms) if normalize else rows.astype(np.float32)
        return cls(rows, norms, scaled, normalize)


@dataclass(slots=True)
class _Block:
    """A block of documents in float32, with what a product must be divided by to be a score."""

    rows: Vectors
    start: int
    norms: npt.NDArray[np.float64]
    factor: npt.NDArray[np.float32]
    product: npt.NDArray[np.float32]

    @classmethod
    def of(cls, rows: Vectors, start: int, normalize: bool) -> _Block:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is odd, and done with care below
            product = np.ascontiguousarray(rows, np.float32)
            norms = np.sqrt(np.einsum("ij,ij->i", product, product)).astype(np.float64)
        odd = ~((norms > _SAFE_LOW) & (norms < _SAFE_HIGH))
        factor = np.ones(len(rows), np.float32)
        if normalize:
            factor[~odd] = 1.0 / norms[~odd]
        if odd.any():  # zero, tiny, huge or not finite
            norms[odd] = _norms(rows[odd], "document", start + np.flatnonzero(odd))
            if normalize:
                product = product.copy()
                product[odd] = _scaled(rows[odd], norms[odd])
        return cls(rows, start, norms, factor, product)


def _scaled(rows: Vectors, norms: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    divided: npt.NDArray[np.float64] = rows.astype(np.float64) / np.where(norms > 0, norms, 1.0)[:, None]
    return divided.astype(np.float32)


@dataclass(slots=True)
class _Best:
    """The best documents of each query so far, ordered; -1 and minus infinity where there are none yet."""

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, queries: int, k: int) -> _Best:
        return cls(np.full((queries, k), -1, np.int64), np.full((queries, k), -np.inf, np.float32))


def _search(sought: _Queries, held: _Block, best: _Best, ranks: npt.NDArray[np.int64], group: slice) -> None:
    """Let the documents of one block compete for the places of one group of queries."""
    k = best.rows.shape[1]
    margin = _margin(sought, held, group)
    scores = sought.scaled[group] @ held.product.T
    scores *= held.factor
    floor = best.scores[group, -1].astype(np.float64) - margin
    counts = (scores >= floor[:, None]).sum(axis=1)
    for row in np.flatnonzero(counts > k + CROWD):
        # The k-th best of this block alone is a bar that the true score of a winner can miss by two margins at most.
        bar = float(np.partition(scores[row], len(scores[row]) - min(k, len(scores[row])))[-min(k, len(scores[row]))])
        floor[row] = max(floor[row], bar - 2 * margin[row])
    candidates = scores >= floor[:, None]
    for row in np.flatnonzero(candidates.any(axis=1)):
        query = group.start + int(row)
        _merge(sought, held, best, ranks, query, np.flatnonzero(candidates[row]))


def _margin(sought: _Queries, held: _Block, group: slice) -> npt.NDArray[np.float64]:
    """How far a float32 score may lie from the true one: (d + 16) roundings of at most |q||d| each.

    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, eq. 3.5: whatever the order of summation, the
    error of a dot product is at most d u / (1 - d u) times the sum of the absolute products. Sixteen more pay for scaling
    both vectors and for rounding the final score.
    """
    roundings = (held.product.shape[1] + 16) * _UNIT
    reach = 1.0 if sought.normalize else float(held.norms.max(initial=0.0))
    lengths = np.ones(len(sought.norms[group])) if sought.normalize else sought.norms[group]
    longest = float(lengths.max(initial=0.0))
    if max(reach, longest, reach * longest) > _LARGEST:
        raise ValueError("the vectors are too long: their products are beyond float32")
    margin: npt.NDArray[np.float64] = roundings / (1 - roundings) * reach * lengths + np.finfo(np.float32).tiny
    return margin


def _merge(
    sought: _Queries,
    held: _Block,
    best: _Best,
    ranks: npt.NDArray[np.int64],
    query: int,
    places: npt.NDArray[np.int64],
) -> None:
    """Score the candidates of one query exactly and keep the best k of them and of those held before."""
    scores = np.concatenate((best.scores[query], _exact(sought, held, query, places)))
    rows = np.concatenate((best.rows[query], places + held.start))
    by_id = np.where(rows < 0, len(ranks), ranks[rows])
    order = np.lexsort((by_id, -scores))[: best.rows.shape[1]]
    best.scores[query] = scores[order]
    best.rows[query] = rows[order]


def _exact(sought: _Queries, held: _Block, query: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Scores in float64, each pair by itself, rounded to float32."""
    left, left_norm = _exactly(sought.rows[query : query + 1], sought.normalize)
    step = max(1, GATHERED // max(1, left.shape[1]))
    scores = np.empty(len(places), np.float64)
    for first in range(0, len(places), step):
        right, right_norms = _exactly(held.rows[places[first : first + step]], sought.normalize)
        dots = (right * left).sum(axis=1)
        if sought.normalize:
            # Divided last: where the vectors hold small whole numbers the product is exact, and so are its ties.
            norms = left_norm[0] * right_norms
            dots = np.where(norms > 0, dots / np.where(norms > 0, norms, 1.0), 0.0)
        scores[first : first + step] = dots
    return scores.astype(np.float32)


def _exactly(rows: Vectors, normalize: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Rows in float64 and, where asked, their lengths; then each row is scaled by a power of two, which costs no digit."""
    wide = rows.astype(np.float64)
    if not normalize:
        return wide, np.ones(len(wide))
    _, exponents = np.frexp(np.abs(wide).max(axis=1, initial=0.0))
    wide = np.ldexp(wide, -exponents[:, None])
    return wide, np.sqrt((wide * wide).sum(axis=1))


def _give_back(documents: Vectors, start: int, stop: int) -> None:
    """Drop the pages of a block that has been read, so that a memory map as large as the disk fits into little memory."""
    held = getattr(documents, "_mmap", None)
    if not isinstance(held, mmap.mmap) or getattr(documents, "mode", "c") == "c" or not documents.flags.c_contiguous:
        return  # copy-on-write pages may hold what no file holds
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    base = np.frombuffer(held, np.uint8).ctypes.data
    offset = documents.ctypes.data - base
    row = documents.strides[0]
    first = (offset + start * row) // mmap.PAGESIZE * mmap.PAGESIZE
    last = offset + min(stop, len(documents)) * row
    held.madvise(mmap.MADV_DONTNEED, first, last - first)
