"""Prices of a workspace: what a model's calls are charged, in which lane, who says so, and how old that is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pytest

from judgerun.api.pricing import Listing, aged, price_list
from judgerun.api.project import Project, Workspace
from judgerun.errors import Refused
from judgerun.files.sheet import SHEET_DAY
from judgerun.ledger.prices import STALE_DAYS
from judgerun.model.profile import JobLimits
from judgerun.model.reply import Usage

TODAY = date(2026, 11, 30)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MILLION = Usage(input_fresh=10**6, output_visible=0)
EXPERIMENT = """
name = "tiny"
seed = 1
[data.items]
path = "items.jsonl"
[providers.lab]
dialect = "openai"
base_url = "http://127.0.0.1:9/v1"
price = {{ input = "1", output = "2"{own} }}
[models.big]
provider = "openai"
model = "gpt-5.4"
max_output_tokens = 300
{lane}
[models.small]
provider = "lab"
model = "qwen"
max_output_tokens = 300
{lane}
[[stage]]
name = "ask"
kind = "judge"
from = "items"
models = ["big", "small"]
prompts = ["p"]
parse = {{ kind = "score", low = 1, high = 5 }}
"""
WRITTEN = """
["openai/gpt-5.4"]
input = "3"
output = "9"
source = "invoice"
checked = 2026-08-01
from = 2026-08-01
"""


def workspace(root: Path, *, lane: str = "", own: str = "", written: str = "") -> Workspace:
    folder = root / "prompts" / "tiny"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(EXPERIMENT.format(lane=lane, own=own))
    (folder / "items.jsonl").write_text('{"id": "a", "text": "t"}\n')
    (folder / "p.md").write_text("{{ text }}")
    if written:
        (root / "budgets").mkdir()
        (root / "budgets" / "prices.toml").write_text(written)
    return Workspace(root=root, environ={})


def costs(project: Project, lane: Literal["batch"] | None = None) -> dict[str, int | None]:
    """A million input tokens of each model, where it has a price."""
    held = {name: project.price(replace(model, lane=lane), TODAY) for name, model in project.models.items()}
    return {name: None if price is None else price.cost(MILLION, at=NOON) for name, price in held.items()}


def test_a_model_in_the_batch_lane_is_charged_as_it_is_there(tmp_path: Path) -> None:
    """By the sheet's rates of the batch lane, or the written factor; bound and cost alike."""
    project = workspace(tmp_path, own=', batch_factor = "0.25"').open("tiny")
    assert costs(project, "batch") == {"big": 2_500_000_000, "small": 250_000_000}
    price = project.price(replace(project.models["small"], lane="batch"), TODAY)
    assert price is not None
    assert price.bound(10**6, 0) == 250_000_000


def test_the_usual_lane_ignores_what_the_batch_lane_costs(tmp_path: Path) -> None:
    """A written batch factor touches nothing but the batch lane; the sheet's tier for a million tokens holds."""
    assert costs(workspace(tmp_path, own=', batch_factor = "0.25"').open("tiny")) == {
        "big": 5_000_000_000,
        "small": 1_000_000_000,
    }


def test_a_price_that_says_nothing_of_the_batch_lane_takes_the_provider_s_factor_or_is_none(tmp_path: Path) -> None:
    """Nothing is ever sent to the batch lane at a price that nobody stated for it."""
    project = workspace(tmp_path).open("tiny")
    profile = project.profiles["small"]
    without = replace(project, profiles={**project.profiles, "small": replace(profile, jobs=None)})
    assert costs(without, "batch")["small"] is None
    jobs = JobLimits(requests=10, bytes=10**6, factor="0.3")
    known = replace(project, profiles={**project.profiles, "small": replace(profile, jobs=jobs)})
    assert costs(known, "batch")["small"] == 300_000_000


def test_another_service_than_the_usual_has_a_written_price_or_none(tmp_path: Path) -> None:
    """A field that asks for priority would be charged more than the sheet says: only a price written for it counts."""
    service = 'extra = { service_tier = "priority" }'
    assert costs(workspace(tmp_path / "a", lane=service).open("tiny")) == {"big": None, "small": 1_000_000_000}
    assert costs(workspace(tmp_path / "b", lane=service, written=WRITTEN).open("tiny"))["big"] == 3_000_000_000


def names(listing: Listing) -> set[tuple[str, str]]:
    return {(row.name, row.model) for row in listing.rows}


def test_a_name_or_a_part_of_it_finds_rows_of_the_sheet_and_of_the_experiments(tmp_path: Path) -> None:
    """An exact name finds itself alone; a part finds all that have it; a model's own name finds what it is charged."""
    place = workspace(tmp_path)
    exact = names(price_list(place, "openai/gpt-5.4", today=TODAY))
    assert exact == {("openai/gpt-5.4", ""), ("openai/gpt-5.4", "tiny: big")}
    part = names(price_list(place, "GPT-5.4", today=TODAY))
    assert {("openrouter/openai/gpt-5.4", ""), ("openai/gpt-5.4-mini", "")} | exact <= part
    assert names(price_list(place, "small", today=TODAY)) >= {("lab/qwen", "tiny: small")}
    assert names(price_list(place, None, today=TODAY)) == {("openai/gpt-5.4", "tiny: big"), ("lab/qwen", "tiny: small")}


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """A misspelling is answered by what may have been meant, a model without a price by the reason."""
    place = workspace(tmp_path)
    with pytest.raises(Refused, match=r"nearest: .*openai/gpt-5"):
        price_list(place, "openai/gtp-5", today=TODAY)
    with pytest.raises(Refused, match="states no price for input tokens"):
        price_list(place, "groq/whisper-large-v3", today=TODAY)


def test_a_written_price_shows_that_it_stands_over_the_sheet(tmp_path: Path) -> None:
    """Both are listed, each with its days; the document holds decimal strings, tiers, source, date and age."""
    rows = price_list(workspace(tmp_path, written=WRITTEN), "openai/gpt-5.4", today=TODAY).document()["prices"]
    mine, *sheet = [row for row in rows if row["model"] is None]
    assert mine == {
        "name": "openai/gpt-5.4",
        "model": None,
        "from": "2026-08-01",
        "to": None,
        "in_force": True,
        "usd_per_million": {
            "input": "3.00",
            "output": "9.00",
            "tiers": [],
            "hours": [],
            "batch_factor": None,
            "batch": None,
        },
        "share": "1",
        "source": "invoice",
        "written": True,
        "overrides": True,
        "checked": "2026-08-01",
        "age_days": 121,
        "stale": True,
    }
    assert [(row["to"], row["written"], row["in_force"]) for row in sheet] == [("2026-08-01", False, False)]
    assert sheet[0]["usd_per_million"]["tiers"] == [
        {"above": 272_000, "input": "5.00", "output": "22.50", "cache_read": "0.50"}
    ]


def test_a_model_in_the_batch_lane_is_listed_with_its_share(tmp_path: Path) -> None:
    """The share of the written rates that is charged."""
    place = workspace(tmp_path, own=', batch_factor = "0.25"')
    file = tmp_path / "prompts" / "tiny" / "experiment.toml"
    text = file.read_text().replace('model = "qwen"', 'model = "qwen"\nlane = "batch"')
    file.write_text(text.replace('dialect = "openai"', 'dialect = "anthropic"'))  # a dialect with a batch API
    listing = price_list(place, "tiny: small", today=TODAY)
    assert [row.price.factor for row in listing.rows] == [Fraction(1, 4)]


def test_an_experiment_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The others are listed all the same."""
    place = workspace(tmp_path)
    (tmp_path / "prompts" / "broken").mkdir()
    (tmp_path / "prompts" / "broken" / "experiment.toml").write_text("name = 1")
    listing = price_list(place, None, today=TODAY)
    assert ("lab/qwen", "tiny: small") in names(listing)
    assert any("broken is left out" in warning for warning in listing.warnings)


@pytest.mark.parametrize(("days", "warned"), [(STALE_DAYS, 0), (STALE_DAYS + 1, 1)])
def test_an_old_price_warns_once_for_each_model(tmp_path: Path, days: int, warned: int) -> None:
    """From the ninety-first day on; a price in the experiment file says no day and is not doubted."""
    place = workspace(tmp_path)
    today = SHEET_DAY + timedelta(days=days)
    problems = aged(place.open("tiny"), today=today)
    assert len(problems) == warned
    assert all("openai/gpt-5.4" in problem.place and "91 days ago" in problem.wrong for problem in problems)
    warnings = price_list(place, "openai/gpt-5.4", today=today).warnings
    assert any("more than 90 days" in warning for warning in warnings) == bool(warned)


def test_a_provider_is_found_by_the_name_that_experiments_give_it(tmp_path: Path) -> None:
    """`voyage` and `openai-responses` have another name in the sheet; both names find the same prices."""
    place = workspace(tmp_path)
    assert names(price_list(place, "voyage/voyage-3.5", today=TODAY)) == {("voyageai/voyage-3.5", "")}
    same = names(price_list(place, "openai/gpt-5.4-mini", today=TODAY))
    assert names(price_list(place, "openai-responses/gpt-5.4-mini", today=TODAY)) == same


def test_a_written_price_that_charges_nobody_is_told(tmp_path: Path) -> None:
    """A misspelt name in prices.toml corrects no price: the list says so; a name in use is none of these."""
    slip = WRITTEN.replace("openai/gpt-5.4", "opanai/gpt-5.4")
    told = price_list(workspace(tmp_path, written=WRITTEN + slip), None, today=TODAY).warnings
    assert [warning for warning in told if "is charged by" in warning] == [
        "prices.toml: no model of the experiments here is charged by opanai/gpt-5.4"
    ]


def test_a_price_checked_on_a_day_that_has_not_come_warns(tmp_path: Path) -> None:
    """A year too many in `checked` would silence the warning of old prices for as long; tomorrow may be today elsewhere."""
    for day, warned in (("2027-11-29", 1), ("2026-12-01", 0)):
        place = workspace(tmp_path / day, written=WRITTEN.replace("checked = 2026-08-01", f"checked = {day}"))
        told = aged(place.open("tiny"), today=TODAY)
        assert len(told) == warned
        assert all("a day that has not come" in problem.wrong for problem in told)
