"""Fold: what many values become by a rule; a record is folded name by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from judgerun.table.agree import same


def fold(values: Sequence[Any], rule: str, otherwise: Any = None) -> Any:
    """The folded value of concluded members.

    `any` and `all` give truth values; `agree` the common value, `majority` the one that more than half have, each with
    `otherwise` where there is none; `mean` and `median` numbers; `list` the values in order. Values that are all records
    become one record, each name folded over the members that have it. ValueError where `mean` or `median` meets no number.
    """
    if values and all(isinstance(value, Mapping) for value in values) and rule != "list":
        names = list(dict.fromkeys(name for value in values for name in value))
        return {name: fold([value[name] for value in values if name in value], rule, otherwise) for name in names}
    match rule:
        case "any":
            return any(values)
        case "all":
            return all(values)
        case "agree":
            return values[0] if values and all(same(values[0], value) for value in values) else otherwise
        case "majority":
            return _majority(values, otherwise)
        case "mean":
            return fmean(_numbers(values))
        case "median":
            return median(_numbers(values))
        case "list":
            return list(values)
    raise ValueError(f"there is no rule {rule!r}")


def _majority(values: Sequence[Any], otherwise: Any) -> Any:
    for value in values:
        if 2 * sum(same(value, other) for other in values) > len(values):
            return value
    return otherwise


def _numbers(values: Sequence[Any]) -> list[float]:
    numbers = [float(value) for value in values]
    if not numbers:
        raise ValueError("there is nothing to average")
    return numbers
