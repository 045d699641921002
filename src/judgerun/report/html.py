"""A Page as one HTML file: no script, nothing fetched; all text escaped, plots inline."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from judgerun.report.page import Page


def to_html(page: Page) -> bytes:
    """The page as HTML, UTF-8."""
    environment = Environment(
        loader=PackageLoader("judgerun.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return (environment.get_template("page.html.j2").render(page=page) + "\n").encode()
