"""Exact dense search: right to the last tie, in blocks of any size, over arrays and memory maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.retrieval.dense import top_k

Rows = npt.NDArray[np.int64]


def brute(queries: npt.NDArray, documents: npt.NDArray, ids: list[str], k: int, normalize: bool) -> Rows:
    """The definition, one pair at a time: float64 scores rounded to float32, best first, ties by id."""
    left, right = queries.astype(float), documents.astype(float)
    scores = np.array([[float((a * b).sum()) for b in right] for a in left]).reshape(len(left), len(right))
    if normalize:
        lengths = np.outer(np.sqrt((left**2).sum(axis=1)), np.sqrt((right**2).sum(axis=1)))
        scores = np.where(lengths > 0, scores / np.where(lengths > 0, lengths, 1), 0)
    rounded = scores.astype(np.float32)
    return np.array([sorted(range(len(ids)), key=lambda row: (-line[row], ids[row]))[:k] for line in rounded])


@st.composite
def searches(draw: st.DrawFn) -> tuple[npt.NDArray, npt.NDArray, list[str], int, int, bool]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, q = draw(st.integers(1, 60)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    reach = draw(st.sampled_from([1, 2, 50]))
    documents = rng.integers(-reach, reach + 1, (n, d)).astype(np.float32)
    queries = rng.integers(-reach, reach + 1, (q, d)).astype(np.float32)
    ids = [f"d{place}" for place in rng.permutation(n)]
    return queries, documents, ids, draw(st.integers(1, 12)), draw(st.integers(1, 70)), draw(st.booleans())


@given(searches())
def test_equals_the_definition(search: tuple[npt.NDArray, npt.NDArray, list[str], int, int, bool]) -> None:
    """Small whole numbers make many exact ties; every rank, also the last, goes by score and then by id."""
    queries, documents, ids, k, block, normalize = search
    rows, scores = top_k(queries, documents, ids=ids, k=k, block=block, normalize=normalize)
    assert rows.tolist() == brute(queries, documents, ids, k, normalize).tolist()
    assert rows.dtype == np.int64
    assert scores.dtype == np.float32
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_block_size_changes_nothing(dtype: type) -> None:
    """Rows and scores are the same bytes for every block size, on vectors without structure."""
    rng = np.random.default_rng(7)
    documents, queries = rng.standard_normal((1000, 33)).astype(dtype), rng.standard_normal((20, 33)).astype(dtype)
    ids = [f"{place:04}" for place in range(1000)]
    whole = top_k(queries, documents, ids=ids, k=10, block=1000)
    for block in (1, 7, 64, 999, 5000):
        parts = top_k(queries, documents, ids=ids, k=10, block=block)
        assert (parts[0] == whole[0]).all()
        assert parts[1].tobytes() == whole[1].tobytes()


def test_equal_vectors_score_equal_wherever_they_stand() -> None:
    """Copies of one vector, scaled or not, tie exactly over all blocks and are ordered by id alone."""
    rng = np.random.default_rng(3)
    vector = rng.standard_normal(257).astype(np.float32)
    documents = np.stack([vector * factor for factor in [1, 2, 4, 0.5] * 25])
    ids = [f"{place:03}" for place in rng.permutation(100)]
    rows, scores = top_k(rng.standard_normal((3, 257)).astype(np.float32), documents, ids=ids, k=30, block=13)
    assert [[ids[row] for row in line] for line in rows] == [[f"{place:03}" for place in range(30)]] * 3
    assert (scores == scores[:, :1]).all()


def test_a_mass_of_ties_is_cut_by_id() -> None:
    """Thousands of equal documents in a block leave the first k by id."""
    documents = np.ones((3000, 8), np.float32)
    ids = [f"{3000 - place:05}" for place in range(3000)]
    rows, _ = top_k(np.ones((2, 8), np.float32), documents, ids=ids, k=4, block=1024)
    assert rows.tolist() == [[2999, 2998, 2997, 2996]] * 2


def test_zero_vectors_score_zero() -> None:
    """The cosine with a zero vector is 0: above a negative one, below a positive one; a zero query ranks by id."""
    documents = np.array([[0, 0], [1, 0], [-1, 0]], np.float32)
    rows, scores = top_k(np.array([[1, 0], [0, 0]], np.float32), documents, ids=["z", "b", "a"], k=3)
    assert rows.tolist() == [[1, 0, 2], [2, 1, 0]]
    assert scores.tolist() == [[1, 0, -1], [0, 0, 0]]


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e18, 1e30])
def test_tiny_and_huge_vectors_keep_their_cosines(size: float) -> None:
    """Lengths whose squares float32 cannot hold do not disturb a cosine."""
    rng = np.random.default_rng(5)
    documents = rng.standard_normal((200, 16))
    documents[::3] *= size
    queries = rng.standard_normal((4, 16)) * size
    ids = [str(place) for place in range(200)]
    rows, scores = top_k(queries.astype(np.float32), documents.astype(np.float32), ids=ids, k=5, block=64)
    unit = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    expected = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ unit.T
    assert rows.tolist() == np.argsort(-expected, axis=1)[:, :5].tolist()
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :5], rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused(bad: float) -> None:
    """NaN or infinity in a document or a query is a ValueError that names the row."""
    documents, queries = np.ones((10, 3), np.float32), np.ones((2, 3), np.float32)
    documents[7, 1] = bad
    with pytest.raises(ValueError, match="document 7 is not finite"):
        top_k(queries, documents, ids=list("abcdefghij"), k=2, block=4)
    queries[1, 0] = bad
    with pytest.raises(ValueError, match="query 1 is not finite"):
        top_k(queries, np.ones((10, 3), np.float32), ids=list("abcdefghij"), k=2)


def test_shapes_and_ids_are_checked() -> None:
    """Dimensions, numbers of ids, doubled ids, k and block are checked before anything is computed."""
    q, d = np.ones((1, 3)), np.ones((2, 3))
    for queries, documents, ids, k, block in [
        (np.ones((1, 2)), d, ["a", "b"], 1, 1),
        (np.ones(3), d, ["a", "b"], 1, 1),
        (q, d, ["a"], 1, 1),
        (q, d, ["a", "a"], 1, 1),
        (q, d, ["a", "b"], 0, 1),
        (q, d, ["a", "b"], 1, 0),
    ]:
        with pytest.raises(ValueError, match=r"."):
            top_k(queries, documents, ids=ids, k=k, block=block)
    with pytest.raises(ValueError, match="beyond float32"):
        top_k(np.full((1, 3), 1e30), np.full((2, 3), 1e30), ids=["a", "b"], k=1, normalize=False)


def test_fewer_documents_than_k() -> None:
    """With n < k all n documents are ranked; with none the rankings are empty."""
    rows, scores = top_k(np.ones((2, 3)), np.ones((2, 3)), ids=["b", "a"], k=10)
    assert rows.tolist() == [[1, 0], [1, 0]]
    rows, scores = top_k(np.ones((2, 3)), np.ones((0, 3)), ids=[], k=10)
    assert rows.shape == scores.shape == (2, 0)
    rows, scores = top_k(np.ones((0, 3)), np.ones((2, 3)), ids=["b", "a"], k=1)
    assert rows.shape == (0, 1)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memory_map_gives_the_same_and_stays_whole(tmp_path: Path, mode: str) -> None:
    """A memory map ranks as its array does, also a part of it; giving pages back loses nothing that was written to it."""
    rng = np.random.default_rng(11)
    values = rng.standard_normal((5000, 40)).astype(np.float32)
    values.tofile(tmp_path / "vectors.f32")
    held = np.memmap(tmp_path / "vectors.f32", np.float32, mode, shape=(5000, 40))  # type: ignore[call-overload]
    if mode != "r":
        held[123] = values[123] = 2.0
    queries = rng.standard_normal((8, 40)).astype(np.float32)
    for part in (slice(0, 5000), slice(37, 4000)):
        ids = [str(place) for place in range(*part.indices(5000))]
        mapped = top_k(queries, held[part], ids=ids, k=10, block=512)
        plain = top_k(queries, values[part], ids=ids, k=10, block=512)
        assert (mapped[0] == plain[0]).all()
        assert (mapped[1] == plain[1]).all()
    assert (held == values).all()


def test_memory_does_not_grow_with_a_memory_map(tmp_path: Path) -> None:
    """Searching a 200 MB map in blocks of 5 MB leaves the process no more than 120 MB larger."""
    psutil = pytest.importorskip("psutil")
    path = tmp_path / "vectors.f32"
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        for _ in range(20):
            file.write(rng.standard_normal((5000, 512), dtype=np.float32).tobytes())
    held = np.memmap(path, np.float32, "r", shape=(100_000, 512))
    ids = [str(place) for place in range(100_000)]
    process = psutil.Process()
    queries = rng.standard_normal((50, 512)).astype(np.float32)
    top_k(queries, np.asarray(held[:100]), ids=ids[:100], k=10)
    before = process.memory_info().rss
    top_k(queries, held, ids=ids, k=10, block=2560)
    grown = process.memory_info().rss - before
    assert grown < 120 << 20, f"{grown >> 20} MB"
