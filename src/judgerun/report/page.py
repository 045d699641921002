"""Page: a report before it has a format; and the page as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judgerun.audit.words import escape, markdown


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. `loud` ones are banners."""

    text: str
    loud: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """A headline inside a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot as inline SVG; Markdown shows its caption only, since the table beside it holds the same numbers."""

    svg: str
    caption: str


Block = Text | Head | Table | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A headline and what stands under it. A `folded` one is shut in HTML until its headline is clicked."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    banners: tuple[str, ...]
    sections: tuple[Section, ...]


def to_markdown(page: Page) -> bytes:
    """The page as Markdown, UTF-8."""
    return ("\n\n".join(_lines(page)) + "\n").encode()


def _lines(page: Page) -> Iterator[str]:
    yield f"# {escape(page.title)}"
    for banner in page.banners:
        yield f"> **{escape(banner)}**"
    for section in page.sections:
        yield f"## {escape(section.title)}"
        yield from _blocks(section.blocks)


def _blocks(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text, loud):
                yield f"> **{escape(text)}**" if loud else escape(text)
            case Head(text):
                yield f"### {escape(text)}"
            case Table(header, rows):
                yield markdown(header, rows)
            case Figure():
                continue
