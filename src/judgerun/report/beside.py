"""Two sets of estimates side by side: what belongs together, how far apart it is, and whether that is more than its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from judgerun.model.study import Published

Line = Mapping[str, Any]
"""A line of estimates.json."""
Standing = Literal["equal", "inside", "apart", "differs", "not told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One number on both sides."""

    question: str
    coords: Mapping[str, str]
    first: Line
    second: Line

    @property
    def difference(self) -> float | int | None:
        """second - first; None where one is not told."""
        one, other = self.first["value"], self.second["value"]
        return None if one is None or other is None else other - one

    @property
    def standing(self) -> Standing:
        """`equal`; `inside`: one lies in the interval of the other; `apart`: in neither; `differs`: neither has an interval."""
        one, other = self.first["value"], self.second["value"]
        if one is None or other is None:
            return "not told"
        if one == other:
            return "equal"
        held = [(other, self.first), (one, self.second)]
        asked = [line["low"] <= value <= line["high"] for value, line in held if line["low"] is not None]
        if not asked:
            return "differs"
        return "inside" if any(asked) else "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that both sides tell, in the order of the first, and what only one of them tells."""

    both: tuple[Beside, ...]
    first: tuple[Line, ...]
    second: tuple[Line, ...]


def beside(first: Sequence[Line], second: Sequence[Line]) -> Comparison:
    """Lines of equal question and coordinates together. Names of conditions are left aside where the other coordinates tell the
    lines of each side apart, since the same arm may have another name in another experiment.
    """
    bare = all(len({_key(line, bare=True) for line in lines}) == len(lines) for lines in (first, second))
    held = {_key(line, bare=bare): line for line in second}
    both = [
        Beside(question=line["question"], coords=_coords(line, bare=bare), first=line, second=held.pop(key))
        for line in first
        if (key := _key(line, bare=bare)) in held
    ]
    known = {_key(one.first, bare=bare) for one in both}
    alone = tuple(line for line in first if _key(line, bare=bare) not in known)
    return Comparison(both=tuple(both), first=alone, second=tuple(held.values()))


def printed(paper: Sequence[Published]) -> list[Line]:
    """What a paper printed, as lines of estimates."""
    return [
        {
            "question": one.question,
            "coords": {**one.coords, "measure": one.measure},
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "n": one.n,
            "seal": None,
            "note": one.source,
        }
        for one in paper
    ]


def _coords(line: Line, *, bare: bool) -> dict[str, str]:
    return {name: value for name, value in sorted(line["coords"].items()) if not (bare and name == "condition")}


def _key(line: Line, *, bare: bool) -> tuple[Any, ...]:
    return line["question"], *_coords(line, bare=bare).items()
