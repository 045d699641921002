"""audits/waivers.toml -> Waivers: which audit errors a person has looked at and lets stand, each with its reason."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from pydantic import Field

from judgerun.files.faults import settle
from judgerun.files.toml import read_toml
from judgerun.files.written import Written
from judgerun.model.waiver import Waiver


class WaiverShape(Written):
    """One `[[waiver]]`"""

    experiment: str = Field(min_length=1)
    check: str = Field(min_length=1)
    because: str = Field(min_length=1)
    condition: str = ""
    until: date | None = None


class WaiversShape(Written):
    """`audits/waivers.toml`"""

    waiver: list[WaiverShape] = Field(default_factory=list)


def load_waivers(workspace: Path) -> tuple[Waiver, ...]:
    """The waivers of a workspace, in file order; none where there is no such file. Raises Refused with every problem at once.

    [[waiver]]
    experiment = "utility"
    check = "truncated"              # the finding's check
    condition = "solve/ds"           # optional: a key, as in budgets
    because = "the paper grades cut answers too; both numbers are printed"
    until = 2026-12-31               # optional: the last day on which it holds
    """
    path = workspace / "audits" / "waivers.toml"
    if not path.is_file():
        return ()
    faults, _ = read_toml(path)
    shape = faults.read(WaiversShape, faults.raw)
    for number, waiver in enumerate(shape.waiver if shape is not None else ()):
        if not waiver.because.strip():
            faults.add(("waiver", number, "because"), "a waiver needs a reason", 'because = "..."')
    settle(faults)
    return tuple(Waiver(**waiver.model_dump()) for waiver in (shape.waiver if shape is not None else ()))
