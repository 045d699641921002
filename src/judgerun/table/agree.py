"""Agreement: whether two values are the same to a person; numbers compare as numbers, whatever they are written as."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal. A number and a text that writes a number compare as numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return _truth(one) == _truth(other)
    if isinstance(one, (int, float)) or isinstance(other, (int, float)):
        left, right = _number(one), _number(other)
        return left is not None and left == right
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip() or (_number(one) is not None and _number(one) == _number(other))
    return bool(one == other)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, (list, dict, type(None))):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _truth(value: Any) -> object:
    """A truth value, written as text too ("true", "False"); anything else as it is, marked as none."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return value if isinstance(value, bool) else (None, value)
