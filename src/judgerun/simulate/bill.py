"""Bill: the provider's own books, in its own integers and by its own price table; it must not share a rule with anyone's ledger."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import orjson

from judgerun.simulate.ask import Given

HALF = Fraction(1, 2)
_MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Tariff:
    """Nano-dollars for a million tokens. Without a rate of their own, input read from or written to a cache costs as input, and
    reasoning as output. `batch`: the share of it all that a call inside a job costs.
    """

    input: int = 500_000_000
    output: int = 2_000_000_000
    cached: int | None = None
    reasoning: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    batch: Fraction = HALF

    def charge(
        self,
        *,
        fresh: int,
        cached: int,
        visible: int,
        reasoning: int,
        written: int = 0,
        written_1h: int = 0,
        job: bool = False,
    ) -> int:
        """The charge in nanos: the sum of all, then rounded up to a whole one."""
        total = fresh * self.input + visible * self.output
        total += cached * (self.input if self.cached is None else self.cached)
        total += written * (self.input if self.cache_write is None else self.cache_write)
        total += written_1h * (self.input if self.cache_write_1h is None else self.cache_write_1h)
        total += reasoning * (self.output if self.reasoning is None else self.reasoning)
        share = self.batch if job else Fraction(1)
        return -(-total * share.numerator // (_MILLION * share.denominator))


RATES = tuple(field.name for field in fields(Tariff))
"""What a price table may say of a model."""


def read_tariffs(path: str) -> dict[str, Tariff]:
    """Tariffs from a TOML file: a table for each model, `["model"]`, with input, output, cached, reasoning, cache_write,
    cache_write_1h in USD per million, and batch, a share. Raises ValueError or OSError.
    """
    held = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    tariffs = {}
    for model, rates in held.items():
        if not isinstance(rates, dict) or not rates.keys() <= set(RATES):
            raise ValueError(f"{path}: [{model}] takes {', '.join(RATES)}")
        try:
            exact = {name: Decimal(str(rate)) for name, rate in rates.items()}
            batch = Fraction(exact.pop("batch", HALF))
            tariffs[model] = Tariff(**{name: int(rate * 10**9) for name, rate in exact.items()}, batch=batch)
        except ArithmeticError:
            raise ValueError(f"{path}: [{model}] has a rate that is no number") from None
    return tariffs


class Bill:
    """One row for each call that came and for each line of a job that was worked off, charged or not; written as a line of JSON at
    once when a file is given.
    """

    def __init__(self, tariffs: Mapping[str, Tariff] | None = None, file: IO[bytes] | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._tariffs = dict(tariffs or {})
        self._file = file

    def tariff(self, model: str) -> Tariff:
        """The rates of a model."""
        return self._tariffs.get(model, Tariff())

    def enter(
        self,
        made: Given,
        *,
        model: str,
        fault: str | None,
        billed: bool,
        at: float,
        attempt: str | None,
        path: str,
        job: str | None = None,
        line: str | None = None,
    ) -> None:
        """A row for a call that came at the Unix time `at`; `job` is the id of the job that it was the line `line` of."""
        nanos = self.tariff(model).charge(
            fresh=made.fresh,
            cached=made.cached,
            written=made.written,
            written_1h=made.written_1h,
            visible=made.visible,
            reasoning=made.reasoning,
            job=job is not None,
        )
        self.write(
            {
                "at": at,
                "attempt": attempt,
                "job": job,
                "line": line,
                "path": path,
                "model": model,
                "input": made.input,
                "cached": made.cached,
                "written": made.written,
                "written_1h": made.written_1h,
                "output": made.output,
                "reasoning": made.reasoning,
                "nanos": nanos if billed else 0,
                "finish": made.finish if billed else None,
                "fault": fault,
                "billed": billed,
            }
        )

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


_SUMMED = ("nanos", "input", "cached", "written", "written_1h", "output", "reasoning")
