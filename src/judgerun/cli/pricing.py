"""The command that tells prices: prices."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from judgerun.api.pricing import RATES, Listed, Listing, parts, price_list, rates_usd, since
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json
from judgerun.cli.words import Words
from judgerun.errors import Exit

COLUMNS = ("price", "model", "days", "when", *(name.replace("_", " ") for name in RATES), "batch", "checked", "source")


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(prices)


def prices(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="provider/model, or a part of it, or a model's name in an experiment. Default: those of the experiments "
            "and of prices.toml.",
        ),
    ] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """What models cost: rates, tiers, hours, days and batch lane, with the source and the day on which it was checked."""
    words = Words(json=json)
    listing = price_list(Workspace(root=workspace), model, today=datetime.now(UTC).date())
    sources = list(dict.fromkeys(_source(row) for row in listing.rows))
    lines = [line for row in listing.rows for line in _lines(row, listing, sources.index(_source(row)) + 1)]
    filled = [column for column in COLUMNS if any(line.get(column) for line in lines)]
    words.table(filled, [[line.get(column, "") for column in filled] for line in lines])
    for n, source in enumerate(sources, 1):
        words.say(f"[{n}] {source}")
    for warning in listing.warnings:
        words.log(f"warning: {warning}")
    words.say(f"USD per million tokens, from {listing.version}")
    words.result(listing.document())
    return Exit.DONE


def _source(row: Listed) -> str:
    where = ", written in prices.toml" if row.price.written else ""
    return f"{row.price.source}{where}{' over the sheet' if row.overrides else ''}"


def _lines(row: Listed, listing: Listing, source: int) -> list[dict[str, str]]:
    """A line of cells by column for each set of rates; what holds for all of them stands in the first."""
    price = row.price
    starts = f"from {price.start}" if price.start else ""
    ends = f"before {price.end}" if price.end else ""
    old = f", {since(price, listing.today)}" if price.stale(listing.today) else ""
    lines = [
        {"when": when, **{name.replace("_", " "): usd for name, usd in rates_usd(rates).items()}}
        for when, rates in parts(price)
    ]
    lines[0] |= {
        "price": row.name,
        "model": row.model,
        "days": ", ".join(filter(None, (starts, ends))),
        "checked": f"{price.checked}{old}" if price.checked else "",
        "batch": price.rates.batch_factor or "",
        "source": f"[{source}]",
    }
    return lines
