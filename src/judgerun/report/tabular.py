"""Records as files: JSONL, CSV and, with the `frames` extra, Parquet; the same bytes for the same records."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from judgerun.errors import Problem, Refused
from judgerun.report.columns import Record, columns


def jsonl(records: Sequence[Record]) -> bytes:
    """One JSON object a line, every column in each, in the order of the columns."""
    return b"".join(
        orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS) for record in records
    )


def csv_text(records: Sequence[Record]) -> bytes:
    """CSV as spreadsheets read it: UTF-8, a header, empty for None, lists and objects as JSON."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    held = columns(records)
    writer.writerow(held)
    writer.writerows([_text(record[name]) for name in held] for record in records)
    return stream.getvalue().encode()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def parquet(records: Sequence[Record]) -> bytes:
    """Parquet (zstd). A column is bool, int64 or float64 where all its values are, else text. Refused without `frames`."""
    if not has_parquet():
        raise Refused(Problem("--format", "parquet", "needs the frames extra", "pip install 'judgerun[frames]'"))
    import pyarrow
    from pyarrow import parquet as writer

    table = pyarrow.table({name: _array(values) for name, values in columns(records).items()})
    sink = pyarrow.BufferOutputStream()
    writer.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def has_parquet() -> bool:
    """Whether Parquet can be written here."""
    return importlib.util.find_spec("pyarrow") is not None


def _array(values: Sequence[Any]) -> Any:
    import pyarrow

    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pyarrow.array(values, pyarrow.bool_())
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)
    if known and numbers and all(isinstance(value, int) and abs(value) < 2**63 for value in known):
        return pyarrow.array(values, pyarrow.int64())
    if known and numbers:
        return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())
    return pyarrow.array([None if value is None else _text(value) for value in values], pyarrow.string())


FORMATS: Mapping[str, Callable[[Sequence[Record]], bytes]] = {"jsonl": jsonl, "csv": csv_text, "parquet": parquet}
"""By the ending of a file's name."""
