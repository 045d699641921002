"""Whole numbers that stand alone in a text, as parse rules read them; nothing else may live here.

A whole number is a run of the digits 0-9 without a leading zero. It stands alone when nothing beside it makes it a part of
something else:

| not read | because |
|---|---|
| `x3` `3rd` `v2_3` `3x` and digits beside digits of another script | inside a word |
| `3.5` `.5` `No.3` `1.2.3` | a decimal or a version |
| `1,000` `1'000` `1 000` `1,2` | thousands, or a list without blanks |
| `-3` `+3` (a sign; read where the rule's range goes below zero) | another number |
| `1-10` `3/10` `10:30` `2*3` `10^3` `7%` `$5` | a range, a share, a time, a sum, a price |
| `1. First ...` `2) Then ...` at the start of a line with more text behind | a list marker |

`3.` `(3)` `[3]` `**3**` `$3$` `\\boxed{3}` `Answer:3` `<arg_value>3` are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

_RUN = re.compile(r"[0-9]+")
_LIST_MARKER = re.compile(r"^[ \t>*_#\-]*\(?([0-9]+)[.)][*_]*[ \t]+\S", re.MULTILINE)
_MINUS = "-\N{MINUS SIGN}"
_CURRENCY = "$€£¥₹"
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_BLANKS = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}\N{FIGURE SPACE}"
_DASHES = "\N{EM DASH}\N{HORIZONTAL BAR}"

#: What ends a line: nothing of it makes a number a part of something else.
_EDGES = frozenset(("", "\n"))
#: Never beside a number that stands alone.
_NOT_BEFORE = frozenset("./\\+^%\N{EN DASH}\N{NON-BREAKING HYPHEN}" + _MINUS)
_NOT_AFTER = frozenset("/+^%\N{PER MILLE SIGN}\N{DEGREE SIGN}")
#: Not beside it where a digit stands on their other side.
_NOT_BETWEEN_DIGITS = frozenset(",:*\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}" + _APOSTROPHES + _DASHES)

#: More digits than any range has: such a number is read as out of every range, not converted.
_DIGITS_MAX = 18


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Span(Generic[Value]):
    """Something found in a text: where it begins and ends, and its value."""

    start: int
    end: int
    value: Value


def numerals(text: str, *, signed: bool = False, backwards: bool = False) -> Iterator[Span[int]]:
    """The whole numbers that stand alone in `text`, in order, or `backwards`, each looked at when it is asked for: a long
    reply has hundreds, of which a rule reads one. Negative ones too where `signed`.
    """
    runs = list(_RUN.finditer(text))
    markers: set[int] | None = None
    for found in reversed(runs) if backwards else runs:
        start, end = found.span()
        if end < len(text) and text[end] in ".)":
            if markers is None:
                markers = {marker.start(1) for marker in _LIST_MARKER.finditer(text)}
            if start in markers:
                continue
        digits = found.group()
        if len(digits) > 1 and digits[0] == "0":
            continue
        size = int(digits) if len(digits) <= _DIGITS_MAX else 10**_DIGITS_MAX
        if signed and start and text[start - 1] in _MINUS and alone(text, start - 1, end):
            yield Span(start - 1, end, -size)
        elif alone(text, start, end):
            yield Span(start, end, size)


def alone(text: str, start: int, end: int) -> bool:
    """Whether nothing beside `text[start:end]`, a number, makes it a part of something else."""
    before, after = _at(text, start - 1), _at(text, end)
    if before in _EDGES and after in _EDGES:
        return True  # as most numbers do that are a whole reply, or a line of it
    before2, after2 = _at(text, start - 2), _at(text, end + 1)
    return not (
        _word(before)
        or _word(after)
        or before in _NOT_BEFORE
        or after in _NOT_AFTER
        or (before in _NOT_BETWEEN_DIGITS and _digit(before2))
        or (after in _NOT_BETWEEN_DIGITS and _digit(after2))
        or (after == "." and _digit(after2))
        or (after in "-\N{EN DASH}\N{NON-BREAKING HYPHEN}\\" + _APOSTROPHES and after != "" and _word(after2))
        or (after in _BLANKS and after != "" and after2 == "%")
        or (before in _CURRENCY and before != "" and not (before == after == "$"))
        or _grouped(text, start, end)
    )


def _grouped(text: str, start: int, end: int) -> bool:
    """Whether a blank beside the number separates thousands: three digits behind it, a digit before it."""
    behind = _at(text, end)
    if behind and behind in _BLANKS and re.match(r"[0-9]{3}(?!\w)", text[end + 1 : end + 5]):
        return True
    ahead = _at(text, start - 1)
    return bool(ahead) and ahead in _BLANKS and end - start == 3 and _digit(_at(text, start - 2))


def _at(text: str, place: int) -> str:
    return text[place] if 0 <= place < len(text) else ""


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _digit(character: str) -> bool:
    return character.isdigit()
