"""A Page as one HTML file: no script, nothing fetched; all text escaped, plots inline."""

from __future__ import annotations

import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from judgerun.report.page import Page

_INTERVAL = re.compile(r"\[[-+\d.e% USD]+, [-+\d.e% USD]+\]")
LONG = 36
"""Letters above which a cell is prose, and may be cut into lines."""
SHORT = 10
"""Letters up to which a cell stays in one line."""


def cell(text: str) -> Markup:
    """A table cell: intervals stay in one piece and stand back, zero counts are pale, only prose is cut into lines."""
    escaped = _INTERVAL.sub(lambda found: f'<span class="interval">{found.group()}</span>', str(escape(text)))
    kind = "zero" if text.startswith("0 (") else "long" if len(text) > LONG else "short" if len(text) <= SHORT else ""
    return Markup(f'<td class="{kind}">{escaped}</td>' if kind else f"<td>{escaped}</td>")


def to_html(page: Page) -> bytes:
    """The page as HTML, UTF-8."""
    environment = Environment(
        loader=PackageLoader("judgerun.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    return (environment.get_template("page.html.j2").render(page=page) + "\n").encode()
