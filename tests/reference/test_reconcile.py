"""Bills that were really paid against a ledger of ours: OpenRouter's 52 calls one by one, and a study's 16 by the day."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fakes.billed import names
from judgerun.audit.matching import Booked, State
from judgerun.audit.reconcile import reconcile
from judgerun.files.sheet import builtin_sheet
from judgerun.files.statements.read import read
from judgerun.ledger.prices import Price
from judgerun.model.money import NANOS_PER_USD
from judgerun.model.reply import Usage

DATA = Path(os.environ.get("JUDGERUN_DATA", ""))
LEDGER = DATA / "spend-ledger" / "spend_ledger_sample.json"
BILLED = DATA / "provider-responses" / "openrouter_billed_costs.json"
pytestmark = pytest.mark.skipif(
    not os.environ.get("JUDGERUN_DATA") or not LEDGER.is_file() or not BILLED.is_file(),
    reason="JUDGERUN_DATA does not name a folder with spend-ledger/ and provider-responses/",
)
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
UNPRICED = (11, 12, 41)
"""Rows whose cost no price of the sheet tells: a ledger forfeits their holds."""
SURPLUS = {
    1: 10_000_000, 2: 7_000_000, 8: -325_300, 9: -226_500, 10: 2_000_000, 13: 10_000_000, 19: 120_000, 20: 14_370_000,
    22: 15_885_000, 23: 7_000_000, 51: 2_800,
}  # fmt: skip
"""Rows that cost other than their tokens, and by how many nanos: searches, files, another model's tokens, own keys, other rates."""


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(), parse_float=Decimal)
    return found


def usage(row: dict[str, Any]) -> Usage:
    return Usage(
        input_fresh=max(row["prompt"] - row["cached"] - row["cache_write"], 0),
        cache_read=row["cached"],
        cache_write=row["cache_write"],
        output_visible=max(row["completion"] - row["reasoning"], 0),
        reasoning=row["reasoning"],
    )


def booked(number: int, row: dict[str, Any]) -> Booked:
    """The call as this program would have booked it."""
    price = builtin_sheet().find(f"openrouter/{row['model']}", AT.date())
    cost = None if price is None or number in UNPRICED else price.cost(usage(row), at=AT)
    return Booked(
        attempt=number,
        providers=frozenset({"openrouter"}),
        models=frozenset({row["model"]}),
        at=AT.timestamp(),
        state=State.FORFEITED if cost is None else State.SETTLED,
        settled=cost or 0,
        doubt=5_000_000 if cost is None else 0,
        usage=None if cost is None else usage(row),
        ids=frozenset({f"gen-{number}"}),
        usual=price,
        answered=AT,
    )


def generation(number: int, row: dict[str, Any]) -> dict[str, Any]:
    """The call as `/api/v1/generation` tells it."""
    return {
        "id": f"gen-{number}",
        "created_at": AT.isoformat(),
        "model": row["model"],
        "total_cost": float(row["cost"]),
        "native_tokens_prompt": row["prompt"],
        "native_tokens_completion": max(row["completion"], row["reasoning"]),
        "native_tokens_reasoning": row["reasoning"],
        "native_tokens_cached": row["cached"],
    }


def test_each_call_of_openrouter_is_matched_and_each_surplus_is_told_to_the_nano(tmp_path: Path) -> None:
    """Of 52 real bills the 3 forfeits get their true cost, 11 cost other money for the same tokens by exactly what is known of
    them, and of the rest not a nano more than rounding is left.
    """
    held = rows(BILLED)
    path = tmp_path / "generations.json"
    path.write_text(json.dumps([generation(number, row) for number, row in enumerate(held)]))
    found = reconcile(read([path]), [booked(number, row) for number, row in enumerate(held)])
    assert found.grains == {"openrouter": "call"}
    told = names(found)
    unpriced = sum(round(held[number]["cost"] * NANOS_PER_USD) for number in UNPRICED)
    assert set(told) == {"forfeits billed", "price error"}
    assert abs(told["price error"] - sum(SURPLUS.values())) <= len(SURPLUS)
    assert abs(told["forfeits billed"] - unpriced) <= len(UNPRICED)
    (error,) = [one for one in found.components if one.name == "price error"]
    assert error.count == len(SURPLUS)
    assert {one.booked.attempt: one.nanos for one in found.resolves}.keys() == set(UNPRICED)
    assert found.reconciled


PLACES = {"gemini": "google"}


def spent(number: int, row: dict[str, Any], day: date | None = None) -> Booked:
    """A row of the study as this program would have booked it, by the price of its own time or of another day."""
    at = datetime.fromtimestamp(float(row["ts"]), UTC)
    place = PLACES.get(row["provider"]) or str(row["provider"])
    price: Price | None = builtin_sheet().find(f"{place}/{row['model']}", day or at.date())
    told = Usage(input_fresh=row["input_tokens"], output_visible=row["output_tokens"])
    cost = None if price is None else price.cost(told, at=AT if day else at)
    assert cost is not None
    return Booked(
        attempt=number,
        providers=frozenset({place}),
        models=frozenset({row["model"]}),
        at=at.timestamp(),
        state=State.SETTLED,
        settled=cost,
        usage=told,
        usual=price,
        answered=at,
    )


def test_a_real_ledger_by_the_day_reconciles_at_its_own_prices_and_not_at_todays(tmp_path: Path) -> None:
    """Sixteen rows in two providers' sums by day: nothing is left at the prices of their time; at a later day's prices the same
    tokens cost other money, and the difference is told as that.
    """
    held = rows(LEDGER)
    path, mapping = tmp_path / "study.jsonl", tmp_path / "mapping.toml"
    path.write_text(
        "".join(json.dumps({**row, "cost": float(row["cost"]), "ts": float(row["ts"])}) + "\n" for row in held)
    )
    columns = 'time = "ts"\nmodel = "model"\namount = "cost"\ninput = "input_tokens"\noutput = "output_tokens"\n'
    mapping.write_text(f'provider = "deepseek"\ncalls = true\n[columns]\n{columns}[only]\nprovider = "deepseek"\n')
    statement = read([path], format=str(mapping))
    own = [spent(number, row) for number, row in enumerate(held)]
    found = reconcile(statement, own)
    assert (names(found), found.reconciled, found.grains) == ({}, True, {"deepseek": "model and day"})
    late = [spent(number, row, AT.date()) for number, row in enumerate(held)]
    found = reconcile(statement, late)
    assert set(names(found)) == {"price error"}
    ours = {number for number, row in enumerate(held) if row["provider"] == "deepseek"}
    gone = sum(own[number].settled - late[number].settled for number in ours)
    assert abs(names(found)["price error"] - gone) <= len(ours)
