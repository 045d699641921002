"""Reading statements as a whole: which format a file has, mapping files, what is refused, currencies, billing days."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from judgerun.errors import Refused
from judgerun.files.statements.read import read
from judgerun.ledger.statement import Line, Rate, nanos, parse_rate, rate_of, slack
from judgerun.model.reply import Usage

LOG = "generation_id,created_at,cost_total,tokens_prompt,tokens_completion,model_permaslug\n"
ROW = "gen-1,2026-06-28T03:46:57Z,0.25,10,5,openai/gpt-4.1\n"
MAPPING = """
provider = "lab"
timezone = "Europe/Berlin"
currency = "EUR"
unit = "0.01"
decimals = 2
[columns]
day = "Tag"
model = "Modell"
amount = "Cent"
requests = "Anrufe"
input = "rein"
cache_read = "davon bekannt"
output = "raus"
batch = "Stapel"
[only]
Art = "Nutzung"
"""
SHEET = (
    "Tag,Art,Modell,Cent,Anrufe,rein,davon bekannt,raus,Stapel\n"
    "2026-11-30,Nutzung,glm,125,3,100,40,7,false\n"
    "2026-11-30,Steuer,,19,,,,,\n"
)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def wrong(paths: list[Path], **options: str) -> list[str]:
    """The problems with which files are refused."""
    with pytest.raises(Refused) as refused:
        read(paths, **options)
    return [str(problem) for problem in refused.value.problems]


def test_a_mapping_file_says_what_foreign_columns_mean(tmp_path: Path) -> None:
    """Names, unit, currency, time zone, sums of tokens, and which rows count."""
    found = read([put(tmp_path, "x.csv", SHEET)], format=str(put(tmp_path, "m.toml", MAPPING)))
    (line,) = found.lines
    assert (line.provider, line.model, line.amount, line.currency, line.requests) == (
        "lab",
        "glm",
        Decimal("1.25"),
        "EUR",
        3,
    )
    assert line.usage == Usage(input_fresh=60, cache_read=40, output_visible=7)
    assert (line.start, line.end - line.start) == (at(1_795_993_200), timedelta(days=1))  # midnight in Berlin
    assert (found.files[0].zone, found.files[0].unit) == ("Europe/Berlin", Decimal("0.01"))
    moved = read([tmp_path / "x.csv"], format=str(tmp_path / "m.toml"), zone="UTC", provider="own")
    assert (moved.lines[0].start, moved.lines[0].provider) == (line.start + timedelta(hours=1), "own")


def test_the_mapping_in_the_guide_is_one(tmp_path: Path) -> None:
    """What docs/audits.md shows reads a bill of the simulated provider."""
    guide = (Path(__file__).parents[3] / "docs" / "audits.md").read_text()
    block = next(part for part in guide.split("```toml\n")[1:] if part.startswith('provider = "sim"')).split("```")[0]
    row = {"at": 1_796_083_200.5, "model": "m", "nanos": 7, "input": 5, "output": 2, "attempt": "3", "billed": True}
    bill = put(tmp_path, "bill.jsonl", json.dumps(row) + "\n" + json.dumps(row | {"billed": False}) + "\n")
    (line,) = read([bill], format=str(put(tmp_path, "m.toml", block))).lines
    assert (line.provider, line.attempt, line.amount, line.requests) == ("sim", 3, Decimal("7e-9"), 1)


def test_a_mapping_that_makes_no_sense_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    """Two ways to say when, a zone that is none, a unit that is none, a key that is none: each is told, with its line."""
    text = MAPPING.replace("Europe/Berlin", "Berlin/Europe").replace('"0.01"', '"cents"')
    text = text.replace('day = "Tag"', 'day = "Tag"\ntime = "t"')
    told = wrong([put(tmp_path, "x.csv", SHEET)], format=str(put(tmp_path, "m.toml", text)))
    assert len(told) == 3
    assert any("exactly one of" in one for one in told)
    assert any("line 3" in one and "Berlin/Europe" in one for one in told)
    told = wrong([tmp_path / "x.csv"], format=str(put(tmp_path, "n.toml", MAPPING + '[other]\nx = "y"\n')))
    assert "unknown key 'other'" in told[0]


def test_every_bad_line_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    """File, line and what is wrong with it, over all files, and nothing is read."""
    bad = (
        LOG
        + "gen-1,yesterday,0.25,10,5,m\n"
        + ROW
        + "gen-2,2026-06-28T03:46:57Z,free,10,5,m\n"
        + "gen-3,2026-06-28T03:46:57Z,1,-4,5,m,x\n"
    )
    told = wrong([put(tmp_path, "a.csv", bad), put(tmp_path, "b.csv", LOG + ",2026-06-28T03:46:57Z,1,2,5.5,m\n")])
    assert [one.partition(": ")[2].partition(": ")[0] for one in told] == [
        "line 2",
        "line 4",
        "line 5",
        "line 5",
        "line 2",
        "line 2",
    ]
    assert "'yesterday', no time" in told[0]
    assert "'free', no number" in told[1]


def test_what_is_no_export_or_several_is_refused_with_the_formats(tmp_path: Path) -> None:
    """Unknown columns, a wrong --format, half a JSON document, no file at all: told, with what would do."""
    assert "openai-costs" in wrong([put(tmp_path, "a.csv", "a,b,c\n1,2,3\n")])[0]
    assert "did you mean 'openai-costs'" in wrong([tmp_path / "a.csv"], format="openai-cost")[0]
    assert "is no deepinfra" in wrong([tmp_path / "a.csv"], format="deepinfra")[0]
    assert "not JSON" in wrong([put(tmp_path, "b.json", '{"data": [')])[0]
    assert "line 2: not JSON" in wrong([put(tmp_path, "c.jsonl", '{"a": 1}\n{"a": \n')])[0]
    assert "cannot be read" in wrong([tmp_path / "none.csv"])[0]
    assert "no time zone" in wrong([put(tmp_path, "d.csv", LOG + ROW)], zone="Mars/Base")[0]


def test_nothing_is_counted_twice(tmp_path: Path) -> None:
    """The same file twice, two files of one name, two exports that tell the same money: refused."""
    log = put(tmp_path, "log.csv", LOG + ROW)
    assert "same file" in wrong([log, put(tmp_path, "copy.csv", LOG + ROW)])[0]
    (tmp_path / "sub").mkdir()
    assert "called log.csv, too" in wrong([log, put(tmp_path / "sub", "log.csv", LOG + ROW.replace("0.25", "0.5"))])[0]
    day = {"date": "2026-06-28", "model": "m", "usage": 0.25, "requests": 1, "prompt_tokens": 1, "completion_tokens": 1}
    both = wrong([log, put(tmp_path, "days.json", json.dumps({"data": [day]}))])
    assert any("both tell the money of openrouter" in one for one in both)


def test_usage_without_money_is_no_statement(tmp_path: Path) -> None:
    """A usage export alone is refused, with the file that is lacking."""
    text = "start_time,end_time,input_tokens,output_tokens,num_model_requests,model\n1796083200,1796169600,5,5,1,gpt\n"
    assert "cost export" in wrong([put(tmp_path, "usage.csv", text)])[0]


def line(amount: str | None, currency: str = "EUR", start: float = 1_796_083_200) -> Line:
    return Line(
        file="f",
        where="line 1",
        provider="p",
        start=at(start),
        end=at(start),
        currency=currency,
        amount=None if amount is None else Decimal(amount),
    )


def test_other_currencies_count_at_a_dated_rate() -> None:
    """The latest rate up to the line's day, else the first later one; exact decimals, to the nearest nano."""
    rates = [parse_rate("eur=1.10@2026-12-05"), parse_rate("EUR=1.08@2026-11-30"), parse_rate("EUR=1.05@2026-11-01")]
    assert rates[1] == Rate(currency="EUR", usd=Decimal("1.08"), day=date(2026, 11, 30))
    assert nanos(line("0.25"), rates) == 270_000_000
    assert rate_of(line("1", start=1_700_000_000), rates) == Decimal("1.05")
    assert nanos(line("0.0000000005", "USD"), []) == 0
    assert nanos(line("0.0076509169000000005", "USD"), []) == 7_650_917
    assert nanos(line(None), []) == 0
    with pytest.raises(KeyError):
        nanos(line("1", "CNY"), rates)


@pytest.mark.parametrize(
    "text", ["EUR", "EUR=1.08", "EUR=-1@2026-11-30", "EUR=x@2026-11-30", "EUR=1@tomorrow", "=1@2026-11-30"]
)
def test_a_rate_without_a_day_is_none(text: str) -> None:
    """A rate is a currency, a positive decimal and a day."""
    with pytest.raises(ValueError, match="no dated rate"):
        parse_rate(text)


def test_rounding_is_a_unit_of_the_last_place_and_never_more_than_a_cent() -> None:
    """From a nano, where a file tells all places, to a cent, though it should tell whole dollars."""
    assert slack(line("1", "USD"), Decimal("1e-12"), []) == 1
    assert slack(line("1", "USD"), Decimal("0.0001"), []) == 100_000
    assert slack(line("1", "USD"), Decimal("1"), []) == 10_000_000
    assert slack(line(None), Decimal("1"), []) == 0
