"""Plots as inline SVG by matplotlib, where the `plots` extra is there; the same bytes for the same numbers."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from typing import Any

from judgerun.audit.finding import Completion
from judgerun.report.page import Figure
from judgerun.report.told import Told

COLOURS = {
    "stop": "#4c9f70",
    "length": "#d97a00",
    "filter": "#8a5fbf",
    "refusal": "#b0529f",
    "tool": "#5b8db8",
    "error": "#c43c39",
    "unknown": "#7a7a7a",
}
SERIES = ("#5b8db8", "#4c9f70", "#d97a00", "#8a5fbf", "#b0529f", "#7a7a7a")
_FIXED: Any = {
    "svg.hashsalt": "judgerun",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "figure.dpi": 72.0,
}
WIDTH, LABELS, TOP, BOTTOM, LINE = 10.5, 5.4, 0.4, 0.4, 0.26  # inches: whole, labels, margins, one line
ROWS_MAX = 60
"""A plot with more lines cannot be read; the table has them."""


def has_plots() -> bool:
    """Whether plots can be drawn here."""
    return importlib.util.find_spec("matplotlib") is not None


def endings(completions: Sequence[Completion], names: Mapping[str, str]) -> tuple[Figure, ...]:
    """Stacked bars: how the replies of each condition finished, as shares. `names` gives each condition's label."""
    held = [completion for completion in completions if completion.n][:ROWS_MAX]
    if not held or not has_plots():
        return ()
    figure, axes = canvas(len(held))
    left = [0.0] * len(held)
    for finish, colour in COLOURS.items():
        shares = [completion.finish.get(finish, 0) / completion.n for completion in held]
        if any(shares):
            axes.barh(range(len(held)), shares, left=left, color=colour, label=finish, height=0.7)
            left = [done + share for done, share in zip(left, shares, strict=True)]
    ticked(axes, [names[completion.condition] for completion in held])
    axes.set_xlim(0, 1)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(COLOURS), frameon=False)
    return (Figure(svg(figure), "Finish reasons, as shares of each condition's replies."),)


def intervals(tolds: Sequence[Told], caption: str, labels: Sequence[str]) -> tuple[Figure, ...]:
    """Points with their intervals, one line each, with their labels. Lines without a value are left out."""
    lines = zip(labels, tolds, strict=True)
    held = [(words, told) for words, told in lines if told.value is not None and told.low is not None]
    if not 2 <= len(held) <= ROWS_MAX or not has_plots():
        return ()
    figure, axes = canvas(len(held))
    for place, (_, told) in enumerate(held):
        axes.plot([told.low, told.high], [place, place], color="#5b8db8", linewidth=2)
        axes.plot([told.value], [place], "o", color="#1b1b1b", markersize=4)
    ticked(axes, [words for words, _ in held])
    axes.grid(axis="x", color="#e3e3e3", linewidth=0.6)
    return (Figure(svg(figure), caption),)


def bars(
    lines: Sequence[str], series: Sequence[str], cells: Mapping[tuple[int, int], Told], caption: str
) -> tuple[Figure, ...]:
    """For each line one bar of each series, with its interval; `cells` holds them by place of line and series. Bars without a
    value are left out.
    """
    held = {place: told for place, told in cells.items() if told.value is not None}
    if not held or len(lines) * len(series) > ROWS_MAX or not has_plots():
        return ()
    figure, axes = canvas(len(lines) * len(series))
    thick = 0.84 / len(series)
    for place, name in enumerate(series):
        shift = (place - (len(series) - 1) / 2) * thick
        own = [(line + shift, told) for (line, column), told in held.items() if column == place]
        axes.barh(
            [y for y, _ in own],
            [told.value for _, told in own],
            height=thick * 0.9,
            color=SERIES[place % len(SERIES)],
            label=name,
        )
        for y, told in own:
            if told.low is not None:
                axes.plot([told.low, told.high], [y, y], color="#1b1b1b", linewidth=1)
    ticked(axes, lines)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(6, len(series)), frameon=False)
    return (Figure(svg(figure), caption),)


def canvas(lines: int, *, labels: float = LABELS) -> tuple[Any, Any]:
    """A figure with room for so many lines and, left of them, for labels of so many inches; and its axes."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(_FIXED):
        height = TOP + BOTTOM + LINE * lines
        figure = Canvas(figsize=(WIDTH, height))
        FigureCanvasSVG(figure)
        figure.subplots_adjust(left=labels / WIDTH, right=0.98, top=1 - TOP / height, bottom=BOTTOM / height)
        return figure, figure.add_subplot()


def ticked(axes: Any, words: Sequence[str]) -> None:
    """One labelled line for each of the words, from the top."""
    axes.set_yticks(range(len(words)), [shortened(said) for said in words])
    axes.set_ylim(len(words) - 0.4, -0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def shortened(words: str, most: int = 70) -> str:
    """A label that fits beside a plot: its middle is cut."""
    return words if len(words) <= most else f"{words[: most // 2]}...{words[-(most // 2 - 3) :]}"


def svg(figure: Any) -> str:
    """The figure as an SVG element; matplotlib's date and the XML head are left out."""
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context(_FIXED):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
