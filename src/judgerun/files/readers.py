"""One reader for each form in which rows are written: a file in, (where, record) out, a line at a time."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import orjson

Record = Mapping[str, Any]
_CELL_BYTES_MAX = 2**31 - 1  # the csv module's own limit of 128 KB is shorter than a long document
WRONG_MAX = 5  # so many bad lines of a file, or doubled ids, are named; the others are counted
INSTALL = "pip install 'judgerun[frames]'"


class Unreadable(ValueError):
    """A line (or file) that is no row; `where` names the line, "" for the whole file. Reading may go on after it or not."""

    def __init__(self, where: str, wrong: str, right: str = "") -> None:
        super().__init__(wrong)
        self.where = where
        self.right = right


FORMS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def form_of(path: Path) -> str:
    """The suffix that says the form, without .gz; Unreadable for an unknown one."""
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    form = suffixes[-1].lower() if suffixes else ""
    if form not in FORMS:
        raise Unreadable(
            "", f"{form or 'a file without an ending'} is no form of rows", f"one of {', '.join(FORMS)}, .gz"
        )
    return form


def records(path: Path) -> Iterator[tuple[str, Record | Unreadable]]:
    """Each record of a file with the place where it stands; a bad line comes as an Unreadable in its place.

    Raises Unreadable when the rest of the file cannot be read at all.
    """
    form = form_of(path)
    if form == ".parquet":
        yield from _parquet(path)
        return
    with opened(path) as body:
        if form in (".csv", ".tsv"):
            yield from _cells(body, "," if form == ".csv" else "\t")
        elif form == ".json":
            yield from _array(body)
        else:
            yield from _json_lines(body)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked when its name ends in .gz. Raises Unreadable."""
    try:
        with path.open("rb") as packed:
            yield cast(IO[bytes], gzip.GzipFile(fileobj=packed)) if path.suffix == ".gz" else packed
    except (OSError, EOFError) as error:
        raise Unreadable("", f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def digest_of(path: Path) -> str:
    """Hex sha256 of a file's bytes as they lie on disk."""
    with path.open("rb") as body:
        return hashlib.file_digest(body, "sha256").hexdigest()


def _json_lines(body: IO[bytes]) -> Iterator[tuple[str, Record | Unreadable]]:
    for number, line in enumerate(body, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.isspace() or not line:
            continue
        where = f"line {number}"
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            yield where, Unreadable(where, f"not JSON: {error}")
            continue
        yield where, _object(where, record)


def _array(body: IO[bytes]) -> Iterator[tuple[str, Record | Unreadable]]:
    try:
        whole = orjson.loads(body.read().removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"line {error.lineno}", f"not JSON: {error}") from None
    if not isinstance(whole, list):
        raise Unreadable("", "the file holds no array of objects", "[{...}, {...}]; one object a line goes as .jsonl")
    for number, record in enumerate(whole, start=1):
        where = f"row {number}"
        yield where, _object(where, record)


def _object(where: str, record: Any) -> Record | Unreadable:
    if isinstance(record, dict):
        return record
    return Unreadable(where, "this is no JSON object", '{"id": ..., ...}')


def _cells(body: IO[bytes], delimiter: str) -> Iterator[tuple[str, Record | Unreadable]]:
    """Rows of a table with a header line. Every cell is a string; an empty one is null. Quotes as in RFC 4180, in TSV too."""
    csv.field_size_limit(_CELL_BYTES_MAX)
    text = io.TextIOWrapper(body, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        _check_header(header)
        for cells in reader:
            if not cells:
                continue
            where = f"line {reader.line_num}"
            if len(cells) != len(header):
                yield where, Unreadable(where, f"{len(cells)} cells under {len(header)} heads", "quotes around a cell")
            else:
                yield where, {name: cell if cell else None for name, cell in zip(header, cells, strict=True)}
    except UnicodeDecodeError as error:
        raise Unreadable(f"after line {reader.line_num}", f"not UTF-8: {error.reason}", "save it as UTF-8") from None
    except csv.Error as error:
        raise Unreadable(
            f"line {reader.line_num}", f"not CSV: {error}", 'quotes inside a cell are doubled: ""'
        ) from None
    finally:
        text.detach()


def _check_header(header: list[str]) -> None:
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise Unreadable("line 1", f"the head {sorted(twice)[0]!r} stands twice", "each column has its own name")
    if any(not name.strip() for name in header):
        raise Unreadable("line 1", "a column has no name", "a header line with one name for each column")


def _parquet(path: Path) -> Iterator[tuple[str, Record | Unreadable]]:
    number = 0
    for batch in _batches(path):
        for record in batch:
            number += 1
            yield f"row {number}", record


def _batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        yield _frame(path)
        return
    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches(batch_size=1024):
            yield batch.to_pylist()
    except OSError as error:  # pyarrow's own errors come as OSError or ValueError
        raise Unreadable("", f"cannot be read: {error}") from None
    except ValueError as error:
        raise Unreadable("", f"not Parquet: {error}") from None


def _frame(path: Path) -> list[dict[str, Any]]:
    try:
        polars = importlib.import_module("polars")
    except ImportError:
        raise Unreadable("", "reading Parquet needs pyarrow or polars", INSTALL) from None
    try:
        rows: list[dict[str, Any]] = polars.read_parquet(path).to_dicts()
    except (OSError, polars.exceptions.PolarsError) as error:
        raise Unreadable("", f"not Parquet: {error}") from None
    return rows
