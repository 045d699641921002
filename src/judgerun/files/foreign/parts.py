"""Parts: the records of one file, and the small readings that all families share; nothing of any one family."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from judgerun.errors import Problem
from judgerun.model.foreign import Call, Score, Tally, Text, Total
from judgerun.model.money import Nanos

Shape = TypeVar("Shape", bound="Read")


class Read(BaseModel):
    """A record of a foreign file: keys that we do not know are left alone; no number that we read is NaN or infinite."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


@dataclass(slots=True)
class Parts:
    """What files say, in the order in which it was read. Not frozen: it gathers."""

    calls: list[Call] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def shaped(self, shape: type[Shape], raw: Any, file: str, place: str) -> Shape | None:
        """A record in its shape; None, with the problem noted, where it is not."""
        try:
            return shape.model_validate(raw)
        except ValidationError as error:
            for wrong in error.errors():
                where = ".".join(str(part) for part in wrong["loc"])
                self.problems.append(Problem(file, f"{place} {where}".strip(), wrong["msg"]))
            return None

    def document(self, file: str, body: bytes) -> Any:
        """The JSON value of a file; None, with the problem noted, where it is none."""
        try:
            return value(body)
        except json.JSONDecodeError as error:
            self.problems.append(Problem(file, f"line {error.lineno}", f"not JSON: {error.msg}"))
            return None

    def lines(self, file: str, body: bytes) -> Iterator[tuple[str, Any]]:
        """("file:line", value) of each line of a JSONL file; what is no JSON is noted as a problem."""
        for number, line in enumerate(body.splitlines(), 1):
            if not line.strip():
                continue
            try:
                yield f"{file}:{number}", value(line)
            except json.JSONDecodeError as error:
                self.problems.append(Problem(file, f"line {number}", f"not JSON: {error.msg}"))


def value(body: bytes) -> Any:
    """The JSON value of bytes, with NaN and Infinity, which Python's own writer makes. Raises json.JSONDecodeError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if b"NaN" in body or b"Infinity" in body:
            return json.loads(body.decode(errors="replace"))
        raise error


def nanos(usd: float | str | Decimal | None) -> Nanos | None:
    """Dollars as another program wrote them, in nano-dollars, rounded to the nearest; None stays None."""
    if usd is None:
        return None
    exact = Decimal(str(usd)) * 10**9
    return int(exact.to_integral_value())


def priced(tokens: Mapping[str, int], per_million: tuple[float, float]) -> Nanos:
    """What input and output tokens cost at dollars per million, rounded up once."""
    rates = [Decimal(str(rate)) * 1000 for rate in per_million]
    return math.ceil(tokens["input"] * rates[0] + tokens["output"] * rates[1])
