"""budgets/prices.toml: what is written is what holds, over the sheet and inside its days."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from judgerun.errors import Refused
from judgerun.files.prices import load_prices
from judgerun.ledger.prices import Price, PriceSheet
from judgerun.model.experiment import Hours, PriceSpec, Tier

PRICE = PriceSpec(input=1, output=2)
SHEET = PriceSheet(
    {
        "lab/m": (
            Price(rates=PRICE, source="sheet", end=date(2026, 6, 1)),
            Price(rates=PriceSpec(input=3, output=4), source="sheet", start=date(2026, 6, 1)),
        )
    },
    "sheet 1",
)


def price_file(root: Path, text: str) -> None:
    (root / "budgets").mkdir(exist_ok=True)
    (root / "budgets" / "prices.toml").write_text(text)


def told(root: Path, text: str) -> str:
    price_file(root, text)
    with pytest.raises(Refused) as caught:
        load_prices(root, SHEET)
    return str(caught.value)


def test_a_written_price_stands_over_the_sheet_inside_its_days(tmp_path: Path) -> None:
    """Inside its window the file's price holds, outside it the sheet's; the version names both."""
    assert load_prices(tmp_path, SHEET) is SHEET
    price_file(
        tmp_path,
        '["lab/m"]\ninput = "1.50"\noutput = "6"\ncache_read = "0.15"\nsource = "invoice 7"\nchecked = 2026-07-01\n'
        "from = 2026-05-01\nto = 2026-07-01\n",
    )
    sheet = load_prices(tmp_path, SHEET)
    found = {
        day: price.rates.input
        for day in (date(2026, 4, 30), date(2026, 5, 1), date(2026, 6, 30), date(2026, 7, 1))
        if (price := sheet.find("lab/m", day)) is not None
    }
    assert list(found.values()) == [1, 1_500_000_000, 1_500_000_000, 3]
    written = sheet.find("lab/m", date(2026, 6, 1))
    assert written is not None
    assert (written.source, written.checked) == ("invoice 7", date(2026, 7, 1))
    assert sheet.version.startswith("sheet 1 + prices.toml ")


def test_a_price_without_days_replaces_the_sheet_s_for_ever(tmp_path: Path) -> None:
    """Without from and to nothing of the sheet's price is left; several dated prices of one model may stand."""
    price_file(tmp_path, '["lab/m"]\ninput = "0"\noutput = "0"\nsource = "own"\nchecked = 2026-07-01\n')
    assert len(load_prices(tmp_path, SHEET).rows["lab/m"]) == 1
    two = "".join(
        f'[["lab/m"]]\ninput = "{n}"\noutput = "0"\nsource = "own"\nchecked = 2026-07-01\n{window}\n'
        for n, window in ((1, "to = 2026-03-01"), (2, "from = 2026-03-01"))
    )
    price_file(tmp_path, two)
    sheet = load_prices(tmp_path, SHEET)
    later = sheet.find("lab/m", date(2026, 3, 1))
    assert later is not None
    assert later.rates.input == 2_000_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["lab/m"]\ninput = "1"\noutput = "1"\nchecked = 2026-01-01', "'source' is missing"),
        ('["lab/m"]\ninput = 1.5\noutput = "1"\nsource = "x"\nchecked = 2026-01-01', '"1.50"'),
        ('["lab/m"]\ninput = "1"\noutput = "1"\nsource = "x"\nchecked = "today"', "date"),
        ('[m]\ninput = "1"\noutput = "1"\nsource = "x"\nchecked = 2026-01-01', "names no model"),
        (
            '["lab/m"]\ninput = "1"\noutput = "1"\nsource = "x"\nchecked = 2026-01-01\nfrom = 2026-02-01\nto = 2026-01-01',
            "before it starts",
        ),
        (
            '[["lab/m"]]\ninput = "1"\noutput = "1"\nsource = "x"\nchecked = 2026-01-01\n' * 2,
            "two prices hold on one day",
        ),
    ],
)
def test_a_wrong_price_is_told(tmp_path: Path, text: str, message: str) -> None:
    """Prices are data with a source and a date; amounts are strings; windows do not overlap."""
    assert message in told(tmp_path, text)


HEAD = '["lab/m"]\nsource = "x"\nchecked = 2026-01-01\n'
USD = 1_000_000_000


def test_tiers_hours_and_the_batch_factor_are_read(tmp_path: Path) -> None:
    """Every key of a price reaches the core: amounts in nanos, times of day in minutes, the factor as it is written."""
    price_file(
        tmp_path,
        HEAD
        + 'input = "1"\noutput = "4"\ncache_write_1h = "2"\nbatch_factor = "0.5"\n'
        + 'tiers = [{ above = 200000, input = "2", output = "6", cache_write_1h = "4" }]\n'
        + 'hours = [{ from = "16:30", to = "00:30", input = "0.5", output = "2", cache_write_1h = "1" }]\n',
    )
    (price,) = load_prices(tmp_path, SHEET).rows["lab/m"]
    assert price.written
    assert price.rates == PriceSpec(
        input=USD,
        output=4 * USD,
        cache_write_1h=2 * USD,
        tiers=(Tier(above=200_000, input=2 * USD, output=6 * USD, cache_write_1h=4 * USD),),
        hours=(Hours(start=990, end=30, input=USD // 2, output=2 * USD, cache_write_1h=USD),),
        batch_factor="0.5",
    )


@pytest.mark.parametrize(
    ("keys", "place", "message"),
    [
        ('tiers = [{ input = "2", output = "6" }]', "tiers[1]", "the key 'above' is missing"),
        ('tiers = [{ above = 0, input = "2", output = "6" }]', "tiers[1].above", "greater than or equal to 1"),
        (
            'tiers = [{ above = 9, input = "2", output = "6" }, { above = 9, input = "3", output = "6" }]',
            "tiers",
            "do not rise",
        ),
        (
            'cache_read = "1"\ntiers = [{ above = 9, input = "2", output = "6" }]',
            "tiers[1].cache_read",
            "the price has a rate for cache_read, it has none",
        ),
        (
            'hours = [{ from = "1:00", to = "24:00", input = "2", output = "6" }]',
            "hours[1].to",
            "'24:00' is no time of day",
        ),
        ('hours = [{ from = "01:00", to = "01:00", input = "2", output = "6" }]', "hours[1].to", "end when they start"),
        (
            'hours = [{ from = "22:00", to = "02:00", input = "2", output = "6" }, '
            '{ from = "01:59", to = "03:00", input = "2", output = "6" }]',
            "hours",
            "hold at one moment",
        ),
        (
            'hours = [{ from = "01:00", to = "02:00", input = "2", output = "6", reasoning = "9" }]',
            "hours[1].reasoning",
            "it has a rate for reasoning, the price has none",
        ),
        ('hours = [{ from = "01:00", to = "02:00", input = "2" }]', "hours[1]", "'output' is missing"),
        ("batch_factor = 0.5", "batch_factor", "is not a factor"),
        ('cache_write_2h = "1"', "cache_write_2h", "did you mean 'cache_write_1h'"),
    ],
)
def test_a_wrong_tier_hour_or_factor_is_told_with_its_key(tmp_path: Path, keys: str, place: str, message: str) -> None:
    """What could be read in two ways is refused, and the message names the file, the key and what is wrong."""
    said = told(tmp_path, HEAD + 'input = "1"\noutput = "4"\n' + keys)
    assert "prices.toml" in said
    assert place in said
    assert message in said


def test_all_problems_of_a_price_file_are_told_at_once(tmp_path: Path) -> None:
    """Two wrong prices are two problems in one refusal."""
    said = told(
        tmp_path,
        HEAD + 'input = "1"\noutput = 4\n["lab/n"]\nsource = "x"\nchecked = 2026-01-01\ninput = "1"\noutput = "1"\n'
        'hours = [{ from = "01:00", to = "01:00", input = "2", output = "6" }]\n',
    )
    assert '"4.00"' in said
    assert "end when they start" in said


ROW = '\ninput = "1.50"\noutput = "0"\nsource = "invoice 7"\nchecked = 2026-07-01\n'


def test_a_built_in_provider_s_own_name_is_as_good_as_the_sheet_s(tmp_path: Path) -> None:
    """What is written under the name by which experiments know a provider stands over the sheet's row of another name; the two
    names together are one price written twice.
    """
    sheet = PriceSheet({"voyageai/v": (Price(rates=PRICE, source="sheet"),)}, "sheet 1")
    price_file(tmp_path, f'["voyage/v"]{ROW}["openai-responses/m"]{ROW}')
    found = load_prices(tmp_path, sheet)
    for name in ("voyageai/v", "openai/m"):
        price = found.find(name, date(2026, 7, 1))
        assert price is not None
        assert price.source == "invoice 7"
    assert "under another name" in told(tmp_path, f'["voyage/v"]{ROW}["voyageai/v"]{ROW}')
