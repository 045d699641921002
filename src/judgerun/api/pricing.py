"""Pricing: what is known of models' prices, who says so, and how old that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from rapidfuzz import fuzz, process

from judgerun.api.project import Project, Workspace
from judgerun.errors import Problem, Refused
from judgerun.files.deployments import sheet_name
from judgerun.files.prices import load_prices
from judgerun.files.sheet import builtin_sheet, left_out
from judgerun.files.workspace import list_experiments
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Hours, Model, PriceSpec, Rates, Scale, Tier
from judgerun.model.money import WHOLE, format_usd

RATES = tuple(rate.name for rate in fields(Rates))
NEAREST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One price of a name: `provider/model`. For a model of an experiment it is what that model's calls are charged."""

    name: str
    price: Price
    model: str = ""  # "experiment: model"
    overrides: bool = False  # it stands in prices.toml in the place of one of the sheet

    def document(self, today: date) -> dict[str, Any]:
        """As JSON; amounts are decimal strings of dollars."""
        price = self.price
        return {
            "name": self.name,
            "model": self.model or None,
            **_days(price),
            "in_force": price.holds(today),
            "usd_per_million": _spec(price.rates),
            "share": str(price.factor),
            "source": price.source,
            "written": price.written,
            "overrides": self.overrides,
            "checked": None if price.checked is None else price.checked.isoformat(),
            "age_days": price.age(today),
            "stale": price.stale(today),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The prices that answer one question."""

    rows: tuple[Listed, ...]
    warnings: tuple[str, ...]
    version: str  # of the sheet, and of prices.toml
    today: date

    def document(self) -> dict[str, Any]:
        """The object of `prices --json`."""
        return {
            "sheet": self.version,
            "prices": [row.document(self.today) for row in self.rows],
            "warnings": list(self.warnings),
        }


def price_list(workspace: Workspace, wanted: str | None, *, today: date) -> Listing:
    """The price named `wanted`, else those with it in their name; and those of the experiments' models with it in theirs.
    Without it the prices of the experiments' models and of prices.toml. Raises Refused, with the nearest names, where there is
    none.
    """
    sheet = load_prices(workspace.root, builtin_sheet())
    word = (wanted or "").lower()
    there = sheet_name(wanted or "")
    rows: list[Listed] = []
    warnings: list[str] = []
    found = [there] if there in sheet.rows else sorted(name for name in sheet.rows if there.lower() in name.lower())
    for name in found:
        prices = sheet.rows[name]
        if wanted is not None or any(price.written for price in prices):
            over = name in builtin_sheet().rows
            rows += [Listed(name=name, price=price, overrides=price.written and over) for price in prices]
    used: set[str] = set()
    for project, model in _models(workspace, warnings):
        if model.provider.price is None:
            used.add(sheet_name(model.priced_as))
        place, label = f"{model.provider.name}/{model.model}", f"{project.name}: {model.name}"
        if word in place.lower() or word in label.lower():
            held = project.prices(model)
            rows += [Listed(name=place, price=price, model=label) for price in held]
            warnings += [] if held else [f"{label}: no price of {place} is known, a run refuses it"]
    if wanted is None:
        idle = (row.name for row in rows if row.price.written and not row.model and row.name not in used)
        warnings += [
            f"prices.toml: no model of the experiments here is charged by {name}" for name in dict.fromkeys(idle)
        ]
    if wanted is not None and not rows:
        raise Refused(_unknown(wanted, sheet.rows))
    stale = sum(row.price.stale(today) and row.price.holds(today) for row in rows)
    if stale:
        warnings.append(f"{stale} of these prices were checked more than 90 days ago, or on a day that has not come")
    return Listing(rows=tuple(rows), warnings=tuple(warnings), version=sheet.version, today=today)


def aged(project: Project, *, today: date) -> tuple[Problem, ...]:
    """A warning for each price of the experiment's models that nobody has checked for too long."""
    found: dict[str, Problem] = {}
    for model in project.experiment.models:
        price = project.price(model, today)
        if price is not None and price.stale(today):
            name = model.priced_as
            wrong = f"its price was checked on {price.checked}, {since(price, today)}"
            found[name] = Problem(
                "budgets/prices.toml",
                f'"{name}"',
                wrong,
                "look it up again, and write it with the day on which you did",
            )
    return tuple(found.values())


def _models(workspace: Workspace, warnings: list[str]) -> Iterator[tuple[Project, Model]]:
    """The models of the workspace's experiments; of one that cannot be read a warning says so."""
    for path in list_experiments(workspace.root):
        name = path.parent.name
        try:
            project = workspace.open(name)
        except Refused as error:
            warnings.append(f"{name} is left out: {error.problems[0]} (judgerun check {name})")
            continue
        for model in project.experiment.models:
            yield project, model


def _unknown(wanted: str, names: Iterable[str]) -> Problem:
    """No price has this name: why, where the sheet knows the model, else the names that are near."""
    why = {name: reason for name, reason in left_out().items() if wanted.lower() in name.lower()}
    if why:
        name, reason = min(why.items())
        return Problem("prices", wanted, f"{name} has no price here: {reason}", "a row in budgets/prices.toml")
    whole = "/" in wanted
    near = process.extract(
        wanted,
        list(names),
        scorer=fuzz.ratio,
        processor=lambda name: name.lower() if whole else name.lower().rpartition("/")[2],
        limit=NEAREST,
    )
    known = ", ".join(name for name, _, _ in near)
    return Problem("prices", wanted, f"no price has {wanted!r} in its name", f"the nearest: {known}")


# --- as JSON, and in words --------------------------------------------------------------------------------------------


def clock(minute: int) -> str:
    """Minutes after midnight as "16:30"."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def since(price: Price, today: date) -> str:
    """How long ago a price was checked, in words."""
    age = price.age(today)
    return "a day that has not come" if age is not None and age < 0 else f"{age} days ago"


def rates_usd(rates: Rates) -> dict[str, str]:
    """The rates that there are, in dollars per million tokens."""
    return {name: format_usd(rate) for name in RATES if (rate := getattr(rates, name)) is not None}


def _days(price: Price) -> dict[str, str | None]:
    return {
        "from": None if price.start is None else price.start.isoformat(),
        "to": None if price.end is None else price.end.isoformat(),
    }


def _spec(spec: PriceSpec) -> dict[str, Any]:
    return {
        **_scale(spec),
        "hours": [{"from": clock(hours.start), "to": clock(hours.end), **_scale(hours)} for hours in spec.hours],
        "batch_factor": spec.batch_factor,
        "batch": None if spec.batch is None else _scale(spec.batch),
    }


def _scale(scale: Scale) -> dict[str, Any]:
    return {**rates_usd(scale), "tiers": [{"above": tier.above, **rates_usd(tier)} for tier in scale.tiers]}


def parts(price: Price) -> Iterator[tuple[str, Rates]]:
    """The rates of a price one by one, each with the words that say when they hold."""
    share = "" if price.factor == WHOLE else f"{price.factor} of"
    yield share, price.rates
    yield from _tiers("", price.rates.tiers)
    for hours in price.rates.hours:
        yield _hours(hours), hours
        yield from _tiers(f"{_hours(hours)}, ", hours.tiers)
    if price.rates.batch is not None:
        yield "batch lane", price.rates.batch
        yield from _tiers("batch lane, ", price.rates.batch.tiers)


def _tiers(before: str, tiers: Iterable[Tier]) -> Iterator[tuple[str, Rates]]:
    for tier in tiers:
        yield f"{before}above {tier.above:,} tokens", tier


def _hours(hours: Hours) -> str:
    return f"{clock(hours.start)} to {clock(hours.end)} UTC"
