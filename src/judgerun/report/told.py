"""Told: one line of estimates.json, the only form in which a number enters a report; and how its seed is drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from judgerun.analysis.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An estimate with what it is an answer to.

    `coords` holds the coordinates of its condition ("condition" is the full name), "measure" (what kind of number it is) and
    "unit" where it has one (nanos: USD x 1e-9). `value` is None where nothing may be told; `note` then says why. `low` and
    `high` are None where the method gives no interval (a p-value). `n` counts units: ids after draws are averaged.
    """

    question: str
    coords: Mapping[str, str]
    value: float | int | None
    low: float | int | None = None
    high: float | int | None = None
    n: int
    level: float | None = None
    method: str
    convention: str = ""
    seed: int | None = None
    seal: str | None = None
    note: str = ""

    @classmethod
    def of(
        cls, question: str, coords: Mapping[str, str], estimate: Estimate, *, seal: str | None, note: str = ""
    ) -> Told:
        """An estimate of the analysis, with its question; notes are joined."""
        return cls(
            question=question,
            coords=coords,
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            n=estimate.n,
            level=estimate.level if estimate.low is not None else None,
            method=estimate.method,
            convention=estimate.convention,
            seed=estimate.seed,
            seal=seal,
            note="; ".join(filter(None, (note, estimate.note))),
        )

    def record(self) -> dict[str, Any]:
        """The line as it stands in estimates.json."""
        return {
            "question": self.question,
            "coords": dict(sorted(self.coords.items())),
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "level": self.level,
            "method": self.method,
            "convention": self.convention,
            "seed": self.seed,
            "seal": self.seal,
            "note": self.note,
        }

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The order inside one question."""
        return tuple(sorted(self.coords.items()))


def document(tolds: Iterable[Told]) -> bytes:
    """estimates.json: an array, in the order given."""
    return orjson.dumps([told.record() for told in tolds], option=orjson.OPT_INDENT_2) + b"\n"


def seed_of(seed: int, question: str) -> int:
    """The seed of a question: it depends on the experiment's seed and the question's name alone, so that no number moves
    when another question is added. 32 bits of a sha256.
    """
    return int.from_bytes(hashlib.sha256(f"{seed}:{question}".encode()).digest()[:4], "big")
