"""Plots of an audit: the lengths of replies against their cap, and the spend over time against the caps of the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from judgerun.audit.evidence import Evidence
from judgerun.audit.lengths import Lengths
from judgerun.audit.lengths import lengths as measured
from judgerun.audit.spend import booked
from judgerun.audit.statements import held
from judgerun.model.money import format_usd
from judgerun.report.page import Figure
from judgerun.report.plots import COLOURS, ROWS_MAX, canvas, has_plots, svg, ticked

BLUE, DARK, RED = "#5b8db8", "#1b1b1b", COLOURS["error"]


def lengths(evidence: Evidence, names: Mapping[str, str]) -> Iterator[Figure]:
    """One line a condition: where the middle half and nine tenths of its replies end, as shares of the cap; red stands for those at
    the cap.
    """
    found = list(measured(evidence))[:ROWS_MAX]
    if not found or not has_plots():
        return
    figure, axes = canvas(len(found))
    for place, one in enumerate(found):
        _strip(axes, place, one)
    ticked(axes, [names.get(one.condition, one.condition) for one in found])
    axes.axvline(1.0, color=RED, linewidth=1)
    axes.set_xlim(0, 1.1)
    said = "Tokens of replies over their cap: 5% to 95%, the middle half, the median; in red how many of each hundred stand at it."
    yield Figure(svg(figure), said)


def _strip(axes: Any, place: int, one: Lengths) -> None:
    shares = np.asarray(one.tokens, dtype=np.float64) / one.pile.cap
    low, first, median, third, high = np.quantile(shares, [0.05, 0.25, 0.5, 0.75, 0.95])
    axes.plot([low, high], [place, place], color=BLUE, linewidth=1)
    axes.plot([first, third], [place, place], color=BLUE, linewidth=4)
    axes.plot([median], [place], "o", color=DARK, markersize=4)
    if one.pile.count:
        axes.text(1.02, place, f"{100 * one.pile.count / len(shares):.0f}", color=RED, va="center")


def spend(evidence: Evidence) -> Iterator[Figure]:
    """What was spent for certain, and with what may have been billed, over the hours since the first call; caps on the whole are
    lines.
    """
    times = {attempt.id: attempt.closed_at for attempt in evidence.books.attempts}
    rows = sorted(
        (at, balance.settled.nanos, balance.forfeited.nanos)
        for id_, balance in booked(evidence).items()
        if (at := times.get(id_)) is not None
    )
    if len(rows) < 2 or not has_plots():
        return
    closed, settled, forfeited = (np.asarray(column, dtype=np.float64) for column in zip(*rows, strict=True))
    hours = (closed - closed[0]) / 3600
    figure, axes = canvas(CURVE_LINES, labels=0.8)
    axes.step(hours, np.cumsum(settled) / 1e9, where="post", color=BLUE, label="settled")
    axes.step(hours, np.cumsum(settled + forfeited) / 1e9, where="post", color=RED, linewidth=1, label="with forfeits")
    for words, nanos in _caps(evidence):
        axes.axhline(nanos / 1e9, color=DARK, linewidth=1, linestyle="--")
        axes.text(hours[-1], nanos / 1e9, f"{words} {format_usd(nanos)}", ha="right", va="bottom")
    axes.set_xlabel("hours since the first call")
    axes.set_ylabel("USD")
    axes.legend(loc="upper left", frameon=False)
    yield Figure(svg(figure), "Spend of the experiment over time, and the caps on the whole that lie in reach.")


def statements(evidence: Evidence) -> Iterator[Figure]:
    """The residual of each statement against which the ledger was held, one bar a part."""
    parts = [
        (f"{name}: {part}", nanos / 1e9)
        for name, told in sorted(held(evidence).items())
        for part, nanos in sorted(told["components"].items())
        if nanos
    ][:ROWS_MAX]
    if not parts or not has_plots():
        return
    figure, axes = canvas(len(parts))
    axes.barh(range(len(parts)), [usd for _, usd in parts], color=BLUE, height=0.7)
    axes.axvline(0, color=DARK, linewidth=1)
    ticked(axes, [words for words, _ in parts])
    yield Figure(svg(figure), "USD by which statements differ from what is settled, part by part.")


CURVE_LINES = 12
REACH = 4
"""A cap above so many times the spend would flatten the curve: it is left out."""


def _caps(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """The dollar caps on the budget's total and on the experiment, where they lie in reach."""
    spent = sum(balance.settled.nanos + balance.forfeited.nanos for balance in booked(evidence).values())
    for budget in evidence.budgets:
        for cap in budget.caps:
            mine = cap.kind == "total" or (cap.kind == "experiment" and cap.key == evidence.experiment.name)
            if cap.unit == "nanos" and mine and cap.limit <= REACH * max(spent, 1):
                yield f"cap {cap}", cap.limit
