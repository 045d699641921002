"""The pieces from which all written shapes are made: strict pydantic base, amounts of dollars, names, one-or-many."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from judgerun.model.money import Nanos, format_usd, parse_usd

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SLUG = re.compile(r"[A-Za-z0-9._-]+")

#: Words of the expression language: a table so named could not be told from them.
KEYWORDS = frozenset(
    {
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "elif",
        "for",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "loop",
    }
)


class Written(BaseModel):
    """What a person wrote: no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def wrong(message: str, right: str = "") -> PydanticCustomError:
    """An error with what is wrong and what would be right."""
    return PydanticCustomError("written", "{message}", {"message": message, "right": right or " "})


def _usd(value: Any) -> Nanos:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong(f"{value!r} is not an amount of dollars", 'a string of dollars, such as "2.50"')
    if not isinstance(value, str):
        raise wrong(f"the amount {value!r} is a number: dollars are written as a string", f'"{_plain(value)}"')
    try:
        return parse_usd(value)
    except ValueError as error:
        raise wrong(str(error), 'a string of dollars, such as "2.50"') from None


def _plain(value: float) -> str:
    """The decimal string that a person meant by a number."""
    try:
        return format_usd(parse_usd(repr(value)))
    except ValueError:
        return "2.50"


def many(value: Any) -> Any:
    """One string as a list of one."""
    return [value] if isinstance(value, str) else value


def _positive_decimal(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or not 0 < Decimal(value) <= 1:
        raise wrong(f"{value!r} is not a factor", 'a decimal string above 0 and at most 1, such as "0.5"')
    return value


def _thinking(value: Any) -> Any:
    words = ("off", "low", "medium", "high")
    if isinstance(value, bool) or (isinstance(value, int) and value < 1) or not isinstance(value, (str, int)):
        raise wrong(f"{value!r} is no way of thinking", f"one of {', '.join(words)}, or a number of tokens above 0")
    if isinstance(value, str) and value not in words:
        raise wrong(f"{value!r} is no way of thinking", f"one of {', '.join(words)}, or a number of tokens")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(f"{value!r} is not a number")
    return value


def _day(value: Any) -> Any:
    try:
        day = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        day = None
    if not isinstance(day, date) or isinstance(day, datetime):
        raise wrong(f"{value!r} is no date", "year-month-day, such as 2026-01-31")
    return day


def _minute(value: Any) -> Any:
    found = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", value) if isinstance(value, str) else None
    if found is None:
        raise wrong(f"{value!r} is no time of day", 'hour:minute in UTC, such as "16:30"; midnight is "00:00"')
    return 60 * int(found[1]) + int(found[2])


def _roles(value: Any) -> Any:
    words = value.values() if isinstance(value, dict) else ()
    if not isinstance(value, (bool, dict)) or not all(isinstance(word, str) for word in words):
        raise wrong(f"{value!r} names no roles", '{ query = "...", document = "..." }, or true')
    return value


def _scalar(value: Any) -> Any:
    if not isinstance(value, (str, int, float, bool)):
        raise wrong(f"{value!r} is no single value", "a text, a number, or true or false")
    return value


Usd = Annotated[int, BeforeValidator(_usd)]
"""Nanos, written as a decimal string of dollars."""
Texts = Annotated[list[str], BeforeValidator(many)]
"""One string or several."""
Factor = Annotated[str, BeforeValidator(_positive_decimal)]
"""A decimal string above 0 and at most 1."""
Thinking = Annotated[str | int, BeforeValidator(_thinking)]
"""off low medium high, or a number of tokens."""
Number = Annotated[int | float, BeforeValidator(_number)]
"""A whole or a decimal number, kept as written: 0 and 0.0 are different bytes in a request."""
Roles = Annotated[dict[str, str] | bool, BeforeValidator(_roles)]
"""Words for the two roles of a text, or true for the dialect's own."""
Scalar = Annotated[str | int | float | bool, BeforeValidator(_scalar)]
"""One plain value."""
Day = Annotated[date, BeforeValidator(_day)]
"""A day, with quotes or without."""
Minute = Annotated[int, BeforeValidator(_minute)]
"""Minutes after midnight UTC, written as "16:30"."""
Count = Annotated[int, Field(ge=1)]
"""A whole number from 1."""
