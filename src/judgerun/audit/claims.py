"""Claims: whether numbers that somebody printed can be true; decimal texts and lists in, what is wrong out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from judgerun.audit.words import few


def places(number: str) -> int:
    """Decimals with which a number is printed."""
    return max(0, -int(Decimal(number).as_tuple().exponent))


def numerator(percent: str, n: int) -> int | None:
    """A whole number of n that rounds to a printed percentage (half up or half down); None where there is none.

    N. Brown and J. Heathers, Soc. Psychol. Personal. Sci. 2017 (GRIM): a share of n items is a fraction of n.
    """
    value, unit = Decimal(percent), Decimal(1).scaleb(-places(percent))
    near = int((value * n / 100).to_integral_value())
    for count in (near, near - 1, near + 1):
        share = Decimal(100 * count) / n
        if 0 <= count <= n and value in (share.quantize(unit, ROUND_HALF_UP), share.quantize(unit, ROUND_HALF_DOWN)):
            return count
    return None


def tells(percent: str, n: int) -> bool:
    """Whether a percentage of so many decimals could be wrong at all: of many items every printed value is some share."""
    return n < Decimal(100).scaleb(places(percent))


def wrong_percent(percent: str, n: int) -> str | None:
    """Why a percentage of n items cannot be; None where it can."""
    if n < 1:
        return f"{percent}% of {n} items"
    if numerator(percent, n) is not None:
        return None
    count = int((Decimal(percent) * n / 100).to_integral_value())
    shown = ", ".join(
        f"{k} of {n} is {Decimal(100 * k) / n:.{places(percent)}f}%" for k in (count, count + 1) if 0 <= k <= n
    )
    return f"no whole number of {n} gives {percent}% ({shown})"


def wrong_sum(parts: Sequence[str], total: str) -> str | None:
    """Why parts do not add up to a total; None where they do, each rounded as it is printed."""
    found = sum(map(Decimal, parts), Decimal(0))
    slack = sum((_half(part) for part in (*parts, total) if places(part)), Decimal(0))
    return None if abs(found - Decimal(total)) <= slack else f"{' + '.join(parts)} is {found}, not {total}"


def wrong_change(before: str, after: str, change: str) -> str | None:
    """Why a change is not that from one number to another; None where it is, each rounded as it is printed."""
    found = Decimal(after) - Decimal(before)
    slack = sum((_half(number) for number in (before, after, change)), Decimal(0))
    return None if abs(found - Decimal(change)) <= slack else f"{before} -> {after} is {found:+}, not {change}"


def _half(number: str) -> Decimal:
    """Half a unit of the last place that is printed."""
    return Decimal(5).scaleb(-places(number) - 1)


def wrong_sets(one: Iterable[str], other: Iterable[str]) -> str | None:
    """Why two lists do not hold the same; None where they do. That both are equally long says nothing."""
    first, second = set(one), set(other)
    if first == second:
        return None
    alike = "both have" if len(first) == len(second) else f"{len(first)} and {len(second)};"
    mine, theirs = sorted(first - second), sorted(second - first)
    told = [f"only the first: {', '.join(few(mine))}"] if mine else []
    told += [f"only the second: {', '.join(few(theirs))}"] if theirs else []
    return (
        f"{alike} {len(first)}, and they differ; {'; '.join(told)}"
        if len(first) == len(second)
        else f"{alike} {'; '.join(told)}"
    )


def wrong_value(claimed: str, found: float) -> str | None:
    """Why a printed number is not a computed one; None where it is, to the decimals that are printed."""
    unit = Decimal(1).scaleb(-places(claimed))
    exact = Decimal(repr(found))
    rounded = (exact.quantize(unit, ROUND_HALF_UP), exact.quantize(unit, ROUND_HALF_DOWN))
    return None if Decimal(claimed) in rounded else f"it is {rounded[0]}, not {claimed}"


def differences(one: Mapping[str, Any], other: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Where two tables of settings differ, key by key, in words."""
    for key in sorted({*one, *other}):
        place = f"{at}.{key}" if at else key
        first, second = one.get(key), other.get(key)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from differences(first, second, place)
        elif first != second:
            yield f"{place}: {_shown(first)} and {_shown(second)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
