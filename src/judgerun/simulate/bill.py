"""Bill: the provider's own books, in its own integers and by its own price table; it must not share a rule with anyone's ledger."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import orjson

_MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Tariff:
    """Nano-dollars for a million tokens. Without a rate of their own, cached input costs as input and reasoning as output."""

    input: int = 500_000_000
    output: int = 2_000_000_000
    cached: int | None = None
    reasoning: int | None = None

    def charge(self, *, fresh: int, cached: int, visible: int, reasoning: int) -> int:
        """The charge in nanos: the sum of all, then rounded up to a whole one."""
        cached_rate = self.input if self.cached is None else self.cached
        reasoning_rate = self.output if self.reasoning is None else self.reasoning
        total = fresh * self.input + cached * cached_rate + visible * self.output + reasoning * reasoning_rate
        return total // _MILLION + (1 if total % _MILLION else 0)


def read_tariffs(path: str) -> dict[str, Tariff]:
    """Tariffs from a TOML file: a table for each model, `["model"]`, with input, output, cached, reasoning in USD per million.

    Raises ValueError or OSError.
    """
    held = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    tariffs = {}
    for model, rates in held.items():
        if not isinstance(rates, dict) or not rates.keys() <= {"input", "output", "cached", "reasoning"}:
            raise ValueError(f"{path}: [{model}] takes input, output, cached, reasoning")
        try:
            tariffs[model] = Tariff(**{name: int(Decimal(str(rate)) * 10**9) for name, rate in rates.items()})
        except ArithmeticError:
            raise ValueError(f"{path}: [{model}] has a rate that is no number") from None
    return tariffs


class Bill:
    """One row for each call that came, charged or not; written as a line of JSON at once when a file is given."""

    def __init__(self, tariffs: Mapping[str, Tariff] | None = None, file: IO[bytes] | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._tariffs = dict(tariffs or {})
        self._file = file

    def tariff(self, model: str) -> Tariff:
        """The rates of a model."""
        return self._tariffs.get(model, Tariff())

    def write(self, row: dict[str, Any]) -> None:
        """Add a row and flush it."""
        row = {"n": len(self.rows) + 1, **row}
        self.rows.append(row)
        if self._file is not None:
            self._file.write(orjson.dumps(row) + b"\n")
            self._file.flush()

    def charged(self) -> dict[str, int]:
        """Nanos by attempt, over the rows that were charged."""
        sums: dict[str, int] = defaultdict(int)
        for row in self.rows:
            if row["billed"]:
                sums[row["attempt"] or ""] += row["nanos"]
        return dict(sums)

    def totals(self) -> dict[str, Any]:
        """Sums over the charged rows, in all and by model."""
        by_model: dict[str, dict[str, int]] = {}
        for row in self.rows:
            if row["billed"]:
                sums = by_model.setdefault(row["model"], dict.fromkeys(_SUMMED, 0) | {"calls": 0})
                sums["calls"] += 1
                for name in _SUMMED:
                    sums[name] += row[name]
        whole = {name: sum(sums[name] for sums in by_model.values()) for name in ("calls", *_SUMMED)}
        nanos = whole["nanos"]
        return {"came": len(self.rows), **whole, "usd": f"{nanos // 10**9}.{nanos % 10**9:09d}", "models": by_model}


_SUMMED = ("nanos", "input", "cached", "output", "reasoning")
