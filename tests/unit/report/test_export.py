"""Exports, written training sets, shown cells and labelling sheets."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.evidence import FAILED, TRUNCATED, Ending, chat, evidence, experiment, plain
from judgerun.audit.evidence import Evidence
from judgerun.errors import Refused
from judgerun.model.request import RequestKey, build
from judgerun.report.export import export, tables, written
from judgerun.report.sheet import sheet
from judgerun.report.show import Wanted, messages, safe, show
from judgerun.report.tabular import csv_text, has_parquet, jsonl, parquet


def mixed() -> Evidence:
    """One failed, one truncated, the rest concluded."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        if (model, id_) == ("ann", "q000"):
            return FAILED
        if (model, id_) == ("bob", "q001"):
            return TRUNCATED
        return Ending(value="no" if id_ < "q004" else "yes", agrees=id_ != "q002")

    return evidence(rule, n=8)


def bodies(given: Evidence) -> dict[RequestKey, bytes]:
    """A canonical request for every key."""
    told = {}
    for row in given.rows["pick"]:
        payload = {"model": "m-id", "messages": [{"role": "user", "content": f"judge {row.id}"}]}
        key = row.outcome.key if row.outcome is not None else None
        assert key is not None
        told[key] = build("chat", payload, deployment="lab", adapter="openai/1", draw=0).canonical
    return told


def test_every_table_is_exported_with_every_row() -> None:
    """Stage tables with failed rows too; requests, attempts, replies and entries; in each format that can be written."""
    given = mixed()
    held = dict(tables(given))
    assert {name: len(records) for name, records in held.items()} == {
        "stages/pick": 16, "requests": 16, "attempts": 15, "replies": 15, "entries": 30,
    }  # fmt: skip
    files = dict(export(given))
    endings = {"jsonl", "csv", "parquet"} if has_parquet() else {"jsonl", "csv"}
    assert {name.rpartition(".")[2] for name in files} == endings
    first = json.loads(files["stages/pick.jsonl"].splitlines()[0])
    assert (first["id"], first["condition"], first["state"], first["reason"]) == (
        "q000", "pick/ann/terse@items", "failed", "timed out",
    )  # fmt: skip
    assert first["at.model"] == "ann"
    second = json.loads(files["stages/pick.jsonl"].splitlines()[1])
    assert (second["pick.value"], second["pick.concluded"], second["pick.parsed"]) == ("no", True, True)
    assert second["pick.cost_nanos"] == 120_000
    assert dict(export(given, ["csv"])).keys() == {f"{name}.csv" for name in held}


def test_an_export_does_not_depend_on_the_order_of_rows() -> None:
    """The same bytes whatever the order in which rows came."""
    given = mixed()
    rows = list(given.rows["pick"])
    random.Random(5).shuffle(rows)
    assert list(export(given)) == list(export(replace(given, rows={"pick": rows})))


def test_an_unknown_format_is_refused() -> None:
    """The formats that exist are named."""
    with pytest.raises(Refused, match="jsonl, csv, parquet"):
        list(export(mixed(), ["xlsx"]))


def test_tables_keep_types_and_odd_values() -> None:
    """None is empty or null, lists are JSON in CSV; a column of one type keeps it in Parquet, a mixed one is text."""
    records = [
        {"n": 1, "x": 0.5, "b": True, "mix": 1, "list": [1, {"a": None}], "text": 'a,"b"\n'},
        {"n": None, "x": 2, "b": None, "mix": "one", "list": None, "text": None},
    ]
    rows = list(csv.DictReader(io.StringIO(csv_text(records).decode())))
    assert rows[0] == {
        "n": "1", "x": "0.5", "b": "true", "mix": "1", "list": '[1,{"a":null}]', "text": 'a,"b"\n',
    }  # fmt: skip
    assert set(rows[1].values()) == {"", "2", "one"}
    assert [json.loads(line) for line in jsonl(records).splitlines()] == records
    if has_parquet():
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(io.BytesIO(parquet(records)))
        assert table.column("n").to_pylist() == [1, None]
        assert table.column("x").to_pylist() == [0.5, 2.0]
        assert table.column("b").to_pylist() == [True, None]
        assert table.column("mix").to_pylist() == ["1", "one"]


def test_a_stage_writes_its_live_rows_by_coordinate() -> None:
    """`write = "train/{model}.jsonl"` gives one file for each value of the coordinate; failed rows are left out."""
    given = mixed()
    stage = replace(chat(), write="train/{model}.jsonl")
    files = dict(written(replace(given, experiment=experiment([stage]))))
    assert {name: len(body.splitlines()) for name, body in files.items()} == {
        "train/ann.jsonl": 7,
        "train/bob.jsonl": 8,
    }


@pytest.mark.parametrize("path", ["../x.jsonl", "/x.jsonl", "x.txt", "{colour}.jsonl"])
def test_a_stage_writes_nowhere_else(path: str) -> None:
    """A path outside the results, an unknown ending, and a name that is no coordinate are refused."""
    given = replace(mixed(), experiment=experiment([replace(chat(), write=path)]))
    with pytest.raises(Refused, match="stage pick: write"):
        list(written(given))


def test_shown_cells_have_prompt_reply_verdict_attempts_and_cost() -> None:
    """One cell as data: everything that a person asks of it."""
    given = mixed()
    (cell,) = show(given, Wanted(condition="pick/bob", item="q001"), bodies(given))
    assert (cell.finish, cell.concluded, cell.parsed, cell.value) == ("length", False, True, "yes")
    assert cell.messages == (("user", "judge q001"),)
    assert [(one.ending, one.nanos) for one in cell.tries] == [("settle", 120_000)]
    assert cell.record()["messages"] == [{"role": "user", "content": "judge q001"}]
    assert json.dumps(cell.record())


def test_cells_can_be_picked() -> None:
    """By condition, finish, failure, disagreement and item; a sample is the same every time."""
    given = mixed()
    assert [cell.id for cell in show(given, Wanted(finish="length"), {})] == ["q001"]
    assert [(cell.id, cell.reason) for cell in show(given, Wanted(failed=True), {})] == [("q000", "timed out")]
    assert {cell.id for cell in show(given, Wanted(disagree=True), {})} == {"q002"}
    assert show(given, Wanted(unparsed=True), {}) == []
    drawn = show(given, Wanted(sample=3), {})
    assert len(drawn) == 3
    assert drawn == show(given, Wanted(sample=3), {})


@given(text=st.text())
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    """What a model wrote cannot move the cursor, clear the screen or turn the direction of writing."""
    shown = safe(text)
    assert all(sign in "\n\t" or ord(sign) >= 32 for sign in shown)
    assert not set(shown) & {"\x7f", "\x9b", "\u202e", "\u2066"}


def test_plain_text_is_shown_as_it_is() -> None:
    """Ordinary text, accents and line ends stay; an escape sequence becomes readable."""
    assert safe("naïve\tcafé\nok") == "naïve\tcafé\nok"
    assert safe("\x1b[2Jx") == "\\x1b[2Jx"


def test_messages_of_an_embedding_are_its_text() -> None:
    """A request of an embedding shows the text with its role."""
    body = build("embed", {"model": "m", "text": "abc", "role": "query"}, deployment="d", adapter="a", draw=0).canonical
    assert messages(body) == (("query", "abc"),)


def test_a_sheet_is_spread_over_conditions_and_values_and_hides_the_value() -> None:
    """Four rows over two conditions and two values give one of each; `human` is empty; the judge's value is not shown."""
    given = mixed()
    rows = list(csv.DictReader(io.StringIO(sheet(given, n=4, bodies=bodies(given)).decode())))
    assert list(rows[0]) == ["id", "condition", "text", "prompt_text", "reply_text", "human"]
    assert sorted(row["condition"] for row in rows) == ["pick/ann/terse@items"] * 2 + ["pick/bob/terse@items"] * 2
    values = {(row.id, row.condition.name): row.outcome.value for row in given.rows["pick"] if row.outcome}
    assert sorted(values[row["id"], row["condition"]] for row in rows) == ["no", "no", "yes", "yes"]
    assert {row["human"] for row in rows} == {""}
    assert all(row["prompt_text"] == f"judge {row['id']}" for row in rows)
    open_ = list(csv.DictReader(io.StringIO(sheet(given, n=4, bodies={}, show_value=True).decode())))
    assert {row["judge_value"] for row in open_} == {"yes", "no"}


def test_a_sheet_is_the_same_every_time_and_grows_by_seed_alone() -> None:
    """The draw depends on the seed and the rows, not on their order; another seed draws otherwise."""
    given = mixed()
    rows = list(given.rows["pick"])
    random.Random(1).shuffle(rows)
    first = sheet(given, n=6, bodies={})
    assert first == sheet(replace(given, rows={"pick": rows}), n=6, bodies={})
    other = replace(given, experiment=replace(given.experiment, seed=8))
    assert hashlib.sha256(first).digest() != hashlib.sha256(sheet(other, n=6, bodies={})).digest()


def test_a_sheet_without_concluded_replies_is_refused() -> None:
    """Nothing to label is said, not written."""
    with pytest.raises(Refused, match="no concluded reply"):
        sheet(evidence(lambda model, id_, draw: FAILED), n=3, bodies={})
    assert sheet(evidence(plain), n=3, bodies={})
