"""Relevance judgments on disk (TSV with a header, TREC qrels, JSONL) -> Gold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from judgerun.files.faults import Faults
from judgerun.files.lines import Path as KeyPath
from judgerun.files.places import Places
from judgerun.files.readers import WRONG_MAX, Unreadable, opened
from judgerun.model.rows import Gold

Judgment = tuple[str, str, int]
_HEADS = (
    ("qid", "query-id", "query_id", "query", "topic"),
    ("docid", "corpus-id", "corpus_id", "doc_id", "doc", "document"),
    ("grade", "score", "relevance", "rel"),
)


def read_gold(faults: Faults, name: str, written: str, *, places: Places) -> Gold | None:
    """The judgments of one file; None, with every problem noted, when it cannot be read."""
    key: KeyPath = ("gold", name, "path")
    file = places.one(faults, key, written)
    if file is None:
        return None
    grades: dict[str, dict[str, int]] = {}
    wrong = 0
    try:
        for where, found in _judgments(file):
            error = _put(grades, found)
            if error:
                wrong += 1
                if wrong <= WRONG_MAX:
                    faults.add(key, f"{written}, {where}: {error}", "query, document and a whole grade")
    except Unreadable as error:
        faults.add(key, f"{written}, {error.where or 'file'}: {error}", error.right)
        return None
    if wrong > WRONG_MAX:
        faults.add(key, f"{written}: {wrong - WRONG_MAX} more lines are wrong")
    if not grades and not wrong:
        faults.add(key, f"{written} holds no judgments", "query, document and grade on each line")
    return Gold(name, grades) if grades and not wrong else None


def _put(grades: dict[str, dict[str, int]], found: Judgment | str) -> str:
    """Enter a judgment; what is wrong with it, or ""."""
    if isinstance(found, str):
        return found
    query, document, grade = found
    known = grades.setdefault(query, {}).setdefault(document, grade)
    return "" if known == grade else f"query {query!r} judges {document!r} twice: {known} and {grade}"


def _judgments(file: Path) -> Iterator[tuple[str, Judgment | str]]:
    with opened(file) as body:
        lines = enumerate(body, start=1)
        if file.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            yield from ((f"line {n}", _from_json(line)) for n, line in lines if line.strip())
            return
        columns: tuple[int, int, int] | None = None
        for number, raw in lines:
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError:
                raise Unreadable(f"line {number}", "not UTF-8", "save the file as UTF-8") from None
            if not line.strip():
                continue
            if columns is None:
                columns, is_head = _columns(line, number)
                if is_head:
                    continue
            yield f"line {number}", _from_cells(_cells(line), columns)


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _columns(line: str, number: int) -> tuple[tuple[int, int, int], bool]:
    """Where query, document and grade stand, told from the first line; and whether that line is a header."""
    cells = _cells(line)
    words = [cell.strip().lower() for cell in cells]
    places = [next((n for n, word in enumerate(words) if word in heads), None) for heads in _HEADS]
    if None not in places:
        query, document, grade = (place for place in places if place is not None)
        return (query, document, grade), True
    if len(cells) == 4 and _grade(cells[3]) is not None:
        return (0, 2, 3), False
    if len(cells) == 3 and _grade(cells[2]) is None:
        raise Unreadable(f"line {number}", f"the header {line!r} is not understood", "qid, docid, grade")
    raise Unreadable(
        f"line {number}", f"{len(cells)} columns without a header", "a header (qid docid grade), or TREC's four columns"
    )


def _from_cells(cells: list[str], columns: tuple[int, int, int]) -> Judgment | str:
    if len(cells) <= max(columns):
        return f"{len(cells)} columns"
    query, document, grade = (cells[place].strip() for place in columns)
    number = _grade(grade)
    if number is None:
        return f"the grade {grade!r} is no whole number"
    return (query, document, number) if query and document else "an id is empty"


def _from_json(line: bytes) -> Judgment | str:
    try:
        record = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        return f"not JSON: {error}"
    if not isinstance(record, dict):
        return "this is no JSON object"
    values = [next((record[head] for head in heads if head in record), None) for heads in _HEADS]
    query, document, grade = (None if isinstance(value, bool) else value for value in values)
    if not isinstance(query, (str, int)) or not isinstance(document, (str, int)):
        return "qid or docid is missing"
    number = _grade(str(grade))
    return f"the grade {grade!r} is no whole number" if number is None else (str(query), str(document), number)


def _grade(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
