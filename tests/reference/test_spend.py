"""Bills that were really paid, told by our prices: a ledger's rows at their own time, OpenRouter's costs and why some differ."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from judgerun.files.sheet import builtin_sheet
from judgerun.model.money import NANOS_PER_USD, Nanos
from judgerun.model.reply import Usage

DATA = Path(os.environ.get("JUDGERUN_DATA", ""))
LEDGER = DATA / "spend-ledger" / "spend_ledger_sample.json"
BILLED = DATA / "provider-responses" / "openrouter_billed_costs.json"
TODAY = datetime(2026, 11, 30, 12, tzinfo=UTC)
needs_data = pytest.mark.skipif(
    not os.environ.get("JUDGERUN_DATA") or not LEDGER.is_file() or not BILLED.is_file(),
    reason="JUDGERUN_DATA does not name a folder with spend-ledger/ and provider-responses/",
)
PLACES = {"gemini": "google"}

WEB = "a web search is charged beside the tokens"
FILE = "reading a file is charged beside the tokens"
ADVISOR = "another model was asked too, and its tokens are not in the row"
BYOK = "own key: OpenRouter charges nothing, the provider bills elsewhere"
UNLISTED = "the sheet has no price of this model"
HALVED = "billed at twice the rates of the sheet, which knows one price only"
TWICE = "the same tokens are told as read from the cache and as written to it"
HOST = "another host's rates than those listed"
#: By row, counted from 0: why a table of prices does not explain its bill, and billed minus computed in nanos, where there is both.
CAUSES: dict[int, tuple[str, int | None]] = {
    1: (WEB, 10_000_000),
    2: (WEB, 7_000_000),
    8: (BYOK, -325_300),
    9: (BYOK, -226_500),
    10: (FILE, 2_000_000),
    11: (UNLISTED, None),
    12: (UNLISTED, None),
    13: (WEB, 10_000_000),
    19: (HALVED, 120_000),
    20: (ADVISOR, 14_370_000),
    22: (ADVISOR, 15_885_000),
    23: (WEB, 7_000_000),
    41: (TWICE, None),
    51: (HOST, 2_800),
}


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(), parse_float=Decimal)
    return found


def nanos(usd: Decimal | int) -> Decimal:
    return Decimal(usd) * NANOS_PER_USD


def spent(row: dict[str, Any], at: datetime) -> Nanos:
    place = PLACES.get(row["provider"], row["provider"])
    price = builtin_sheet().find(f"{place}/{row['model']}", at.date())
    assert price is not None
    cost = price.cost(Usage(input_fresh=row["input_tokens"], output_visible=row["output_tokens"]), at=at)
    assert cost is not None
    return cost


@needs_data
def test_a_row_of_a_ledger_costs_what_it_cost_at_its_own_time() -> None:
    """All 16 rows match to the nano when each is priced at its time stamp; at today's price 12 do not."""
    ledger = rows(LEDGER)
    paid = [round(nanos(row["cost"])) for row in ledger]
    assert [spent(row, datetime.fromtimestamp(float(row["ts"]), UTC)) for row in ledger] == paid
    now = [spent(row, TODAY) for row in ledger]
    assert sum(a != b for a, b in zip(now, paid, strict=True)) == 12


def billed(row: dict[str, Any]) -> Nanos | None:
    """What the sheet says that a row of OpenRouter's costs; None without a price, or for buckets that cannot be disjoint."""
    price = builtin_sheet().find(f"openrouter/{row['model']}", TODAY.date())
    fresh = row["prompt"] - row["cached"] - row["cache_write"]
    if price is None or fresh < 0:
        return None
    usage = Usage(
        input_fresh=fresh,
        cache_read=row["cached"],
        cache_write=row["cache_write"],
        output_visible=row["completion"] - row["reasoning"],
        reasoning=row["reasoning"],
    )
    return price.cost(usage, at=TODAY)


@needs_data
def test_a_bill_of_openrouter_is_explained_or_its_cause_is_named() -> None:
    """Of 52 rows 38 match to a nano; of the others each has a cause, and its surplus is what the cause says."""
    matched = 0
    for number, row in enumerate(rows(BILLED)):
        computed, paid = billed(row), nanos(row["cost"])
        if number not in CAUSES:
            assert computed is not None, number
            assert abs(computed - paid) <= 1, (number, computed, paid)
            matched += 1
            continue
        cause, surplus = CAUSES[number]
        difference = None if computed is None else round(paid) - computed
        assert difference is None if surplus is None else abs((difference or 0) - surplus) <= 1, (number, difference)
        assert (cause == BYOK) == (row["is_byok"] is True), number
        known = builtin_sheet().find(f"openrouter/{row['model']}", TODAY.date()) is not None
        assert (cause == UNLISTED) == (not known), number
        if cause == HALVED:
            assert computed is not None
            assert paid == 2 * computed
    assert matched == 38
    assert matched + len(CAUSES) == 52


@needs_data
def test_tokens_told_twice_are_charged_twice() -> None:
    """The row whose cached tokens were both written and read is billed for both; as disjoint buckets it matches."""
    row = rows(BILLED)[41]
    price = builtin_sheet().find(f"openrouter/{row['model']}", date(2026, 11, 30))
    assert price is not None
    usage = Usage(
        input_fresh=row["prompt"] - row["cached"],
        cache_read=row["cached"],
        cache_write=row["cache_write"],
        output_visible=row["completion"],
    )
    assert price.cost(usage, at=TODAY) == round(nanos(row["cost"])) + 1
