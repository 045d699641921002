"""Rows and gold on disk: what was written comes back, and what is wrong is told with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgerun.files import readers
from judgerun.files.faults import Faults
from judgerun.files.golds import read_gold
from judgerun.files.places import Places
from judgerun.files.tables import FileTable, read_table
from judgerun.files.view import read_view
from judgerun.model.experiment import DataSpec
from judgerun.model.rows import Table

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
IN_TMP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read(folder: Path, spec: DataSpec, *, seed: int = 1, root: Path | None = None) -> tuple[FileTable | None, Faults]:
    faults = Faults("experiment.toml")
    default = spec.id == ("id",)
    table = read_table(faults, spec, seed=seed, places=Places(folder, root), default_id=default)
    return table, faults


def good(folder: Path, **spec: object) -> FileTable:
    table, faults = read(folder, DataSpec(name="rows", **spec))  # type: ignore[arg-type]
    assert table is not None, faults.problems
    return table


def problems(folder: Path, **spec: object) -> str:
    table, faults = read(folder, DataSpec(name="rows", **spec))  # type: ignore[arg-type]
    assert table is None
    return "\n".join(map(str, faults.problems))


def jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@IN_TMP
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["text", "note", "é"]), TEXT | st.integers(-9, 9) | st.none() | st.lists(TEXT))
    )
)
def test_jsonl_rows_come_back(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    """Every JSON value of a JSONL row is read as it was written, line ends and quotes inside texts included."""
    if not rows:
        return
    jsonl(tmp_path / "rows.jsonl", [{"id": n, **row} for n, row in enumerate(rows)])
    table: Table = good(tmp_path, path="rows.jsonl")
    assert list(table.ids) == [str(n) for n in range(len(rows))]
    assert [table.fields(n) for n in range(len(table))] == rows


@IN_TMP
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_cells_come_back(tmp_path: Path, suffix: str, rows: list[tuple[str, str]]) -> None:
    """A cell with quotes, delimiters, line ends or any script is read as it was written; an empty one is null."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter="," if suffix == "csv" else "\t")
    writer.writerow(["id", "text", "note"])
    writer.writerows([str(n), *row] for n, row in enumerate(rows))
    (tmp_path / f"rows.{suffix}").write_bytes(out.getvalue().encode())
    table = good(tmp_path, path=f"rows.{suffix}")
    assert [table.fields(n) for n in range(len(table))] == [
        {"text": text or None, "note": note or None} for text, note in rows
    ]


@pytest.mark.parametrize(
    "name", ["rows.jsonl", "rows.json", "rows.csv", "rows.tsv", "rows.parquet", "rows.jsonl.gz", "rows.csv.gz"]
)
def test_every_form_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    """The same two rows are read from every form of file."""
    rows = [{"id": "a", "text": "one"}, {"id": "b", "text": "two, three"}]
    if name == "rows.parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), tmp_path / name)
    else:
        mark = "\t" if ".tsv" in name else ","
        texts = {
            "rows.jsonl": "\n".join(map(json.dumps, rows)),
            "rows.json": json.dumps(rows),
            "rows.csv": f'\ufeffid{mark}text\r\na{mark}one\r\nb{mark}"two, three"\r\n',
            "rows.tsv": f'id{mark}text\na{mark}one\nb{mark}"two, three"\n',
        }
        body = texts[name.removesuffix(".gz")].encode()
        (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    table = good(tmp_path, path=name)
    assert [(table.ids[n], table.fields(n)["text"]) for n in range(2)] == [("a", "one"), ("b", "two, three")]


def test_parquet_without_its_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither pyarrow nor polars is installed, the message names the extra."""

    def missing(name: str) -> object:
        raise ImportError(name)

    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(readers.importlib, "import_module", missing)
    assert "judgerun[frames]" in problems(tmp_path, path="rows.parquet")


def test_parquet_is_read_by_polars_alone_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars serves where pyarrow is not installed."""
    polars = pytest.importorskip("polars")
    polars.DataFrame({"id": [1, 2], "text": ["one", None]}).write_parquet(tmp_path / "rows.parquet")
    real = readers.importlib.import_module

    def only_polars(name: str) -> object:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(readers.importlib, "import_module", only_polars)
    table = good(tmp_path, path="rows.parquet")
    assert list(table.ids) == ["1", "2"]
    assert table.fields(1) == {"text": None}


@IN_TMP
@given(
    st.sets(st.integers(0, 10_000), min_size=60, max_size=200),
    st.sets(st.integers(10_001, 20_000), max_size=50),
    st.integers(0, 99),
)
def test_a_sample_is_inside_a_larger_one_and_survives_new_rows(
    tmp_path: Path, old: set[int], new: set[int], seed: int
) -> None:
    """30 ids are inside 60 of the same rows, and rows that are added replace members but never reorder those that stay."""

    def ids(rows: set[int], sample: int) -> set[str]:
        jsonl(tmp_path / "rows.jsonl", [{"id": n} for n in sorted(rows)])
        table, _ = read(tmp_path, DataSpec(name="rows", path="rows.jsonl", sample=sample), seed=seed)
        assert table is not None
        return set(table.ids)

    small, large = ids(old, 30), ids(old, 60)
    assert len(small) == 30
    assert small < large or small == large
    grown = ids(old | new, 30)
    assert (grown & {str(n) for n in old}) <= small


def test_only_and_sample_keep_file_order_and_apply_to_every_condition(tmp_path: Path) -> None:
    """The same ids are taken in each condition, in file order."""
    rows: list[dict[str, object]] = [{"id": n, "system": s, "topic": n // 4} for s in ("x", "y") for n in range(8)]
    jsonl(tmp_path / "rows.jsonl", rows)
    (tmp_path / "ids.txt").write_text("7\n1\n3\n5\n")
    table = good(tmp_path, path="rows.jsonl", only="ids.txt", sample=3, condition="system", block="topic")
    half = len(table) // 2
    assert len(table) == 6
    assert list(table.ids[:half]) == list(table.ids[half:]) == sorted(table.ids[:half])
    assert set(table.ids) < {"1", "3", "5", "7"}
    assert table.conditions() == ("x", "y")
    assert (table.condition(0), table.condition(half)) == ("x", "y")
    assert table.block(0) == str(int(table.ids[0]) // 4)
    assert [table.ids[row] for row in table.find("id", table.ids[0])] == [table.ids[0]] * 2
    assert table.find("topic", "0") == [row for row in range(6) if int(table.ids[row]) < 4]
    assert table.find("topic", "99") == []


def test_columns_rename_and_ids_may_be_compound(tmp_path: Path) -> None:
    """`columns` gives a field its name here; a list of id fields is joined by a bar; both names serve for the id."""
    jsonl(tmp_path / "rows.jsonl", [{"q": "a", "n": 1, "problem_text": "x"}, {"q": "a", "n": 2, "problem_text": "y"}])
    table = good(tmp_path, path="rows.jsonl", id=("q", "number"), columns={"text": "problem_text", "number": "n"})
    assert list(table.ids) == ["a|1", "a|2"]
    assert table.fields(1) == {"q": "a", "number": 2, "text": "y"}


def test_a_beir_folder_gives_the_file_that_the_table_names(tmp_path: Path) -> None:
    """`corpus` and `queries` name their files in a BEIR folder, whose ids are `_id`; other names are told what there is."""
    (tmp_path / "set").mkdir()
    jsonl(tmp_path / "set" / "corpus.jsonl", [{"_id": "d1", "title": "T", "text": "x"}])
    jsonl(tmp_path / "set" / "queries.jsonl", [{"_id": "q1", "text": "y"}])
    table, _ = read(tmp_path, DataSpec(name="corpus", path="set"))
    assert table is not None
    assert list(table.ids) == ["d1"]
    assert "corpus, queries" in problems(tmp_path, path="set")


WRONG = [
    ("rows.jsonl", b'{"id": 1}\n{"id": \n', {}, "rows.jsonl, line 2: not JSON"),
    ("rows.jsonl", b'{"id": 1}\n[1]\n', {}, "line 2: this is no JSON object"),
    ("rows.jsonl", b'{"id": "a\xff"}\n', {}, "line 1: not JSON"),
    ("rows.jsonl", b"", {}, "holds no rows"),
    ("rows.jsonl", b'{"key": 1}\n', {}, "line 1: the row has no field 'id'"),
    ("rows.jsonl", b'{"id": null}\n', {}, "neither text nor a whole number"),
    ("rows.jsonl", b'{"id": 1.5}\n', {}, "neither text nor a whole number"),
    ("rows.jsonl", b'{"id": 1}\n{"id": "1"}\n', {}, "1 id(s) stand twice: 1"),
    ("rows.jsonl", b'{"id": 1, "s": "x"}\n{"id": 1, "s": "x"}\n', {"condition": "s"}, "twice in one condition"),
    ("rows.jsonl", b'{"id": 1}\n', {"block": "topic"}, "no field 'topic', which block names"),
    ("rows.jsonl", b'{"id": 1, "s": null}\n', {"condition": "s"}, "no text in 's'"),
    ("rows.jsonl", b'{"id": 1, "a": 1, "b": 2}\n', {"columns": {"b": "a"}}, "the name that another has"),
    ("rows.csv", b"id,text\n1,a,b\n", {}, "line 2: 3 cells under 2 heads"),
    ("rows.csv", b"id,id\n1,2\n", {}, "'id' stands twice"),
    ("rows.csv", b"id,\n1,2\n", {}, "a column has no name"),
    ("rows.csv", b'id,text\n1,"a" b\n', {}, "line 2: not CSV"),
    ("rows.csv", b"id,text\n1,\xff\n", {}, "not UTF-8"),
    ("rows.json", b'{"id": 1}', {}, "no array of objects"),
    ("rows.json", b"[", {}, "not JSON"),
    ("rows.parquet", b"nothing", {}, "rows.parquet"),
    ("rows.xlsx", b"nothing", {}, ".xlsx is no form of rows"),
    ("rows.jsonl.gz", b"nothing", {}, "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "spec", "message"), WRONG, ids=[wrong[3] for wrong in WRONG])
def test_a_bad_file_is_told_with_its_line(
    tmp_path: Path, name: str, body: bytes, spec: dict[str, object], message: str
) -> None:
    """Each fault of a rows file names the file, the line and what is wrong."""
    (tmp_path / name).write_bytes(body)
    assert message in problems(tmp_path, path=name, **spec)


def test_many_bad_lines_are_counted_not_listed(tmp_path: Path) -> None:
    """Five lines are named, the others counted."""
    (tmp_path / "rows.jsonl").write_text("no\n" * 100)
    told = problems(tmp_path, path="rows.jsonl")
    assert told.count("not JSON") == 5
    assert "95 more rows" in told


def test_a_hundred_thousand_rows_cost_little_memory(tmp_path: Path) -> None:
    """100,000 rows of 2 KB stay on disk: what Python allocates for them stays under 25 MB."""
    body = "x" * 2000
    with (tmp_path / "rows.jsonl").open("w") as out:
        out.writelines(f'{{"id": "item-{n}", "text": "{body}{n}"}}\n' for n in range(100_000))
    tracemalloc.start()
    try:
        table = good(tmp_path, path="rows.jsonl")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.fields(99_999)["text"].endswith("99999")
    assert held < 25_000_000
    assert peak < 60_000_000


def gold(folder: Path, name: str, text: str) -> tuple[dict[str, dict[str, int]] | None, str]:
    (folder / name).write_text(text)
    faults = Faults("experiment.toml")
    found = read_gold(faults, "g", name, places=Places(folder, None))
    grades = None if found is None else {query: dict(documents) for query, documents in found.grades.items()}
    return grades, "\n".join(map(str, faults.problems))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n"),
        ("g.tsv", "grade\tqid\tdocid\n2\tq1\td1\n0\tq1\td2\n"),
        ("g.qrels", "q1 0 d1 2\nq1 0 d2 0\n"),
        ("g.txt", "q1\t0\td1\t2\n\nq1\t0\td2\t0\nq1\t0\td2\t0\n"),
        ("g.jsonl", '{"qid": "q1", "docid": "d1", "grade": 2}\n{"query-id": "q1", "corpus-id": "d2", "score": 0}\n'),
    ],
)
def test_gold_is_read_from_every_form(tmp_path: Path, name: str, text: str) -> None:
    """TSV with a header in any order, TREC qrels and JSONL give the same grades."""
    assert gold(tmp_path, name, text) == ({"q1": {"d1": 2, "d2": 0}}, "")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.tsv", "q1\td1\t1\n", "3 columns without a header"),
        ("g.tsv", "qid\tdocid\tstars\n", "is not understood"),
        ("g.tsv", "qid\tdocid\tgrade\nq1\td1\t0.5\n", "line 2: the grade '0.5'"),
        ("g.tsv", "qid\tdocid\tgrade\nq1\td1\t1\nq1\td1\t2\n", "line 3: query 'q1' judges 'd1' twice: 1 and 2"),
        ("g.tsv", "qid\tdocid\tgrade\nq1\td1\n", "line 2: 2 columns"),
        ("g.tsv", "qid\tdocid\tgrade\n", "holds no judgments"),
        ("g.jsonl", '{"qid": "q1", "docid": "d1", "grade": true}\n', "no whole number"),
    ],
)
def test_bad_gold_is_told_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    """A judgment that cannot be one is told with its line; none is guessed."""
    grades, told = gold(tmp_path, name, text)
    assert grades is None
    assert message in told


class Others:
    """A table of another experiment, in memory."""

    name = "made"

    def __init__(self, rows: list[tuple[str, str, dict[str, object]]]) -> None:
        self.rows = rows
        self.ids = [row[0] for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def fields(self, row: int) -> dict[str, object]:
        return self.rows[row][2]

    def block(self, row: int) -> str:
        return self.ids[row][0]

    def condition(self, row: int) -> str | None:
        return self.rows[row][1]

    def conditions(self) -> list[str]:
        return list(dict.fromkeys(row[1] for row in self.rows))

    def find(self, field_name: str, value: str) -> list[int]:
        return [n for n, row in enumerate(self.rows) if (row[0] if field_name == "id" else row[2][field_name]) == value]


def test_a_table_of_another_experiment_takes_a_name_columns_and_a_sample(tmp_path: Path) -> None:
    """Such a table stands under its name here, with renamed fields and the rows that `only` leaves; its conditions stay."""
    rows = [(f"{i}", c, {"reply": f"{c}{i}", "tier": "low"}) for c in ("x", "y") for i in range(4)]
    (tmp_path / "ids.txt").write_text("1\n3\n")
    spec = DataSpec(name="pairs", stage="other/made", columns={"text": "reply"}, only="ids.txt", block="tier")
    faults = Faults("experiment.toml")
    view = read_view(faults, spec, Others(rows), seed=1, places=Places(tmp_path, None))
    assert view is not None, faults.problems
    assert (view.name, list(view.ids), view.conditions()) == ("pairs", ["1", "3", "1", "3"], ["x", "y"])
    assert view.fields(3) == {"text": "y3", "tier": "low"}
    assert view.find("text", "y3") == [3]
    assert view.find("id", "0") == []
    assert view.block(0) == "low"


def test_a_table_of_another_experiment_with_draws_is_refused(tmp_path: Path) -> None:
    """Two rows of one id and condition cannot be told apart."""
    faults = Faults("experiment.toml")
    rows: list[tuple[str, str, dict[str, object]]] = [("1", "x", {}), ("1", "x", {})]
    spec = DataSpec(name="pairs", stage="other/made", columns={"text": "reply"}, block="tier")
    assert read_view(faults, spec, Others(rows), seed=1, places=Places(tmp_path, None)) is None
    told = "\n".join(map(str, faults.problems))
    assert "1 id(s) stand twice in one condition: 1 (a fold over its draws" in told
    assert "no row has a field 'reply'" in told
    assert "no text in 'tier'" in told
